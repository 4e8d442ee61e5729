// What a rank holds and sends, as counted and as it should be.
#pragma once
#include "07_large_models/units.h"
#include "common/device.h"
#include "common/optimizer.h"
#include "common/report.h"
#include <stdarg.h>
#include <stdio.h>

static double device_memory_used(void) {
    size_t left, all;
    CUDA_CHECK(cudaMemGetInfo(&left, &all));
    return (double)all - left;
}

__attribute__((format(printf, 4, 5))) static void
print_cost(const char *kind, double measured, double computed, const char *formula, ...) {
    va_list arguments;
    va_start(arguments, formula);
    printf("  %-12s %14.0f %14.0f  ", kind, measured, computed);
    vprintf(formula, arguments);
    va_end(arguments);
    putchar('\n');
}

// used: device memory that is in use and was not before the model was placed.
static void print_costs(const struct fsdp *f, const struct optimizer *o, int rows, int targets,
                        int recompute, double used) {
    const struct model *m = f->model;
    double all = (double)f->count * f->shards, n = f->shards, r = f->replicas, sharded = all / n;
    double gathered = 0, buffers[2] = {0}, others = device_bytes("data") + device_bytes("scratch");
    size_t widest = 0, kept = m->layers[0].inputs, inner = 0;
    int gathers = f->keep ? 1 : 2;
    for (int i = 0; i < f->unit_count; i++) {
        const struct unit *u = &f->units[i];
        buffers[i % 2] = fmax(buffers[i % 2], 4 * n * u->count);
        for (int j = u->first_layer; j < u->end_layer; j++) {
            size_t width = m->layers[j].outputs + m->layers[j].workspace;
            widest = fmax(widest, width);
            if (recompute && j + 1 < u->end_layer)
                inner = fmax(inner, j + 1 - u->first_layer);
            else
                kept += width;
        }
    }
    if (f->buffered)
        gathered = f->keep ? 4 * all : buffers[0] + buffers[1];
    double active = (4. * (kept + (inner + 2) * widest) + targets) * rows +
                    (STATS_LANES + 1) * sizeof(struct stats) + sizeof(double);
    printf(
        "costs of a rank in bytes: P = %.0f parameters with %.0f of padding, N = %d shards, R = %d "
        "replicas\n",
        all, all - m->parameters, f->shards, f->replicas);
    printf("  %-12s %14s %14s\n", "", "measured", "computed");
    print_cost("parameters", device_bytes("parameters"), 4 * sharded, "4 P / N");
    print_cost("gradients", device_bytes("gradients"), 4 * sharded, "4 P / N");
    print_cost("optimizer", device_bytes("optimizer"), 4 * o->state_per_parameter * sharded,
               "%d P / N", 4 * o->state_per_parameter);
    print_cost("gathered", device_bytes("gathered"), gathered, "%s",
               !f->buffered ? "nothing"
               : f->keep    ? "4 P"
                            : "two buffers, each for its largest unit");
    print_cost("activations", device_bytes("activations"), active, "of %d samples%s", rows,
               inner ? ", of units only their inputs" : "");
    print_cost(
        "peak", used, 4 * (2 + o->state_per_parameter) * sharded + gathered + active + others,
        "all these, data %zu and scratch %zu", device_bytes("data"), device_bytes("scratch"));
    if (f->sent_a_step >= 0) // else there was no step
        print_cost("sent a step", f->sent_a_step,
                   f->micro_steps * (gathers * f->size + 4) * all * (n - 1) / n +
                       8 * sharded * (r - 1) / r,
                   "%d (%d x %zu + 4) P (N - 1) / N + 8 P / N (R - 1) / R", f->micro_steps, gathers,
                   f->size);
}
