// Makes this process a rank, in one of two ways: the program forks its ranks, as in step 2, or a
// launcher has started them, as in step 3.
#pragma once
#include <nccl.h>

// Returns in every rank, with its number, the number of ranks, and a communicator of all ranks. The
// current device is the GPU of the rank. If RANK is not set, it starts nproc ranks, or one per GPU
// if nproc is 0. If RANK is set, a launcher has started the ranks, and they wait at most
// join_timeout seconds for each other. Only rank 0 prints from now on. A failure ends the program.
void become_rank(long nproc, long join_timeout, int *rank, int *world, ncclComm_t *comm);
