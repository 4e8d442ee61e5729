#include "common/profile.h"
#include <nvtx3/nvToolsExt.h>

void span_begin(enum phase phase, const char *name, cudaStream_t stream) {
    (void)phase, (void)stream;
    nvtxRangePushA(name);
}

void span_end(void) {
    nvtxRangePop();
}
