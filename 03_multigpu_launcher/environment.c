#include "03_multigpu_launcher/environment.h"
#include "02_multigpu_fork/share_gpus.h"
#include "common/base/minmax.h"
#include "common/base/options.h"
#include "common/device/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A launcher can start another one, as when Slurm starts torchrun. Then the variables of both are
// set. Inner launchers come first here, so the first one that has set rank, world and local_rank
// has started this process. (In a batch script, Slurm does not set SLURM_STEP_NUM_TASKS.)
static const struct launcher {
    const char *name, *rank, *world, *local_rank, *local_world, *run[3];
} launchers[] = {
    {"RANK and WORLD_SIZE, as torchrun sets them",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT"}},
    {"Open MPI's variables",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE"}},
    {"PALS's variables",
     "PMI_RANK",
     "PMI_SIZE",
     "PALS_LOCAL_RANKID",
     "PALS_LOCAL_SIZE",
     {"PALS_APID"}},
    {"MPICH's variables", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {NULL}},
    {"MVAPICH2's variables",
     "MV2_COMM_WORLD_RANK",
     "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE",
     {NULL}},
    {"Flux's variables",
     "FLUX_TASK_RANK",
     "FLUX_JOB_SIZE",
     "FLUX_TASK_LOCAL_ID",
     "", // Flux does not tell it
     {"FLUX_JOB_ID"}},
    {"jsrun's variables",
     "JSM_NAMESPACE_RANK",
     "JSM_NAMESPACE_SIZE",
     "JSM_NAMESPACE_LOCAL_RANK",
     "JSM_NAMESPACE_LOCAL_SIZE",
     {"LSB_JOBID"}},
    {"Slurm's variables",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
};

int number_from_environment(const char *name, int min, int max) {
    const char *text = getenv(name);
    if (!text)
        wrong_usage("%s is not set, but other variables of a launcher are", name);
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < min || number > max)
        wrong_usage("%s=%s in the environment: want a number from %d to %d", name, text, min, max);
    return number;
}

// Other launchers do not tell all of these numbers. Without them, each process would train alone,
// and all of them would write the same files.
static void refuse_other_launchers(void) {
    // A variable, and the value that it may have in a process that no launcher has started.
    static const char *const others[][2] = {
        {"PMI_SIZE", "1"}, {"PMIX_RANK", "0"}, {"PALS_RANKID", ""}, {"ALPS_APP_PE", ""}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *name = others[i][0], *value = getenv(name);
        if (value && strcmp(value, others[i][1]))
            wrong_usage("%s=%s in the environment: a launcher has started this process, but does "
                        "not tell all numbers of a rank: set RANK, WORLD_SIZE, LOCAL_RANK and "
                        "LOCAL_WORLD_SIZE for each rank, as docs/launchers.md shows",
                        name, value);
    }
}

static const struct launcher *find_launcher(void) {
    if (getenv("RANK") || getenv("WORLD_SIZE") || getenv("LOCAL_RANK"))
        return launchers; // torchrun sets all three, so a missing one is an error
    for (size_t i = 1; i < sizeof launchers / sizeof *launchers; i++)
        if (getenv(launchers[i].rank) && getenv(launchers[i].world) &&
            getenv(launchers[i].local_rank))
            return &launchers[i];
    refuse_other_launchers();
    return NULL;
}

struct place find_place(void) {
    struct place p = {
        .launcher = "none, so this is the only rank; 03_multigpu_launcher/launch starts several",
        .world = 1,
        .local_world = 1};
    const struct launcher *l = find_launcher();
    if (l) {
        p.launcher = l->name;
        p.world = number_from_environment(l->world, 1, 1000000);
        p.rank = number_from_environment(l->rank, 0, p.world - 1);
        p.local_rank = number_from_environment(l->local_rank, 0, p.rank);
        const char *local_world = getenv(l->local_world);
        p.local_world = local_world ? atoi(local_world) : 0; // Slurm: 2(x3) is 2 on each of 3 nodes
        snprintf(error_name, sizeof error_name, "rank %d", p.rank);
    }
    for (int i = 0; i < 3 && l && l->run[i]; i++) {
        const char *name = getenv(l->run[i]);
        if (name) // a long name differs from others at its end rather than at its beginning
            snprintf(p.run + strlen(p.run), 80, "-%s",
                     strlen(name) > 70 ? name + strlen(name) - 70 : name);
    }
    return p;
}

int rank0_port(void) {
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    return number_from_environment("MASTER_PORT", 1, 65534) + (agent && !strcmp(agent, "True"));
}

int choose_device(const struct place *p) {
    int devices;
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    int ranks = max_size(p->local_world, p->local_rank + 1);
    if (gpus_are_shared())
        return share_gpus(p->local_rank, ranks, devices);
    if (devices > 1 && p->local_rank >= devices)
        fail("there is no GPU for local rank %d, only %d in all%s; SHARE_GPUS=1 lets ranks share a "
             "GPU",
             p->local_rank, devices, more_devices(ranks));
    return devices == 1 ? 0 : p->local_rank;
}
