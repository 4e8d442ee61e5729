// Streams and events of the CPU device. A stream is a ring of operations with its own thread, so
// work is really asynchronous: a program that forgets to wait gets a wrong result, as on a GPU.
#include "stream.h"
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

pthread_mutex_t cpu_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t event_completed = PTHREAD_COND_INITIALIZER;
struct CUstream_st *cpu_streams;
static struct CUstream_st *default_stream[CPU_MAX_DEVICES];
static struct CUevent_st *events; // that live
static atomic_int stopping;       // the program is exiting
static atomic_int failed;         // cpu_stop_streams was called
static char failure[640];
static atomic_int computing; // streams that run an operation and do not just wait in it
// The modelled time: of a thread of the program, or of the operation that a stream's thread runs.
static _Thread_local double moment;
static _Thread_local int has_begun; // this thread of the program has made a call
static _Atomic double latest;       // the latest moment of the program's threads

double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double cpu_moment(void) {
    return cpu_model ? moment : cpu_now();
}

void cpu_move_to(double time) {
    if (cpu_model)
        moment = fmax(moment, time);
}

// The device cannot see which thread started this one, so it begins at the latest time of all.
void cpu_thread_begins(void) {
    if (!has_begun)
        cpu_move_to(latest);
    has_begun = 1;
}

// Moves the calling thread of the program forward to this modelled time.
static void host_moves_to(double time) {
    double seen = latest;
    cpu_move_to(time);
    while (seen < moment && !atomic_compare_exchange_weak(&latest, &seen, moment))
        ;
}

// At exit, the C library unloads the other libraries. An operation that still computes with one of
// them would crash the program, so exit waits for running operations, but at most a second, because
// an operation may wait for another rank. Operations that have not begun are dropped, as on a GPU.
static void stop(void) {
    struct timespec limit;
    if (cpu_is_forked())
        return;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec++;
    pthread_mutex_lock(&cpu_lock);
    stopping = 1;
    pthread_cond_broadcast(&event_completed);
    for (struct CUstream_st *s = cpu_streams; s; s = s->next)
        while (s->busy && !pthread_cond_timedwait(&s->progress, &cpu_lock, &limit))
            ;
    pthread_mutex_unlock(&cpu_lock);
    cpu_trace_write();
}

void cpu_stop_at_exit(void) {
    atexit(stop);
}

int cpu_exiting(void) {
    return stopping;
}

int cpu_streams_computing(void) {
    return computing;
}

void cpu_stop_streams(const char *text) {
    pthread_mutex_lock(&cpu_lock);
    if (!failed)
        snprintf(failure, sizeof failure, "%s", text);
    failed = 1;
    pthread_mutex_unlock(&cpu_lock);
}

const char *cpu_why_stopped(void) {
    return failed ? failure : NULL;
}

void cpu_resume_streams(void) {
    failed = 0;
}

// Uses the generator xorshift64, which is good enough for delays.
static void delay_at_random(struct CUstream_st *s) {
    s->chaos ^= s->chaos << 13;
    s->chaos ^= s->chaos >> 7;
    s->chaos ^= s->chaos << 17;
    if (s->chaos % 4 == 0) {
        struct timespec pause = {0, (long)(s->chaos / 4 % 1000000)};
        nanosleep(&pause, NULL);
    }
}

int cpu_start_thread(pthread_t *thread, void *(*run)(void *), void *argument) {
    // Signals go to the program's own threads. Only faults are handled by the thread that causes
    // them.
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

void cpu_execute(struct CUstream_st *s, struct operation *op) {
    struct cpu_event event = {.begin = cpu_moment(), .stream = s->number};
    if (s->chaos)
        delay_at_random(s);
    if ((failed || !cpu_computes) && !op->always)
        ;
    else if (op->run)
        op->run(op->arguments);
    else
        cpu_share(op->run_range, op->arguments, op->count, op->grain);
    moment += op->seconds;
    if (cpu_model && moment > cpu_model_lost(cpu_physical(s->device)))
        cpu_stop_streams("the device has failed (CPU_DEVICE_LOST)");
    event.end = cpu_moment();
    if (op->cost.kind == CPU_NO_COST || !op->traced || failed)
        return;
    event.scope = op->scope;
    cpu_trace_operation(event, &op->cost);
}

// The thread of a stream: runs its operations one after the other, for the life of the process.
static void *serve(void *argument) {
    struct CUstream_st *s = argument;
    pthread_mutex_lock(&cpu_lock);
    for (;;) {
        while (s->done == s->queued || stopping)
            pthread_cond_wait(&s->work, &cpu_lock);
        s->busy = 1;
        computing++;
        struct operation *op = &s->ring[s->done % CPU_RING];
        moment = fmax(s->now, op->from);
        pthread_mutex_unlock(&cpu_lock);
        cpu_execute(s, op);
        op->end = moment;
        pthread_mutex_lock(&cpu_lock);
        s->now = op->end;
        s->busy = 0;
        computing--;
        s->done++;
        if (s->done >= s->wake_at || stopping) {
            s->wake_at = UINT64_MAX;
            pthread_cond_broadcast(&s->progress);
        }
    }
    return NULL;
}

// Waits until a stream has done this number of operations. Called with cpu_lock held; releases it
// meanwhile.
static void wait_until_done(struct CUstream_st *s, uint64_t target) {
    while (s->done < target) {
        if (target < s->wake_at)
            s->wake_at = target;
        pthread_cond_wait(&s->progress, &cpu_lock);
    }
}

// The functions from here to cpu_launch are called with cpu_lock held.

// Returns a destroyed stream whose work is done, or a new one with its thread.
static struct CUstream_st *unused_stream(void) {
    struct CUstream_st *s = cpu_streams;
    while (s && (s->alive || s->done < s->queued))
        s = s->next;
    if (s || !(s = calloc(1, sizeof *s)))
        return s;
    s->wake_at = UINT64_MAX;
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->progress, NULL);
    pthread_t thread;
    if (cpu_start_thread(&thread, serve, s)) {
        free(s);
        return NULL;
    }
    pthread_detach(thread);
    s->next = cpu_streams;
    return cpu_streams = s;
}

// Returns a live stream. Each stream gets its own sequence of random delays.
struct CUstream_st *cpu_new_stream(int device, int blocking, int made_by_program) {
    static uint64_t made;
    static int numbers;
    struct CUstream_st *s = unused_stream();
    if (!s)
        return NULL;
    s->alive = 1;
    s->device = device;
    s->blocking = blocking;
    s->now = 0;
    s->number = ++numbers;
    s->chaos = cpu_chaos_seed ? (cpu_chaos_seed + made++) * 0x9e3779b97f4a7c15 : 0;
    free(s->clock);
    s->clock = cpu_new_clock(made_by_program && cpu_recording ? cpu_here() : NULL);
    return s;
}

// Returns the stream of a handle, or NULL if the handle is wrong. NULL is the default stream of the
// current device, which begins with its first use.
struct CUstream_st *cpu_resolve(cudaStream_t handle) {
    if (!handle) {
        struct CUstream_st **legacy = &default_stream[cpu_current_device()];
        if (!*legacy)
            *legacy = cpu_new_stream(cpu_current_device(), 1, 0);
        return *legacy;
    }
    struct CUstream_st *s = cpu_streams;
    while (s && s != handle)
        s = s->next;
    return s && s->alive ? s : NULL;
}

// In modelled time, too, the host waits for the operation that used this place of the ring before.
void cpu_append(struct CUstream_st *s, const struct operation *wanted, const void *arguments,
                size_t bytes) {
    while (s->queued - s->done == CPU_RING) // again if another thread has filled the ring meanwhile
        wait_until_done(s, s->queued - CPU_RING / 2);
    struct operation *op = &s->ring[s->queued % CPU_RING];
    host_moves_to(s->queued >= CPU_RING ? op->end : 0);
    *op = *wanted;
    op->traced = cpu_tracing;
    op->from = moment + (cpu_model ? cpu_model->latency : 0);
    memcpy(op->arguments, arguments, bytes);
    s->queued++;
    pthread_cond_signal(&s->work); // the thread starts when cpu_lock is free
}

// An event or a wait: it has no cost, and other threads wait for it.
static void append_always(struct CUstream_st *s, void (*run)(void *), const void *arguments,
                          size_t bytes) {
    struct operation op = {.run = run, .always = 1, .cost.kind = CPU_NO_COST};
    cpu_append(s, &op, arguments, bytes);
}

void cpu_release_record(struct record *r) {
    if (!r || --r->references > 0)
        return;
    free(r->clock);
    free(r);
}

void cpu_complete(struct record *r) {
    pthread_mutex_lock(&cpu_lock);
    r->completed = 1;
    r->failed = failed;
    r->seconds = cpu_moment();
    pthread_cond_broadcast(&event_completed);
    cpu_release_record(r);
    pthread_mutex_unlock(&cpu_lock);
}

static void run_record(void *arguments) {
    cpu_complete(*(struct record **)arguments);
}

// The stream does not count as computing meanwhile.
void cpu_wait_for(struct record *r, int stream, int traced) {
    double begin = cpu_moment();
    pthread_mutex_lock(&cpu_lock);
    computing--;
    while (!r->completed && !stopping)
        pthread_cond_wait(&event_completed, &cpu_lock);
    computing++;
    cpu_move_to(r->seconds);
    if (r->seconds > begin && traced)
        cpu_trace_wait(stream, begin, cpu_moment(), r->stream, r->seconds);
    cpu_release_record(r);
    pthread_mutex_unlock(&cpu_lock);
}

struct wait {
    struct record *record;
    int stream, traced;
};

static void run_wait(void *arguments) {
    struct wait *w = arguments;
    cpu_wait_for(w->record, w->stream, w->traced);
}

// The record has two references: one for the caller, and one for the operation until it has run.
struct record *cpu_append_record(struct CUstream_st *s) {
    struct record *r = cpu_new(sizeof *r);
    r->references = 2;
    r->stream = s->number;
    r->clock = cpu_copy_clock(s->clock);
    append_always(s, run_record, &r, sizeof r);
    return r;
}

void cpu_append_wait(struct CUstream_st *s, struct record *r) {
    struct wait w = {r, s->number, cpu_tracing};
    r->references++;
    append_always(s, run_wait, &w, sizeof w);
}

// Returns 1 if a stream must wait even for work that is done in reality: it may end later in
// modelled time, and a trace shows the order.
static int follows_times(void) {
    return cpu_model || cpu_tracing;
}

// Makes stream s wait for the operations that are now on the other stream.
static void let_wait_for(struct CUstream_st *s, struct CUstream_st *other) {
    cpu_join(s->clock, other->clock);
    if (other->done == other->queued && !follows_times())
        return;
    struct record *r = cpu_append_record(other);
    cpu_append_wait(s, r);
    cpu_release_record(r);
}

int cpu_is_legacy(const struct CUstream_st *s) {
    return s == default_stream[s->device];
}

// The legacy default stream waits for the work in all blocking streams, and they wait for its work.
void cpu_take_turns(struct CUstream_st *s) {
    struct CUstream_st *legacy = default_stream[s->device];
    if (s == legacy) {
        for (struct CUstream_st *other = cpu_streams; other; other = other->next)
            if (other != s && other->device == s->device && other->blocking)
                let_wait_for(s, other);
    } else if (legacy && s->blocking) {
        let_wait_for(s, legacy);
    }
}

void cpu_call_takes(double seconds) {
    if (cpu_model)
        host_moves_to(moment + seconds);
}

// A kernel that this process has launched.
struct loaded {
    void (*run)(void *);
    void (*run_range)(void *, size_t, size_t);
    uint64_t devices; // on which it was launched: a bit for each
    struct loaded *next;
};

static uint64_t loading; // devices that load a kernel now: a bit for each
static pthread_cond_t loaded = PTHREAD_COND_INITIALIZER;

// Loads a kernel at its first launch on a device. With lazy loading, which is the default, CUDA may
// wait for all work of the device meanwhile, so a host that must not wait would wait forever. It
// also keeps other threads waiting (https://github.com/meta-pytorch/torchcomms/pull/2334), here
// those that ask for an event. The checker does not count this as a wait, and it takes no modelled
// time.
static void load_kernel(const struct operation *op, int device) {
    static struct loaded *kernels;
    uint64_t bit = (uint64_t)1 << device;
    struct loaded *l = kernels;
    while (l && (l->run != op->run || l->run_range != op->run_range))
        l = l->next;
    if (!l) {
        l = cpu_new(sizeof *l);
        *l = (struct loaded){op->run, op->run_range, 0, kernels};
        kernels = l;
    }
    if (l->devices & bit)
        return;
    l->devices |= bit;
    loading |= bit;
    for (struct CUstream_st *s = cpu_streams; s; s = s->next)
        if (s->device == device)
            wait_until_done(s, s->queued);
    loading &= ~bit;
    pthread_cond_broadcast(&loaded);
}

// The common part of all launches: checks, orders and queues one operation. wanted holds its
// function and its range.
static cudaError_t launch(cudaStream_t stream, const struct operation *wanted,
                          const void *arguments, size_t bytes) {
    struct cpu_note *note = cpu_take_note();
    struct cpu_cost cost = cpu_take_cost();
    cudaError_t error = cpu_enter();
    if (!error && failed && !wanted->always)
        error = cudaErrorLaunchFailure;
    if (!error && bytes > CPU_LAUNCH_BYTES)
        error = cudaErrorInvalidValue;
    if (error) {
        cpu_free_note(note);
        return cpu_error(error);
    }
    int is_product = cost.kind >= CPU_PRODUCT_FP32 && cost.kind <= CPU_PRODUCT_BF16;
    if (cpu_model)
        cpu_call_takes(cost.kind == CPU_COLLECTIVE ? cpu_model->collective_call
                       : is_product                ? cpu_model->product_call
                                                   : cpu_model->launch_call);
    int is_copy = cost.kind >= CPU_COPY_TO_DEVICE && cost.kind <= CPU_COPY_ON_DEVICE;
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = cpu_resolve(stream);
    if (s && s->device != cpu_current_device() && !is_copy)
        s = NULL; // CUDA refuses a kernel there, and lets a copy pass
    error = s ? cpu_capture_forbids_work(s) : cudaErrorInvalidResourceHandle;
    if (!error && s->capture && cost.kind == CPU_COLLECTIVE)
        error = cpu_invalidate(s->capture, cudaErrorStreamCaptureUnsupported);
    if (!error) {
        struct operation op = *wanted;
        op.cost = cost;
        op.cost.in_graph = s->capture != NULL;
        op.scope = cpu_scope();
        op.seconds = cpu_model ? cpu_model_seconds(&op.cost, cpu_physical(s->device)) : 0;
        if (s->capture) {
            cpu_capture_operation(s, &op, arguments, bytes, note);
            note = NULL;
        } else {
            enum cpu_counted kind = cpu_counted_as(&cost);
            if (cpu_chaos_seed && !wanted->always && (kind == CPU_KERNELS || kind == CPU_PRODUCTS))
                load_kernel(wanted, s->device);
            cpu_take_turns(s);
            cpu_count(kind);
            if (cpu_check_operation(s->clock, note))
                cpu_append(s, &op, arguments, bytes);
        }
    }
    pthread_mutex_unlock(&cpu_lock);
    cpu_free_note(note);
    cpu_check_report();
    return cpu_error(error);
}

cudaError_t cpu_launch(cudaStream_t stream, void (*run)(void *), const void *arguments,
                       size_t bytes) {
    struct operation op = {.run = run};
    return launch(stream, &op, arguments, bytes);
}

cudaError_t cpu_launch_always(cudaStream_t stream, void (*run)(void *), const void *arguments,
                              size_t bytes) {
    struct operation op = {.run = run, .always = 1};
    return launch(stream, &op, arguments, bytes);
}

cudaError_t cpu_launch_range(cudaStream_t stream, void (*run)(void *, size_t, size_t),
                             const void *arguments, size_t bytes, size_t count, size_t grain) {
    struct operation op = {.run_range = run, .count = count, .grain = grain};
    return launch(stream, &op, arguments, bytes);
}

// Waits until the operations that are now on the stream are done.
static void host_waits_for(struct CUstream_st *s) {
    struct cpu_clock *clock = cpu_copy_clock(s->clock);
    wait_until_done(s, s->queued);
    host_moves_to(s->now);
    cpu_host_has_waited(clock);
    free(clock);
}

// Notes that the host has waited in a call since this time, and that it takes a moment to continue.
static void host_goes_on(const char *call, double since) {
    cpu_count(CPU_WAITS);
    if (cpu_model)
        host_moves_to(moment + cpu_model->wake);
    if (cpu_tracing)
        cpu_trace_host(call, since, cpu_moment());
}

void cpu_drain_device(int device) {
    pthread_mutex_lock(&cpu_lock);
    for (struct CUstream_st *s = cpu_streams; s; s = s->next)
        if (s->device == device)
            host_waits_for(s);
    pthread_mutex_unlock(&cpu_lock);
}

void cpu_wait_unnoticed(cudaStream_t stream) {
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = cpu_resolve(stream);
    if (s) {
        wait_until_done(s, s->queued);
        cpu_move_to(s->now);
    }
    pthread_mutex_unlock(&cpu_lock);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    (void)priority; // only a hint, on a GPU as well
    cudaError_t error = cpu_begin(stream && flags <= cudaStreamNonBlocking);
    if (error)
        return error;
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = cpu_new_stream(cpu_current_device(), flags != cudaStreamNonBlocking, 1);
    pthread_mutex_unlock(&cpu_lock);
    *stream = s;
    return s ? cudaSuccess : cpu_error(cudaErrorMemoryAllocation);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    cudaError_t error = cpu_enter();
    if (!error && least)
        *least = 0;
    if (!error && greatest)
        *greatest = -5;
    return cpu_error(error);
}

// Called with cpu_lock held.
void cpu_end_stream(struct CUstream_st *s) {
    s->alive = 0;
    cpu_stream_ends(s->clock);
}

// Returns at once. The stream still finishes its queued work.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    cudaError_t error = cpu_begin(1);
    if (error)
        return error;
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = stream ? cpu_resolve(stream) : NULL;
    if (!s)
        error = cudaErrorInvalidResourceHandle;
    else if (s->capture)
        error = cpu_invalidate(s->capture, cudaErrorStreamCaptureUnsupported);
    else
        cpu_end_stream(s);
    pthread_mutex_unlock(&cpu_lock);
    return cpu_error(error);
}

// The common part of cudaStreamSynchronize (wait is 1) and cudaStreamQuery (wait is 0). The work of
// the default stream is done when the work of all blocking streams is done. A query that finds the
// work done moves the host to the end of the work. Another query takes no modelled time, because
// the number of queries depends on the machine.
static cudaError_t finish(cudaStream_t stream, int wait) {
    cudaError_t error = cpu_enter();
    double since = cpu_moment();
    if (error)
        return cpu_error(error);
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = cpu_resolve(stream);
    double end = 0;
    int done = 1;
    error = s ? cpu_capture_forbids_waiting(s) : cudaErrorInvalidResourceHandle;
    for (struct CUstream_st *other = cpu_streams; !error && other; other = other->next)
        if (other == s || (!stream && other->device == s->device && other->blocking)) {
            if (wait)
                host_waits_for(other);
            else if (other->done == other->queued)
                cpu_host_has_asked(other->clock);
            done = done && other->done == other->queued;
            end = fmax(end, other->now);
        }
    if (!error && done)
        host_moves_to(end);
    pthread_mutex_unlock(&cpu_lock);
    if (error)
        return cpu_error(error);
    if (wait)
        host_goes_on("cudaStreamSynchronize", since);
    if (failed)
        return cpu_error(cudaErrorLaunchFailure);
    return done || wait ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return finish(stream, 1);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return finish(stream, 0);
}

// Returns an error if the program may not wait for the current device.
static cudaError_t forbids_waiting(void) {
    pthread_mutex_lock(&cpu_lock);
    cudaError_t error = cpu_capture_forbids_waiting(NULL);
    pthread_mutex_unlock(&cpu_lock);
    return error;
}

cudaError_t cudaDeviceSynchronize(void) {
    cudaError_t error = cpu_enter();
    double since = cpu_moment();
    if (!error)
        error = forbids_waiting();
    if (!error) {
        cpu_drain_device(cpu_current_device());
        host_goes_on("cudaDeviceSynchronize", since);
    }
    return cpu_error(!error && failed ? cudaErrorLaunchFailure : error);
}

cudaError_t cudaDeviceReset(void) {
    cudaError_t error = cpu_begin(1);
    if (error || (error = forbids_waiting()))
        return cpu_error(error);
    cpu_drain_device(cpu_current_device());
    pthread_mutex_lock(&cpu_lock);
    for (struct CUstream_st *s = cpu_streams; s; s = s->next)
        if (s->alive && s->device == cpu_current_device() &&
            s != default_stream[cpu_current_device()])
            cpu_end_stream(s);
    pthread_mutex_unlock(&cpu_lock);
    cpu_free_device(cpu_current_device());
    return cudaSuccess;
}

// Returns the link to the event, or the list's last link if no such event lives. Called with
// cpu_lock held.
static struct CUevent_st **find_event(cudaEvent_t event) {
    struct CUevent_st **link = &events;
    while (*link && *link != event)
        link = &(*link)->next;
    return link;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    unsigned known = cudaEventBlockingSync | cudaEventDisableTiming;
    cudaError_t error = cpu_begin(event && !(flags & ~known));
    if (error)
        return error;
    struct CUevent_st *e = cpu_new(sizeof *e);
    e->flags = flags;
    e->device = cpu_current_device();
    pthread_mutex_lock(&cpu_lock);
    e->next = events;
    events = e;
    pthread_mutex_unlock(&cpu_lock);
    *event = e;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    cudaError_t error = cpu_begin(1);
    if (error)
        return error;
    pthread_mutex_lock(&cpu_lock);
    struct CUevent_st **link = find_event(event), *e = *link;
    if (e) {
        cpu_release_record(e->last);
        cpu_forget_capture(e);
        *link = e->next;
    }
    pthread_mutex_unlock(&cpu_lock);
    free(e);
    return e ? cudaSuccess : cpu_error(cudaErrorInvalidResourceHandle);
}

// The common part of cudaEventRecord (record is 1) and cudaStreamWaitEvent (record is 0).
static cudaError_t on_stream(cudaStream_t stream, cudaEvent_t event, int record) {
    cudaError_t error = cpu_begin(1);
    if (error)
        return error;
    if (cpu_model)
        cpu_call_takes(cpu_model->event_call);
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = *find_event(event) ? cpu_resolve(stream) : NULL;
    if (s && record && s->device != event->device)
        s = NULL; // a stream may wait for an event of another device, but not record it
    error = s ? cpu_capture_forbids_work(s) : cudaErrorInvalidResourceHandle;
    if (!error && record && s->capture) {
        cpu_capture_record(s, event);
    } else if (!error && !record && (s->capture || event->captured)) {
        error = cpu_capture_wait(s, event);
    } else if (!error) {
        cpu_take_turns(s);
        cpu_count(CPU_EVENTS);
        if (record) {
            struct record *r = cpu_append_record(s);
            cpu_forget_capture(event);
            cpu_release_record(event->last);
            event->last = r;
        } else if (event->last) {
            cpu_join(s->clock, event->last->clock);
            if (!event->last->completed || follows_times())
                cpu_append_wait(s, event->last);
        }
    }
    pthread_mutex_unlock(&cpu_lock);
    return cpu_error(error);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return on_stream(stream, event, 1);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return flags ? cpu_error(cudaErrorInvalidValue) : on_stream(stream, event, 0);
}

// The common part of cudaEventSynchronize (wait is 1) and cudaEventQuery (wait is 0). An event that
// was never recorded is done.
static cudaError_t finish_event(cudaEvent_t event, int wait) {
    cudaError_t error = cpu_enter();
    double since = cpu_moment();
    if (error)
        return cpu_error(error);
    pthread_mutex_lock(&cpu_lock);
    while (loading >> cpu_current_device() & 1)
        pthread_cond_wait(&loaded, &cpu_lock);
    int lives = *find_event(event) != NULL;
    if (!lives)
        error = cudaErrorInvalidResourceHandle;
    else if ((error = cpu_capture_forbids_event(event)))
        cpu_invalidate(event->captured, error);
    else
        error = cpu_capture_forbids_waiting(NULL);
    struct record *r = error ? NULL : event->last;
    int done = !r || r->completed;
    if (r && wait) {
        r->references++;
        while (!r->completed)
            pthread_cond_wait(&event_completed, &cpu_lock);
        host_moves_to(r->seconds);
        cpu_host_has_waited(r->clock);
        done = 1;
    } else if (r && done) {
        host_moves_to(r->seconds); // as at finish
        cpu_host_has_asked(r->clock);
    }
    int fails = r && (done ? r->failed : failed); // an event that ended earlier is done
    if (r && wait)
        cpu_release_record(r);
    pthread_mutex_unlock(&cpu_lock);
    if (error)
        return cpu_error(error);
    if (wait)
        host_goes_on("cudaEventSynchronize", since);
    if (fails)
        return cpu_error(cudaErrorLaunchFailure);
    return done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return finish_event(event, 1);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return finish_event(event, 0);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    cudaError_t error = cpu_begin(ms != NULL);
    if (error)
        return error;
    pthread_mutex_lock(&cpu_lock);
    int live = *find_event(start) && *find_event(end) && start->device == end->device;
    int timed = live && !((start->flags | end->flags) & cudaEventDisableTiming);
    const struct record *from = timed ? start->last : NULL, *to = timed ? end->last : NULL;
    if (timed && (start->captured || end->captured))
        error = cpu_capture_forbids_event(start->captured ? start : end);
    else if (!from || !to)
        error = cudaErrorInvalidResourceHandle;
    else if (!from->completed || !to->completed)
        error = cudaErrorNotReady;
    float elapsed = error ? 0 : (float)((to->seconds - from->seconds) * 1e3);
    pthread_mutex_unlock(&cpu_lock);
    if (!error)
        *ms = elapsed; // without the lock: ms may be a device pointer by mistake, and fault
    return cpu_error(error);
}
