#include "07_large_models/costs.h"
#include "common/base/minmax.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "common/training/report.h"
#include "common/training/requests.h"
#include "common/training/training_options.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

double device_memory_used(void) {
    size_t left, all;
    CUDA_CHECK(cudaMemGetInfo(&left, &all));
    return (double)all - left;
}

__attribute__((format(printf, 4, 5))) static void
print_row(const char *kind, double measured, double computed, const char *formula, ...) {
    va_list arguments;
    va_start(arguments, formula);
    printf("  %-12s %14.0f %14.0f  ", kind, measured, computed);
    vprintf(formula, arguments);
    va_end(arguments);
    putchar('\n');
}

// Returns the computed bytes of the activations. *shared: the number of outputs that units share,
// because backward recomputes them.
static double activation_bytes(const struct units *f, int rows, int targets, int recompute,
                               size_t *shared) {
    const struct model *m = f->model;
    size_t widest = 0, gradient = 0, stored = m->layers[0].inputs; // floats per sample
    *shared = 0;
    for (const struct unit *u = f->units; u < f->units + f->unit_count; u++)
        for (int j = u->first_layer; j < u->end_layer; j++) {
            size_t width = m->layers[j].outputs + m->layers[j].workspace;
            widest = max_size(widest, width);
            gradient = max_size(gradient, m->layers[j].outputs);
            int last = j + 1 == u->end_layer;
            if (!recompute || (last && m->layers[j].workspace == 0)) {
                stored += width;
                continue;
            }
            *shared = max_size(*shared, j + 1 - u->first_layer);
            if (last)
                stored += m->layers[j].outputs;
        }
    // The lanes of the loss, their total, and the requests of the ranks.
    size_t sums = (STATS_LANES + 1) * sizeof(struct stats) + sizeof(struct requests);
    // The two gradients, dx and dy, have room for the layer with the most outputs.
    return (4. * (stored + *shared * widest + 2 * gradient) + targets) * rows + sums;
}

// Returns the computed bytes of the buffers for gathered units.
static double gathered_bytes(const struct units *f) {
    size_t buffers[2] = {0};
    if (!f->buffered)
        return 0;
    if (f->keep)
        return 4. * f->count * f->shards;
    for (int i = 0; i < f->unit_count; i++)
        buffers[i % 2] = max_size(buffers[i % 2], 4 * f->units[i].count * f->shards);
    return buffers[0] + buffers[1];
}

// The largest rates of matrix products in TFLOP/s, without sparsity (NVIDIA's data sheets).
static const struct peak {
    const char *name; // a part of the device's name
    double fp32, tf32, bf16;
} peaks[] = {
    {"A100", 19.5, 156, 312},   {"H100", 66.9, 494.7, 989.4}, {"H200", 66.9, 494.7, 989.4},
    {"B200", 74.4, 1100, 2250}, {"L40S", 91.6, 183, 362},     {"L4", 30.3, 60, 121},
};

static cudaEvent_t begin, end; // of the last training step; NULL: there was none

void step_begins(cudaStream_t stream) {
    if (!begin) {
        CUDA_CHECK(cudaEventCreate(&begin));
        CUDA_CHECK(cudaEventCreate(&end));
    }
    CUDA_CHECK(cudaEventRecord(begin, stream));
}

void step_ends(cudaStream_t stream) {
    CUDA_CHECK(cudaEventRecord(end, stream));
}

// Prints the row about the last training step of a rank, which had this many samples.
static void print_rate(const struct units *f, int samples) {
    struct cudaDeviceProp properties;
    double flops = 0;
    float ms;
    CUDA_CHECK(cudaEventSynchronize(end));
    CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    for (int i = 0; i < f->model->count; i++)
        flops += 3 * f->model->layers[i].flops * samples;
    printf("  FLOPs / step %.4g in %.4g ms%s, %.4g TFLOP/s", flops, ms,
           device_is_modelled() ? " (modelled)" : "", flops / ms / 1e9);
    for (const struct peak *p = peaks; p < peaks + sizeof peaks / sizeof *peaks; p++)
        if (strcasestr(properties.name, p->name)) {
            int bf16 = f->precision == BF16;
            double peak = bf16 ? p->bf16 : opt.tf32 ? p->tf32 : p->fp32;
            printf(", MFU %.1f %% of %g in %s", flops / ms / 1e7 / peak, peak,
                   bf16       ? "bf16"
                   : opt.tf32 ? "tf32"
                              : "fp32");
            break;
        }
    putchar('\n');
}

void print_costs(const struct units *f, const struct optimizer *o, int rows, int targets,
                 int recompute, double used) {
    double n = f->shards, r = f->replicas, sharded = f->count, all = sharded * n;
    size_t shared, data = device_bytes("data"), scratch = device_bytes("scratch");
    double activations = activation_bytes(f, rows, targets, recompute, &shared);
    double gathered = gathered_bytes(f);
    int gathers = f->keep ? 1 : 2;
    printf("costs of a rank in bytes: P = %.0f parameters with %.0f of padding, N = %d shard%s, "
           "R = %d replica%s\n",
           all, all - f->model->parameters, f->shards, PLURAL(f->shards), f->replicas,
           PLURAL(f->replicas));
    printf("  %-12s %14s %14s\n", "", "measured", "computed");
    print_row("parameters", device_bytes("parameters"), 4 * sharded, "4 P / N");
    print_row("gradients", device_bytes("gradients"), 4 * sharded, "4 P / N");
    print_row("optimizer", device_bytes("optimizer"), 4 * o->state_per_parameter * sharded,
              "%d P / N", 4 * o->state_per_parameter);
    print_row("gathered", device_bytes("gathered"), gathered, "%s",
              !f->buffered ? "nothing"
              : f->keep    ? "4 P"
                           : "two buffers, each for its largest unit");
    print_row("activations", device_bytes("activations"), activations, "of %d samples%s", rows,
              shared ? ", of units only their inputs" : "");
    print_row("peak", used,
              4 * (2 + o->state_per_parameter) * sharded + gathered + activations + data + scratch,
              "all these, data %zu and scratch %zu", data, scratch);
    if (f->sent_a_step >= 0) // else no training step has run
        print_row("sent / step", f->sent_a_step,
                  f->micro_batches * (gathers * f->size + 4) * all * (n - 1) / n +
                      8 * sharded * (r - 1) / r,
                  "%d (%d x %zu + 4) P (N - 1) / N + 8 P / N (R - 1) / R", f->micro_batches,
                  gathers, f->size);
    if (begin)
        print_rate(f, rows * f->micro_batches);
}
