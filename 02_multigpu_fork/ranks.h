// Starts the ranks of a program on one machine: one process per GPU, made by fork(). The
// functions end the program with a message on stderr if they fail.
#pragma once
#include <stddef.h>

// Returns the number of ranks to start for --nproc: nproc, or one per GPU if nproc is 0. More ranks
// than GPUs are refused as wrong usage, unless SHARE_GPUS=1 is set. CUDA does not work in the child
// of a process that has called it, so a child process counts the GPUs, and the caller may still
// fork.
int choose_world(long nproc);

// Returns zeroed memory that the processes forked later share. It is never freed.
void *share_memory(size_t bytes);

// Starts ranks 0 to world - 1 and returns in each of them, with its number. The caller, which must
// not have called CUDA, does not return: it waits for the ranks, passes signals on to them, and
// exits. If one rank fails, or a second request arrives (common/base/signals.h), it ends all the
// others. Its exit code is 0 if all ranks succeed, 1 if one fails, and 128 + N after signal N.
int start_ranks(int world);

// Returns the number of this rank's GPU: its own number, unless SHARE_GPUS=1 lets ranks share a
// GPU.
int choose_gpu(int rank, int world);
