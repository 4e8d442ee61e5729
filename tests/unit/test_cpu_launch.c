// Tests of what a launch on the CPU device refuses. Each runs in a process of its own, which ends.
#include "common/kernels/kernels.h"
#include "cpu_device/tests/again.h"
#include "tests/test.h"

static float *device_floats(size_t count) {
    float *floats;
    cudaMalloc((void **)&floats, count * sizeof *floats);
    return floats;
}

static void pointer_of_the_host(void) {
    float host[4] = {0}, *d = device_floats(4);
    sgd_step(d, host, d, 4, 1, 1, 0, NULL);
}

static void short_array(void) {
    float *d = device_floats(4);
    sgd_step(d, d, d, 5, 1, 1, 0, NULL);
}

static void earlier_error(void) {
    float *d = device_floats(4);
    cudaEventElapsedTime(&(float){0}, NULL, NULL);
    sgd_step(d, d, d, 4, 1, 1, 0, NULL);
}

static const struct alone cases[] = {
    {"pointer_of_the_host", "", pointer_of_the_host, 1, {"is not device memory; kernels use"}},
    {"short_array", "", short_array, 1, {"sgd_step: parameters: 20 bytes"}},
    {"earlier_error",
     "",
     earlier_error,
     1,
     {"(cudaErrorInvalidResourceHandle, cudaGetLastError at"}},
};

int main(int argc, char **argv) {
    return run_or_add(cases, sizeof cases / sizeof *cases, argc, argv)
               ? 0
               : run_all_tests((struct around){NULL});
}
