// Named ranges of a program, which a trace shows. On a GPU, Nsight Systems reads them; on the CPU
// device, trace_open does (watch/trace.h).
#pragma once
#ifdef __cplusplus
extern "C" {
#endif
// A range goes from a push to the pop in the same thread. Both return the depth of the range.
int nvtxRangePushA(const char *message);
int nvtxRangePop(void);
#ifdef __cplusplus
}
#endif
