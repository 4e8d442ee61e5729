// How this process becomes a rank: as in step 2, by fork, or by a launcher's word. Nothing here knows what
// the ranks are for.
#pragma once
#include "../common/error.h"
#include "../common/options.h"
#include <errno.h>
#include <nccl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// In memory that all ranks share.
struct meeting {
    int devices;
    ncclUniqueId id;
    sem_t id_made;
};

// The number of GPUs, counted by a process of its own: one that has called CUDA must not fork.
static int count_devices(struct meeting *m) {
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        CUDA_CHECK(cudaGetDeviceCount(&m->devices));
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0)
        fail("cannot start a process: %s", strerror(errno));
    if (status)
        exit(1);
    return m->devices;
}

// Returns when all ranks have ended well. At the first failure the others are ended, and the program.
static void wait_for_ranks(const pid_t *pids, int ranks, const sigset_t *signals) {
    for (int left = ranks, signal, status, rank = 0; left > 0;) {
        sigwait(signals, &signal);
        pid_t pid = signal == SIGCHLD ? waitpid(-1, &status, WNOHANG) : 0;
        for (; pid > 0 && status == 0; left--)
            pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0 && signal == SIGCHLD)
            continue;
        for (int i = 0; i < ranks; i++)
            kill(pids[i], SIGKILL);
        if (signal != SIGCHLD)
            fail("stopped by SIG%s", sigabbrev_np(signal));
        while (pids[rank] != pid)
            rank++;
        if (WIFSIGNALED(status))
            fail("rank %d (pid %d) was killed by SIG%s", rank, pid, sigabbrev_np(WTERMSIG(status)));
        fail("rank %d (pid %d) ended with code %d", rank, pid, WEXITSTATUS(status));
    }
}

// Starts a process for each rank. They return from here, each with its rank; the program itself waits for
// them.
static int start_ranks(int ranks) {
    sigset_t signals, before;
    pid_t parent = getpid(), pids[ranks];
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before);
    for (int rank = 0; rank < ranks; rank++) {
        pids[rank] = fork();
        if (pids[rank] < 0)
            fail("cannot start rank %d: %s", rank, strerror(errno));
        if (pids[rank] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                exit(1);
            sigprocmask(SIG_SETMASK, &before, NULL);
            return rank;
        }
    }
    wait_for_ranks(pids, ranks, &signals);
    exit(0);
}

// Without a launcher: ranks of our own, whose first one makes the id by which NCCL brings them together.
static void fork_ranks(const char *nproc, int *rank, int *ranks, ncclUniqueId *id) {
    char *end;
    *ranks = strtol(nproc, &end, 10);
    if (strcmp(nproc, "gpu") && (end == nproc || *end || *ranks < 1))
        wrong_usage("--nproc %s: want a number of ranks from 1 on, or gpu", nproc);
    struct meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED || sem_init(&m->id_made, 1, 0))
        fail("no memory to share: %s", strerror(errno));
    int devices = count_devices(m);
    if (!strcmp(nproc, "gpu"))
        *ranks = devices;
    if (*ranks > devices)
        wrong_usage("--nproc %d: there are %d GPUs", *ranks, devices);
    error_rank = *rank = start_ranks(*ranks);
    CUDA_CHECK(cudaSetDevice(*rank));
    if (*rank == 0) {
        NCCL_CHECK(ncclGetUniqueId(&m->id));
        for (int other = 1; other < *ranks; other++)
            sem_post(&m->id_made);
    } else
        while (sem_wait(&m->id_made))
            ;
    *id = m->id;
}

static int from_environment(const char *name, long min, long max) {
    const char *text = getenv(name);
    char *end;
    if (!text)
        wrong_usage("RANK is set, but %s is not: a launcher such as torchrun sets both", name);
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < min || number > max)
        wrong_usage("%s=%s in the environment: want a number from %ld to %ld", name, text, min, max);
    return number;
}

// Started by a launcher, which has set torchrun's variables. With NCCL_COMM_ID every rank makes the same id,
// and NCCL's rank 0 waits for the others at that address.
static void join_launched(int *rank, int *ranks, ncclUniqueId *id) {
    char address[300];
    const char *host = getenv("MASTER_ADDR"), *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    *ranks = from_environment("WORLD_SIZE", 1, 1000);
    *rank = from_environment("RANK", 0, *ranks - 1);
    int device = from_environment("LOCAL_RANK", 0, *rank), port = from_environment("MASTER_PORT", 1, 65534),
        devices;
    if (!host || !*host)
        wrong_usage("RANK is set, but MASTER_ADDR is not: a launcher such as torchrun sets both");
    error_rank = *rank;
    // At its own port torchrun listens itself, as long as its ranks run.
    port += agent && !strcmp(agent, "True");
    snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    setenv("NCCL_COMM_ID", address, 1);
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    CUDA_CHECK(cudaSetDevice(devices == 1 ? 0 : device)); // some launchers show each rank its own GPU only
    NCCL_CHECK(ncclGetUniqueId(id));
}

static void become_rank(const char *nproc, int *rank, int *ranks, ncclUniqueId *id) {
    if (getenv("RANK"))
        join_launched(rank, ranks, id);
    else
        fork_ranks(nproc, rank, ranks, id);
    setvbuf(stdout, NULL, _IOLBF, 0);                    // a job log shows each line at once
    if (*rank > 0 && !freopen("/dev/null", "w", stdout)) // rank 0 speaks for all
        fail("/dev/null: %s", strerror(errno));
}
