#include "08_pipeline/stage_costs.h"
#include "common/base/minmax.h"
#include "common/base/say.h"
#include "common/device/device.h"
#include "common/training/requests.h"
#include <stdio.h>

void print_pipeline(const struct pipeline *p) {
    double all = 0;
    say("pipeline  %s: %d stage%s, %d replica%s, %d micro-batch%s of %d sample%s, idle %.1f %%\n",
        pipeline_schedule_name(pipeline_opt.schedule), p->stages, PLURAL(p->stages), p->replicas,
        PLURAL(p->replicas), p->micro_batches, p->micro_batches == 1 ? "" : "es", p->rows,
        PLURAL(p->rows), 100. * (p->stages - 1) / (p->micro_batches + p->stages - 1));
    for (int i = 0; i < p->all->count; i++)
        all += p->all->layers[i].flops;
    say("stages   ");
    for (int stage = 0; stage < p->stages; stage++) {
        double flops = 0;
        for (int i = p->cut[stage]; i < p->cut[stage + 1]; i++)
            flops += p->all->layers[i].flops;
        say("%s %d-%d (%.0f %%)", stage ? "," : " layers", p->cut[stage] + 1, p->cut[stage + 1],
            100 * flops / all);
    }
    say(" of the FLOPs\n");
}

void print_cost(const char *kind, double measured, double computed, const char *formula) {
    printf("  %-12s %14.0f %14.0f  %s\n", kind, measured, computed, formula);
}

void print_stage_costs(const struct pipeline *p, int state_per_parameter, int targets) {
    const struct model *m = p->model;
    size_t stored = m->layers[0].inputs, widest = stored, edges = 0; // floats per sample
    for (int i = 0; i < m->count; i++) {
        stored += (size_t)m->layers[i].outputs + m->layers[i].workspace;
        widest = max_size(m->layers[i].outputs, widest);
    }
    edges += p->first_stage ? 0 : m->layers[0].inputs;
    edges += p->last_stage ? 0 : m->layers[m->count - 1].outputs;
    // The lanes of the loss, their total, and the requests of the ranks.
    size_t sums = (STATS_LANES + 1) * sizeof(struct stats) + sizeof(struct requests);
    double floats = p->in_flight * stored + 2. * widest;
    printf("costs of stage %d in bytes: %zu parameters, %d of %d micro-batches in flight\n",
           p->stage, m->parameters, p->in_flight, p->micro_batches);
    printf("  %-12s %14s %14s\n", "", "measured", "computed");
    print_cost("parameters", device_bytes("parameters"), 4. * m->parameters, "of this stage");
    print_cost("gradients", device_bytes("gradients"), 4. * (m->parameters + p->largest),
               "and those of one layer and micro-batch");
    print_cost("optimizer", device_bytes("optimizer"), 4. * state_per_parameter * m->parameters,
               "");
    print_cost("activations", device_bytes("activations"), (4 * floats + targets) * p->rows + sums,
               "of the micro-batches in flight");
    if (p->sent_a_step >= 0) // else no training step has run
        print_cost("sent / step", p->sent_a_step, 4. * edges * p->rows * p->micro_batches,
                   "outputs and gradients at each cut");
}
