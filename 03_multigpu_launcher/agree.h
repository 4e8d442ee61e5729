// Ranks that train together must have the same options, data and progress. A difference would
// change the training without a word, or let ranks wait for collectives that the others do not
// call.
#pragma once
#include "common/base/options.h"
#include "common/snapshots/snapshot.h"
#include <cuda_runtime.h>
#include <nccl.h>

enum { PLAN_SIZE = 4096 };

// Writes a plan: the data, the progress, the lock of the snapshot at this path (NULL: none), and
// all options that are not OPTION_LOCAL, as parts such as "--batch 128", separated by ", ". Cuts
// the plan if it does not fit; then the end of the options is missing, and nothing else.
void describe_run(char *plan, size_t size, const struct progress *progress, const char *snapshot);

// Compares the plans of all ranks. If one differs from that of rank 0, the program ends on all
// ranks, and each prints the first part that differs. Returns the result of the collectives.
ncclResult_t agree(const char *plan, ncclComm_t comm, cudaStream_t stream);
