// The record of what the device did and when. A trace (common/device/trace.h) is written from it.
// Times are seconds: of the modelled clock if there is a model, and of cpu_now otherwise.
#pragma once
#include "common/device/trace.h"
#include "cpu_device/gpu_model.h"

// Records from here on, and writes the trace to this file when the program exits.
void cpu_trace_open(struct trace_file file);

// 1 from cpu_trace_open on.
extern int cpu_tracing;

// Returns the name of the innermost range (nvtxRangePushA) that the calling thread is in, or NULL.
// The text stays valid.
const char *cpu_scope(void);

// An operation of a stream.
struct cpu_event {
    double begin, end;
    int stream; // 1, 2, ...
    const char *scope;
    struct cpu_cost cost;
};
void cpu_trace_event(const struct cpu_event *event);

// A stream waited for work on the stream from, which ended at time left.
void cpu_trace_wait(int stream, double begin, double end, int from, double left);

// The host waited in a call.
void cpu_trace_host(const char *call, double begin, double end);

// Writes the trace to its file. Called when the program exits.
void cpu_trace_write(void);
