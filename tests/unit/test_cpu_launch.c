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

static const struct refused {
    const char *name;
    void (*run)(void);
    const char *text;
} cases[] = {
    {"pointer_of_the_host", pointer_of_the_host, "is not device memory; kernels use"},
    {"short_array", short_array, "sgd_step: parameters: 20 bytes"},
    {"earlier_error", earlier_error, "(cudaErrorInvalidResourceHandle, cudaGetLastError at"},
};
enum { CASES = sizeof cases / sizeof *cases };

static void run_case(void **state) {
    const struct refused *c = *state;
    char output[1000];
    if (run_again("", c->name, output, sizeof output) != 1 || !strstr(output, c->text) ||
        strchr(output, '\n') != output + strlen(output) - 1)
        fail_msg("%s: %s", c->name, output);
}

int main(int argc, char **argv) {
    for (int i = 0; i < CASES; i++) {
        if (argc > 1 && !strcmp(cases[i].name, argv[1]))
            return cases[i].run(), 0;
        add_test(cases[i].name, run_case, &cases[i]);
    }
    return run_all_tests((struct around){NULL});
}
