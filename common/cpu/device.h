// Types and functions that the files of the CPU device share. Programs never include this header.
//
// The CPU device simulates GPUs with three ideas:
// - Memory. A device pointer lies in an address range that the program may not touch; the device's
//   own threads see the same byte at a fixed distance (cpu_view translates).
// - Streams. Each stream is a queue with its own thread. A call copies its operation into the
// queue,
//   and the thread runs it later (cpu_launch).
// - One lock. cpu_lock protects all states and queues. No thread holds it while an operation runs.
#pragma once
#include <cuda_runtime.h>
#include <pthread.h>
#include <stddef.h>

#define CPU_MAX_DEVICES 64
#define CPU_LAUNCH_BYTES 192

extern pthread_mutex_t cpu_lock;

// Every API call begins with this function. It sets the device up once. In a process that was
// forked after that, it returns an error, as the CUDA runtime does.
cudaError_t cpu_enter(void);

// Remembers an error for cudaGetLastError and returns it.
cudaError_t cpu_error(cudaError_t error);

// The device that the calling thread has chosen, and the number of devices.
int cpu_current_device(void);
int cpu_device_count(void);

// Sets up the address ranges and the limit of each device's memory; called once by cpu_enter.
void cpu_memory_init(void);

// Frees all memory of a device whose streams are empty.
void cpu_free_device(int device);

// Translates a device pointer (or a pointer to pinned host memory) to the address that the device's
// threads use. Returns NULL if the bytes do not all lie inside one live allocation.
void *cpu_view(const void *pointer, size_t bytes);

// Returns 1 if the pointer lies in the range of device memory, allocated or not.
int cpu_is_device_pointer(const void *pointer);

// Queues run(arguments) on the stream (NULL: the legacy default stream). The arguments, at most
// CPU_LAUNCH_BYTES, are copied. Blocks while the queue is full.
cudaError_t cpu_launch(cudaStream_t stream, void (*run)(void *), const void *arguments,
                       size_t bytes);

// The same for what must run even after cpu_stop_streams, because others count on it.
cudaError_t cpu_launch_always(cudaStream_t stream, void (*run)(void *), const void *arguments,
                              size_t bytes);

// The same for a kernel over a range: run(arguments, from, to) for parts of 0..count at once, as
// many as there are cores, each a multiple of grain; the result must not depend on how the range is
// cut.
cudaError_t cpu_launch_range(cudaStream_t stream, void (*run)(void *, size_t, size_t),
                             const void *arguments, size_t bytes, size_t count, size_t grain);

// After this the streams drop what is queued, and whoever launches or waits gets
// cudaErrorLaunchFailure, for which cudaGetErrorString then gives the text; until
// cpu_resume_streams.
void cpu_stop_streams(const char *text);
const char *cpu_why_stopped(void); // NULL: they run
void cpu_resume_streams(void);

// How many streams of this process run something now, and do not just wait.
int cpu_streams_computing(void);

// When the program exits, the streams stop before anything is torn down that was set up before this
// call.
void cpu_stop_at_exit(void);

// Whether the program exits: what waits for somebody else must end.
int cpu_exiting(void);

// Runs all parts and returns when they are done.
void cpu_share(void (*run)(void *, size_t, size_t), void *arguments, size_t count, size_t grain);

// Other processes compute on the same cores: leaves this one its share of the threads, unless
// OMP_NUM_THREADS says how many it may have.
void cpu_share_cores(int processes);

// pthread_create for a thread that no signal meant for the program reaches. Returns 0 or an errno.
int cpu_start_thread(pthread_t *thread, void *(*run)(void *), void *argument);

// Waits until all streams of a device are empty. Called without cpu_lock.
void cpu_drain_device(int device);

// Seconds on a clock that never jumps.
double cpu_now(void);

// Lets the other hardware thread of a core run while this one looks at memory again and again.
void cpu_relax(void);

// The environment variable of this name, a whole number from 1 up; ends the program if it is none.
long cpu_positive_number(const char *name, long otherwise);

// A size such as 512, 64K, 64M or 2G in bytes; 0 when the text is none.
size_t cpu_parse_size(const char *text);
