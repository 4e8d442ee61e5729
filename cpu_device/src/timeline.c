// The record of what the device did and when, from cpu_record_events until the program exits.
#include "internal.h"
#include <nvtx3/nvToolsExt.h>

enum { MOST_DEPTH = 32, MOST_EVENTS = 1 << 20 };

int cpu_tracing;
static struct {
    pthread_mutex_t lock;
    void (*write)(const struct cpu_timeline *); // NULL: nothing is recorded, or all is written
    struct cpu_event *events;
    size_t count, room, dropped;
    struct name {
        struct name *next;
        char text[];
    } * names;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int on_host_row; // 1: this thread has called cpu_record_events

// The ranges that this thread is in.
static _Thread_local struct {
    int depth;
    const char *names[MOST_DEPTH];
    double begin[MOST_DEPTH];
} ranges;

// Returns a copy of the text that is never freed, the same one for equal texts.
static const char *keep(const char *text) {
    pthread_mutex_lock(&trace.lock);
    struct name *n = trace.names;
    while (n && strcmp(n->text, text))
        n = n->next;
    if (!n) {
        size_t bytes = strlen(text) + 1;
        n = cpu_new(sizeof *n + bytes);
        memcpy(n->text, text, bytes);
        n->next = trace.names;
        trace.names = n;
    }
    pthread_mutex_unlock(&trace.lock);
    return n->text;
}

static void add(struct cpu_event event) {
    pthread_mutex_lock(&trace.lock);
    if (trace.count == trace.room && trace.room < MOST_EVENTS) {
        trace.room = trace.room ? 2 * trace.room : 1024;
        trace.events = cpu_resized(trace.events, trace.room * sizeof *trace.events);
    }
    event.added = trace.count;
    if (trace.count < trace.room)
        trace.events[trace.count++] = event;
    else
        trace.dropped++;
    pthread_mutex_unlock(&trace.lock);
}

const char *cpu_scope(void) {
    return cpu_tracing && ranges.depth && ranges.depth <= MOST_DEPTH
               ? ranges.names[ranges.depth - 1]
               : NULL;
}

int nvtxRangePushA(const char *message) {
    if (cpu_tracing && ranges.depth < MOST_DEPTH) {
        ranges.names[ranges.depth] = keep(message);
        ranges.begin[ranges.depth] = cpu_moment();
    }
    return ranges.depth++;
}

int nvtxRangePop(void) {
    if (ranges.depth == 0)
        return -1;
    ranges.depth--;
    if (cpu_tracing && ranges.depth < MOST_DEPTH)
        cpu_trace_host(ranges.names[ranges.depth], ranges.begin[ranges.depth], cpu_moment());
    return ranges.depth;
}

void cpu_trace_operation(struct cpu_event event, const struct cpu_cost *cost) {
    event.category = cost->kind == CPU_COLLECTIVE       ? "collective"
                     : cost->kind == CPU_KERNEL         ? "kernel"
                     : cost->kind >= CPU_COPY_TO_DEVICE ? "copy"
                                                        : "product";
    event.name = cost->name ? cost->name : "operation";
    event.bytes = cost->bytes;
    event.flops = cost->flops;
    event.comm = cost->comm;
    event.number = cost->number;
    add(event);
}

void cpu_trace_wait(int stream, double begin, double end, int from, double left) {
    add((struct cpu_event){.begin = begin,
                           .end = end,
                           .stream = stream,
                           .category = "wait",
                           .name = "waits for an event",
                           .from = from,
                           .left = left});
}

void cpu_trace_host(const char *call, double begin, double end) {
    if (on_host_row)
        add((struct cpu_event){.begin = begin, .end = end, .category = "host", .name = call});
}

void cpu_record_events(void (*write)(const struct cpu_timeline *)) {
    trace.write = write;
    cpu_tracing = on_host_row = 1;
}

static int compare(const void *a, const void *b) {
    const struct cpu_event *x = a, *y = b;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return x->added < y->added ? -1 : 1;
}

void cpu_trace_write(void) {
    pthread_mutex_lock(&trace.lock);
    void (*write)(const struct cpu_timeline *) = trace.write;
    struct cpu_timeline timeline = {.model = cpu_model ? cpu_model->name : NULL,
                                    .events = trace.events,
                                    .count = trace.count,
                                    .dropped = trace.dropped};
    if (write)
        qsort(trace.events, trace.count, sizeof *trace.events, compare);
    trace.write = NULL;
    cpu_tracing = 0;
    pthread_mutex_unlock(&trace.lock);
    if (write)
        write(&timeline); // may call exit, which calls this function again
}
