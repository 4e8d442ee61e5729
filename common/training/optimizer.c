#include "common/training/optimizer.h"
#include "common/base/error.h"
#include "common/device/profile.h"
#include "common/kernels/kernels.h"
#include "common/training/training_options.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void sgd(const struct optimizer *o, double lr, float *parameters, const float *gradients,
                float *state, size_t count, long step, cudaStream_t stream) {
    (void)step;
    if (o->nesterov)
        nesterov_step(parameters, gradients, state, count, lr, o->momentum, o->weight_decay,
                      stream);
    else
        sgd_step(parameters, gradients, state, count, lr, o->momentum, o->weight_decay, stream);
}

static void adam(const struct optimizer *o, double lr, float *parameters, const float *gradients,
                 float *state, size_t count, long step, cudaStream_t stream) {
    adam_step(parameters, gradients, state, state + count, count, lr, o->weight_decay, 0, o->beta1,
              o->beta2, o->epsilon, step, stream);
}

static void adamw(const struct optimizer *o, double lr, float *parameters, const float *gradients,
                  float *state, size_t count, long step, cudaStream_t stream) {
    adam_step(parameters, gradients, state, state + count, count, lr, o->weight_decay, 1, o->beta1,
              o->beta2, o->epsilon, step, stream);
}

static void adadelta(const struct optimizer *o, double lr, float *parameters,
                     const float *gradients, float *state, size_t count, long step,
                     cudaStream_t stream) {
    (void)step;
    adadelta_step(parameters, gradients, state, state + count, count, lr, o->weight_decay, o->rho,
                  o->epsilon, stream);
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

int optimizer_build(struct optimizer *o, const struct training_options *options, size_t samples,
                    char why[WHY_SIZE]) {
    const struct optimizer *found = find_optimizer(options->optimizer);
    if (!found)
        return refuse(why, "--optimizer %s: there is no such optimizer", options->optimizer);
    *o = *found;
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

void optimizer_step(const struct optimizer *o, float *parameters, const float *gradients,
                    float *state, size_t count, long step, cudaStream_t stream) {
    span_begin(PHASE_UPDATE, __func__, stream);
    o->update(o, optimizer_rate(o, step), parameters, gradients, state, count, step, stream);
    span_end();
}
