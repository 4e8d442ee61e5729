#include "02_multigpu_fork/ranks.h"
#include "02_multigpu_fork/share_gpus.h"
#include "common/base/error.h"
#include "common/base/options.h"
#include "common/base/signals.h"
#include "common/device/device.h"
#include "common/training/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int gpus; // on this machine

void *share_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("no memory to share: %m");
    return memory;
}

static int count_devices(void) {
    int status, *devices = share_memory(sizeof *devices);
    signal(SIGCHLD, SIG_DFL); // if it is ignored, waitpid does not work
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CUDA_CHECK(cudaGetDeviceCount(devices));
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0)
        fail("cannot count the GPUs in a child: %m");
    if (WIFSIGNALED(status))
        fail("counting the GPUs: %s", strsignal(WTERMSIG(status)));
    if (status)
        exit(1); // the child has printed the reason
    return *devices;
}

int choose_world(long nproc) {
    gpus = count_devices();
    if (!gpus_are_shared() && nproc > gpus)
        wrong_usage("--nproc %ld is more than there are GPUs (%d)%s; SHARE_GPUS=1 lets ranks share "
                    "a GPU",
                    nproc, gpus, more_devices(nproc));
    return nproc ? nproc : gpus;
}

int choose_gpu(int rank, int world) {
    return gpus_are_shared() ? share_gpus(rank, world, gpus) : rank;
}

// Prints how the first rank that failed has ended.
static void report_end(int rank, pid_t pid, int status) {
    if (WIFSIGNALED(status))
        fprintf(stderr, "error: rank %d (pid %d) was ended by signal %d, %s\n", rank, pid,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "error: rank %d (pid %d) ended with exit code %d\n", rank, pid,
                WEXITSTATUS(status));
}

static void kill_ranks(const pid_t *pids, int world, int signal) {
    for (int rank = 0; rank < world; rank++)
        if (pids[rank])
            kill(pids[rank], signal);
}

// Waits until all ranks have ended. Passes a signal on to them, so that they save and end. If a
// rank fails or a second request arrives, ends the others at once. Returns the exit code.
static int wait_for_ranks(pid_t *pids, int world, const sigset_t *signals) {
    int code = 0, told = 0, left = world, signal, status;
    pid_t pid;
    while (left > 0) {
        sigwait(signals, &signal);
        if (signal != SIGCHLD && code == 0) {
            if (count_request() == SECOND_REQUEST)
                code = 128 + signal; // the exit code that a shell would return
            told = signal;
            kill_ranks(pids, world, signal);
        }
        for (; (pid = waitpid(-1, &status, WNOHANG)) > 0; left--) {
            int rank = 0;
            while (pids[rank] != pid)
                rank++;
            pids[rank] = 0;
            if (status && code == 0) {
                int asked = told && WIFSIGNALED(status) && sigismember(signals, WTERMSIG(status));
                code = told ? 128 + told : 1;
                if (!asked) // a signal ends a rank that does not train yet
                    report_end(rank, pid, status);
            }
        }
        if (code) {
            kill_ranks(pids, world, SIGSTOP); // no rank prints an error about the end of another
            kill_ranks(pids, world, SIGKILL);
        }
    }
    return code;
}

int start_ranks(int world) {
    pid_t parent = getpid(), pids[world];
    sigset_t signals, before;
    signal(SIGCHLD, SIG_DFL); // if it is ignored, waitpid does not work
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    add_stop_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &before);
    for (int rank = 0; rank < world; rank++) {
        pids[rank] = fork();
        if (pids[rank] < 0)
            fail("fork: %m");
        if (pids[rank] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); // if the parent dies, so does this rank
            if (getppid() != parent)
                _exit(1);
            sigprocmask(SIG_SETMASK, &before, NULL);
            snprintf(error_name, sizeof error_name, "rank %d", rank);
            return rank;
        }
    }
    exit(wait_for_ranks(pids, world, &signals));
}
