#include "common/device/spans.h"

const struct watcher *watcher;

void span_begin(enum phase phase, const char *name, cudaStream_t stream) {
    if (watcher)
        watcher->begin(phase, name, stream);
}

void span_end(void) {
    if (watcher)
        watcher->end();
}
