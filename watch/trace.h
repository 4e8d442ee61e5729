// A trace: what the device did and when, as a file for trace viewers (https://ui.perfetto.dev). It
// has a row for the host, one for each stream, and one for each reader of samples. tools/trace.py
// reads it.
//
// The CPU device records each of its operations (cpu_trace.c). On a GPU, events time the spans of
// profile.h (gpu_trace.c); Nsight Systems shows more (make profile-stepN).
#pragma once
#include <cuda_runtime.h>
#include <stdio.h>

// The number of this process, and how many there are: one, unless nccl_spans.c has seen it join
// others.
extern struct trace_process { int number, count; } trace_process;

// Records from here on what the device does, and writes it to the file at path when the program
// exits normally. If there are several processes, the number of this process comes before the
// suffix of the name: trace.json becomes trace.0.json. A path of NULL does nothing. If the file
// cannot be written, the program fails at once.
void trace_open(const char *path);

// The file of a trace, for gpu_trace.c and cpu_trace.c.
// tools/trace_file.py describes its format.
struct trace_file {
    FILE *file;
    size_t dropped; // spans that the file lacks, because memory is limited
};

// Creates the file at path, or for one of several processes the file whose name has its number.
// Fails as trace_open does.
struct trace_file trace_create(const char *path);

// Writes the head. model: the name of the model whose times the trace holds, or NULL if they were
// measured.
void trace_write_head(struct trace_file *trace, const char *model);

// Writes the name of a row: 0 is the host, and the others are streams.
void trace_write_row(const struct trace_file *trace, int row);

// Writes the rows of the readers, from this row on.
void trace_write_reads(const struct trace_file *trace, int row);

// Writes a span without its last brace, so that arguments can follow. Times are in seconds. scope
// comes before the name, unless it is NULL or equal to it.
void trace_write_span(const struct trace_file *trace, const char *scope, const char *name,
                      const char *category, int row, double begin, double end);

// Ends and closes the file. Process 0 says if spans were dropped. If something could not be
// written, prints an error, and the exit code becomes 1. Called while the program exits.
void trace_close(struct trace_file *trace);

// Adds a read of samples, in the row of this reader.
void trace_read(int reader, double begin, double end);

// Returns 1 if the trace needs the spans that profile.h times.
int trace_needs_spans(void);

// A span of a stream, with times in seconds of the host's clock (common/base/clock.h).
struct trace_span {
    const char *name;
    cudaStream_t stream;
    int collective; // 1: it moves data between devices
    double bytes;
    double host_begin, host_end; // when the host queued it
    double begin, end;           // when the device did it
};

// Adds a span. The name must stay valid.
void trace_span(const struct trace_span *span);
