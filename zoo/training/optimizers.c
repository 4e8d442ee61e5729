#include "zoo/training/optimizers.h"
#include "common/base/minmax.h"
#include "common/kernels/kernels.h"
#include "common/models/model.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/snapshots/sharding.h"
#include "zoo/training/schedules.h"
#include "zoo/zoo_options.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void update_by_nesterov(const struct optimizer *o, double lr, double weight_decay,
                               struct update a, size_t first, size_t count, long step,
                               cudaStream_t stream) {
    (void)step;
    nesterov_step(a.parameters + first, a.gradients + first, a.state + first, count, lr,
                  o->momentum, weight_decay, stream);
}

static void update_by_adam(const struct optimizer *o, double lr, double weight_decay,
                           struct update a, size_t first, size_t count, long step,
                           cudaStream_t stream) {
    adam_step(a.parameters + first, a.gradients + first, a.state + first, a.state + a.size + first,
              count, lr, weight_decay, o->decoupled, o->beta1, o->beta2, o->epsilon, step, stream);
}

static void update_by_adadelta(const struct optimizer *o, double lr, double weight_decay,
                               struct update a, size_t first, size_t count, long step,
                               cudaStream_t stream) {
    (void)step;
    adadelta_step(a.parameters + first, a.gradients + first, a.state + first,
                  a.state + a.size + first, count, lr, weight_decay, o->rho, o->epsilon, stream);
}

#define ADAM                                                                                       \
    .state_per_parameter = 2, .counts_steps = 1, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999,        \
    .epsilon = 1e-8, .update = update_by_adam
const struct optimizer adam = {.name = "adam", ADAM};
const struct optimizer adamw = {.name = "adamw", ADAM, .decoupled = 1};
const struct optimizer adadelta = {.name = "adadelta",
                                   .state_per_parameter = 2,
                                   .lr = 1,
                                   .rho = 0.9,
                                   .epsilon = 1e-6,
                                   .update = update_by_adadelta};

// Updates count parameters from number first of the model on: those of them that the shard has.
static void update_range(const struct optimizer *o, double weight_decay, struct update arrays,
                         size_t first, size_t count, long step, cudaStream_t stream) {
    for (struct location place = {1, first, count}; count > 0; count -= place.count) {
        if (o->sharding)
            place = shard_find(o->sharding, o->shard, first);
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

// Weight decay changes only those parameters that the model says.
static void update_layers(const struct optimizer *o, struct update arrays, long step,
                          cudaStream_t stream) {
    const struct model *m = o->model;
    for (const struct layer *l = m->layers; l < m->layers + m->count; l++)
        update_layer(o, l, arrays, step, stream);
    for (const struct layer *l = m->inner; l < m->inner + m->inner_count; l++)
        update_layer(o, l, arrays, step, stream);
}

// Returns 0, or -1 if the optimizer cannot have these settings.
static int check(const struct optimizer *o, const struct optimizer *usual, char why[WHY_SIZE]) {
    if (o->nesterov && !usual->momentum)
        return refuse(why, "--nesterov 1: %s has no momentum, only --optimizer sgd has", o->name);
    if (o->nesterov && !o->momentum)
        return refuse(why, "--nesterov 1 --momentum 0: want a momentum above 0");
    if (usual->beta1 && (o->beta1 == 1 || o->beta2 == 1))
        return refuse(why, "--beta%d 1: want a number below 1", o->beta1 == 1 ? 1 : 2);
    return 0;
}

// Adds the text to the text for the banner.
__attribute__((format(printf, 2, 3))) static void add(struct optimizer *o, const char *format,
                                                      ...) {
    size_t used = strlen(o->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(o->text + used, sizeof o->text - used, format, arguments);
    va_end(arguments);
}

// Describes the optimizer. Leaves out betas, rho and epsilon if they have their defaults.
static void describe(struct optimizer *o, const struct optimizer *usual, const char *schedule) {
    add(o, "%s, lr %g%s", o->name, o->lr, schedule);
    if (usual->momentum)
        add(o, ", %smomentum %g", o->nesterov ? "Nesterov " : "", o->momentum);
    if (o->beta1 != usual->beta1 || o->beta2 != usual->beta2)
        add(o, ", betas %g and %g", o->beta1, o->beta2);
    if (o->rho != usual->rho)
        add(o, ", rho %g", o->rho);
    if (o->epsilon != usual->epsilon)
        add(o, ", epsilon %g", o->epsilon);
    if (o->weight_decay)
        add(o, ", weight decay %g", o->weight_decay);
}

int set_optimizer(struct optimizer *o, const struct optimizer *usual, char why[WHY_SIZE]) {
    char schedule[SCHEDULE_TEXT];
    o->weight_decay = zoo_opt.weight_decay;
    o->nesterov = zoo_opt.nesterov;
    o->beta1 = optimizer_setting(zoo_opt.beta1, usual->beta1);
    o->beta2 = optimizer_setting(zoo_opt.beta2, usual->beta2);
    o->rho = optimizer_setting(zoo_opt.rho, usual->rho);
    o->epsilon = optimizer_setting(zoo_opt.epsilon, usual->epsilon);
    o->factor = schedule_factor;
    if (o->nesterov)
        o->update = update_by_nesterov;
    if (o->weight_decay && o->model->vectors)
        o->update_all = update_layers;
    if (check(o, usual, why) || schedule_check(o, schedule, why))
        return -1;
    describe(o, usual, schedule);
    return 0;
}
