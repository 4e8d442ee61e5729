// The bits of a bfloat16, as in NVIDIA's header for C. nccl.h includes this header, as NVIDIA's
// does.
#pragma once

typedef struct {
    unsigned short x;
} __nv_bfloat16_raw;
