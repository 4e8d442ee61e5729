// Ends this rank when a collective fails or does not end: NCCL waits for ever for a rank that is
// gone. Each collective goes through COLLECTIVE, which notes it; a thread looks after those that
// have not ended.
//
// Communicators are blocking, as NCCL starts a thread for each call on one that is not. So a call
// may never return when a rank is gone, and the watchdog's thread watches the calls, too. It does
// not call ncclCommAbort, which can hang then (NCCL's issues 863 and 1777): it ends the process,
// and the driver stops the process's kernels.
#pragma once
#include "../common/error.h"
#include "../common/report.h"
#include <math.h>
#include <nccl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static const double TICK = 0.1; // seconds between two looks
enum { MOST_COMMS = 3 };
enum { MOST_QUEUED = 64 }; // collectives that the host may be ahead of the device

static struct {
    pthread_mutex_t lock;         // of all below
    ncclComm_t comms[MOST_COMMS]; // that this rank uses
    int comm_count;
    int device;
    double join_timeout; // seconds that the first collective may take, in which all ranks join
    double step_timeout; // and each that follows
    double waited;       // seconds that the oldest collective has taken
    double called;       // and the call that queues the next one
    long step;           // that is being queued
    long queued, done;   // collectives so far
    int calling;         // that call is under way: no other thread uses NCCL or CUDA and may hang
    // Number n is in place n % MOST_QUEUED.
    struct collective {
        const char *call, *file;
        int line;
        long step;
        cudaEvent_t done;
    } collectives[MOST_QUEUED];
} watch = {.lock =
               PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP}; // who has it may fail, and ask for it again

// The caller has the lock and keeps it: should the collective end yet, nothing is printed or saved.
__attribute__((noreturn, format(printf, 2, 3))) static void give_up(long number, const char *format,
                                                                    ...) {
    const struct collective *c = &watch.collectives[number % MOST_QUEUED];
    char host[64] = "?", why[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    gethostname(host, sizeof host - 1);
    alarm(10); // ends the process should stderr be blocked
    fprintf(stderr, "error (%s, rank %d): %s (step %ld, collective %ld, %.*s at %s:%d)\n", host,
            error_rank > 0 ? error_rank : 0, why, c->step, number, CALL_NAME(c->call), c->file,
            c->line);
    _exit(1); // exit could wait for kernels that never end
}

static void check_limit(long number, double taken) {
    double timeout = number > 0 ? watch.step_timeout : watch.join_timeout;
    if (taken > timeout)
        give_up(number,
                "a collective has not ended for %g s (%s): a rank is stuck, or the network is down",
                timeout, number > 0 ? "--step-timeout" : "--join-timeout");
}

// Notes which collectives have ended, and gives up if one cannot.
static void look(void) {
    ncclResult_t state = ncclSuccess;
    cudaError_t error = cudaSuccess;
    for (; watch.done < watch.queued; watch.done++, watch.waited = 0)
        if ((error = cudaEventQuery(watch.collectives[watch.done % MOST_QUEUED].done)) !=
            cudaSuccess)
            break;
    if (watch.done == watch.queued) {
        watch.waited = 0;
        return;
    }
    for (int i = 0; i < watch.comm_count && state == ncclSuccess; i++)
        NCCL_CHECK(ncclCommGetAsyncError(watch.comms[i], &state));
    if (state != ncclSuccess)
        give_up(watch.done, "%s: %s", ncclGetErrorString(state), ncclGetLastError(NULL));
    if (error != cudaSuccess && error != cudaErrorNotReady)
        give_up(watch.done, "%s: %s", cudaGetErrorName(error), cudaGetErrorString(error));
    check_limit(watch.done, watch.waited);
}

static void *watchdog(void *unused) {
    CUDA_CHECK(cudaSetDevice(watch.device)); // or asking for events would take memory of device 0
    for (double now, before = seconds();; before = now) {
        usleep(1e6 * TICK);
        pthread_mutex_lock(&watch.lock);
        now = seconds();
        // A longer tick is one in which this process was suspended, as the others may have been.
        double tick = fmin(now - before, 2 * TICK);
        watch.waited += tick;
        watch.called += tick;
        if (watch.calling)
            check_limit(watch.queued, watch.called);
        else
            look();
        pthread_mutex_unlock(&watch.lock);
    }
    return unused;
}

static void begin_collective(const char *call, const char *file, int line) {
    for (;; usleep(1000)) { // while the host is far ahead of the device
        pthread_mutex_lock(&watch.lock);
        if (watch.queued - watch.done == MOST_QUEUED)
            look();
        if (watch.queued - watch.done < MOST_QUEUED)
            break;
        pthread_mutex_unlock(&watch.lock);
    }
    struct collective *c = &watch.collectives[watch.queued % MOST_QUEUED];
    c->call = call;
    c->file = file;
    c->line = line;
    c->step = watch.step;
    watch.calling = 1;
    watch.called = 0;
    pthread_mutex_unlock(&watch.lock);
}

static void end_collective(ncclResult_t result, cudaStream_t stream) {
    pthread_mutex_lock(&watch.lock);
    struct collective *c = &watch.collectives[watch.queued % MOST_QUEUED];
    watch.calling = 0;
    if (result != ncclSuccess) {
        look(); // an earlier one may have failed first
        give_up(watch.queued, "%s: %s", ncclGetErrorString(result), ncclGetLastError(NULL));
    }
    if (!c->done)
        CUDA_CHECK(cudaEventCreateWithFlags(&c->done, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventRecord(c->done, stream));
    watch.queued++;
    pthread_mutex_unlock(&watch.lock);
}

// Queues a collective, or makes or ends a communicator.
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

// cudaStreamSynchronize, which does not return when the watchdog has given up.
static void wait_for(cudaStream_t stream) {
    CUDA_CHECK(cudaStreamSynchronize(stream));
    pthread_mutex_lock(&watch.lock);
    pthread_mutex_unlock(&watch.lock);
}

// From now on the communicator is watched, too.
static void watch_comm(ncclComm_t comm) {
    pthread_mutex_lock(&watch.lock);
    watch.comms[watch.comm_count++] = comm;
    pthread_mutex_unlock(&watch.lock);
}

// Comes before the first communicator is made.
static void start_watchdog(double join_timeout, double step_timeout) {
    pthread_t thread;
    watch.join_timeout = join_timeout;
    watch.step_timeout = step_timeout;
    CUDA_CHECK(cudaGetDevice(&watch.device));
    error_hook = look_first;
    if (pthread_create(&thread, NULL, watchdog, NULL))
        fail("cannot start a thread");
}

// All ranks leave together.
static void end_watchdog(void) {
    for (int i = watch.comm_count; i-- > 0;)
        COLLECTIVE(NULL, ncclCommFinalize(watch.comms[i]));
    begin_collective("ncclCommDestroy", __FILE__, __LINE__);
    while (watch.comm_count > 0)
        NCCL_CHECK(ncclCommDestroy(watch.comms[--watch.comm_count]));
    pthread_mutex_lock(&watch.lock); // kept: nobody may ask CUDA while the process ends
}
