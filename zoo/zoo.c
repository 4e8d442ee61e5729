// All models, optimizers, schedules and data sets that the first lessons do not need, and their
// options. A program that the Makefile links with this file has them.
#include "common/training/catalogue.h"
#include "common/training/training_options.h"
#include "zoo/data/sources.h"
#include "zoo/layers/inner.h"
#include "zoo/models/models.h"
#include "zoo/models/summary.h"
#include "zoo/training/optimizers.h"
#include "zoo/zoo_options.h"
#include <stdio.h>
#include <string.h>

static const struct model_kind *const models[] = {&mlp, &cnn, &resnet, &gpt, NULL};
static const struct optimizer *const optimizers[] = {&sgd, &adam, &adamw, &adadelta, NULL};
static const struct data_source *const sources[] = {
    &synthetic_images, &shape_images, &blank_images, &text_bytes, &cifar_files, &idx_files, NULL};

static double hidden_dropout; // after each hidden layer of the MLP

static void dense_appended(struct model *m, struct layer *l) {
    int hidden = l->kind == &dense_relu;
    if (zoo_model(m) && zoo_model(m)->open)
        fail("a dense layer can be no inner layer: append a linear one");
    layer_appended(m, l); // may change the kind
    if (!hidden || !(hidden_dropout > 0))
        return;
    append_dropout(m, (float)hidden_dropout);
    snprintf(m->settings, sizeof m->settings, ", dropout %g", hidden_dropout);
}

// Returns 0, or -1 if a layer is too large.
static int check_sizes(const struct model *m, const struct model_kind *kind,
                       const struct dataset *set, char why[WHY_SIZE]) {
    if (!zoo_model(m) || !zoo_model(m)->too_large)
        return 0;
    if (set->tokens)
        return refuse(why, "--context %d: too large, a layer would have more than %d values",
                      set->inputs, MOST_VALUES);
    return refuse(why,
                  "--model %s: images of %d x %d pixels are too large, a layer would have more "
                  "than %d values per image",
                  kind->name, set->shape.width, set->shape.height, MOST_VALUES);
}

// Adds dropout after hidden layers, and augmentation in front of the first one.
static int build_model(struct model *m, const struct model_kind *kind,
                       const struct training_options *options, const struct dataset *set,
                       char why[WHY_SIZE]) {
    int augmented = zoo_opt.augment && strcmp(zoo_opt.augment, "none");
    if (augmented && set->tokens)
        return refuse(why, "--augment %s changes images, and the data are a text", zoo_opt.augment);
    if (augmented && append_augmentation(m, zoo_opt.augment, set, why))
        return -1;
    hidden_dropout = kind == &mlp ? zoo_opt.dropout : 0;
    if (kind->build(m, options, set, why) || check_sizes(m, kind, set, why))
        return -1;
    if (augmented) {
        size_t used = strlen(m->settings);
        snprintf(m->settings + used, sizeof m->settings - used, ", augment %s", zoo_opt.augment);
        m->layers[1].dx_unused = 1;
    }
    return 0;
}

static void describe_model(const struct model *m) {
    if (zoo_opt.summary)
        print_summary(m);
}

static const struct catalogue zoo = {models,         optimizers,     sources,      build_model,
                                     dense_appended, describe_model, set_optimizer};

// Runs before main in each program that is linked with this file.
__attribute__((constructor)) static void join_program(void) {
    static const struct option_table table = {"options of other models, optimizers and data (zoo/)",
                                              zoo_options};
    catalogue = &zoo;
    options_add(&table, training_options);
}
