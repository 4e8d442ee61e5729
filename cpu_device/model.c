#include "cpu_device/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cpu_model models[] = {
    {.name = "h100",
     .capacity = 80e9,
     .launch_call = 4e-6,
     .event_call = 1e-6,
     .collective_call = 8e-6,
     .wake = 5e-6,
     .latency = 3e-6,
     .gap = 1e-6,
     .memory = 3.35e12 * 0.9,
     .fp32 = 60e12,
     .tf32 = 400e12,
     .bf16 = 700e12,
     .product = 3e-6,
     .pcie = 55e9,
     .link = 370e9,
     .link_latency = 2e-6,
     .network = 48e9,
     .network_latency = 10e-6},
};

const struct cpu_model *cpu_model;
int cpu_computes = 1;

void cpu_model_init(void) {
    const char *name = getenv("CPU_DEVICE_MODEL"), *compute = getenv("CPU_DEVICE_COMPUTE");
    for (size_t i = 0; name && i < sizeof models / sizeof *models; i++)
        if (!strcmp(name, models[i].name))
            cpu_model = &models[i];
    cpu_computes = !compute || strcmp(compute, "0");
}

double cpu_model_seconds(const struct cpu_cost *cost, int device) {
    const struct cpu_model *m = cpu_model;
    double rate = cost->kind == CPU_PRODUCT_FP32   ? m->fp32
                  : cost->kind == CPU_PRODUCT_TF32 ? m->tf32
                                                   : m->bf16;
    (void)device;
    switch (cost->kind) {
    case CPU_PRODUCT_FP32:
    case CPU_PRODUCT_TF32:
    case CPU_PRODUCT_BF16:
        return m->gap + m->product + fmax(cost->flops / rate, cost->bytes / m->memory);
    case CPU_COPY_TO_DEVICE:
    case CPU_COPY_TO_HOST:
        return m->gap + cost->bytes / m->pcie;
    case CPU_COPY_ON_DEVICE:
        return m->gap + 2 * cost->bytes / m->memory;
    case CPU_KERNEL:
        return m->gap + cost->bytes / m->memory;
    default:
        return 0;
    }
}

double cpu_model_collective(int kind, double bytes, const int *devices, int ranks) {
    (void)kind;
    (void)devices;
    return ranks < 2
               ? cpu_model->gap
               : 2 * (ranks - 1) * (cpu_model->link_latency + bytes / ranks / cpu_model->link);
}

double cpu_model_transfer(double bytes, int from, int to) {
    (void)from;
    (void)to;
    return cpu_model->link_latency + bytes / cpu_model->link;
}

double cpu_model_lost(int device) {
    (void)device;
    return INFINITY;
}
