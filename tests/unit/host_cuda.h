// Lets a C++ compiler build common/kernels.cu for the host. It is included before that file, and
// defines the names that nvcc defines itself. LAUNCH runs a small grid thread by thread, the last
// thread first, so loops that skip or repeat elements, or depend on an order, give wrong results.
// LAUNCH_BLOCKS runs one block after the other, each with real threads, which can wait for each
// other.
#pragma once
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#define __global__
#define __device__
#define __shared__ static // blocks take turns

struct dim3 {
    unsigned x, y;
    dim3(unsigned x_, unsigned y_ = 1) : x(x_), y(y_) {
    }
};
static const dim3 gridDim(2), blockDim(3);
static thread_local dim3 blockIdx(0), threadIdx(0);
static pthread_barrier_t host_barrier;
#define __syncthreads() pthread_barrier_wait(&host_barrier)

template <class Call> struct host_thread {
    pthread_t thread;
    dim3 block, index;
    const Call *call;

    static void *run(void *self) {
        const host_thread *t = (host_thread *)self;
        blockIdx = t->block;
        threadIdx = t->index;
        (*t->call)();
        return NULL;
    }
};

template <class Call> static void host_run_blocks(unsigned blocks, dim3 threads, const Call &call) {
    unsigned count = threads.x * threads.y;
    host_thread<Call> *all = (host_thread<Call> *)calloc(count, sizeof *all);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 1 << 18);
    pthread_barrier_init(&host_barrier, NULL, count);
    for (unsigned block = 0; block < blocks; block++) {
        for (unsigned i = 0; i < count; i++) {
            all[i].block = dim3(block);
            all[i].index = dim3(i % threads.x, i / threads.x);
            all[i].call = &call;
            if (pthread_create(&all[i].thread, &small, host_thread<Call>::run, &all[i]))
                abort();
        }
        for (unsigned i = 0; i < count; i++)
            pthread_join(all[i].thread, NULL);
    }
    pthread_barrier_destroy(&host_barrier);
    pthread_attr_destroy(&small);
    free(all);
}

#define LAUNCH_BLOCKS(kernel, blocks, threads, stream, ...)                                        \
    do {                                                                                           \
        (void)(stream);                                                                            \
        host_run_blocks(blocks, threads, [&] { kernel(__VA_ARGS__); });                            \
    } while (0)

#define LAUNCH(kernel, threads, stream, ...)                                                       \
    do {                                                                                           \
        (void)(threads), (void)(stream);                                                           \
        for (unsigned thread_ = gridDim.x * blockDim.x; thread_-- > 0;) {                          \
            blockIdx.x = thread_ / blockDim.x;                                                     \
            threadIdx.x = thread_ % blockDim.x;                                                    \
            kernel(__VA_ARGS__);                                                                   \
        }                                                                                          \
    } while (0)

#include "tests/unit/host_names.h"
