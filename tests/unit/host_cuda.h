// Lets a C++ compiler build the files */kernels/*.cu for the host. It is included before such
// a file, and defines the names that nvcc defines itself. Unit tests then call the functions of the
// file, on the CPU device. LAUNCH runs a small grid thread by thread, the last thread first, so
// loops that skip or repeat elements, or depend on an order, give wrong results. LAUNCH_SHARED runs
// the real blocks, whose threads can wait for each other; shared memory begins as NaN in each. An
// access that is not aligned, which only a GPU refuses, is an illegal instruction (tests.mk).
#pragma once
#include "cpu_device/src/floats.h"
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("shared_memory"))) // each block uses the same
extern "C" char __start_shared_memory[], __stop_shared_memory[];    // the linker's names
#define SHARED_FLOATS(name) float *name = (float *)host_shared

struct dim3 {
    unsigned x, y;
    dim3(unsigned x_, unsigned y_ = 1) : x(x_), y(y_) {
    }
};
static thread_local dim3 gridDim(1), blockDim(1), blockIdx(0), threadIdx(0);

// In a block whose threads wait for each other, each thread has a stack of its own. It runs until
// it waits or ends. Then the next thread runs. setjmp makes no system call, unlike swapcontext.
struct host_copy {
    alignas(16) char bytes[16]; // on their way: in their place is NaN
    void *to;
    int count;
};
struct host_thread {
    int begun;   // 1: it has run before, so it continues at place
    int ended;   // 1: the kernel has ended in this block
    int waits;   // 1: for all other threads of the block that have not ended
    int copying; // copies that it has not awaited
    struct host_copy copies[32];
    ucontext_t begin;
    jmp_buf place;
    char stack[1 << 14];
};
static const unsigned HOST_THREADS = 1024; // the most in a block
static thread_local struct host_thread *host_threads, *host_running;
static thread_local jmp_buf host_scheduler;
static thread_local void (*host_call)(const void *);
static thread_local const void *host_argument;

// Lets the other threads of the block run.
static inline void host_yield() {
    if (!_setjmp(host_running->place))
        _longjmp(host_scheduler, 1);
}

// Returns the end of memory for SHARED_FLOATS. An access after it crashes.
static inline char *host_shared_end() {
    const size_t most = 48 << 10, page = 1 << 16;
    static thread_local char *pages;
    if (!pages) {
        pages = (char *)mmap(NULL, most + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                             -1, 0);
        mprotect(pages + most, page, PROT_NONE);
    }
    return pages + most;
}
static thread_local char *host_shared;

static inline void __syncthreads() {
    host_running->waits = 1;
    host_yield();
}

// Returns the value that another thread of the warp has passed to the same call. All threads of the
// warp must make it.
template <class T> static T host_exchange(T value, unsigned from) {
    static thread_local T values[HOST_THREADS];
    values[threadIdx.y * blockDim.x + threadIdx.x] = value;
    host_yield();
    value = values[from];
    host_yield();
    return value;
}

template <class T> static T __shfl_sync(unsigned, T value, unsigned lane) {
    return host_exchange(value, threadIdx.x / 32 * 32 + lane);
}

template <class T> static T __shfl_xor_sync(unsigned, T value, unsigned lanes) {
    return host_exchange(value, (threadIdx.y * blockDim.x + threadIdx.x) ^ lanes);
}

static inline unsigned __ballot_sync(unsigned, int predicate) {
    unsigned found = predicate ? 1u << threadIdx.x % 32 : 0;
    for (unsigned lanes = 1; lanes < 32; lanes *= 2)
        found |= __shfl_xor_sync(~0u, found, lanes);
    return found;
}

#define __popc __builtin_popcount
#define power_of_2 exp2f // and the next one: zoo/kernels/values.h
#define reciprocal(x) (1 / (x))
#define __uint_as_float bits_to_float
#define __float_as_uint float_to_bits

// The functions of zoo/kernels/tensor_cores.h, which describes the matrices.
static inline unsigned tf32_of(float x) {
    return isfinite(x) ? (__float_as_uint(x) + 0x1000) & ~0x1fffu : __float_as_uint(x);
}

#define bfloat16_pair(low, high) (bfloat16_of(low) | (unsigned)bfloat16_of(high) << 16)

template <int BYTES> static void copy(void *to, const void *from, int exist) {
    struct alignas(BYTES) unit {
        char at[BYTES];
    };
    struct host_copy *begun = &host_running->copies[host_running->copying++];
    begun->to = to;
    begun->count = BYTES;
    *(unit *)begun->bytes = exist ? *(const unit *)from : unit();
    memset(((unit *)to)->at, -1, BYTES);
}

static inline void await_copies() {
    for (; host_running->copying > 0; host_running->copying--) {
        struct host_copy *begun = &host_running->copies[host_running->copying - 1];
        memcpy(begun->to, begun->bytes, begun->count);
    }
}

// A lane of ldmatrix reads 16 bytes.
template <class T> struct alignas(16) host_row { T at[16 / sizeof(T)]; };

template <class T> static void read_words(unsigned *b, const T *rows, unsigned pitch) {
    auto *row = (const host_row<unsigned> *)(rows + threadIdx.x % 32 / 4 * pitch);
    for (int i = 0; i < 4; i++)
        b[i] = row[i].at[threadIdx.x % 4];
}

static inline void read_columns(unsigned *b, const uint16_t *rows, unsigned pitch) {
    for (int i = 0; i < 4; i++) {
        const uint16_t *row = rows + (threadIdx.x % 4 * 2 + i % 2 * 8) * pitch;
        auto *low = (const host_row<uint16_t> *)row,
             *high = (const host_row<uint16_t> *)(row + pitch);
        unsigned column = threadIdx.x % 32 / 4;
        b[i] = low[i / 2].at[column] | (unsigned)high[i / 2].at[column] << 16;
    }
}

// A tensor core ignores the lower bits of a word in TF32. A kernel must round its words first, so
// words with such bits give NaN.
static inline float host_product(unsigned a, unsigned b, float) {
    return (a | b) & 0x1fff ? NAN : __uint_as_float(a) * __uint_as_float(b);
}

static inline float host_product(unsigned a, unsigned b, uint16_t) {
    return __uint_as_float(a << 16) * __uint_as_float(b << 16) +
           __uint_as_float(a >> 16 << 16) * __uint_as_float(b >> 16 << 16);
}

template <class T> static void multiply_add(float *c, const unsigned *a, const unsigned *b) {
    static thread_local unsigned words[HOST_THREADS][6]; // a and b of each thread
    unsigned warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
    memcpy(words[threadIdx.x], a, 4 * sizeof *a);
    memcpy(words[threadIdx.x] + 4, b, 2 * sizeof *b);
    host_yield();
    for (unsigned e = 0; e < 4; e++)
        for (unsigned i = 0; i < 8; i++)
            c[e] += host_product(words[warp + lane / 4 * 4 + i % 4][i / 4 * 2 + e / 2],
                                 words[warp + (lane % 4 * 2 + e % 2) * 4 + i % 4][4 + i / 4], T());
    host_yield();
}

// Runs the kernel in one block after the other.
static inline void host_begin() {
    for (;;) {
        host_call(host_argument);
        host_running->ended = 1;
        host_yield();
    }
}

static inline void host_make_threads() {
    host_threads = (struct host_thread *)calloc(HOST_THREADS, sizeof *host_threads);
    for (struct host_thread *t = host_threads; t < host_threads + HOST_THREADS; t++) {
        getcontext(&t->begin);
        t->begin.uc_stack.ss_sp = t->stack;
        t->begin.uc_stack.ss_size = sizeof t->stack;
        makecontext(&t->begin, host_begin, 0);
    }
}

// Returns when the thread waits or has ended the block.
static inline void host_continue(struct host_thread *thread) {
    if (_setjmp(host_scheduler))
        return;
    host_running = thread;
    if (thread->begun)
        _longjmp(thread->place, 1);
    thread->begun = 1;
    setcontext(&thread->begin);
}

template <class Call> static void host_run_waiting(unsigned count, const Call &call) {
    host_argument = &call;
    host_call = [](const void *argument) { (*(const Call *)argument)(); };
    if (!host_threads)
        host_make_threads();
    for (unsigned i = 0; i < count; i++)
        host_threads[i].ended = host_threads[i].waits = 0;
    for (unsigned left = count; left > 0;) {
        int runs = 0; // 1: a thread does not wait; 0: all wait, so all continue
        for (unsigned i = 0; i < count; i++)
            runs |= !host_threads[i].ended && !host_threads[i].waits;
        for (unsigned i = 0; i < count; i++) {
            if (host_threads[i].ended || (runs && host_threads[i].waits))
                continue;
            host_threads[i].waits = 0;
            threadIdx = dim3(i % blockDim.x, i / blockDim.x);
            host_continue(&host_threads[i]);
            left -= host_threads[i].ended;
        }
    }
}

template <class Call> static void host_run(dim3 blocks, dim3 threads, int wait, const Call &call) {
    unsigned count = threads.x * threads.y;
    gridDim = blocks;
    blockDim = threads;
    for (blockIdx = blocks; blockIdx.x-- > 0;) {
        if (wait) {
            memset(__start_shared_memory, -1, __stop_shared_memory - __start_shared_memory);
            memset(host_shared, -1, host_shared_end() - host_shared);
            host_run_waiting(count, call);
            continue;
        }
        for (unsigned i = count; i-- > 0;) {
            threadIdx = dim3(i % threads.x, i / threads.x);
            call();
        }
    }
}

// Programs cannot use device memory, and kernels use it at another address.
extern "C" int cpu_is_device_pointer(const void *pointer);
extern "C" void *cpu_view(const void *pointer, size_t bytes);

// Returns the argument with the addresses that kernels use. A struct may hold pointers, too.
template <class T> static T host_view(T argument) {
    for (size_t at = 0; at + sizeof(void *) <= sizeof argument; at += sizeof(void *)) {
        void *word;
        memcpy(&word, (char *)&argument + at, sizeof word);
        void *view = cpu_is_device_pointer(word) ? cpu_view(word, 0) : NULL;
        if (view)
            memcpy((char *)&argument + at, &view, sizeof view);
    }
    return argument;
}

// wait: the threads of the kernel may wait for each other.
template <auto *kernel, int wait> struct host_kernel;
template <class... Types, void (*kernel)(Types...), int wait> struct host_kernel<kernel, wait> {
    static void run_views(dim3 blocks, dim3 threads, Types... arguments) {
        host_run(blocks, threads, wait, [&] { kernel(arguments...); });
    }

    static void launch(dim3 blocks, dim3 threads, Types... arguments) {
        run_views(blocks, threads, host_view(arguments)...);
    }
};

#define LAUNCH(kernel, count, stream, ...)                                                         \
    HOST_LAUNCH(kernel, 2, 3, 0, 0, ((void)(count), stream), __VA_ARGS__)
#define LAUNCH_SHARED(kernel, blocks, threads, bytes, stream, ...)                                 \
    HOST_LAUNCH(kernel, blocks, threads, bytes, 1, stream, __VA_ARGS__)
#define HOST_LAUNCH(kernel, blocks, threads, bytes, wait, stream, ...)                             \
    do {                                                                                           \
        (void)(stream); /* work on any stream may come before */                                   \
        host_shared = host_shared_end() - (bytes);                                                 \
        CUDA_CHECK(cudaDeviceSynchronize());                                                       \
        host_kernel<&kernel, wait>::launch(blocks, threads, __VA_ARGS__);                          \
    } while (0)
