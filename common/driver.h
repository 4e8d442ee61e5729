#pragma once

// Returns how many GPUs NVIDIA's driver counts, and 0 without a driver. A child process asks it, as
// CUDA does not work in the children of a process that has called it; the CUDA libraries, which
// take 0.1 s to load, are not needed. If only_whether is set, a driver with its kernel module
// counts as one GPU: this avoids cuInit, which can take seconds. Returns -1 without an answer.
int driver_gpus(int only_whether);
