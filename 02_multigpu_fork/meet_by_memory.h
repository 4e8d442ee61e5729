// How ranks meet that share memory: rank 0 leaves NCCL's id there for the others.
#pragma once
#include <nccl.h>

struct meeting;

// Call it once, before the ranks are forked.
struct meeting *open_meeting(void);

// Gives the id of rank 0 to all ranks. Rank 0 returns at once; the others wait for it.
void meet_by_memory(struct meeting *meeting, int rank, ncclUniqueId *id);
