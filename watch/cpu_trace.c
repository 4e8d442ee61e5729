// The functions of watch/trace.h for the CPU device, which records its operations itself.
#include "cpu_device/include/cpu_device.h"
#include "watch/trace.h"

static struct trace_file trace;

// Writes an arrow from the end of the other stream's work to the end of the wait.
static void write_arrow(const struct cpu_event *e, size_t id) {
    fprintf(trace.file,
            ",\n{\"ph\":\"s\",\"id\":%zu,\"name\":\"event\",\"cat\":\"event\",\"pid\":%d,"
            "\"tid\":%d,\"ts\":%.3f}",
            id, trace_process.number, e->from, e->left * 1e6);
    fprintf(trace.file,
            ",\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":%zu,\"name\":\"event\",\"cat\":\"event\","
            "\"pid\":%d,\"tid\":%d,\"ts\":%.3f}",
            id, trace_process.number, e->stream, e->end * 1e6);
}

static void write_event(const struct cpu_event *e, size_t id) {
    trace_write_span(&trace, e->scope, e->name, e->category, e->stream, e->begin, e->end);
    if (e->comm)
        fprintf(trace.file, ",\"args\":{\"bytes\":%.0f,\"comm\":\"%llx\",\"number\":%llu}",
                e->bytes, e->comm, e->number);
    else if (e->bytes > 0)
        fprintf(trace.file, ",\"args\":{\"bytes\":%.0f,\"flops\":%.0f}", e->bytes, e->flops);
    fputc('}', trace.file);
    if (e->from)
        write_arrow(e, id);
}

static void write_trace(const struct cpu_timeline *timeline) {
    trace.dropped = timeline->dropped;
    trace_write_head(&trace, timeline->model);
    int row = 0;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct cpu_event *e = &timeline->events[i];
        row = e->stream;
        if (i == 0 || row != e[-1].stream)
            trace_write_row(&trace, row);
        write_event(e, i + 1);
    }
    trace_write_reads(&trace, row + 1);
    trace_close(&trace);
}

void trace_open(const char *path) {
    if (!path)
        return;
    trace = trace_create(path);
    cpu_record_events(write_trace);
}

int trace_needs_spans(void) {
    return 0; // the device records its operations itself
}

void trace_span(const struct trace_span *span) {
    (void)span;
}
