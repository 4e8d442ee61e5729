// Times what the device does in a training step, with events on the streams (--profile). Every span
// is also a named range for Nsight Systems and for traces. The functions that queue work make the
// spans, begin_step says where a training step begins, and watch.c reads the times.
#pragma once
#include "watch/phases.h"
#include <cuda_runtime.h>

// Call them before and after the calls that queue a part of a phase on the stream. A collective
// inside a layer is a span inside a span: it interrupts the outer one, which continues after it.
// Only one span may contain others. The name must stay valid.
void profile_begin(enum phase phase, const char *name, cudaStream_t stream);
void profile_end(void);

// Call it between the two: sets the size of the data that the span moves, for a trace.
void profile_bytes(double bytes);

// Begins to time. Events cost time themselves, so only some training steps are timed: every 13th,
// or in a short epoch more of them, so that each epoch has some. steps: the training steps of an
// epoch, or of the whole run if it is shorter. report_every: the training steps from one report to
// the next. timed 0: only the spans are recorded, for a trace.
void profile_open(long steps, long report_every, int timed);

// Begins a training step. It ends when the next one begins, or with a report, so evaluation after
// the report of the last step belongs to none.
void profile_step(cudaStream_t stream);

// Call it at the end of a report: ends the training step, and waits for the device.
void profile_report(void);

// Returns the sums over the timed training steps since the last call, up to the last report.
struct phases profile_take(void);
