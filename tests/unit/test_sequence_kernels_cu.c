// The tests of test_sequence_kernels.c for the kernels of common/kernels/*.cu, which host_cuda.h
// builds for the host.
#define KERNELS_ON_HOST
#include "tests/unit/host_names.h"

#include "tests/unit/test_sequence_kernels.c"
