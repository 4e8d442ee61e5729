// What the files of the model share: the rates of the models, and what CPU_DEVICE_SLOW slows down.
#pragma once
#include "cpu_device/gpu_model.h"

enum { CPU_RATES = 21, CPU_MODELS = 5 };

extern const char *const cpu_model_names[CPU_MODELS];

// One line of a model file, and the values of the models that are built in. A model holds the value
// times the factor.
extern const struct cpu_rate {
    const char *key, *unit;
    double factor;
    size_t member; // its offset in struct cpu_model
    double values[CPU_MODELS];
} cpu_rates[CPU_RATES];

// Reads a model: one of cpu_model_names, or a file whose name contains a / or ends in .model. After
// a mistake, it prints one line about it and ends the program.
void cpu_model_read(const char *name, struct cpu_model *model);

// Return how many times as slow the link between two devices of a node, and the network of a node,
// are.
double cpu_model_slow_link(int a, int b);
double cpu_model_slow_network(int node);

// Reads NCCL_ALGO.
void cpu_model_choose_algorithms(void);
