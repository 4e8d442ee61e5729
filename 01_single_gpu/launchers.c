#include "01_single_gpu/launchers.h"
#include "common/base/options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A launcher can start another one, as when Slurm starts torchrun. Then the variables of both are
// set. Inner launchers come first here, so the first one that has set rank, world and local_rank
// has started this process. (In a batch script, Slurm does not set SLURM_STEP_NUM_TASKS.)
static const struct launcher launchers[] = {
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

// Without all numbers, each process would train alone, and all of them would write the same files.
// So no variable may show that there are other processes.
static void refuse_other_launchers(void) {
    static const char *const numbers[] = {"ALPS_APP_PE", "FLUX_TASK_RANK", "PALS_RANKID",
                                          "JOB_COMPLETION_INDEX"}; // of Kubernetes
    const char *found = NULL, *size;
    char name[256], *end;
    int rank;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (getenv(numbers[i]))
            found = numbers[i];
    for (char **v = environ; *v; v++) { // any launcher's X_RANK, and X_SIZE if there is one
        end = sscanf(*v, "%250[^=]=%d", name, &rank) == 2 ? strrchr(name, '_') : NULL;
        if (!end || strcmp(end, "_RANK"))
            continue;
        strcpy(end, "_SIZE");
        if (rank > 0 || ((size = getenv(name)) && atoi(size) > 1))
            found = *v;
    }
    if (found)
        wrong_usage("%s in the environment: a launcher has started this process, but does not tell "
                    "all numbers of a rank: set RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE "
                    "for each rank, as docs/launchers.md shows, or unset it",
                    found);
}

const struct launcher *find_launcher(void) {
    if (getenv("RANK") || getenv("WORLD_SIZE") || getenv("LOCAL_RANK"))
        return launchers; // torchrun sets all three, so a missing one is an error
    for (size_t i = 1; i < sizeof launchers / sizeof *launchers; i++)
        if (getenv(launchers[i].rank) && getenv(launchers[i].world) &&
            getenv(launchers[i].local_rank))
            return &launchers[i];
    refuse_other_launchers();
    return NULL;
}

// Only copy 0 prints the error. The other copies wait for it, because a launcher may end all copies
// when the first one exits.
void refuse_launchers(void) {
    const struct launcher *l = find_launcher();
    int copies = l ? number_from_environment(l->world, 1, 1000000) : 1;
    if (copies == 1)
        return;
    if (number_from_environment(l->rank, 0, copies - 1) > 0) {
        sleep(3);
        exit(2);
    }
    wrong_usage(
        "a launcher has started %d copies of this program (%s), and they would not work "
        "together: start it once (steps 2 and 6: with --nproc %d), or start train of step 3 "
        "or later in this way",
        copies, l->name, copies);
}
