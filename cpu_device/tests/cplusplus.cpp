// A program in C++ in the style of NVIDIA's examples, which library.bats compiles against the
// headers of the CPU device and of NVIDIA. It prints the sum over one rank of 2 x 3.
#include <cstdio>
#include <cstdlib>
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#define CHECK(call)                                                                                \
    if ((call) != 0) {                                                                             \
        std::fprintf(stderr, "%s failed\n", #call);                                                \
        std::exit(1);                                                                              \
    }

static_assert(CUDA_VERSION >= 12000 && CUDART_VERSION == CUDA_VERSION, "versions");

int main() {
    float *numbers, *pinned;
    double *other;
    const float one = 1, zero = 0;
    CUstream stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t start, end;
    cudaDeviceProp properties;
    cublasHandle_t blas;
    ncclComm_t comm;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    CHECK(cudaMalloc(&numbers, 3 * sizeof(*numbers)));
    CHECK(cudaMalloc((void **)&other, sizeof *other));
    CHECK(cudaMallocHost(&pinned, 3 * sizeof *pinned));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaHostAlloc(&pinned, 3 * sizeof *pinned, cudaHostAllocDefault));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end, cudaEventDisableTiming));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cublasCreate(&blas));
    CHECK(ncclCommInitAll(&comm, 1, nullptr));
    pinned[0] = 2;
    pinned[1] = 3;
    CHECK(cudaMemsetAsync(other, 0, sizeof *other));
    CHECK(cudaMemcpyAsync(numbers, pinned, 3 * sizeof *numbers, cudaMemcpyHostToDevice));
    CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, numbers, 1, numbers + 1, 1,
                      &zero, numbers + 2, 1));
    CHECK(cudaEventRecord(start));
    CHECK(cudaEventRecord(end));
    CHECK(cudaStreamWaitEvent(stream, end));
    CHECK(ncclAllReduce(numbers + 2, numbers + 2, 1, ncclFloat, ncclSum, comm, stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(other, 0, sizeof *other, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, NULL, NULL, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaMemcpy(pinned, numbers, 3 * sizeof *numbers, cudaMemcpyDeviceToHost));
    std::printf("%g\n", pinned[2]);
    CHECK(ncclCommDestroy(comm));
    CHECK(cublasDestroy(blas));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(numbers));
    CHECK(cudaFree(other));
    CHECK(cudaFreeHost(pinned));
}
