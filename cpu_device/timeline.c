// Traces of the CPU device: the record of all operations, which is written as a file when the
// program exits. The format is that of Chrome's trace viewer, with times in microseconds.
#include "cpu_device/timeline.h"
#include "cpu_device/internal.h"
#include <nvtx3/nvToolsExt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 32, MOST_EVENTS = 1 << 20 };

struct entry {
    struct cpu_event event; // of row 0: a wait or a range of the host
    const char *category;
    size_t added;
    int from;    // of a wait: the stream that it waited for
    double left; // and when the work there ended
};

int cpu_tracing;
static struct {
    pthread_mutex_t lock;
    struct trace_file out;
    struct entry *entries;
    size_t count, room;
    struct name {
        struct name *next;
        char text[];
    } * names;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER};

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
        if (!(n = malloc(sizeof *n + bytes)))
            abort();
        memcpy(n->text, text, bytes);
        n->next = trace.names;
        trace.names = n;
    }
    pthread_mutex_unlock(&trace.lock);
    return n->text;
}

static void add(const struct entry *entry) {
    pthread_mutex_lock(&trace.lock);
    if (trace.count == trace.room && trace.room < MOST_EVENTS) {
        trace.room = trace.room ? 2 * trace.room : 1024;
        if (!(trace.entries = realloc(trace.entries, trace.room * sizeof *trace.entries)))
            abort();
    }
    if (trace.count < trace.room) {
        trace.entries[trace.count] = *entry;
        trace.entries[trace.count].added = trace.count;
        trace.count++;
    } else {
        trace.out.dropped++;
    }
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

void cpu_trace_event(const struct cpu_event *event) {
    enum cpu_cost_kind kind = event->cost.kind;
    add(&(struct entry){.event = *event,
                        .category = kind == CPU_COLLECTIVE       ? "collective"
                                    : kind == CPU_KERNEL         ? "kernel"
                                    : kind >= CPU_COPY_TO_DEVICE ? "copy"
                                                                 : "product"});
}

void cpu_trace_wait(int stream, double begin, double end, int from, double left) {
    add(&(struct entry){.event = {begin, end, stream, NULL, {.name = "waits for an event"}},
                        .category = "wait",
                        .from = from,
                        .left = left});
}

void cpu_trace_host(const char *call, double begin, double end) {
    add(&(struct entry){.event = {begin, end, 0, NULL, {.name = call}}, .category = "host"});
}

void cpu_trace_open(struct trace_file file) {
    trace.out = file;
    cpu_tracing = 1;
}

// Rows in order, and in each row the outer ranges before the inner ones.
static int compare(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->event.stream != y->event.stream)
        return x->event.stream < y->event.stream ? -1 : 1;
    if (x->event.begin != y->event.begin)
        return x->event.begin < y->event.begin ? -1 : 1;
    if (x->event.end != y->event.end)
        return x->event.end > y->event.end ? -1 : 1;
    return x->added < y->added ? -1 : 1;
}

// Writes an arrow from the end of the other stream's work to the end of the wait.
static void write_arrow(const struct entry *e, size_t id) {
    fprintf(trace.out.file,
            ",\n{\"ph\":\"s\",\"id\":%zu,\"name\":\"event\",\"cat\":\"event\",\"pid\":%d,"
            "\"tid\":%d,\"ts\":%.3f}",
            id, trace.out.process, e->from, e->left * 1e6);
    fprintf(trace.out.file,
            ",\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":%zu,\"name\":\"event\",\"cat\":\"event\","
            "\"pid\":%d,\"tid\":%d,\"ts\":%.3f}",
            id, trace.out.process, e->event.stream, e->event.end * 1e6);
}

static void write_entry(const struct entry *e, size_t id) {
    const struct cpu_event *event = &e->event;
    const char *name = event->cost.name ? event->cost.name : "operation";
    trace_write_span(&trace.out, event->scope, name, e->category, event->stream, event->begin,
                     event->end);
    if (event->cost.comm)
        fprintf(trace.out.file, ",\"args\":{\"bytes\":%.0f,\"comm\":\"%llx\",\"number\":%llu}",
                event->cost.bytes, event->cost.comm, event->cost.number);
    else if (event->cost.bytes > 0)
        fprintf(trace.out.file, ",\"args\":{\"bytes\":%.0f,\"flops\":%.0f}", event->cost.bytes,
                event->cost.flops);
    fputc('}', trace.out.file);
    if (e->from)
        write_arrow(e, id);
}

void cpu_trace_write(void) {
    pthread_mutex_lock(&trace.lock);
    struct trace_file *file = trace.out.file ? &trace.out : NULL;
    if (file) {
        qsort(trace.entries, trace.count, sizeof *trace.entries, compare);
        trace_write_head(&trace.out, cpu_model ? cpu_model->name : NULL, "rank");
        for (size_t i = 0; i < trace.count; i++) {
            int row = trace.entries[i].event.stream;
            if (i == 0 || row != trace.entries[i - 1].event.stream)
                trace_write_row(&trace.out, row);
            write_entry(&trace.entries[i], i + 1);
        }
        cpu_tracing = 0;
    }
    pthread_mutex_unlock(&trace.lock);
    if (file)
        trace_close(file); // may call exit, which calls this function again
}
