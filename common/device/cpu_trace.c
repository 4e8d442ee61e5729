// The functions of common/device/trace.h. They are apart from timeline.c, so that a test can put
// those of a GPU in their place.
#include "common/device/trace.h"
#include "cpu_device/timeline.h"

void trace_open(const char *path, int process, int processes) {
    if (path)
        cpu_trace_open(trace_create(path, process, processes));
}

int trace_needs_spans(void) {
    return 0; // the device records its operations itself
}

void trace_span(const struct trace_span *span) {
    (void)span;
}
