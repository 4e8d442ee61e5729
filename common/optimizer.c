#include "common/optimizer.h"
#include "common/error.h"
#include "common/kernels.h"
#include "common/training_options.h"
#include <stdio.h>
#include <string.h>

static void sgd(const struct optimizer *o, double lr, float *parameters, const float *gradients,
                float *state, size_t count, long step, cudaStream_t stream) {
    (void)step;
    sgd_step(parameters, gradients, state, count, lr, o->momentum, o->weight_decay, stream);
}

static void adam(const struct optimizer *o, double lr, float *parameters, const float *gradients,
                 float *state, size_t count, long step, cudaStream_t stream) {
    adam_step(parameters, gradients, state, state + count, count, lr, o->weight_decay, 0, step,
              stream);
}

static void adamw(const struct optimizer *o, double lr, float *parameters, const float *gradients,
                  float *state, size_t count, long step, cudaStream_t stream) {
    adam_step(parameters, gradients, state, state + count, count, lr, o->weight_decay, 1, step,
              stream);
}

static const struct optimizer optimizers[] = {
    {.name = "sgd", .state_per_parameter = 1, .has_momentum = 1, .lr = 0.05, .update = sgd},
    {.name = "adam", .state_per_parameter = 2, .counts_steps = 1, .lr = 0.001, .update = adam},
    {.name = "adamw", .state_per_parameter = 2, .counts_steps = 1, .lr = 0.001, .update = adamw},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

static double constant(long step, long steps) {
    (void)step, (void)steps;
    return 1;
}

static const struct {
    const char *name;
    double (*schedule)(long step, long steps);
} schedules[] = {
    {"constant", constant},
};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

const char *optimizer_name(int i) {
    return i < OPTIMIZERS ? optimizers[i].name : NULL;
}

const char *schedule_name(int i) {
    return i < SCHEDULES ? schedules[i].name : NULL;
}

static const struct optimizer *find_optimizer(const char *name) {
    const struct optimizer *o = optimizers;
    while (o < optimizers + OPTIMIZERS && strcmp(o->name, name))
        o++;
    return o < optimizers + OPTIMIZERS ? o : NULL;
}

int optimizer_counts_steps(const char *name) {
    const struct optimizer *o = find_optimizer(name);
    return o && o->counts_steps;
}

int optimizer_build(struct optimizer *o, const struct training_options *options, size_t samples,
                    char why[WHY_SIZE]) {
    const struct optimizer *found = find_optimizer(options->optimizer);
    int schedule = 0;
    while (schedule < SCHEDULES && strcmp(options->schedule, schedules[schedule].name))
        schedule++;
    if (!found || schedule == SCHEDULES)
        return refuse(why, "--optimizer %s --schedule %s: there is no such %s", options->optimizer,
                      options->schedule, found ? "schedule" : "optimizer");
    *o = *found;
    o->lr = options->lr ? options->lr : found->lr; // auto is 0
    o->momentum = options->momentum;
    o->weight_decay = options->weight_decay;
    o->schedule = schedules[schedule].schedule;
    o->steps = options->epochs * (samples / options->batch);
    if (options->max_steps && options->max_steps < o->steps)
        o->steps = options->max_steps;
    int used = snprintf(o->text, sizeof o->text, "%s, lr %g", o->name, o->lr);
    if (o->has_momentum)
        used += snprintf(o->text + used, sizeof o->text - used, ", momentum %g", o->momentum);
    if (o->weight_decay)
        snprintf(o->text + used, sizeof o->text - used, ", weight decay %g", o->weight_decay);
    return 0;
}

void optimizer_step(const struct optimizer *o, float *parameters, const float *gradients,
                    float *state, size_t count, long step, cudaStream_t stream) {
    double lr = o->lr * o->schedule(step, o->steps);
    o->update(o, lr, parameters, gradients, state, count, step, stream);
}
