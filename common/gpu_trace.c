#include "common/error.h"
#include "common/trace.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SPANS = 1 << 20, MOST_STREAMS = 64 };

static struct {
    FILE *file;
    int process, processes;
    struct trace_span *spans;
    size_t count, room, dropped;
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
        trace.dropped++;
}

static void write_head(void) {
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    fprintf(trace.file,
            "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"clock\":\"measured\",\"process\":%d,"
            "\"processes\":%d,\"host\":\"%s\",\"dropped\":%zu},\n\"traceEvents\":[\n",
            trace.process, trace.processes, host, trace.dropped);
    fprintf(trace.file,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,"
            "\"args\":{\"name\":\"process %d\"}}",
            trace.process, trace.process);
}

static void write_row_name(int row) {
    fprintf(trace.file,
            ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"",
            trace.process, row);
    fprintf(trace.file, row ? "stream %d\"}}" : "host\"}}", row);
}

static void write_span(const char *name, const char *category, int row, double begin, double end) {
    fprintf(trace.file,
            ",\n{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,"
            "\"dur\":%.3f",
            name, category, trace.process, row, begin * 1e6, (end - begin) * 1e6);
}

// Events know neither communicators nor what the host waits for, so all collectives count as those
// of one communicator, in their order, and there are no arrows.
static void write_trace(void) {
    size_t collectives = 0;
    write_head();
    write_row_name(0);
    for (size_t i = 0; i < trace.count; i++) {
        const struct trace_span *span = &trace.spans[i];
        int known = trace.stream_count, row = row_of(span->stream);
        if (trace.stream_count > known)
            write_row_name(row);
        write_span(span->name, "host", 0, span->host_begin, span->host_end);
        fputc('}', trace.file);
        write_span(span->name, span->collective ? "collective" : "kernel", row, span->begin,
                   span->end);
        if (span->collective)
            fprintf(trace.file, ",\"args\":{\"bytes\":%.0f,\"comm\":\"all\",\"number\":%zu}",
                    span->bytes, collectives++);
        fputc('}', trace.file);
    }
    fprintf(trace.file, "\n]}\n");
    if (ferror(trace.file) | fclose(trace.file))
        fprintf(stderr, "error: the trace could not be written completely: %s\n", strerror(errno));
}

void trace_open(const char *path, int process, int processes) {
    if (!path)
        return;
    trace.file = trace_create(path, process, processes);
    trace.process = process;
    trace.processes = processes;
    atexit(write_trace);
}

int trace_needs_spans(void) {
    return trace.file != NULL;
}
