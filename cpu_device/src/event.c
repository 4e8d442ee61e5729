// Events. This file follows one from cudaEventCreate to cudaEventDestroy. cudaEventRecord makes a
// record, and queues an operation that completes it in the thread of the stream. The thread of
// another stream (cudaStreamWaitEvent) and the host (cudaEventSynchronize) wait for the last record
// of an event. A record lives until the last of them has seen its completion.
#include "stream.h"

static struct CUevent_st *events; // that live

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
    cudaError_t error = cpu_begin_locked(event && !(flags & ~known));
    if (error)
        return error;
    struct CUevent_st *e = cpu_new(sizeof *e);
    *e = (struct CUevent_st){flags, cpu_current_device(), NULL, events};
    *event = events = e;
    return cpu_end(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

// The record, and its completion in the thread of a stream.

void cpu_release_record(struct record *r) {
    if (!r || --r->references > 0)
        return;
    pthread_cond_destroy(&r->changed);
    free(r->clock);
    free(r);
}

static void run_record(void *arguments) {
    struct record *r = *(struct record **)arguments;
    pthread_mutex_lock(&cpu_lock);
    r->completed = 1;
    r->failed = cpu_why_stopped() != NULL;
    r->seconds = cpu_moment();
    pthread_cond_broadcast(&r->changed);
    cpu_release_record(r);
    pthread_mutex_unlock(&cpu_lock);
}

// The record has two references: one for the caller, and one for the operation until it has run.
struct record *cpu_append_record(struct CUstream_st *s) {
    struct record *r = cpu_new(sizeof *r);
    pthread_cond_init(&r->changed, NULL);
    r->references = 2;
    r->stream = s->number;
    r->clock = cpu_copy_clock(s->clock);
    cpu_append_always(s, run_record, &r, sizeof r);
    return r;
}

// Another stream waits for it.

struct wait {
    struct record *record;
    struct CUstream_st *stream;
    int traced;
};

// The stream does not count as computing meanwhile.
static void run_wait(void *arguments) {
    const struct wait *w = arguments;
    struct record *r = w->record;
    double begin = cpu_moment();
    pthread_mutex_lock(&cpu_lock);
    w->stream->awaited = r;
    while (!r->completed && !cpu_exiting())
        pthread_cond_wait(&r->changed, &cpu_lock);
    w->stream->awaited = NULL;
    cpu_move_to(r->seconds);
    if (r->seconds > begin && w->traced)
        cpu_trace_wait(w->stream->number, begin, cpu_moment(), r->stream, r->seconds);
    cpu_release_record(r);
    pthread_mutex_unlock(&cpu_lock);
}

void cpu_append_wait(struct CUstream_st *s, struct record *r) {
    struct wait w = {r, s, cpu_tracing};
    r->references++;
    cpu_append_always(s, run_wait, &w, sizeof w);
}

// Returns 1 if a stream must wait even for work that is done in reality: it may end later in
// modelled time, and a trace shows the order.
static int follows_times(void) {
    return cpu_model || cpu_tracing;
}

void cpu_let_wait(struct CUstream_st *s, struct CUstream_st *other) {
    cpu_join(s->clock, other->clock);
    if (other->done == other->queued && !follows_times())
        return;
    struct record *r = cpu_append_record(other);
    cpu_append_wait(s, r);
    cpu_release_record(r);
}

// The calls for both.

static void record_event(struct CUstream_st *s, struct CUevent_st *event) {
    struct record *r = cpu_append_record(s);
    cpu_release_record(event->last);
    event->last = r;
}

// A stream does not wait for an event that was never recorded.
static void wait_for_event(struct CUstream_st *s, const struct CUevent_st *event) {
    if (!event->last)
        return;
    cpu_join(s->clock, event->last->clock);
    if (!event->last->completed || follows_times())
        cpu_append_wait(s, event->last);
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
    if (!error && s->capture) {
        error = cpu_invalidate(s->capture, cudaErrorStreamCaptureUnsupported);
    } else if (!error) {
        cpu_take_turns(s);
        cpu_count(CPU_EVENTS, 1);
        if (record)
            record_event(s, event);
        else
            wait_for_event(s, event);
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

// The host asks or waits for it.

// The common part of cudaEventSynchronize (wait is 1) and cudaEventQuery (wait is 0). An event that
// was never recorded is done.
static cudaError_t finish_event(cudaEvent_t event, int wait) {
    cudaError_t error = cpu_begin_locked(1);
    double since = cpu_begin_wait();
    if (error)
        return error;
    cpu_await_loading();
    error = *find_event(event) ? cpu_capture_forbids_waiting(NULL) : cudaErrorInvalidResourceHandle;
    struct record *r = error ? NULL : event->last;
    int done = !r || r->completed;
    if (r && wait) {
        r->references++;
        while (!r->completed)
            pthread_cond_wait(&r->changed, &cpu_lock);
        cpu_host_moves_to(r->seconds);
        cpu_host_has_waited(r->clock);
        done = 1;
    } else if (r && done) {
        cpu_host_moves_to(r->seconds); // as at finish
        cpu_host_has_asked(r->clock);
    }
    // An event that ended before a failure is done.
    int fails = r && (done ? r->failed : cpu_why_stopped() != NULL);
    if (r && wait)
        cpu_release_record(r);
    pthread_mutex_unlock(&cpu_lock);
    if (error)
        return cpu_error(error);
    return cpu_answer(wait ? "cudaEventSynchronize" : NULL, since, fails, done);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return finish_event(event, 1);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return finish_event(event, 0);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    cudaError_t error = cpu_begin_locked(ms != NULL);
    if (error)
        return error;
    int live = *find_event(start) && *find_event(end) && start->device == end->device;
    int timed = live && !((start->flags | end->flags) & cudaEventDisableTiming);
    const struct record *from = timed ? start->last : NULL, *to = timed ? end->last : NULL;
    if (!from || !to)
        error = cudaErrorInvalidResourceHandle;
    else if (!from->completed || !to->completed)
        error = cudaErrorNotReady;
    else
        *ms = (float)((to->seconds - from->seconds) * 1e3);
    return cpu_end(error);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    cudaError_t error = cpu_begin_locked(1);
    if (error)
        return error;
    struct CUevent_st **link = find_event(event), *e = *link;
    if (!e)
        return cpu_end(cudaErrorInvalidResourceHandle);
    cpu_release_record(e->last);
    *link = e->next;
    free(e);
    return cpu_end(cudaSuccess);
}
