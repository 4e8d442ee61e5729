// How many ranks a node gets.
#pragma once
#include "../common/options.h"
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// The libraries of CUDA, which take 0.1 s to load, are not linked, and the driver is asked by a
// child.
static int count_gpus(void) {
    int status = 0, count = 0;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // should the driver hang
        if (getppid() != parent)
            _exit(0);
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        int (*initialise)(unsigned) = driver ? dlsym(driver, "cuInit") : NULL;
        int (*get_count)(int *) = driver ? dlsym(driver, "cuDeviceGetCount") : NULL;
        if (initialise && get_count && !initialise(0))
            get_count(&count);
        _exit(count);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

// text: what --nproc-per-node says.
static int count_ranks(const char *text) {
    int gpu = !strcmp(text, "gpu"), any = !strcmp(text, "auto");
    int gpus = gpu || any ? count_gpus() : 0;
    cpu_set_t cores;
    if (gpus)
        return gpus;
    if (gpu)
        wrong_usage(
            "--nproc-per-node gpu: no NVIDIA driver here knows of a GPU; give a number, or cpu");
    if (any || !strcmp(text, "cpu"))
        return sched_getaffinity(0, sizeof cores, &cores) ? sysconf(_SC_NPROCESSORS_ONLN)
                                                          : CPU_COUNT(&cores);
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 1 || number > 1000)
        wrong_usage("--nproc-per-node %s: want a number from 1 to 1000, gpu, cpu or auto", text);
    return number;
}
