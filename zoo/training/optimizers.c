#include "zoo/training/optimizers.h"
#include "common/kernels/kernels.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/training/schedules.h"
#include "zoo/zoo_options.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void update_by_nesterov(const struct optimizer *o, double lr, float *parameters,
                               const float *gradients, float *state, size_t count, long step,
                               cudaStream_t stream) {
    (void)step;
    nesterov_step(parameters, gradients, state, count, lr, o->momentum, o->weight_decay, stream);
}

static void update_by_adam(const struct optimizer *o, double lr, float *parameters,
                           const float *gradients, float *state, size_t count, long step,
                           cudaStream_t stream) {
    adam_step(parameters, gradients, state, state + count, count, lr, o->weight_decay, o->decoupled,
              o->beta1, o->beta2, o->epsilon, step, stream);
}

static void update_by_adadelta(const struct optimizer *o, double lr, float *parameters,
                               const float *gradients, float *state, size_t count, long step,
                               cudaStream_t stream) {
    (void)step;
    adadelta_step(parameters, gradients, state, state + count, count, lr, o->weight_decay, o->rho,
                  o->epsilon, stream);
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
    if (check(o, usual, why) || schedule_check(o, schedule, why))
        return -1;
    describe(o, usual, schedule);
    return 0;
}
