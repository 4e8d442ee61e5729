// Who this process is among the ranks: a launcher tells it in environment variables, each in its own.
#pragma once
#include "../common/error.h"
#include "../common/options.h"
#include "../common/report.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct place {
    const char *launcher;
    int rank, world, local_rank; // local_rank: among those on this node
    char run[256];               // what this run and attempt is called, and no other that is going on here
};

// Launchers may start each other, such as Slurm torchrun, and all leave their variables: the first here that
// has set all three has started this very process. (In a batch script of Slurm, SLURM_STEP_NUM_TASKS is not
// set.)
static const struct launcher {
    const char *name, *rank, *world, *local_rank, *run[3];
} launchers[] = {
    {"torchrun's variables",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}},
    {"Open MPI's variables",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     {"PMIX_NAMESPACE"}},
    {"PALS's variables", "PMI_RANK", "PMI_SIZE", "PALS_LOCAL_RANKID", {"PALS_APID"}},
    {"MPICH's variables", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", {NULL}},
    {"Slurm's variables",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
};

static int from_environment(const char *name, int min, int max) {
    const char *text = getenv(name);
    if (!text)
        wrong_usage("%s is not set, but others of RANK, WORLD_SIZE and LOCAL_RANK are", name);
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < min || number > max)
        wrong_usage("%s=%s in the environment: want a number from %d to %d", name, text, min, max);
    return number;
}

static const struct launcher *find_launcher(void) {
    if (getenv("RANK") || getenv("WORLD_SIZE") || getenv("LOCAL_RANK"))
        return launchers; // torchrun's should be complete
    for (size_t i = 1; i < sizeof launchers / sizeof *launchers; i++)
        if (getenv(launchers[i].rank) && getenv(launchers[i].world) && getenv(launchers[i].local_rank))
            return &launchers[i];
    return NULL;
}

// Without a launcher, the only rank. Contradictions end the program.
static struct place find_place(void) {
    struct place p = {.launcher = "none: the only rank", .world = 1};
    const struct launcher *l = find_launcher();
    if (l) {
        p.launcher = l->name;
        p.world = from_environment(l->world, 1, 1000000);
        p.rank = from_environment(l->rank, 0, p.world - 1);
        p.local_rank = from_environment(l->local_rank, 0, p.rank);
        error_rank = p.rank;
    }
    for (int i = 0; i < 3 && l && l->run[i]; i++) {
        const char *name = getenv(l->run[i]);
        if (name) // the end of a long one tells more than its beginning
            snprintf(p.run + strlen(p.run), 80, "-%s", strlen(name) > 70 ? name + strlen(name) - 70 : name);
    }
    if (!*p.run) // ranks without a name in common have a parent in common
        snprintf(p.run, sizeof p.run, "-%d", l ? getppid() : getpid());
    for (char *slash = p.run; (slash = strchr(slash, '/'));)
        *slash = '_';
    return p;
}

// The GPU of this rank: the only one that it sees, or of all the one with the number of its local rank.
static int choose_device(const struct place *p) {
    int devices;
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    if (devices > 1 && p->local_rank >= devices)
        fail("local rank %d has no GPU of its own: there are %d", p->local_rank, devices);
    return devices == 1 ? 0 : p->local_rank;
}

static char folder_path[PATH_MAX]; // of this run and attempt
static int folder, id_file = -1;   // id_file: rank 0's

// It must be this user's alone: who can write there can lead the ranks astray.
static void open_folder(const struct place *p) {
    struct stat s;
    const char *parent = getenv("TMPDIR");
    snprintf(folder_path, PATH_MAX, "%s/ranks-%d%s", parent && *parent ? parent : "/tmp", geteuid(), p->run);
    if (mkdir(folder_path, 0700) && errno != EEXIST)
        fail("cannot make the folder %s: %m", folder_path);
    folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &s))
        fail("cannot open the folder %s: %m", folder_path);
    if (s.st_uid != geteuid() || (s.st_mode & 077))
        fail("%s must be a folder that nobody but this user can write to", folder_path);
}

// Rank 0 holds its file locked as long as it lives, so one that a killed run has left is never taken for it.
static int read_id(ncclUniqueId *id) {
    int file = openat(folder, "id", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int locked = file >= 0 && flock(file, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    int found = locked && read(file, id, sizeof *id) == sizeof *id;
    close(file);
    return found;
}

// When all ranks have met, or this one leaves before.
static void forget_id(void) {
    if (id_file >= 0 && !unlinkat(folder, "id", 0))
        id_file = -1;
    rmdir(folder_path); // not while there is an id in it
    *folder_path = 0;   // another run may have one of that name soon
}

static void leave_early(int signal) {
    forget_id();
    _exit(128 + signal);
}

// Gives the id of rank 0 to the other ranks on this node, through a file.
static void share_id(const struct place *p, ncclUniqueId *id, double timeout) {
    ncclUniqueId other;
    open_folder(p);
    if (p->rank == 0 && read_id(&other))
        fail("another rank 0 of this run has left its id in %s", folder_path);
    atexit(forget_id);
    signal(SIGTERM, leave_early);
    if (p->rank == 0) {
        int file = openat(folder, "new", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0 || flock(file, LOCK_EX | LOCK_NB) || ftruncate(file, 0) ||
            write(file, id, sizeof *id) != sizeof *id ||
            renameat(folder, "new", folder, "id")) // whole or not at all
            fail("cannot write %s/id: %m", folder_path);
        id_file = file;
    }
    for (double end = seconds() + timeout; p->rank > 0 && !read_id(id); usleep(1000))
        if (seconds() > end)
            fail("waited %.0f s (--join-timeout) for rank 0 to write %s/id", timeout, folder_path);
}
