// The options of the launcher.
#pragma once

extern struct launch_options {
    const char *nproc, *master_addr, *run_id, *log_dir;
    long nnodes, node_rank, master_port, standalone, max_restarts, tee;
    double shutdown_timeout, join_timeout;
    char **program; // with its arguments
} launch_opt;

// Sets launch_opt from the command line. Mistakes end the program (wrong usage).
void parse_launch_options(int argc, char **argv);
