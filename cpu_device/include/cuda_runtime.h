// The CUDA runtime API (cuda_runtime_api.h), and its overloads for C++, which take pointers of any
// type.
#pragma once
#include <cuda_runtime_api.h>

#ifdef __cplusplus
template <class T>
cudaError_t cpuDeviceMalloc(T **devPtr, size_t size, const char *what, const char *file, int line) {
    return cpuDeviceMalloc((void **)devPtr, size, what, file, line);
}
template <class T> cudaError_t cudaMallocHost(T **ptr, size_t size, unsigned int flags = 0) {
    return cudaHostAlloc((void **)ptr, size, flags);
}
template <class T> cudaError_t cudaHostAlloc(T **ptr, size_t size, unsigned int flags) {
    return cudaHostAlloc((void **)ptr, size, flags);
}
inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags) {
    return cudaEventCreateWithFlags(event, flags);
}
// The form of CUDA 11. As in CUDA 12 and 13, the last three arguments are ignored.
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                        cudaGraphNode_t *, char *, size_t) {
    return cudaGraphInstantiate(pGraphExec, graph, 0);
}
#endif
