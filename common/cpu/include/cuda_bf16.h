// The bfloat16 of the GPU as C sees it: its bits. nccl.h includes this header, as NVIDIA's does.
#pragma once

typedef struct {
    unsigned short x;
} __nv_bfloat16_raw;
