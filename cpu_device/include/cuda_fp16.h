// The bits of a 16-bit float, as in NVIDIA's header for C. nccl.h includes this header, as NVIDIA's
// does.
#pragma once
#ifdef __cplusplus
#include <cstring> // as NVIDIA's does
#endif

typedef struct {
    unsigned short x;
} __half_raw;
