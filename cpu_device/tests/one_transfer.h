// The modelled time of a send that is alone in its group.
#pragma once
#include "../src/gpu_model.h"
#include <math.h>

static inline double one_transfer(double bytes, int from, int to) {
    double seconds = INFINITY;
    for (int protocol = 0; protocol < CPU_PROTOCOLS; protocol++) {
        struct cpu_transfer t = cpu_model_transfer(protocol, bytes, from, to);
        seconds = fmin(seconds, t.latency + t.path);
    }
    return seconds;
}
