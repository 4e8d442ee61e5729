// A rendezvous of ranks that share only a network. Rank 0 listens at MASTER_ADDR and MASTER_PORT.
// The other ranks connect and say who they are. When all ranks are there, each one gets NCCL's id.
// Rank 0 refuses all other connections. Neither this rendezvous nor NCCL encrypts anything, so use
// them in private networks.
#pragma once
#include "03_multigpu_launcher/environment.h"
#include "common/base/options.h"
#include <nccl.h>

extern struct meeting_opt {
    long join_timeout;
    double step_timeout;
    const char *token_file;
} meeting_opt; // options_parse sets it, with the table below
extern const struct option_spec meeting_options[];

// Copies the id of rank 0 to all ranks. If a rank does not come within timeout seconds, or does not
// fit, the program ends in all ranks that have come, and each prints the reason. If all ranks are
// on one host, MASTER_ADDR and MASTER_PORT may be missing.
// token_file: holds the secret that all ranks share (NULL: MASTER_TOKEN, if it is set).
void meet_by_tcp(const struct place *p, ncclUniqueId *id, const char *token_file, double timeout);
