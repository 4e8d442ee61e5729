// The zoo: all models, optimizers, schedules and data sets that the first lessons do not need. A
// program opens it with catalogue = &zoo, and shows the options in zoo_options to its users.
#pragma once
#include "common/training/catalogue.h"
#include "zoo/zoo_options.h"

extern const struct catalogue zoo;
