#include "04_multinode/watchdog.h"
#include "02_multigpu_fork/nccl_check.h"
#include "02_multigpu_fork/share_gpus.h"
#include "common/base/clock.h"
#include "common/device/device.h"
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double TICK = 0.1; // seconds between two calls of look
enum { MOST_COMMS = 4 };
enum { SAVE_FACTOR = 10 }; // how many times step_timeout a collective may wait for a save
enum { MOST_QUEUED = 64 }; // how many collectives the host may queue ahead of the device

static struct {
    pthread_mutex_t lock;         // protects all fields below
    ncclComm_t comms[MOST_COMMS]; // communicators of this rank
    int comm_count;
    int device;
    double join_timeout; // seconds that a call may take that creates a communicator
    double step_timeout; // seconds that each other collective may take
    double waited;       // seconds that the oldest collective has taken
    double called;       // seconds that the current call has taken
    long step;           // training step that the host is queueing
    long save_end;       // the first training step that no longer waits for a save
    long queued;         // number of collectives that the host has queued
    long completed;      // number of collectives that have ended on the device
    int calling;         // 1 during a call, which may hang; then the thread calls no NCCL or CUDA
    // Collective n is in collectives[n % MOST_QUEUED].
    struct collective {
        const char *call, *file;
        int line;
        double limit;       // seconds that it may take
        const char *option; // that sets the limit
        long step;
        cudaEvent_t ended; // recorded after the collective
    } collectives[MOST_QUEUED];
} watch = {
    .lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP}; // the thread that holds it may lock it again

static char last_line[2048]; // that end_rank prints

// Ends the process. exit could wait for kernels that never end. fprintf is not safe in a handler of
// SIGALRM, and write is.
__attribute__((noreturn)) static void end_rank(int signal) {
    (void)signal;
    alarm(10); // ends the process if stderr is blocked
    ssize_t written = write(STDERR_FILENO, last_line, strlen(last_line));
    (void)written;
    _exit(1);
}

// The caller holds the lock and keeps it, so the process prints and saves nothing after this line.
__attribute__((noreturn, format(printf, 2, 3))) static void give_up(long number, const char *format,
                                                                    ...) {
    const struct collective *c = &watch.collectives[number % MOST_QUEUED];
    char why[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    snprintf(last_line, sizeof last_line,
             "error (%s): %s (step %ld, collective %ld, %.*s at %s:%d)\n", error_origin(), why,
             c->step, number, CALL_NAME(c->call), c->file, c->line);
    end_rank(0);
}

// Returns NCCL's last warning after "; ", or an empty text. The CPU device warns of ranks that it
// waits for, and of hosts that are silent.
static const char *last_warning(void) {
    static char text[1024];
    const char *warning = ncclGetLastError(NULL);
    snprintf(text, sizeof text, "%s%s", *warning ? "; " : "", warning);
    return text;
}

static void check_limit(long number, double taken) {
    const struct collective *c = &watch.collectives[number % MOST_QUEUED];
    if (taken > c->limit)
        give_up(number, "a collective has not ended for %g s (%s): a rank is stuck, or %s%s",
                c->limit, c->option, gpus_are_shared() ? CROWDED : "the network is down",
                last_warning());
}

// Records which collectives have ended, and gives up if one has failed or is late.
static void look(void) {
    ncclResult_t state = ncclSuccess;
    cudaError_t error = cudaSuccess;
    for (; watch.completed < watch.queued; watch.completed++, watch.waited = 0)
        if ((error = cudaEventQuery(watch.collectives[watch.completed % MOST_QUEUED].ended)) !=
            cudaSuccess)
            break;
    if (watch.completed == watch.queued) {
        watch.waited = 0;
        return;
    }
    for (int i = 0; i < watch.comm_count && state == ncclSuccess; i++)
        NCCL_CHECK(ncclCommGetAsyncError(watch.comms[i], &state));
    if (state != ncclSuccess)
        give_up(watch.completed, "%s: %s", ncclGetErrorString(state), ncclGetLastError(NULL));
    if (error != cudaSuccess && error != cudaErrorNotReady)
        give_up(watch.completed, "%s: %s", cudaGetErrorName(error), cudaGetErrorString(error));
    check_limit(watch.completed, watch.waited);
}

static void *watchdog(void *unused) {
    pthread_mutex_lock(&watch.lock);         // or the process may be about to end, after fail
    CUDA_CHECK(cudaSetDevice(watch.device)); // or cudaEventQuery would use memory of device 0
    pthread_mutex_unlock(&watch.lock);
    for (double now, before = seconds();; before = now) {
        usleep(1e6 * TICK);
        pthread_mutex_lock(&watch.lock);
        now = seconds();
        // A longer tick means that this process was suspended, perhaps with all other ranks.
        double tick = fmin(now - before, 2 * TICK);
        const struct collective *newest =
            &watch.collectives[(watch.queued + MOST_QUEUED - 1) % MOST_QUEUED];
        watch.waited += tick;
        watch.called += tick;
        if (watch.calling) {
            check_limit(watch.queued, watch.called);
        } else {
            // The first launch of a kernel loads it. If a collective never ends, CUDA may wait for
            // it then, and keep look() waiting, too.
            alarm(ceil(newest->limit));
            look();
            alarm(0);
        }
        pthread_mutex_unlock(&watch.lock);
    }
    return unused;
}

static void set_limit(struct collective *c) {
    c->limit = watch.step_timeout;
    c->option = "--step-timeout";
    if (!strncmp(c->call, "ncclCommInit", 12) || !strncmp(c->call, "ncclCommSplit", 13)) {
        c->limit = watch.join_timeout;
        c->option = "--join-timeout; NCCL opens ports of its own, which a firewall may block";
    } else if (c->step < watch.save_end) {
        c->limit *= SAVE_FACTOR;
        c->option = "10 times --step-timeout, because of a save";
    }
}

void begin_collective(const char *call, const char *file, int line) {
    struct collective *c = &watch.collectives[watch.queued % MOST_QUEUED];
    cudaError_t error = cudaSuccess;
    // While the host is far ahead of the device, c is a collective that has not ended.
    while (c->ended && (error = cudaEventQuery(c->ended)) == cudaErrorNotReady)
        usleep(1000);
    pthread_mutex_lock(&watch.lock);
    if (error != cudaSuccess)
        look(); // gives up
    if (watch.queued - watch.completed == MOST_QUEUED) {
        watch.completed++;
        watch.waited = 0;
    }
    c->call = call;
    c->file = file;
    c->line = line;
    c->step = watch.step;
    set_limit(c);
    watch.calling = 1;
    watch.called = 0;
    pthread_mutex_unlock(&watch.lock);
}

void end_collective(ncclResult_t result, cudaStream_t stream) {
    struct collective *c = &watch.collectives[watch.queued % MOST_QUEUED];
    // If the stream is full, these calls wait, so this thread must not hold the lock.
    if (result == ncclSuccess && !c->ended)
        CUDA_CHECK(cudaEventCreateWithFlags(&c->ended, cudaEventDisableTiming));
    if (result == ncclSuccess)
        CUDA_CHECK(cudaEventRecord(c->ended, stream));
    pthread_mutex_lock(&watch.lock);
    watch.calling = 0;
    if (result != ncclSuccess) {
        look(); // an earlier collective may have failed first
        give_up(watch.queued, "%s: %s", ncclGetErrorString(result), nccl_reason());
    }
    watch.queued++;
    pthread_mutex_unlock(&watch.lock);
}

// After a collective has failed, every other call fails, too. Only one thread reports the failure,
// and it names the collective: the thread that gets the lock keeps it until the process ends.
static void look_first(void) {
    pthread_mutex_lock(&watch.lock);
    look();
    *last_line = 0; // fail prints its own
    alarm(10);      // again, because the thread may have switched off the alarm of fail
}

void wait_for(cudaStream_t stream) {
    CUDA_CHECK(cudaStreamSynchronize(stream));
    pthread_mutex_lock(&watch.lock);
    pthread_mutex_unlock(&watch.lock);
}

void watch_step(long step) {
    pthread_mutex_lock(&watch.lock);
    watch.step = step;
    pthread_mutex_unlock(&watch.lock);
}

void watch_save(void) {
    pthread_mutex_lock(&watch.lock);
    watch.save_end = watch.step + 2;
    pthread_mutex_unlock(&watch.lock);
}

void watch_comm(ncclComm_t comm) {
    pthread_mutex_lock(&watch.lock);
    watch.comms[watch.comm_count++] = comm;
    pthread_mutex_unlock(&watch.lock);
}

void start_watchdog(double join_timeout, double step_timeout) {
    pthread_t thread;
    // The handler works once: the next alarm ends the process.
    struct sigaction once = {.sa_handler = end_rank, .sa_flags = SA_RESETHAND | SA_NODEFER};
    snprintf(
        last_line, sizeof last_line,
        "error (%s): a call of CUDA does not return: a rank is stuck, or the network is down\n",
        error_origin());
    sigaction(SIGALRM, &once, NULL);
    watch.join_timeout = join_timeout;
    watch.step_timeout = step_timeout;
    CUDA_CHECK(cudaGetDevice(&watch.device));
    error_hook = look_first;
    if ((errno = pthread_create(&thread, NULL, watchdog, NULL)))
        fail("cannot start a thread: %m");
}

void barrier(double *number, ncclComm_t comm, cudaStream_t stream) {
    COLLECTIVE(stream, ncclAllReduce(number, number, 1, ncclDouble, ncclSum, comm, stream));
    wait_for(stream);
}

void end_watchdog(void) {
    for (int i = watch.comm_count; i-- > 0;)
        COLLECTIVE(NULL, ncclCommFinalize(watch.comms[i]));
    begin_collective("ncclCommDestroy", __FILE__, __LINE__);
    while (watch.comm_count > 0)
        NCCL_CHECK(ncclCommDestroy(watch.comms[--watch.comm_count]));
    pthread_mutex_lock(&watch.lock); // kept: no thread may call CUDA while the process ends
}
