#include "common/training/optimizer.h"
#include "common/base/error.h"
#include "common/base/minmax.h"
#include "common/device/spans.h"
#include "common/kernels/kernels.h"
#include "common/models/model.h"
#include "common/training/catalogue.h"
#include "common/training/training_options.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void update_by_sgd(const struct optimizer *o, double lr, double weight_decay,
                          struct update a, size_t first, size_t count, long step,
                          cudaStream_t stream) {
    (void)step;
    sgd_step(a.parameters + first, a.gradients + first, a.state + first, count, lr, o->momentum,
             weight_decay, stream);
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

int optimizer_build(struct optimizer *o, const struct training_options *options,
                    const struct model *model, size_t samples, char why[WHY_SIZE]) {
    const struct optimizer *found = find_optimizer(options->optimizer);
    if (!found)
        return refuse(why, "--optimizer %s: there is no such optimizer", options->optimizer);
    *o = *found;
    o->model = model;
    o->lr = optimizer_setting(options->lr, found->lr);
    o->momentum = optimizer_setting(options->momentum, found->momentum);
    o->steps_per_epoch = samples / options->batch;
    o->steps = options->epochs * o->steps_per_epoch;
    if (catalogue->set_optimizer)
        return catalogue->set_optimizer(o, found, why);
    snprintf(o->text, sizeof o->text, "%s, lr %g, momentum %g", o->name, o->lr, o->momentum);
    return 0;
}

double optimizer_rate(const struct optimizer *o, long step) {
    return o->factor ? o->lr * o->factor(o, step) : o->lr;
}

// Updates count parameters from number first of the model on: those of them that the shard has.
static void update_range(const struct optimizer *o, double weight_decay, struct update arrays,
                         size_t first, size_t count, long step, cudaStream_t stream) {
    for (struct location place = {1, first, count}; count > 0; count -= place.count) {
        if (o->find)
            place = o->find(o->sharding, o->shard, first);
        place.count = min_size(place.count, count);
        if (place.held)
            o->update(o, optimizer_rate(o, step), weight_decay, arrays, place.index, place.count,
                      step, stream);
        first += place.count;
    }
}

// Updates the parameters of the layer: those that decay, and then the others. A layer that consists
// of others has no parameters of its own.
static void update_layer(const struct optimizer *o, const struct layer *l, struct update arrays,
                         long step, cudaStream_t stream) {
    size_t decaying = l->parameters - l->vectors;
    if (l->inner)
        return;
    update_range(o, o->weight_decay, arrays, l->first, decaying, step, stream);
    update_range(o, 0, arrays, l->first + decaying, l->vectors, step, stream);
}

void optimizer_step(const struct optimizer *o, float *parameters, const float *gradients,
                    float *state, size_t count, long step, cudaStream_t stream) {
    const struct model *m = o->model;
    struct update arrays = {parameters, gradients, state, count};
    span_begin(PHASE_UPDATE, __func__, stream);
    if (o->weight_decay == 0 || !m->vectors) {
        o->update(o, optimizer_rate(o, step), o->weight_decay, arrays, 0, count, step, stream);
    } else {
        for (const struct layer *l = m->layers; l < m->layers + m->count; l++)
            update_layer(o, l, arrays, step, stream);
        for (const struct layer *l = m->inner; l < m->inner + m->inner_count; l++)
            update_layer(o, l, arrays, step, stream);
    }
    span_end();
}
