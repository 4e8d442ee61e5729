// Ranks that train together must have the same options, data and progress. A difference would
// change the training without a word, or let ranks wait for collectives that the others do not
// call.
#pragma once
#include <cuda_runtime.h>
#include <nccl.h>

enum { PLAN_SIZE = 4096 };

// Compares the plans of all ranks. If one differs from that of rank 0, the program ends on all
// ranks, and each prints the first part that differs. A plan has parts such as "--batch 128",
// separated by ", ". Returns the result of the collectives.
ncclResult_t agree(const char *plan, ncclComm_t comm, cudaStream_t stream);
