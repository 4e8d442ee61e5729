// The options of the launcher.
#pragma once
#include "common/base/options.h"

extern struct launch_options {
    const char *master_addr, *run_id, *log_dir;
    int nproc; // ranks on this node
    long nnodes, node_rank, master_port, max_restarts, tee;
    double shutdown_timeout, join_timeout;
    char **program; // with its arguments
} launch_opt;

// The options for one node. The others have values for one node, which a launcher for several nodes
// replaces.
extern const struct option_spec launch_option_specs[];

// Sets launch_opt from the command line. Mistakes end the program (wrong usage).
void parse_launch_options(const struct option_table *tables, int argc, char **argv);
