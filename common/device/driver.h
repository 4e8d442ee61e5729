// Asks NVIDIA's driver for GPUs, without the CUDA libraries, which take 0.1 s to load.
#pragma once

// Returns the number of GPUs of this machine: 0 if there is no driver, and -1 if the driver gives
// no answer. A child process asks the driver, because CUDA does not work in the children of a
// process that has called it. If only_whether is set, the function returns 1 as soon as it finds
// the driver's kernel module. This avoids cuInit, which can take seconds.
int driver_gpus(int only_whether);
