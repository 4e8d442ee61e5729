#include "common/base/error.h"
#include "watch/trace.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_SPANS = 1 << 20, MOST_STREAMS = 64 };

static struct {
    struct trace_file out;
    struct trace_span *spans;
    size_t count, room;
    cudaStream_t streams[MOST_STREAMS]; // that of row i + 1 of the trace
    int stream_count;
} trace;

static int row_of(cudaStream_t stream) {
    int i = 0;
    while (i < trace.stream_count && trace.streams[i] != stream)
        i++;
    if (i == trace.stream_count && i < MOST_STREAMS)
        trace.streams[trace.stream_count++] = stream;
    return i + 1;
}

void trace_span(const struct trace_span *span) {
    if (trace.count == trace.room && trace.room < MOST_SPANS) {
        trace.room = trace.room ? 2 * trace.room : 1024;
        if (!(trace.spans = realloc(trace.spans, trace.room * sizeof *trace.spans)))
            fail("out of memory for the trace");
    }
    if (trace.count < trace.room)
        trace.spans[trace.count++] = *span;
    else
        trace.out.dropped++;
}

// Events know neither communicators nor what the host waits for, so all collectives count as those
// of one communicator, in their order, and there are no arrows.
static void write_trace(void) {
    size_t collectives = 0;
    trace_write_head(&trace.out, NULL);
    trace_write_row(&trace.out, 0);
    for (size_t i = 0; i < trace.count; i++) {
        const struct trace_span *span = &trace.spans[i];
        int known = trace.stream_count, row = row_of(span->stream);
        if (trace.stream_count > known)
            trace_write_row(&trace.out, row);
        trace_write_span(&trace.out, NULL, span->name, "host", 0, span->host_begin, span->host_end);
        fputc('}', trace.out.file);
        trace_write_span(&trace.out, NULL, span->name, span->collective ? "collective" : "kernel",
                         row, span->begin, span->end);
        if (span->collective)
            fprintf(trace.out.file, ",\"args\":{\"bytes\":%.0f,\"comm\":\"all\",\"number\":%zu}",
                    span->bytes, collectives++);
        fputc('}', trace.out.file);
    }
    trace_write_reads(&trace.out, trace.stream_count + 1);
    trace_close(&trace.out);
}

void trace_open(const char *path) {
    if (!path)
        return;
    trace.out = trace_create(path);
    atexit(write_trace);
}

int trace_needs_spans(void) {
    return trace.out.file != NULL;
}
