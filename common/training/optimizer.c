#include "common/training/optimizer.h"
#include "common/base/error.h"
#include "common/base/minmax.h"
#include "common/kernels/kernels.h"
#include "common/models/model.h"
#include "common/models/sharding.h"
#include "common/training/training_options.h"
#include "watch/profile.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void sgd(const struct optimizer *o, double lr, double weight_decay, struct update a,
                size_t first, size_t count, long step, cudaStream_t stream) {
    float *parameters = a.parameters + first, *velocity = a.state + first;
    (void)step;
    if (o->nesterov)
        nesterov_step(parameters, a.gradients + first, velocity, count, lr, o->momentum,
                      weight_decay, stream);
    else
        sgd_step(parameters, a.gradients + first, velocity, count, lr, o->momentum, weight_decay,
                 stream);
}

static void either_adam(const struct optimizer *o, double lr, double weight_decay, int decoupled,
                        struct update a, size_t first, size_t count, long step,
                        cudaStream_t stream) {
    adam_step(a.parameters + first, a.gradients + first, a.state + first, a.state + a.size + first,
              count, lr, weight_decay, decoupled, o->beta1, o->beta2, o->epsilon, step, stream);
}

static void adam(const struct optimizer *o, double lr, double weight_decay, struct update a,
                 size_t first, size_t count, long step, cudaStream_t stream) {
    either_adam(o, lr, weight_decay, 0, a, first, count, step, stream);
}

static void adamw(const struct optimizer *o, double lr, double weight_decay, struct update a,
                  size_t first, size_t count, long step, cudaStream_t stream) {
    either_adam(o, lr, weight_decay, 1, a, first, count, step, stream);
}

static void adadelta(const struct optimizer *o, double lr, double weight_decay, struct update a,
                     size_t first, size_t count, long step, cudaStream_t stream) {
    (void)step;
    adadelta_step(a.parameters + first, a.gradients + first, a.state + first,
                  a.state + a.size + first, count, lr, weight_decay, o->rho, o->epsilon, stream);
}

static const struct optimizer optimizers[] = {
    {.name = "sgd", .state_per_parameter = 1, .lr = 0.05, .momentum = 0.9, .update = sgd},
    {.name = "adam",
     .state_per_parameter = 2,
     .counts_steps = 1,
     .lr = 0.001,
     .beta1 = 0.9,
     .beta2 = 0.999,
     .epsilon = 1e-8,
     .update = adam},
    {.name = "adamw",
     .state_per_parameter = 2,
     .counts_steps = 1,
     .lr = 0.001,
     .beta1 = 0.9,
     .beta2 = 0.999,
     .epsilon = 1e-8,
     .update = adamw},
    {.name = "adadelta",
     .state_per_parameter = 2,
     .lr = 1,
     .rho = 0.9,
     .epsilon = 1e-6,
     .update = adadelta},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

const char *optimizer_name(int i) {
    return i < OPTIMIZERS ? optimizers[i].name : NULL;
}

// Reads the setting that has this offset in struct optimizer.
static const char *default_of(int i, size_t offset) {
    static char text[32];
    for (const struct optimizer *o = optimizers; o < optimizers + OPTIMIZERS; o++) {
        double value;
        memcpy(&value, (const char *)o + offset, sizeof value);
        if (value > 0 && i-- == 0) {
            snprintf(text, sizeof text, "%g for %s", value, o->name);
            return text;
        }
    }
    return NULL;
}

#define DEFAULT_OF(setting)                                                                        \
    const char *optimizer_##setting(int i) {                                                       \
        return default_of(i, offsetof(struct optimizer, setting));                                 \
    }
DEFAULT_OF(lr)
DEFAULT_OF(momentum)
DEFAULT_OF(beta1)
DEFAULT_OF(beta2)
DEFAULT_OF(rho)
DEFAULT_OF(epsilon)

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
static void describe(struct optimizer *o, const struct optimizer *usual) {
    add(o, "%s, lr %g%s", o->name, o->lr, o->schedule.text);
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

// Returns the option, or the default if the option is auto, which is NAN, or is not used.
static double setting(double option, double usual) {
    return usual > 0 && !isnan(option) ? option : usual;
}

int optimizer_build(struct optimizer *o, const struct training_options *options,
                    const struct model *model, size_t samples, char why[WHY_SIZE]) {
    const struct optimizer *found = find_optimizer(options->optimizer);
    if (!found)
        return refuse(why, "--optimizer %s: there is no such optimizer", options->optimizer);
    *o = *found;
    o->model = model;
    o->lr = setting(options->lr, found->lr);
    o->weight_decay = options->weight_decay;
    o->momentum = setting(options->momentum, found->momentum);
    o->nesterov = options->nesterov;
    o->beta1 = setting(options->beta1, found->beta1);
    o->beta2 = setting(options->beta2, found->beta2);
    o->rho = setting(options->rho, found->rho);
    o->epsilon = setting(options->epsilon, found->epsilon);
    if (check(o, found, why) ||
        schedule_build(&o->schedule, options, samples / options->batch, o->lr, why))
        return -1;
    describe(o, found);
    return 0;
}

double optimizer_rate(const struct optimizer *o, long step) {
    return o->lr * schedule_factor(&o->schedule, step);
}

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
