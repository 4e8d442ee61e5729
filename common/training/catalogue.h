// The models, optimizers and data sets that a program knows, from which the options choose: those
// of common/, or if the program is linked with zoo/zoo.c, those of the zoo.
#pragma once
#include "common/data/datasets.h"
#include "common/models/model.h"
#include "common/training/optimizer.h"

// A model that --model can name.
struct model_kind {
    const char *name;
    // Appends the layers to the empty model, for the samples of the set. The last layer has targets
    // * classes outputs. Also writes the shape and the settings. Returns 0, or -1 with the reason
    // in why.
    int (*build)(struct model *model, const struct training_options *options,
                 const struct dataset *set, char why[WHY_SIZE]);
    int tokens; // 1: it reads tokens, 0: images
};

// Dense layers with ReLU, of the widths in --hidden.
extern const struct model_kind mlp;

// NULL ends each list.
struct catalogue {
    const struct model_kind *const *models;
    const struct optimizer *const *optimizers;
    const struct data_source *const *sources;
    // These functions may be NULL.
    // Builds a model of this kind, with layers in it or around it that other options ask for.
    int (*build_model)(struct model *m, const struct model_kind *kind,
                       const struct training_options *options, const struct dataset *set,
                       char why[WHY_SIZE]);
    // Takes each dense layer that has been appended. It may change it, and append more layers.
    void (*dense_appended)(struct model *m, struct layer *l);
    // Prints more about the model, after its line.
    void (*describe_model)(const struct model *m);
    // Sets what other options change in an optimizer of this kind, and its text. Returns 0, or -1
    // with the reason in why.
    int (*set_optimizer)(struct optimizer *o, const struct optimizer *kind, char why[WHY_SIZE]);
};
extern const struct catalogue *catalogue;
