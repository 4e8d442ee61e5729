// If a call of NCCL fails, NCCL_CHECK ends the program and prints NCCL's reason, as CUDA_CHECK does
// for CUDA. A program that is linked with watch/nccl_spans.c calls the functions there, which tell
// --profile and --trace of each call, and then call NCCL.
#pragma once
#include "common/base/error.h"
#include <nccl.h>

// Returns the reason of the last failed call of NCCL, and a cure if two ranks have chosen one GPU.
const char *nccl_reason(void);

#define NCCL_CHECK(call)                                                                           \
    do {                                                                                           \
        ncclResult_t nccl_result = (call);                                                         \
        if (nccl_result != ncclSuccess)                                                            \
            fail("%s: %s (%.*s at %s:%d)", ncclGetErrorString(nccl_result), nccl_reason(),         \
                 CALL_NAME(#call), __FILE__, __LINE__);                                            \
    } while (0)
