// More optimizers, and the options of all of them. A new one needs a line here, and its place in
// the list in zoo/zoo.c.
#pragma once
#include "common/training/optimizer.h"

extern const struct optimizer adam, adamw, adadelta;

// set_optimizer of the catalogue.
int set_optimizer(struct optimizer *o, const struct optimizer *kind, char why[WHY_SIZE]);
