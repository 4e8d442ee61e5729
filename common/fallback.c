// Make links this file into every program that it builds for a GPU. On a machine without an NVIDIA
// driver or without a GPU (a laptop, a login node), it starts PROGRAM.cpu in place of PROGRAM: the
// same program, built for the CPU device. Make creates PROGRAM.cpu, except with DEVICE=gpu.
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// Runs in a child process: step 2 forks later, and CUDA does not work in the children of a process
// that has called it.
static int driver_has_gpu(void) {
    int count = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return 0;
    // If the driver's kernel module is loaded, there is a GPU. The program then runs on the GPU and
    // reports any error itself. This also avoids cuInit in the child, which can take seconds.
    if (access("/proc/driver/nvidia/version", F_OK) == 0)
        return 1;
    int (*initialise)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*get_count)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
    return initialise && get_count && !initialise(0) && !get_count(&count) && count > 0;
}

// Runs before main and gets the same arguments.
__attribute__((constructor)) static void fall_back(int argc, char **argv) {
    char path[PATH_MAX] = "", program[PATH_MAX + 4];
    int status = 0;
    (void)argc;
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
        return;
    snprintf(program, sizeof program, "%s.cpu", path);
    if (access(program, X_OK))
        return;
    pid_t child = fork();
    if (child == 0)
        _exit(driver_has_gpu());
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0) {
        setenv("NO_GPU_HERE", "1", 1); // print_device says so
        execv(program, argv);
    }
}
