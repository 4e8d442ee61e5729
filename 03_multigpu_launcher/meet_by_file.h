// A rendezvous of ranks that share a folder: rank 0 passes NCCL's id to the others in a file there.
#pragma once
#include "03_multigpu_launcher/environment.h"
#include <nccl.h>

// Copies the id of rank 0 to the other ranks on this node, through a file in $TMPDIR. Rank 0
// returns at once; the others wait for the file for at most timeout seconds. A failure ends the
// program. SIGTERM removes the file and ends the process, until the caller sets another handler.
void meet_by_file(const struct place *p, ncclUniqueId *id, double timeout);

// Removes the file and its folder. Call it when all ranks have joined; exit() calls it, too.
void forget_id(void);
