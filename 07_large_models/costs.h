// A table of what a rank stores and sends, in bytes: measured, and computed by formulas.
#pragma once
#include "07_large_models/units.h"
#include "common/training/optimizer.h"

// Returns the bytes of device memory in use, by all processes.
double device_memory_used(void);

// Prints the table. rows: samples that go through the model at a time, with this number of targets
// each. used: the bytes by which device_memory_used has grown since before the model was allocated.
void print_costs(const struct fsdp *f, const struct optimizer *o, int rows, int targets,
                 int recompute, double used);
