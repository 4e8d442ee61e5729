// How the device records what it did and when (cpu_record_events).
#pragma once
#include "cpu_device/gpu_model.h"
#include <cpu_device.h>

// 1 from cpu_record_events on.
extern int cpu_tracing;

// Returns the name of the innermost range (nvtxRangePushA) that the calling thread is in, or NULL.
// The text stays valid.
const char *cpu_scope(void);

// Adds an operation of a stream. event holds its times, stream and scope.
void cpu_trace_operation(struct cpu_event event, const struct cpu_cost *cost);

// A stream waited for work on the stream from, which ended at time left.
void cpu_trace_wait(int stream, double begin, double end, int from, double left);

// The host waited in a call.
void cpu_trace_host(const char *call, double begin, double end);

// Calls the function of cpu_record_events. Called when the program exits.
void cpu_trace_write(void);
