// Times what the device does in a training step, with events on the streams. Every span is also a
// named range for Nsight Systems and for traces. The functions that queue work make the spans, so a
// training program does not.
#pragma once
#include <cuda_runtime.h>

enum phase {
    PHASE_COPY,
    PHASE_FORWARD,
    PHASE_LOSS,
    PHASE_BACKWARD,
    PHASE_COMMUNICATION,
    PHASE_UPDATE,
    PHASES
};

// Call them before and after the calls that queue a part of a phase on the stream. Spans do not
// contain each other. The name must stay valid.
void span_begin(enum phase phase, const char *name, cudaStream_t stream);
void span_end(void);
