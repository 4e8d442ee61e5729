// The stream that the kernels of a test use: the first and the last step of its group of tests.
#pragma once
#include "common/device/device.h"

static cudaStream_t stream;

static int make_stream(void **state) {
    CUDA_CHECK(cudaStreamCreate(&stream));
    return 0;
}

static int destroy_stream(void **state) {
    CUDA_CHECK(cudaStreamDestroy(stream));
    return 0;
}
