#include "03_multigpu_launcher/count_ranks.h"
#include "common/base/options.h"
#include "common/device/driver.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int count_ranks(const char *text) {
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
