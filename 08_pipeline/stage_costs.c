#include "08_pipeline/stage_costs.h"
#include "common/base/minmax.h"
#include "common/base/say.h"
#include "common/device/device.h"
#include "common/training/requests.h"
#include <stdio.h>

void print_pipeline(const struct pipeline *p) {
    const struct pipeline_schedule *s = &p->training.schedule;
    double all = 0;
    say("pipeline  %s: stages: %d, replicas: %d, micro-batches: %d of %d, idle %.1f %%\n",
        pipeline_schedule_name(p->kind), p->stages, p->replicas, p->micro_batches, p->rows,
        100. * s->ticks / s->count - 100);
    for (int i = 0; i < p->model->count; i++)
        all += p->model->layers[i].flops;
    say("stages   ");
    for (int part = 0; part < p->stages * p->chunks; part++) {
        double flops = 0;
        for (int i = p->cut[part]; i < p->cut[part + 1]; i++)
            flops += p->model->layers[i].flops;
        say("%s %d-%d (%.0f %%)", part ? "," : " layers", p->cut[part] + 1, p->cut[part + 1],
            100 * flops / all);
    }
    say(" of the FLOPs\n");
}

void print_cost(const char *kind, double measured, double computed, const char *formula) {
    printf("  %-12s %14.0f %14.0f  %s\n", kind, measured, computed, formula);
}

void print_stage_costs(const struct pipeline *p, int state_per_parameter, int targets) {
    const struct layer *layers = p->model->layers;
    size_t stored = 0, widest = 0, edges = 0; // floats per sample
    for (int chunk = 0; chunk < p->chunks; chunk++) {
        int begin = chunk_begin(p, chunk), end = chunk_end(p, chunk);
        stored += layers[begin].inputs;
        widest = max_size(layers[begin].inputs, widest);
        for (int i = begin; i < end; i++) {
            size_t width = layers[i].outputs + layers[i].workspace;
            stored += width;
            widest = max_size(width, widest);
        }
        edges += begin > 0 ? layers[begin].inputs : 0;
        edges += end < p->model->count ? layers[end].inputs : 0;
    }
    // The lanes of the loss, their total, and the requests of the ranks.
    size_t sums = (STATS_LANES + 1) * sizeof(struct stats) + sizeof(struct requests);
    double floats = p->in_flight * stored + (2. + p->waiting) * widest;
    printf("costs of stage %d in bytes: %zu parameters, %d of %d micro-batches in flight\n",
           p->stage, p->count, p->in_flight, p->micro_batches);
    printf("  %-12s %14s %14s\n", "", "measured", "computed");
    print_cost("parameters", device_bytes("parameters"), 4. * p->count, "of this stage");
    print_cost("gradients", device_bytes("gradients"), 4. * (p->count + p->largest),
               "and those of one layer and micro-batch");
    print_cost("optimizer", device_bytes("optimizer"), 4. * state_per_parameter * p->count, "");
    print_cost("activations", device_bytes("activations"), (4 * floats + targets) * p->rows + sums,
               "of the micro-batches in flight");
    if (p->sent_a_step >= 0) // else no training step has run
        print_cost("sent / step", p->sent_a_step, 4. * edges * p->rows * p->micro_batches,
                   "outputs and gradients at each cut");
}
