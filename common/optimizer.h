// What a step makes of the gradients: SGD with momentum, Adam or AdamW, as torch.optim has them.
#pragma once
#include "error.h"

struct optimizer {
    const char *name;
    int states; // floats that it keeps per parameter
    double lr, momentum, weight_decay;
    char text[96]; // all that, for the banner
};

// name: "sgd", "adam" or "adamw". lr 0: 0.05 for SGD, 0.001 for the others. momentum is for SGD.
// Returns 0, or -1 with the reason in why.
int optimizer_build(struct optimizer *optimizer, const char *name, double lr, double momentum,
                    double weight_decay, char why[WHY_SIZE]);

// Step number step, from 1. states: count floats for the first state of every parameter, then those
// for the second; zero before the first step. It goes parameter by parameter, so any part of the
// arrays gives that part of the result.
void optimizer_step(const struct optimizer *optimizer, float *parameters, const float *gradients,
                    float *states, size_t count, long step, cudaStream_t stream);
