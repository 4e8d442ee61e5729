#include "03_multigpu_launcher/launch_options.h"
#include "common/base/options.h"
#include <string.h>

struct launch_options launch_opt;

static const struct option_spec options[] = {
    {"nproc-per-node", OPTION_TEXT, &launch_opt.nproc, "1", 0, 0,
     "ranks on this node, or: gpu, cpu or auto"},
    {"nnodes", OPTION_INT, &launch_opt.nnodes, "1", 1, 10000, "number of nodes"},
    {"node-rank", OPTION_INT, &launch_opt.node_rank, "0", 0, 9999, "number of this node, from 0"},
    {"master-addr", OPTION_TEXT, &launch_opt.master_addr, "127.0.0.1", 0, 0, "address of node 0"},
    {"master-port", OPTION_INT, &launch_opt.master_port, "0", 0, 65535,
     "port of node 0, 0: a free one, or 29500"},
    {"standalone", OPTION_FLAG, &launch_opt.standalone, NULL, 0, 0, "one node and a free port"},
    {"max-restarts", OPTION_INT, &launch_opt.max_restarts, "0", 0, 1e6,
     "how often all ranks may restart"},
    {"run-id", OPTION_TEXT, &launch_opt.run_id, "", 0, 0, "name of the run, empty: a new one"},
    {"log-dir", OPTION_TEXT, &launch_opt.log_dir, NULL, 0, 0, "folder for the output of each rank"},
    {"tee", OPTION_FLAG, &launch_opt.tee, NULL, 0, 0,
     "print all output, with [rank] before each line"},
    {"shutdown-timeout", OPTION_REAL, &launch_opt.shutdown_timeout, "30", 0, 1e6,
     "seconds from SIGTERM to SIGKILL"},
    {"join-timeout", OPTION_REAL, &launch_opt.join_timeout, "300", 0, 1e6,
     "seconds to wait for other nodes"},
    {"program [arguments]", OPTION_REST, &launch_opt.program, NULL, 0, 0, "to run"},
    {0},
};

static const struct option_table tables[] = {{.options = options}, {0}};

void parse_launch_options(int argc, char **argv) {
    struct launch_options *o = &launch_opt;
    options_parse(
        tables,
        "Starts the ranks of a program and sets the variables that tell each rank its place.", argc,
        argv);
    if (!o->program || !*o->program)
        wrong_usage("no program to run");
    if (o->node_rank >= o->nnodes)
        wrong_usage("--node-rank %ld: with --nnodes %ld the last is %ld", o->node_rank, o->nnodes,
                    o->nnodes - 1);
    if (o->standalone && (o->nnodes > 1 || o->master_port))
        wrong_usage(
            "--standalone means one node and a free port, not --nnodes %ld --master-port %ld",
            o->nnodes, o->master_port);
    if (strchr(o->run_id, '/') || o->run_id[0] == '.' || strlen(o->run_id) > 63)
        wrong_usage(
            "--run-id %s: want at most 63 characters, no / and no . at the beginning, because "
            "a folder gets this name",
            o->run_id);
    if (o->nnodes > 1 && o->master_port == 0)
        o->master_port = 29500; // torchrun's default
}
