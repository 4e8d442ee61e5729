// Streams of the CPU device. A stream is a ring of operations with its own thread, so work is
// really asynchronous: a program that forgets to wait gets a wrong result, as on a GPU. The parts
// of this file are modelled times, a stream with the thread that runs its operations, the launch of
// an operation, calls for streams, waits of the host, and the end. event.c has events.
#include "stream.h"
#include <signal.h>
#include <time.h>

// Of a thread: the usual size, even if ulimit -s gives the program less.
enum { STACK_BYTES = 8 << 20 };

// When hosts run collectives themselves (await_work).
enum { OFTEN = 4 };
static const double NAP_SECONDS = 1e-3;

// explain_fault (memory.c) finds out whether its thread holds the lock.
pthread_mutex_t cpu_lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
struct CUstream_st *cpu_streams;
static struct CUstream_st *default_stream[CPU_MAX_DEVICES];
static atomic_int stopping; // the program is exiting
static atomic_int failed;   // cpu_stop_streams was called
static char failure[640];
// The modelled time: of a thread of the program, or of the operation that a stream's thread runs.
static _Thread_local double moment;
static _Thread_local int has_begun; // this thread of the program has made a call
static _Atomic double latest;       // the latest moment of the program's threads

// Modelled times.

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

void cpu_host_moves_to(double time) {
    double seen = latest;
    has_begun = 1; // also if the program says when the thread begins
    cpu_move_to(time);
    while (seen < moment && !atomic_compare_exchange_weak(&latest, &seen, moment))
        ;
}

void cpu_call_takes(double seconds) {
    if (cpu_model)
        cpu_host_moves_to(moment + seconds);
}

// A stream and its thread.

// Returns the time of the system's last clock tick, some milliseconds ago at most. It is faster to
// read than cpu_now.
static int64_t tick(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int hosts_are_prompt(const struct CUstream_st *s) {
    return s->prompt >= OFTEN;
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

void cpu_execute(struct CUstream_st *s, struct operation *op) {
    int traced = op->traced && op->cost.kind != CPU_NO_COST;
    double begin = traced ? cpu_moment() : 0;
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
    if (traced && !failed)
        cpu_trace_operation(
            (struct cpu_event){
                .begin = begin, .end = cpu_moment(), .stream = s->number, .scope = op->scope},
            &op->cost);
}

// Runs the next operation in this thread: that of the stream, or of a host. Called with cpu_lock
// held; releases it meanwhile.
static void run_next(struct CUstream_st *s) {
    struct operation *op = &s->ring[s->done % CPU_RING];
    double own = moment;
    s->busy = 1;
    moment = fmax(s->now, op->from);
    pthread_mutex_unlock(&cpu_lock);
    cpu_execute(s, op);
    op->end = moment;
    moment = own;
    pthread_mutex_lock(&cpu_lock);
    s->now = op->end;
    s->busy = 0;
    s->done++;
    s->called &= s->done < s->queued;
    if (s->called)
        pthread_cond_signal(&s->work);
    if (s->done >= s->wake_at || stopping) {
        s->wake_at = UINT64_MAX;
        pthread_cond_broadcast(&s->progress);
    }
}

// Waits until there is work for the thread of a stream. A host that waits runs collectives itself
// (wait_until_done), because to hand a short one over to another thread and back takes ten times as
// long as to run it. As long as hosts wait soon for each collective that they queue, they do not
// even wake this thread. It then naps, and takes what no host has come for.
static void await_work(struct CUstream_st *s) {
    while (!s->called || s->busy || stopping) {
        double end = cpu_now() + NAP_SECONDS;
        struct timespec until = {(time_t)end, (long)(fmod(end, 1) * 1e9)};
        uint64_t before = s->done;
        if (!hosts_are_prompt(s)) {
            pthread_cond_wait(&s->work, &cpu_lock);
        } else if (pthread_cond_clockwait(&s->work, &cpu_lock, CLOCK_MONOTONIC, &until) &&
                   s->done == before) {
            s->prompt = 0;
            s->called = s->done < s->queued;
        }
    }
}

// The thread of a stream: runs its operations one after the other, for the life of the process.
static void *serve(void *argument) {
    struct CUstream_st *s = argument;
    pthread_mutex_lock(&cpu_lock);
    for (;;) {
        await_work(s);
        run_next(s);
    }
    return NULL;
}

int cpu_start_thread(pthread_t *thread, void *(*run)(void *), void *argument) {
    // Signals go to the program's own threads. Only faults are handled by the thread that causes
    // them.
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return errno ? -1 : 0;
}

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
        pthread_mutex_unlock(&cpu_lock); // which exit needs
        cpu_fail("CPU device: cannot start a thread for a stream: %s", cpu_system_error(errno));
    }
    pthread_detach(thread);
    s->next = cpu_streams;
    return cpu_streams = s;
}

// Returns a live stream, or NULL. made_by_program: reports name the line of this call. Each stream
// gets its own sequence of random delays.
static struct CUstream_st *new_stream(int device, int blocking, int made_by_program) {
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

struct CUstream_st *cpu_resolve(cudaStream_t handle) {
    if (!handle) {
        struct CUstream_st **legacy = &default_stream[cpu_current_device()];
        if (!*legacy)
            *legacy = new_stream(cpu_current_device(), 1, 0);
        return *legacy;
    }
    struct CUstream_st *s = cpu_streams;
    while (s && s != handle)
        s = s->next;
    return s && s->alive ? s : NULL;
}

int cpu_is_legacy(const struct CUstream_st *s) {
    return s == default_stream[s->device];
}

// The launch of an operation.

// Other operations need what only the thread has: its stack, and its number of OpenMP threads. With
// random delays, all operations run beside the host.
static int host_may_run(const struct operation *op) {
    return op->cost.kind == CPU_COLLECTIVE && !cpu_chaos_seed;
}

// Waits until a stream has done this number of operations. Called with cpu_lock held; releases it
// meanwhile.
static void wait_until_done(struct CUstream_st *s, uint64_t target) {
    if (s->done >= target)
        return;
    s->prompt = !s->busy && tick() == s->since ? s->prompt + 1 : 0;
    while (s->done < target) {
        if (!s->busy && !stopping && host_may_run(&s->ring[s->done % CPU_RING])) {
            run_next(s);
        } else {
            s->wake_at = target < s->wake_at ? target : s->wake_at;
            pthread_cond_wait(&s->progress, &cpu_lock);
        }
    }
}

// Copies an operation and its arguments into the ring. In modelled time, too, the host waits for
// the operation that used this place of the ring before.
static void append(struct CUstream_st *s, const struct operation *wanted, const void *arguments,
                   size_t bytes) {
    while (s->queued - s->done == CPU_RING) // again if another thread has filled the ring meanwhile
        wait_until_done(s, s->queued - CPU_RING / 2);
    struct operation *op = &s->ring[s->queued % CPU_RING];
    cpu_host_moves_to(s->queued >= CPU_RING ? op->end : 0);
    memcpy(op, wanted, offsetof(struct operation, arguments));
    op->traced = cpu_tracing;
    op->from = moment + (cpu_model ? cpu_model->latency : 0);
    memcpy(op->arguments, arguments, bytes);
    if (s->done == s->queued)
        s->since = host_may_run(op) ? tick() : 0;
    s->queued++;
    if (host_may_run(op) && hosts_are_prompt(s))
        return;
    s->called = 1;
    pthread_cond_signal(&s->work); // the thread starts when cpu_lock is free
}

void cpu_append_always(struct CUstream_st *s, void (*run)(void *), const void *arguments,
                       size_t bytes) {
    struct operation op = {.run = run, .always = 1, .cost.kind = CPU_NO_COST};
    append(s, &op, arguments, bytes);
}

// The legacy default stream waits for the work in all blocking streams, and they wait for its work.
void cpu_take_turns(struct CUstream_st *s) {
    struct CUstream_st *legacy = default_stream[s->device];
    if (s == legacy) {
        for (struct CUstream_st *other = cpu_streams; other; other = other->next)
            if (other != s && other->device == s->device && other->blocking)
                cpu_let_wait(s, other);
    } else if (legacy && s->blocking) {
        cpu_let_wait(s, legacy);
    }
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

void cpu_await_loading(void) {
    while (loading >> cpu_current_device() & 1)
        pthread_cond_wait(&loaded, &cpu_lock);
}

// Puts an operation with this note into the ring. Called with cpu_lock held.
static void queue(struct CUstream_st *s, const struct operation *op, const void *arguments,
                  size_t bytes, const struct cpu_note *note) {
    enum cpu_counted kind = cpu_counted_as(&op->cost);
    if (cpu_chaos_seed && !op->always && (kind == CPU_KERNELS || kind == CPU_PRODUCTS))
        load_kernel(op, s->device);
    cpu_take_turns(s);
    cpu_count(kind, 1);
    cpu_count(CPU_BYTES, kind == CPU_KERNELS ? (long)op->cost.bytes : 0);
    if (cpu_check_operation(s->clock, note))
        append(s, op, arguments, bytes);
}

// Returns an error if the stream may not take the operation now. NULL: there is no such stream.
static cudaError_t forbids(struct CUstream_st *s, enum cpu_cost_kind kind) {
    int is_copy = kind >= CPU_COPY_TO_DEVICE && kind <= CPU_COPY_ON_DEVICE;
    if (!s || (s->device != cpu_current_device() && !is_copy))
        return cudaErrorInvalidResourceHandle; // CUDA refuses a kernel there, and lets a copy pass
    cudaError_t error = cpu_capture_forbids_work(s);
    if (!error && s->capture && kind == CPU_COLLECTIVE)
        error = cpu_invalidate(s->capture, cudaErrorStreamCaptureUnsupported);
    return error;
}

// The common part of all launches: checks, orders and queues one operation. op holds its function
// and its range.
static cudaError_t launch(cudaStream_t stream, struct operation *op, const void *arguments,
                          size_t bytes) {
    struct cpu_note *note = cpu_take_note();
    op->cost = cpu_take_cost();
    cudaError_t error = cpu_enter();
    if (!error && failed && !op->always)
        error = cudaErrorLaunchFailure;
    if (!error && bytes > CPU_LAUNCH_BYTES)
        error = cudaErrorInvalidValue;
    if (error) {
        cpu_free_note(note);
        return cpu_error(error);
    }
    enum cpu_cost_kind kind = op->cost.kind;
    if (cpu_model)
        cpu_call_takes(kind == CPU_COLLECTIVE ? cpu_model->collective_call
                       : kind >= CPU_PRODUCT_FP32 && kind <= CPU_PRODUCT_BF16
                           ? cpu_model->product_call
                           : cpu_model->launch_call);
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = cpu_resolve(stream);
    if (!(error = forbids(s, kind))) {
        op->cost.in_graph = s->capture != NULL;
        op->scope = cpu_scope();
        op->seconds = cpu_model ? cpu_model_seconds(&op->cost, cpu_physical(s->device)) : 0;
        if (!s->capture)
            queue(s, op, arguments, bytes, note);
        else {
            cpu_capture_operation(s, op, arguments, bytes, note);
            note = NULL; // the graph has it
        }
    }
    pthread_mutex_unlock(&cpu_lock);
    cpu_free_note(note);
    cpu_check_report();
    return cpu_error(error);
}

cudaError_t cpu_launch(cudaStream_t stream, void (*run)(void *), const void *arguments,
                       size_t bytes) {
    return launch(stream, &(struct operation){.run = run}, arguments, bytes);
}

cudaError_t cpu_launch_always(cudaStream_t stream, void (*run)(void *), const void *arguments,
                              size_t bytes) {
    return launch(stream, &(struct operation){.run = run, .always = 1}, arguments, bytes);
}

cudaError_t cpu_launch_range(cudaStream_t stream, void (*run)(void *, size_t, size_t),
                             const void *arguments, size_t bytes, size_t count, size_t grain) {
    struct operation op = {.run_range = run, .count = count, .grain = grain};
    return launch(stream, &op, arguments, bytes);
}

// Calls for streams.

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    cudaError_t error = cpu_begin_locked(stream && flags <= cudaStreamNonBlocking);
    if (error)
        return error;
    *stream = new_stream(cpu_current_device(), flags != cudaStreamNonBlocking, 1);
    return cpu_end(*stream ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

// Returns at once. The stream still finishes its queued work.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    cudaError_t error = cpu_begin_locked(1);
    if (error)
        return error;
    struct CUstream_st *s = stream ? cpu_resolve(stream) : NULL;
    if (!s)
        return cpu_end(cudaErrorInvalidResourceHandle);
    if (s->capture)
        return cpu_end(cpu_invalidate(s->capture, cudaErrorStreamCaptureUnsupported));
    s->alive = 0;
    cpu_stream_ends(s->clock);
    return cpu_end(cudaSuccess);
}

// The host waits.

// Waits until the operations that are now on the stream are done.
static void host_waits_for(struct CUstream_st *s) {
    struct cpu_clock *clock = cpu_copy_clock(s->clock);
    wait_until_done(s, s->queued);
    cpu_host_moves_to(s->now);
    cpu_host_has_waited(clock);
    free(clock);
}

double cpu_begin_wait(void) {
    return cpu_tracing ? cpu_moment() : 0;
}

cudaError_t cpu_answer(const char *call, double since, int fails, int done) {
    cpu_count(CPU_WAITS, call != NULL);
    if (call && cpu_model)
        cpu_host_moves_to(moment + cpu_model->wake);
    if (call && cpu_tracing)
        cpu_trace_host(call, since, cpu_moment());
    return cpu_error(fails          ? cudaErrorLaunchFailure
                     : done || call ? cudaSuccess
                                    : cudaErrorNotReady);
}

// The common part of cudaStreamSynchronize (wait is 1) and cudaStreamQuery (wait is 0). The work of
// the default stream is done when the work of all blocking streams is done. A query that finds the
// work done moves the host to the end of the work. Another query takes no modelled time, because
// the number of queries depends on the machine.
static cudaError_t finish(cudaStream_t stream, int wait) {
    cudaError_t error = cpu_begin_locked(1);
    double since = cpu_begin_wait(), end = 0;
    if (error)
        return error;
    struct CUstream_st *s = cpu_resolve(stream);
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
        cpu_host_moves_to(end);
    pthread_mutex_unlock(&cpu_lock);
    if (error)
        return cpu_error(error);
    return cpu_answer(wait ? "cudaStreamSynchronize" : NULL, since, failed, done);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return finish(stream, 1);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return finish(stream, 0);
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

cudaError_t cudaDeviceSynchronize(void) {
    cudaError_t error = cpu_enter();
    double since = cpu_begin_wait();
    if (!error) {
        pthread_mutex_lock(&cpu_lock);
        error = cpu_capture_forbids_waiting(NULL);
        pthread_mutex_unlock(&cpu_lock);
    }
    if (error)
        return cpu_error(error);
    cpu_drain_device(cpu_current_device());
    return cpu_answer("cudaDeviceSynchronize", since, failed, 1);
}

// The end: after an error, and at exit.

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
    for (struct CUstream_st *s = cpu_streams; s; s = s->next)
        if (s->awaited)
            pthread_cond_broadcast(&s->awaited->changed);
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
    int computing = 0;
    pthread_mutex_lock(&cpu_lock);
    for (const struct CUstream_st *s = cpu_streams; s; s = s->next)
        computing += s->busy && !s->awaited;
    pthread_mutex_unlock(&cpu_lock);
    return computing;
}
