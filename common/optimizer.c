#include "optimizer.h"
#include "kernels.h"
#include <stdio.h>
#include <string.h>

int optimizer_build(struct optimizer *o, const char *name, double lr, double momentum,
                    double weight_decay, char why[WHY_SIZE]) {
    int sgd = !strcmp(name, "sgd");
    if (!sgd && strcmp(name, "adam") && strcmp(name, "adamw"))
        return refuse(why, "--optimizer %s: the optimizers are: sgd, adam, adamw", name);
    *o = (struct optimizer){name,     sgd ? 1 : 2,  lr ? lr : sgd ? 0.05 : 0.001,
                            momentum, weight_decay, ""};
    int used = snprintf(o->text, sizeof o->text, "%s, lr %g", name, o->lr);
    if (sgd)
        used += snprintf(o->text + used, sizeof o->text - used, ", momentum %g", momentum);
    if (weight_decay)
        snprintf(o->text + used, sizeof o->text - used, ", weight decay %g", weight_decay);
    return 0;
}

void optimizer_step(const struct optimizer *o, float *parameters, const float *gradients,
                    float *states, size_t count, long step, cudaStream_t stream) {
    if (o->states == 1)
        sgd_step(parameters, gradients, states, count, o->lr, o->momentum, o->weight_decay, stream);
    else
        adam_step(parameters, gradients, states, states + count, count, o->lr, o->weight_decay,
                  !strcmp(o->name, "adamw"), step, stream);
}
