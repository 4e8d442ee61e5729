// Types and functions that the files of the CPU device share, beside those of include/cpu_device.h.
// Programs never include this header.
//
// The CPU device simulates GPUs with three ideas:
// - Memory. A device pointer lies in an address range that the program may not touch; the device's
//   own threads see the same byte at a fixed distance (cpu_view translates).
// - Streams. Each stream is a queue with its own thread. A call copies its operation into the
//   queue, and the thread runs it later (cpu_launch).
// - One lock. cpu_lock protects all states and queues. No thread holds it while an operation runs.
#pragma once
#include "../include/cpu_device.h"
#include "gpu_model.h"
// What almost every file needs.
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPU_MAX_DEVICES 64

extern pthread_mutex_t cpu_lock;

// Prints "error: " and the message, and ends the program.
__attribute__((format(printf, 1, 2), noreturn)) void cpu_fail(const char *format, ...);

// Returns the text of an errno, with the limit to raise if one is reached. The next call of the
// thread overwrites it.
const char *cpu_system_error(int error);

// Appends formatted text to the string in an array of size bytes. It drops the end of a string that
// is too long.
__attribute__((format(printf, 3, 4))) void cpu_add_text(char *text, size_t size, const char *format,
                                                        ...);

// Returns new memory that holds zeros. Without memory, the program ends.
void *cpu_new(size_t bytes);

// realloc, which also ends the program without memory. New bytes hold any values.
void *cpu_resized(void *memory, size_t bytes);

// Stores an error for cudaGetLastError, and returns it.
cudaError_t cpu_error(cudaError_t error);

// cpu_enter for a call of CUDA: stores an error, too. If the arguments are not valid, the error is
// cudaErrorInvalidValue.
cudaError_t cpu_begin(int valid);

// cpu_begin, which also takes cpu_lock unless it returns an error; and the end of such a call,
// which releases the lock, and stores and returns the call's error.
cudaError_t cpu_begin_locked(int valid);
cudaError_t cpu_end(cudaError_t error);

// Return the current device of the calling thread, and the number of devices.
int cpu_current_device(void);
int cpu_device_count(void);

// Returns the number of a device before CUDA_VISIBLE_DEVICES.
int cpu_physical(int device);

// Returns 1 in a process that was forked after the first call of CUDA.
int cpu_is_forked(void);

// The seed of random delays, or 0 (CPU_DEVICE_CHAOS). With a seed, the first launch of a kernel and
// the first transfer between two ranks also wait as they may wait on a GPU.
extern uint64_t cpu_chaos_seed;

// Sets up the address ranges and the limit of each device's memory; called once by cpu_enter.
void cpu_memory_init(void);

// Returns a new file in memory that has no name elsewhere, or -1 and sets errno.
int cpu_make_memory(const char *name, size_t bytes);

// The addresses of all device memory for device threads. The bytes lie in a file without a name, or
// there is no file.
struct cpu_heap {
    uintptr_t views;
    size_t bytes;
    int file;
};
struct cpu_heap cpu_heap(void);

// cpu_view and cpu_device_of in one call.
void *cpu_view_on(const void *pointer, size_t bytes, int *device);

// Returns the number of bytes from the pointer to the end of its allocation, or 0 if it has none.
size_t cpu_bytes_from(const void *pointer);

// Returns 1 if the two arrays have a byte in common.
int cpu_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes);

// cpu_launch for an operation that must run even after cpu_stop_streams, because other threads or
// ranks wait for it.
cudaError_t cpu_launch_always(cudaStream_t stream, void (*run)(void *), const void *arguments,
                              size_t bytes);

// From this call until cpu_resume_streams, all streams drop their operations. Launches and waits
// return cudaErrorLaunchFailure, and cudaGetErrorString returns the text for it.
void cpu_stop_streams(const char *text);
const char *cpu_why_stopped(void); // NULL: the streams run
void cpu_resume_streams(void);

// Returns how many streams of this process compute now. A stream that waits in an operation does
// not count.
int cpu_streams_computing(void);

// Makes the streams stop when the program exits. Exit handlers run in reverse order, so the streams
// stop before the handlers that were registered before this call.
void cpu_stop_at_exit(void);

// Returns 1 if the program is exiting, so every wait for another rank must end.
int cpu_exiting(void);

// Runs all parts of a range, as described at cpu_launch_range, and returns when they are done.
void cpu_share(void (*run)(void *, size_t, size_t), void *arguments, size_t count, size_t grain);

// Divides the cores among this number of processes: limits the threads of this process to its
// share, unless OMP_NUM_THREADS is set.
void cpu_share_cores(int processes);

// Starts a thread that receives none of the program's signals. Returns 0, or sets errno.
int cpu_start_thread(pthread_t *thread, void *(*run)(void *), void *argument);

// Waits until all streams of a device are empty. Called without cpu_lock.
void cpu_drain_device(int device);

// Waits until the work that is now on the stream is done, and moves the modelled time. The checker
// does not count this as a wait, so a program that relies on it is reported.
void cpu_wait_unnoticed(cudaStream_t stream);

// Returns an error, after invalidating captures, if a capture forbids this thread a call that may
// be unsafe (such as cudaMalloc), cudaMemcpy, or a copy of pageable memory in this stream. Called
// without cpu_lock.
enum cpu_captured_call { CPU_UNSAFE_CALL, CPU_COPY_CALL, CPU_PAGEABLE_COPY };
cudaError_t cpu_capture_forbids(enum cpu_captured_call call, cudaStream_t stream);

// Returns seconds of a monotonic clock.
double cpu_now(void);

// Gives a thread of the program its modelled time, if this is its first call.
void cpu_thread_begins(void);

// If there is a model, moves the time that cpu_moment returns forward to this time.
void cpu_move_to(double time);

// Returns the value of an environment variable, or otherwise if it is not set. Ends the program if
// the value is not a whole number above 0.
long cpu_positive_number(const char *name, long otherwise);

// settings.c. Ends the program if the environment has a misspelt variable of the CPU device.
void cpu_check_settings(void);

// Adds variables that are set, such as ", CPU_DEVICE_CHECK=1", without those that the device's name
// shows in other words.
void cpu_list_settings(char *text, size_t size);

// Returns the bytes of a size such as 512, 64K, 64M or 2G, or 0 if the text is not a size.
size_t cpu_parse_size(const char *text);

// What a program asks the device to do. CPU_DEVICE_COUNTS names a file; when the program exits, it
// gets a line with these counts, in this order, and with the modelled time of the main thread. The
// operations of graphs are not counted.
enum cpu_counted {
    CPU_KERNELS,
    CPU_PRODUCTS,
    CPU_COPIES,
    CPU_MEMSETS,
    CPU_COLLECTIVES,
    CPU_EVENTS, // that streams record or wait for
    CPU_WAITS,  // of the host
    CPU_BYTES,  // that kernels read and write
    CPU_COUNTED
};
void cpu_count(enum cpu_counted what, long number);
enum cpu_counted cpu_counted_as(const struct cpu_cost *cost);
void cpu_counts_init(void);

// 1 from cpu_record_events on.
extern int cpu_tracing;

// Returns the name of the innermost range (nvtxRangePushA) that the calling thread is in, or NULL.
// The text stays valid.
const char *cpu_scope(void);

// Adds an operation of a stream. event holds its times, stream and scope.
void cpu_trace_operation(struct cpu_event event, const struct cpu_cost *cost);

// A stream waited for work on the stream from, which ended at time left.
void cpu_trace_wait(int stream, double begin, double end, int from, double left);

// The host waited in a call.
void cpu_trace_host(const char *call, double begin, double end);

// Calls the function of cpu_record_events. Called when the program exits.
void cpu_trace_write(void);
