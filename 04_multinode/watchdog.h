// Ends this rank when a collective fails or does not end: NCCL waits for ever for a rank that is
// gone. Each collective goes through COLLECTIVE, which notes it; a thread looks after those that
// have not ended.
#pragma once
#include "../common/error.h"
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { TICKS_PER_SECOND = 10 };
enum { MOST_COMMS = 3 };
enum {
    MOST_QUEUED = 64
}; // so few that no stream is ever full: the call would block, with the lock

static struct {
    pthread_mutex_t lock;          // of all below; and NCCL wants one thread at a time
    ncclComm_t *comms[MOST_COMMS]; // that this rank uses, each NULL until it is made
    int comm_count;
    int device;
    double timeout; // seconds that the oldest collective may take
    int ticks; // that it has taken; on a clock, a suspended process would be late when it goes on
    long step; // that is being queued
    long queued, done; // collectives so far
    // Number n is in place n % MOST_QUEUED.
    struct collective {
        const char *call, *file;
        int line;
        long step;
        cudaEvent_t done;
    } collectives[MOST_QUEUED];
} watch = {.lock =
               PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP}; // who has it may fail, and ask for it again

// The lock is kept: nothing may be printed or saved after an abort, as the streams go on without
// the sums.
__attribute__((noreturn, format(printf, 2, 3))) static void give_up(long number, const char *format,
                                                                    ...) {
    const struct collective *c = &watch.collectives[number % MOST_QUEUED];
    char host[64] = "?", why[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    gethostname(host, sizeof host - 1);
    alarm(10); // ends the process should stderr be blocked, or the abort, which frees the GPU, hang
    fprintf(stderr, "error (%s, rank %d): step %ld, collective %ld, %s at %s:%d: %s\n", host,
            error_rank > 0 ? error_rank : 0, c->step, number, c->call, c->file, c->line, why);
    int locked = !pthread_mutex_trylock(
        &watch.lock); // else another thread is in a call, and does not return
    ncclGroupStart(); // all at once: who frees one waits for the kernels of the others
    for (int i = 0; i < watch.comm_count && locked; i++)
        if (*watch.comms[i])
            ncclCommAbort(*watch.comms[i]);
    ncclGroupEnd();
    _exit(1);
}

// What the first communicator that is not well and idle says. One that is not made yet is in
// progress.
static ncclResult_t ask_comms(void) {
    ncclResult_t state = ncclSuccess;
    for (int i = 0; i < watch.comm_count && state == ncclSuccess; i++) {
        if (!*watch.comms[i])
            return ncclInProgress;
        NCCL_CHECK(ncclCommGetAsyncError(*watch.comms[i], &state));
    }
    return state;
}

// Notes which collectives have ended, and gives up if one cannot.
static void look(void) {
    cudaError_t error = cudaSuccess;
    for (; watch.done < watch.queued; watch.done++, watch.ticks = 0)
        if ((error = cudaEventQuery(watch.collectives[watch.done % MOST_QUEUED].done)) !=
            cudaSuccess)
            break;
    if (watch.done == watch.queued) {
        watch.ticks = 0;
        return;
    }
    ncclResult_t state = ask_comms();
    if (state != ncclSuccess && state != ncclInProgress)
        give_up(watch.done, "%s (%s)", ncclGetErrorString(state), ncclGetLastError(NULL));
    if (error != cudaErrorNotReady)
        give_up(watch.done, "%s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
    if (watch.ticks > watch.timeout * TICKS_PER_SECOND)
        give_up(watch.done,
                "has not ended for %g s (--step-timeout): a rank is stuck, or the network is down",
                watch.timeout);
}

static void *watchdog(void *unused) {
    CUDA_CHECK(cudaSetDevice(watch.device)); // or asking for events would take memory of device 0
    for (int waited = 0;; usleep(1000000 / TICKS_PER_SECOND)) {
        if (pthread_mutex_trylock(&watch.lock)) {
            if (++waited > (watch.timeout + 5) * TICKS_PER_SECOND)
                give_up(watch.queued, "the call does not return");
            continue;
        }
        waited = 0;
        watch.ticks++;
        look();
        pthread_mutex_unlock(&watch.lock);
    }
    return unused;
}

static void begin_collective(const char *call, const char *file, int line) {
    pthread_mutex_lock(&watch.lock);
    while (watch.queued - watch.done == MOST_QUEUED) { // the host is far ahead of the device
        pthread_mutex_unlock(&watch.lock);
        usleep(1000);
        pthread_mutex_lock(&watch.lock);
        look();
    }
    struct collective *c = &watch.collectives[watch.queued % MOST_QUEUED];
    c->call = call;
    c->file = file;
    c->line = line;
    c->step = watch.step;
}

// Waits until NCCL has taken the call in. The collective itself may end much later.
static void settle(ncclResult_t result, double timeout) {
    if (result == ncclSuccess)
        result = ask_comms(); // as ncclCommSplit returns that while it is under way
    for (long polls = 0; result == ncclInProgress; polls++) {
        result = ask_comms();
        if (result == ncclInProgress && polls > 1000 * (timeout + 1))
            give_up(watch.queued, "in progress for %g s: is a rank gone, or the network down?",
                    timeout);
        if (result == ncclInProgress && polls < 1000)
            sched_yield(); // most take microseconds
        else if (result == ncclInProgress)
            usleep(1000);
    }
    if (result != ncclSuccess)
        give_up(watch.queued, "%s (%s)", ncclGetErrorString(result), ncclGetLastError(NULL));
}

static void end_collective(ncclResult_t result, cudaStream_t stream) {
    struct collective *c = &watch.collectives[watch.queued % MOST_QUEUED];
    settle(result, watch.timeout);
    if (!c->done)
        CUDA_CHECK(cudaEventCreateWithFlags(&c->done, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventRecord(c->done, stream));
    watch.queued++;
    pthread_mutex_unlock(&watch.lock);
}

// Queues a collective, or makes a communicator out of another.
#define COLLECTIVE(stream, call)                                                                   \
    do {                                                                                           \
        begin_collective(#call, __FILE__, __LINE__);                                               \
        end_collective((call), (stream));                                                          \
    } while (0)

// Any call fails after a collective has: it is said as the collective's failure, and by one thread.
// Whoever gets the lock keeps it: this one, as it is about to fail, or the watchdog, where it has
// given up.
static void look_first(void) {
    pthread_mutex_lock(&watch.lock);
    look();
}

// cudaStreamSynchronize, which does not return with what an aborted collective has left.
static void wait_for(cudaStream_t stream) {
    CUDA_CHECK(cudaStreamSynchronize(stream));
    pthread_mutex_lock(&watch.lock); // for ever, where the watchdog has given up
    pthread_mutex_unlock(&watch.lock);
}

// From now on the communicator is watched; it may be about to be made.
static void watch_comm(ncclComm_t *comm) {
    pthread_mutex_lock(&watch.lock);
    watch.comms[watch.comm_count++] = comm;
    pthread_mutex_unlock(&watch.lock);
}

// Waits until all ranks have joined the communicator, a non-blocking one, and watches it from then
// on.
static void start_watchdog(ncclComm_t *comm, double join_timeout, double step_timeout) {
    pthread_t thread;
    begin_collective("ncclCommInitRankConfig", __FILE__, __LINE__);
    watch_comm(comm);
    watch.timeout = step_timeout;
    CUDA_CHECK(cudaGetDevice(&watch.device));
    error_hook = look_first;
    settle(ncclInProgress, join_timeout);
    if (pthread_create(&thread, NULL, watchdog, NULL))
        fail("cannot start a thread");
    pthread_mutex_unlock(&watch.lock);
}

// All ranks leave together.
static void end_watchdog(void) {
    begin_collective("ncclCommFinalize", __FILE__, __LINE__);
    for (int i = watch.comm_count; i-- > 0;)
        settle(ncclCommFinalize(*watch.comms[i]), watch.timeout);
    watch.done = watch.queued;
    while (watch.comm_count > 0)
        NCCL_CHECK(ncclCommDestroy(*watch.comms[--watch.comm_count]));
    pthread_mutex_unlock(&watch.lock);
}
