#include "common/training/optimizer.h"
#include "common/base/error.h"
#include "common/device/spans.h"
#include "common/kernels/kernels.h"
#include "common/training/catalogue.h"
#include "common/training/training_options.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void update_by_sgd(const struct optimizer *o, double lr, float *parameters,
                          const float *gradients, float *state, size_t count, long step,
                          cudaStream_t stream) {
    (void)step;
    sgd_step(parameters, gradients, state, count, lr, o->momentum, o->weight_decay, stream);
}

const struct optimizer sgd = {
    .name = "sgd", .state_per_parameter = 1, .lr = 0.05, .momentum = 0.9, .update = update_by_sgd};

const char *optimizer_name(int i) {
    return catalogue->optimizers[i] ? catalogue->optimizers[i]->name : NULL;
}

const char *optimizer_lr(int i) {
    static char text[32];
    const struct optimizer *o = catalogue->optimizers[i];
    if (o)
        snprintf(text, sizeof text, "%g for %s", o->lr, o->name);
    return o ? text : NULL;
}

static const struct optimizer *find_optimizer(const char *name) {
    const struct optimizer *const *o = catalogue->optimizers;
    while (*o && strcmp((*o)->name, name))
        o++;
    return *o;
}

int optimizer_counts_steps(const char *name) {
    const struct optimizer *o = find_optimizer(name);
    return o && o->counts_steps;
}

double optimizer_setting(double option, double usual) {
    return usual > 0 && !isnan(option) ? option : usual;
}

int optimizer_build(struct optimizer *o, const struct training_options *options, size_t samples,
                    char why[WHY_SIZE]) {
    const struct optimizer *found = find_optimizer(options->optimizer);
    if ((size_t)options->batch > samples)
        return refuse(why, "--batch %ld: the training set has only %zu samples", options->batch,
                      samples);
    *o = *found; // options_parse has checked the name
    o->lr = optimizer_setting(options->lr, found->lr);
    o->momentum = optimizer_setting(options->momentum, found->momentum);
    o->weight_decay = options->weight_decay;
    o->steps_per_epoch = samples / options->batch;
    o->steps = options->epochs * o->steps_per_epoch;
    if (catalogue->set_optimizer)
        return catalogue->set_optimizer(o, found, why);
    snprintf(o->text, sizeof o->text, "%s, lr %g, momentum %g, weight decay %g", o->name, o->lr,
             o->momentum, o->weight_decay);
    return 0;
}

double optimizer_rate(const struct optimizer *o, long step) {
    return o->factor ? o->lr * o->factor(o, step) : o->lr;
}

void optimizer_step(const struct optimizer *o, float *parameters, const float *gradients,
                    float *state, size_t count, long step, cudaStream_t stream) {
    span_begin(PHASE_UPDATE, __func__, stream);
    o->update(o, optimizer_rate(o, step), parameters, gradients, state, count, step, stream);
    span_end();
}
