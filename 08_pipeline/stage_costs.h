// What a stage stores and sends, for the banner and for the table after training.
#pragma once
#include "08_pipeline/pipeline.h"

// Prints the banner's lines about the pipeline.
void print_pipeline(const struct pipeline *p);

// Prints a row of that table.
void print_cost(const char *kind, double measured, double computed, const char *formula);

// Prints the memory of this stage and the bytes that it has sent in a training step, measured and
// computed. state_per_parameter: of the optimizer; targets: labels of a sample.
void print_stage_costs(const struct pipeline *p, int state_per_parameter, int targets);
