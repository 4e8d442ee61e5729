// Make links this file into every program that it builds for a GPU, except the launcher. On a
// machine without an NVIDIA driver or without a GPU (a laptop, a login node), it starts PROGRAM.cpu
// in place of PROGRAM: the same program, built for the CPU device. If the driver's kernel module is
// loaded, there is a GPU, and PROGRAM runs and reports any error itself. Make creates PROGRAM.cpu,
// except with DEVICE=gpu.
#include "common/device/driver.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Runs before main and gets the same arguments.
__attribute__((constructor)) static void fall_back(int argc, char **argv) {
    char path[PATH_MAX] = "", program[PATH_MAX + 4];
    (void)argc;
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
        return;
    snprintf(program, sizeof program, "%s.cpu", path);
    if (access(program, X_OK))
        return;
    if (driver_gpus(1) == 0) {
        setenv("NO_GPU_HERE", "1", 1); // print_device then prints a note
        execv(program, argv);
    }
}
