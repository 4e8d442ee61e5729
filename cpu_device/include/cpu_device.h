// What CUDA has no words for: how a program runs its own kernels on the CPU device, as functions in
// C, and how it reads what the device has done. A program that only calls the functions of CUDA,
// cuBLAS and NCCL does not need this header.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

// Kernels.

#define CPU_LAUNCH_BYTES 192

// Sets the device up if this is the first call. Returns an error if it cannot be used, such as in a
// process that was forked after the first call.
cudaError_t cpu_enter(void);

// Translates a device pointer (or a pointer to pinned host memory) to the address that the device's
// threads use. Returns NULL if the bytes do not all lie inside one live allocation.
void *cpu_view(const void *pointer, size_t bytes);

// Returns the device of the pointer's allocation, or -1 if it is pinned memory or no allocation.
int cpu_device_of(const void *pointer);

// Returns 1 if the pointer lies in the range of device memory, allocated or not.
int cpu_is_device_pointer(const void *pointer);

// Queues run(arguments) on the stream (NULL: the legacy default stream). The arguments, at most
// CPU_LAUNCH_BYTES, are copied. Blocks while the queue is full.
cudaError_t cpu_launch(cudaStream_t stream, void (*run)(void *), const void *arguments,
                       size_t bytes);

// The same for a kernel over the range 0..count. Several threads call run(arguments, from, to) at
// the same time, for parts whose boundaries are multiples of grain. The result must not depend on
// the boundaries.
cudaError_t cpu_launch_range(cudaStream_t stream, void (*run)(void *, size_t, size_t),
                             const void *arguments, size_t bytes, size_t count, size_t grain);

// Notes the name of the kernel that this thread launches next, and bytes that it reads or writes,
// for the checker of ordering (CPU_DEVICE_CHECK) and for the modelled time (CPU_DEVICE_MODEL).
void cpu_uses(const char *name, const void *pointer, size_t bytes, int written);

// The same for rows of width bytes that begin pitch bytes apart.
void cpu_uses_rows(const char *name, const void *pointer, size_t width, size_t pitch, size_t rows,
                   int written);

// The same if only the kernel knows which of these bytes it uses. They take no modelled time.
void cpu_may_use(const char *name, const void *pointer, size_t bytes, int written);

// Adds instructions of threads to the cost of the kernel that this thread launches next.
void cpu_executes(double instructions);

// Says how many threads that kernel has, and how often each of them waits for memory while it has
// nothing else to do. Without this call, the kernel takes as long as its bytes or its instructions.
void cpu_waits(size_t threads, size_t times);

// Adds matrix products, which that kernel computes itself with tensor cores (mma.sync) and with
// inputs in bfloat16, or TF32 if tf32 is 1. flops: those of whole tiles. Its other instructions
// take their time in addition.
void cpu_multiplies(double flops, int tf32);

// The modelled time of the host. Each thread of the program has its own. The device does not see
// what a thread does between two calls, nor when it waits for another thread, so the program says:
// - A thread works for some seconds: cpu_host_moves_to(cpu_moment() + seconds).
// - A thread goes on when another one has finished something: the other thread stores cpu_moment()
//   beside the result, and this thread calls cpu_host_moves_to with that time. A new thread does so
//   before its first call of CUDA. Otherwise, it begins at the latest time of all threads.
// Without a model, cpu_moment is a monotonic clock, and cpu_host_moves_to does nothing.

// Returns the time of the calling thread, or, in an operation of a stream, the time of the
// operation.
double cpu_moment(void);

// Moves the calling thread forward to this time, unless its time is later.
void cpu_host_moves_to(double time);

// Returns 0 with CPU_DEVICE_COMPUTE=0: the device computes nothing. Does not set the device up.
int cpu_device_computes(void);

// The record of what the device did and when. Times are in seconds: of the modelled clock if there
// is a model, and of a monotonic clock of the host otherwise.

struct cpu_event {
    double begin, end;
    int stream; // 1, 2, ...; 0: the thread of the host that began to record
    // "kernel", "product", "copy", "collective" or "wait"; of the host: "host"
    const char *category;
    const char *scope; // the innermost range (nvtxRangePushA) of the host that queued it, or NULL
    const char *name;  // such as "cudaMemcpyAsync"
    double bytes, flops;
    unsigned long long comm, number; // of a collective: its communicator, and its number there
    int from;                        // of a wait: the stream that it waited for, else 0
    double left;                     // and when the work there ended
    size_t added;                    // the number of events that were recorded before it
};

struct cpu_timeline {
    const char *model;              // the name of the modelled GPU, or NULL
    const struct cpu_event *events; // by stream and begin; outer ranges before inner ones
    size_t count, dropped;          // dropped: events without room, because memory is limited
};

// Records from here on, and calls write once, when the program exits.
void cpu_record_events(void (*write)(const struct cpu_timeline *timeline));

// Two things that a program may define itself, to change the reports of the checker.

// Prints the message of a report, and ends the program with code 1.
__attribute__((noreturn)) void cpu_end_program(const char *message);

// Files and folders of functions that only pass calls on, such as "cuda_helpers.c" or "common/".
// Reports name the caller of such a function. The list ends with NULL.
extern const char *cpu_passing_on[];

#ifdef __cplusplus
}
#endif
