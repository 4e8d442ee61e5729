// What the files of the model share: the rates of the models, and what CPU_DEVICE_SLOW slows down.
#pragma once
#include "gpu_model.h"

// Reads a model: a100, h100, h200, b200, l4, or a file whose name contains a / or ends in .model.
// After a mistake, it prints one line about it and ends the program.
void cpu_model_read(const char *name, struct cpu_model *model);

// Return how many times as slow the link between two devices of a node, and the network of a node,
// are.
double cpu_model_slow_link(int a, int b);
double cpu_model_slow_network(int node);

// Reads NCCL_ALGO.
void cpu_model_choose_algorithms(void);
