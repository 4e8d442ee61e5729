// The 16-bit float of the GPU as C sees it: its bits. nccl.h includes this header, as NVIDIA's
// does.
#pragma once
#ifdef __cplusplus
#include <cstring> // as NVIDIA's does
#endif

typedef struct {
    unsigned short x;
} __half_raw;
