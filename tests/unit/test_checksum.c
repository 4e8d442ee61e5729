// Tests of the checksum of an array in device memory: it must match zlib's for any length.
#include "common/device/device.h"
#include "tests/test.h"
#include <zlib.h>

TEST(checksum_matches_zlib) {
    static const size_t counts[] = {0, 1, 65535, 65536, 65537, 200000};
    float *host = malloc(200000 * sizeof *host), *device;
    for (int i = 0; i < 200000; i++)
        host[i] = (float)(i * 0.37);
    CUDA_CHECK(cudaMalloc((void **)&device, 200000 * sizeof *host));
    CUDA_CHECK(cudaMemcpy(device, host, 200000 * sizeof *host, cudaMemcpyHostToDevice));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        size_t bytes = counts[i] * sizeof *host;
        assert_int_equal(device_checksum(device, counts[i], 0),
                         crc32_z(0, (unsigned char *)host, bytes));
    }
    CUDA_CHECK(cudaFree(device));
    free(host);
}

int main(void) {
    return run_all_tests((struct around){NULL});
}
