// A table of what a rank stores and sends, in bytes: measured, and computed by formulas.
#pragma once
#include "07_large_models/units.h"
#include "common/training/optimizer.h"

// Returns the bytes of device memory in use, by all processes.
double device_memory_used(void);

// Call them around the work of a training step: they time the last step for the table.
void step_begins(cudaStream_t stream);
void step_ends(cudaStream_t stream);

// Prints the table. rows: samples that go through the model at a time, with this number of targets
// each. used: the bytes by which device_memory_used has grown since before the model was allocated.
// The last line has the FLOPs of a training step: those of the matrix products of forward, and two
// times as many for backward, which is 6 per parameter and token, and those of attention. Products
// that backward repeats do not count. If the name of the device is known, it also has the model
// FLOPs utilisation (MFU): the share of the largest rate in the device's data sheet.
void print_costs(const struct units *f, const struct optimizer *o, int rows, int targets,
                 int recompute, double used);
