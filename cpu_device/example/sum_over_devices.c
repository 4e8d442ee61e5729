// One process uses all devices: device i has a vector of numbers i + 1, and NCCL adds the vectors.
// Nothing here is special to the CPU device: the same lines compile against NVIDIA's libraries, in
// C and in C++.
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define CUDA(call)                                                                                 \
    do {                                                                                           \
        cudaError_t error = (call);                                                                \
        if (error != cudaSuccess) {                                                                \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define NCCL(call)                                                                                 \
    do {                                                                                           \
        ncclResult_t result = (call);                                                              \
        if (result != ncclSuccess) {                                                               \
            fprintf(stderr, "%s: %s\n", #call, ncclGetLastError(NULL));                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { COUNT = 1 << 20, MOST_DEVICES = 64 };

int main(void) {
    static float numbers[COUNT];
    float *vectors[MOST_DEVICES];
    cudaStream_t streams[MOST_DEVICES];
    ncclComm_t comms[MOST_DEVICES];
    int devices, wrong = 0;
    CUDA(cudaGetDeviceCount(&devices));
    NCCL(ncclCommInitAll(comms, devices, NULL));
    for (int d = 0; d < devices; d++) {
        for (int i = 0; i < COUNT; i++)
            numbers[i] = (float)(d + 1);
        CUDA(cudaSetDevice(d));
        CUDA(cudaStreamCreate(&streams[d]));
        CUDA(cudaMalloc((void **)&vectors[d], sizeof numbers));
        CUDA(cudaMemcpy(vectors[d], numbers, sizeof numbers, cudaMemcpyHostToDevice));
    }
    // The calls of one thread for several devices wait for each other, so they form a group.
    NCCL(ncclGroupStart());
    for (int d = 0; d < devices; d++)
        NCCL(
            ncclAllReduce(vectors[d], vectors[d], COUNT, ncclFloat, ncclSum, comms[d], streams[d]));
    NCCL(ncclGroupEnd());
    for (int d = 0; d < devices; d++) {
        CUDA(cudaSetDevice(d));
        CUDA(cudaStreamSynchronize(streams[d]));
        CUDA(cudaMemcpy(numbers, vectors[d], sizeof numbers, cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; i++)
            wrong += numbers[i] != (float)(devices * (devices + 1) / 2);
        NCCL(ncclCommDestroy(comms[d]));
        CUDA(cudaFree(vectors[d]));
        CUDA(cudaStreamDestroy(streams[d]));
    }
    printf("%d devices added %d numbers, %d sums are wrong\n", devices, COUNT, wrong);
    return wrong > 0;
}
