#include "watch/profile.h"
#include "common/base/clock.h"
#include "common/base/minmax.h"
#include "common/device/device.h"
#include "watch/trace.h"
#include <stdlib.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else // some toolkits lack it; Nsight Systems then shows no names
#define nvtxRangePushA(name) (void)(name)
#define nvtxRangePop() (void)0
#endif

enum {
    EVERY = 13,           // A GPU needs 1 us for an event, and 100 us for a small training step.
    SAMPLES = 4,          // of a short epoch
    MOST_SPANS = 1 << 16, // A longer run reads their times earlier.
};

struct span {
    enum phase phase;
    struct trace_span trace; // without the times of the device
    cudaEvent_t begin, end;
};

struct timed_step {
    size_t first, end; // its spans
    cudaEvent_t begin_event, end_event;
    int reported;
};

static struct {
    int on, profiling, tracing;
    long every, done; // training steps: from one that is timed to the next, and completed ones
    int only;         // 1: there is only one training step
    cudaStream_t stream;
    // Of the training step that the host queues now.
    int in_step, timed; // 1: it has begun and not ended, 1: its spans are recorded
    // Of the span that the host queues now.
    int recording;
    struct span outer; // the span that this one interrupts, if it has a name
    // Since the last report.
    struct span *spans;
    size_t span_count, span_room;
    struct timed_step *steps;
    size_t step_count, step_room;
    cudaEvent_t *events; // all that exist; the first event_count are in use
    size_t event_count, event_made, event_room;
    struct interval *intervals;
    size_t interval_room;
    cudaEvent_t origin; // was reached at origin_time, by the clock of the host
    double origin_time;
    struct phases sums;
} p;

// Makes room for one more element in an array.
#define GROW(array, count, room)                                                                   \
    do {                                                                                           \
        if ((count) >= (room)) {                                                                   \
            (room) = 2 * (count) + 64;                                                             \
            if (!((array) = realloc((array), (room) * sizeof *(array))))                           \
                fail("out of memory for the profile");                                             \
        }                                                                                          \
    } while (0)

static cudaEvent_t mark(cudaStream_t stream) {
    GROW(p.events, p.event_count, p.event_room);
    if (p.event_count == p.event_made)
        CUDA_CHECK(cudaEventCreate(&p.events[p.event_made++]));
    cudaEvent_t event = p.events[p.event_count++];
    CUDA_CHECK(cudaEventRecord(event, stream));
    return event;
}

// Returns the milliseconds between two events. The device has reached both.
static double between(cudaEvent_t from, cudaEvent_t to) {
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, from, to));
    return ms;
}

static long common_divisor(long a, long b) {
    return b ? common_divisor(b, a % b) : a;
}

// The number of training steps between two samples has no divisor in common with those between two
// reports, so training steps with a report are sampled as often as others.
static long sampling_interval(long steps, long report_every) {
    long every = min_size(EVERY, max_size(steps / SAMPLES, 1));
    while (common_divisor(every, report_every) != 1)
        every++;
    return every;
}

void profile_open(long steps, long report_every, int timed) {
    p.on = 1;
    p.profiling = timed;
    p.tracing = trace_needs_spans();
    p.every = sampling_interval(steps, report_every);
    p.only = steps == 1;
}

static void add_step(const struct timed_step *step) {
    size_t count = step->end - step->first;
    cudaEvent_t begin = p.spans[step->first].begin;
    GROW(p.intervals, count, p.interval_room);
    for (size_t i = 0; i < count; i++) {
        const struct span *span = &p.spans[step->first + i];
        p.intervals[i] =
            (struct interval){span->phase, between(begin, span->begin), between(begin, span->end)};
    }
    phases_add(&p.sums, p.intervals, count, between(begin, step->end_event), step->reported);
}

static void add_to_trace(struct span *span) {
    span->trace.collective = span->phase == PHASE_COMMUNICATION;
    span->trace.begin = p.origin_time + between(p.origin, span->begin) / 1e3;
    span->trace.end = p.origin_time + between(p.origin, span->end) / 1e3;
    trace_span(&span->trace);
}

// Sets the event from which the times of the trace count.
static void begin_trace(cudaStream_t stream) {
    CUDA_CHECK(cudaEventCreate(&p.origin));
    CUDA_CHECK(cudaEventRecord(p.origin, stream));
    CUDA_CHECK(cudaEventSynchronize(p.origin));
    p.origin_time = seconds();
}

// Waits for the device and reads the times of all spans. The times of later spans count from here,
// because cudaEventElapsedTime returns a float, which is not exact for long times.
static void read_times(void) {
    if (p.event_count == 0)
        return;
    cudaEvent_t last = mark(p.stream), origin = p.origin;
    CUDA_CHECK(cudaEventSynchronize(last));
    for (size_t i = 0; i < p.step_count; i++)
        add_step(&p.steps[i]);
    for (size_t i = 0; i < p.span_count && p.tracing; i++)
        add_to_trace(&p.spans[i]);
    if (p.tracing) {
        p.origin_time += between(origin, last) / 1e3;
        p.origin = last;
        p.events[p.event_count - 1] = origin;
    }
    p.step_count = p.span_count = p.event_count = 0;
}

// Ends the training step that the host has queued, if there is one.
static void end_step(int reported) {
    if (p.timed) {
        struct timed_step *step = &p.steps[p.step_count];
        step->end = p.span_count;
        step->end_event = mark(p.stream);
        step->reported = reported;
        p.step_count++;
    }
    p.done += p.in_step;
    p.timed = p.in_step = 0;
}

// The first training step also loads kernels, so it counts only if there is no other.
void profile_step(cudaStream_t stream) {
    if (!p.on)
        return;
    end_step(0);
    long number = p.done + 1;
    p.stream = stream;
    p.in_step = 1;
    if (p.span_count > MOST_SPANS)
        read_times();
    p.timed = p.profiling && number % p.every == 0 && (number > 1 || p.only);
    GROW(p.steps, p.step_count, p.step_room);
    p.steps[p.step_count].first = p.span_count;
}

static void record(enum phase phase, const char *name, cudaStream_t stream) {
    p.recording = p.timed || p.tracing;
    if (!p.recording)
        return;
    if (p.tracing && !p.origin)
        begin_trace(stream);
    GROW(p.spans, p.span_count, p.span_room);
    p.spans[p.span_count] = (struct span){
        phase, {.name = name, .stream = stream, .host_begin = seconds()}, mark(stream), NULL};
}

static void end_recording(void) {
    struct span *span = &p.spans[p.span_count++];
    span->end = mark(span->trace.stream);
    span->trace.host_end = seconds();
    p.recording = 0;
}

void profile_begin(enum phase phase, const char *name, cudaStream_t stream) {
    nvtxRangePushA(name);
    if (p.recording) {
        p.outer = p.spans[p.span_count];
        end_recording();
    }
    if (p.on)
        record(phase, name, stream);
}

void profile_bytes(double bytes) {
    if (p.recording)
        p.spans[p.span_count].trace.bytes = bytes;
}

void profile_end(void) {
    nvtxRangePop();
    if (!p.recording)
        return;
    end_recording();
    if (p.outer.trace.name)
        record(p.outer.phase, p.outer.trace.name, p.outer.trace.stream);
    p.outer.trace.name = NULL;
}

void profile_report(void) {
    end_step(1);
    read_times();
}

struct phases profile_take(void) {
    struct phases sums = p.sums;
    p.sums = (struct phases){0};
    return sums;
}
