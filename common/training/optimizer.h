// An optimizer: how a gradient changes the parameters, as in torch.optim.
#pragma once
#include "common/base/error.h"
#include <cuda_runtime.h>
#include <stddef.h>

struct optimizer {
    const char *name;
    int state_per_parameter; // floats that it stores for each parameter
    int counts_steps;        // an update depends on the number of the step
    // Like optimizer_step, with this learning rate.
    void (*update)(const struct optimizer *optimizer, double lr, float *parameters,
                   const float *gradients, float *state, size_t count, long step,
                   cudaStream_t stream);
    double lr, momentum; // in the catalogue, the defaults; 0: not used
    double weight_decay;
    // Returns the factor of lr in training step number step, from 1. NULL: always 1.
    double (*factor)(const struct optimizer *optimizer, long step);
    long steps, steps_per_epoch; // of all epochs together, and of one: it has no partial batch
    char text[320];              // for the banner: name and settings
};

// SGD with momentum.
extern const struct optimizer sgd;

// Builds the optimizer that the options name, for epochs of this many samples. Options that are
// auto get their values from the catalogue. Returns 0, or -1 with the reason in why.
struct training_options;
int optimizer_build(struct optimizer *optimizer, const struct training_options *options,
                    size_t samples, char why[WHY_SIZE]);

// Returns the name of optimizer number i in the catalogue, or NULL after the last one.
const char *optimizer_name(int i);

// Returns the default learning rate of optimizer number i, such as "0.05 for sgd", or NULL after
// the last one. The next call overwrites it.
const char *optimizer_lr(int i);

// Returns the option, or the default if the option is auto, which is NAN, or is not used.
double optimizer_setting(double option, double usual);

// Returns 1 if an update of the optimizer of this name depends on the number of the step.
int optimizer_counts_steps(const char *name);

// Returns the learning rate of training step number step, from 1.
double optimizer_rate(const struct optimizer *optimizer, long step);

// Updates the parameters in step number step, from 1. state is the optimizer's memory between
// steps, such as the two moments of Adam: state_per_parameter arrays of count floats, one after the
// other. It must be zero before the first step. No parameter depends on another, so a call for a
// part of the arrays gives that part of the result.
void optimizer_step(const struct optimizer *optimizer, float *parameters, const float *gradients,
                    float *state, size_t count, long step, cudaStream_t stream);
