// Four processes, each with a device of its own, add the numbers of a long vector. cuBLAS adds the
// numbers of each rank, as the product of its part of the vector with ones, and NCCL adds the sums
// of the ranks. Nothing here is special to the CPU device: the same lines compile against NVIDIA's
// libraries.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// In all three libraries, 0 means success.
#define CHECK(call)                                                                                \
    do {                                                                                           \
        int error = (int)(call);                                                                   \
        if (error) {                                                                               \
            fprintf(stderr, "error: %s returned %d\n", #call, error);                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { RANKS = 4, COUNT = 1 << 20 };

static float *to_device(float value, int count) {
    static float numbers[COUNT];
    float *device;
    for (int i = 0; i < count; i++)
        numbers[i] = value;
    CHECK(cudaMalloc((void **)&device, sizeof(float) * (size_t)count));
    CHECK(cudaMemcpy(device, numbers, sizeof(float) * (size_t)count, cudaMemcpyHostToDevice));
    return device;
}

static void run_rank(int rank, const int pipe[2]) {
    const float one = 1, zero = 0;
    float result;
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    cublasHandle_t blas;
    if (rank == 0) {
        CHECK(ncclGetUniqueId(&id));
        for (int other = 1; other < RANKS; other++)
            CHECK(write(pipe[1], &id, sizeof id) != sizeof id);
    } else {
        CHECK(read(pipe[0], &id, sizeof id) != sizeof id);
    }
    CHECK(cudaSetDevice(rank));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    CHECK(ncclCommInitRank(&comm, RANKS, id, rank));
    float *part = to_device((float)(rank + 1), COUNT), *ones = to_device(1, COUNT),
          *sum = to_device(0, 1);
    CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, COUNT, &one, part, 1, ones, COUNT,
                      &zero, sum, 1));
    CHECK(ncclAllReduce(sum, sum, 1, ncclFloat, ncclSum, comm, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost));
    printf("rank %d: the sum of %d numbers is %.0f\n", rank, RANKS * COUNT, result);
    CHECK(ncclCommDestroy(comm));
}

int main(void) {
    int ids[2], status, failed = 0;
    CHECK(pipe(ids));
    for (int rank = 0; rank < RANKS; rank++) // before the first call of CUDA
        if (fork() == 0) {
            run_rank(rank, ids);
            exit(0);
        }
    while (wait(&status) > 0)
        failed |= status;
    return failed != 0;
}
