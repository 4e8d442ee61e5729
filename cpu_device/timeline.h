// The record of what the device did and when. A trace (common/trace.h) is written from it. Times
// are seconds: of the modelled clock if there is a model, and of cpu_now otherwise.
#pragma once
#include "cpu_device/model.h"

// 1 from trace_open on.
extern int cpu_tracing;

// Returns the name of the innermost range (nvtxRangePushA) that the calling thread is in, or NULL.
// The text stays valid.
const char *cpu_scope(void);

// Adds an operation of a stream (1, 2, ...), or a call in which the host waited (stream 0). scope
// may be NULL. comm, number: of a collective, else 0.
struct cpu_event {
    double begin, end;
    int stream;
    const char *name, *scope;
    double bytes, flops;
    unsigned long long comm, number;
};
void cpu_trace_event(const struct cpu_event *event);

// Adds an arrow: work on the stream to at time arrived had to wait for work that ended on the
// stream from at time left.
void cpu_trace_arrow(int from, double left, int to, double arrived);

// Writes the trace to its file. Called once, when the program exits.
void cpu_trace_write(void);
