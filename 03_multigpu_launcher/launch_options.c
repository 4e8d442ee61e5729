#include "03_multigpu_launcher/launch_options.h"
#include "common/device/driver.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct launch_options launch_opt = {.nnodes = 1, .master_addr = "127.0.0.1"};
static const char *nproc;

const struct option_spec launch_option_specs[] = {
    {"nproc-per-node", OPTION_TEXT, &nproc, "1", 0, 0, "ranks on this node, or: gpu, cpu or auto"},
    {"max-restarts", OPTION_INT, &launch_opt.max_restarts, "0", 0, 1e6,
     "how often all ranks may restart"},
    {"run-id", OPTION_TEXT, &launch_opt.run_id, "", 0, 0, "name of the run, empty: a new one"},
    {"log-dir", OPTION_TEXT, &launch_opt.log_dir, NULL, 0, 0, "folder for the output of each rank"},
    {"tee", OPTION_FLAG, &launch_opt.tee, NULL, 0, 0,
     "print all output, with [rank] before each line"},
    {"shutdown-timeout", OPTION_REAL, &launch_opt.shutdown_timeout, "30", 0, 1e6,
     "seconds from SIGTERM to SIGKILL"},
    {"program [arguments]", OPTION_REST, &launch_opt.program, NULL, 0, 0, "to run"},
    {0},
};

// Returns the number of ranks: gpu means one rank per GPU, cpu one per core, and auto is like gpu
// if there is a GPU, else like cpu.
static int count_ranks(const char *text) {
    int gpu = !strcmp(text, "gpu"), any = !strcmp(text, "auto");
    int gpus = gpu || any ? driver_gpus(0) : 0;
    cpu_set_t cores;
    if (gpus > 0)
        return gpus;
    if (gpu)
        wrong_usage(
            "--nproc-per-node gpu: no NVIDIA driver finds a GPU here; give a number, or cpu");
    if (any || !strcmp(text, "cpu"))
        return sched_getaffinity(0, sizeof cores, &cores) ? sysconf(_SC_NPROCESSORS_ONLN)
                                                          : CPU_COUNT(&cores);
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 1 || number > 1000)
        wrong_usage("--nproc-per-node %s: want a number from 1 to 1000, gpu, cpu or auto", text);
    return number;
}

void parse_launch_options(const struct option_table *tables, int argc, char **argv) {
    options_parse(
        tables,
        "Starts the ranks of a program and sets the variables that tell each rank its place.", argc,
        argv);
    const char *run = launch_opt.run_id;
    if (!launch_opt.program || !*launch_opt.program)
        wrong_usage("no program to run");
    if (strchr(run, '/') || run[0] == '.' || strlen(run) > 63)
        wrong_usage(
            "--run-id %s: want at most 63 characters, no / and no . at the beginning, because "
            "a folder gets this name",
            run);
    launch_opt.nproc = count_ranks(nproc);
}
