// Several ranks on one GPU, for those who have fewer GPUs than ranks. SHARE_GPUS=1 in the
// environment asks for it. It is never silent, because on a cluster it is a mistake that costs
// speed.
#pragma once

// Why a collective may never end on a shared GPU.
#define CROWDED "the shared GPU has no room for NCCL's kernels of all ranks: lower NCCL_MAX_CTAS"

// Returns 1 if SHARE_GPUS=1 is set.
int gpus_are_shared(void);

// Returns the end of an error line about too few GPUs. On the CPU device, it says how to get that
// many. On a GPU, it is empty.
const char *more_devices(int wanted);

// Returns the GPU of a rank, of so many ranks and GPUs on this machine: its number modulo gpus. If
// several ranks use one GPU, it tells NCCL so in environment variables, and leaves those that are
// set. So call it before any other call that lets NCCL read its variables. Rank 0 prints how the
// ranks share the GPUs.
int share_gpus(int rank, int ranks, int gpus);
