// A process becomes a rank of this program: forked, as in step 2, or started by a launcher, as from
// step 3 on.
#pragma once
#include <nccl.h>

// Returns in each rank, with its number, the number of ranks and a communicator of them all; the
// rank's GPU is the current device. Where RANK is not set, it starts nproc ranks, or one per GPU if
// nproc is 0. Only rank 0 prints from now on. A failure ends the program.
void become_rank(long nproc, int *rank, int *world, ncclComm_t *comm);
