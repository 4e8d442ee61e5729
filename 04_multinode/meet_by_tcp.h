// How ranks meet that share nothing but a network: rank 0 listens at MASTER_ADDR and MASTER_PORT,
// and nowhere else; the others connect and say who they are; when all are there, each gets NCCL's
// id. Everything else that comes to the port is refused and forgotten. Nothing is encrypted, here
// or in NCCL: this is for private networks.
#pragma once
#include "03_multigpu_launcher/environment.h"
#include <nccl.h>

// Gives the id of rank 0 to all ranks. If one does not come within timeout seconds, or differs, the
// program ends in all that have come, each with the reason. plan says what is to be trained, and
// must be the same for all (NULL: not compared). snapshot is a file in a folder that all must see
// (NULL: not checked). token_file holds a word that all ranks must know (NULL: MASTER_TOKEN, if it
// is set).
void meet_by_tcp(const struct place *p, ncclUniqueId *id, const char *plan, const char *snapshot,
                 const char *token_file, double timeout);
