// The watchdog ends this rank when a collective fails or does not end, because NCCL waits forever
// for a rank that has died. The macro COLLECTIVE records each collective, and a thread watches
// those that have not ended.
//
// The communicators are blocking, because NCCL starts a thread for each call on a non-blocking one.
// A blocking call may never return when a rank has died, so the thread watches the calls, too. It
// ends the process, and then the driver stops the kernels of the process. It does not call
// ncclCommAbort, which can hang in this case (NCCL's issues 863 and 1777).
//
// The process ends in one way: a line on stderr, and _exit. SIGALRM does the same when CUDA keeps
// the thread itself waiting. When another call fails first, fail() lets the watchdog look for a
// collective that is the cause.
#pragma once
#include <cuda_runtime.h>
#include <nccl.h>

// Call it before you create the first communicator. A call that creates one, in which its ranks
// join, may take join_timeout seconds, and each other collective step_timeout.
void start_watchdog(double join_timeout, double step_timeout);

// Adds a communicator to those that the watchdog asks for errors; at most four.
void watch_comm(ncclComm_t comm);

// Sets the number of the training step that the host queues now, for error lines.
void watch_step(long step);

// Call it when another rank begins to save, so it may come late. Until the end of the next training
// step, a collective may take ten times step_timeout.
void watch_save(void);

// Queues a collective on the stream, or creates or ends a communicator.
#define COLLECTIVE(stream, call)                                                                   \
    do {                                                                                           \
        begin_collective(#call, __FILE__, __LINE__);                                               \
        end_collective((call), (stream));                                                          \
    } while (0)
void begin_collective(const char *call, const char *file, int line);
void end_collective(ncclResult_t result, cudaStream_t stream);

// Works like cudaStreamSynchronize, but does not return after the watchdog has given up.
void wait_for(cudaStream_t stream);

// Returns after all ranks of the communicator have called it. It sums a number in device memory,
// whose value does not matter.
void barrier(double *number, ncclComm_t comm, cudaStream_t stream);

// Ends all communicators; all ranks call it together.
void end_watchdog(void);
