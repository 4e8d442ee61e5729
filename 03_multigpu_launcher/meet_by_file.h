// How ranks meet that share a folder: rank 0 leaves NCCL's id there for the others.
#pragma once
#include "03_multigpu_launcher/environment.h"
#include <nccl.h>

// Gives the id of rank 0 to the other ranks on this node, through a file in $TMPDIR. Rank 0 returns
// at once; the others wait for it for at most timeout seconds. A failure ends the program.
// From now on, SIGTERM removes the file and ends the process, until the caller handles it.
void meet_by_file(const struct place *p, ncclUniqueId *id, double timeout);

// Removes the file and its folder. Call it when all ranks have joined; exit() calls it, too.
void forget_id(void);
