#include "zoo/training/optimizers.h"
#include "common/base/say.h"
#include "common/kernels/kernels.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/training/schedules.h"
#include "zoo/zoo_options.h"

static void update_by_nesterov(const struct optimizer *o, double lr, float *parameters,
                               const float *gradients, float *state, size_t count, long step,
                               cudaStream_t stream) {
    (void)step;
    nesterov_step(parameters, gradients, state, count, lr, o->momentum, o->weight_decay, stream);
}

// Constants that only some optimizers have; 0: this one has no such constant.
struct constants {
    double beta1, beta2, rho, epsilon;
};

static struct constants defaults_of(const struct optimizer *o) {
    if (o->name == adam.name || o->name == adamw.name)
        return (struct constants){.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
    if (o->name == adadelta.name)
        return (struct constants){.rho = 0.9, .epsilon = 1e-6};
    return (struct constants){0};
}

static struct constants constants_of(const struct optimizer *o) {
    struct constants usual = defaults_of(o);
    return (struct constants){optimizer_setting(zoo_opt.beta1, usual.beta1),
                              optimizer_setting(zoo_opt.beta2, usual.beta2),
                              optimizer_setting(zoo_opt.rho, usual.rho),
                              optimizer_setting(zoo_opt.epsilon, usual.epsilon)};
}

static void update_by_adam(const struct optimizer *o, double lr, float *parameters,
                           const float *gradients, float *state, size_t count, long step,
                           cudaStream_t stream) {
    struct constants s = constants_of(o);
    adam_step(parameters, gradients, state, state + count, count, lr, o->weight_decay,
              o->name == adamw.name, s.beta1, s.beta2, s.epsilon, step, stream);
}

static void update_by_adadelta(const struct optimizer *o, double lr, float *parameters,
                               const float *gradients, float *state, size_t count, long step,
                               cudaStream_t stream) {
    struct constants s = constants_of(o);
    (void)step;
    adadelta_step(parameters, gradients, state, state + count, count, lr, o->weight_decay, s.rho,
                  s.epsilon, stream);
}

const struct optimizer adam = {"adam", 2, 1, update_by_adam, .lr = 0.001};
const struct optimizer adamw = {"adamw", 2, 1, update_by_adam, .lr = 0.001};
const struct optimizer adadelta = {"adadelta", 2, 0, update_by_adadelta, .lr = 1};

// Returns 0, or -1 if the optimizer cannot have its settings.
static int check(const struct optimizer *o, char why[WHY_SIZE]) {
    struct constants s = constants_of(o);
    if (zoo_opt.nesterov && o->update != update_by_nesterov)
        return refuse(why, "--nesterov 1: %s has no momentum, only --optimizer sgd has", o->name);
    if (zoo_opt.nesterov && !o->momentum)
        return refuse(why, "--nesterov 1 --momentum 0: want a momentum above 0");
    if (s.beta1 == 1 || s.beta2 == 1)
        return refuse(why, "--beta%d 1: want a number below 1", s.beta1 == 1 ? 1 : 2);
    return 0;
}

// Describes the optimizer. Leaves out betas, rho and epsilon if they have their defaults.
static void describe(struct optimizer *o, const struct optimizer *kind, const char *schedule) {
    struct constants s = constants_of(o), usual = defaults_of(o);
    *o->text = 0;
    add_text(o->text, sizeof o->text, "%s, lr %g%s", o->name, o->lr, schedule);
    if (kind->momentum)
        add_text(o->text, sizeof o->text, ", %smomentum %g", zoo_opt.nesterov ? "Nesterov " : "",
                 o->momentum);
    if (s.beta1 != usual.beta1 || s.beta2 != usual.beta2)
        add_text(o->text, sizeof o->text, ", betas %g and %g", s.beta1, s.beta2);
    if (s.rho != usual.rho)
        add_text(o->text, sizeof o->text, ", rho %g", s.rho);
    if (s.epsilon != usual.epsilon)
        add_text(o->text, sizeof o->text, ", epsilon %g", s.epsilon);
    if (o->weight_decay)
        add_text(o->text, sizeof o->text, ", weight decay %g", o->weight_decay);
}

int set_optimizer(struct optimizer *o, const struct optimizer *kind, char why[WHY_SIZE]) {
    char schedule[SCHEDULE_TEXT];
    o->factor = schedule_factor;
    if (zoo_opt.nesterov && kind->momentum)
        o->update = update_by_nesterov;
    if (check(o, why) || schedule_check(o, schedule, why))
        return -1;
    describe(o, kind, schedule);
    return 0;
}
