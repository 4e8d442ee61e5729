#include "common/training/catalogue.h"

static const struct model_kind *const models[] = {&mlp, NULL};
static const struct optimizer *const optimizers[] = {&sgd, NULL};
static const struct data_source *const sources[] = {&synthetic_images, &idx_files, NULL};
static const struct catalogue basics = {models, optimizers, sources};

const struct catalogue *catalogue = &basics;
