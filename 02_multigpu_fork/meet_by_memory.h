// Before ranks can create NCCL's communicator, they need the id that rank 0 makes for it. They get
// it in a rendezvous. Here, the ranks share memory: rank 0 writes the id to it, and the others read
// it.
#pragma once
#include <nccl.h>

struct rendezvous;

// Call it once, before you start the ranks.
struct rendezvous *open_rendezvous(void);

// Sets *id of all ranks to that of rank 0. Rank 0 returns at once; the others wait for it.
void meet_by_memory(struct rendezvous *rendezvous, int rank, ncclUniqueId *id);
