// The tests of test_kernels.c for the kernels of common/kernels/*.cu, which host_cuda.h builds for
// the host, and a test of what host_cuda.h offers to kernels.
#define KERNELS_ON_HOST
#include "tests/unit/host_names.h"

#include "tests/unit/device_arrays.h"

void cu_warp_sums(const float *x, float *y, int count);

TEST(warps_and_fast_functions_work) {
    for (int count = 32; count <= 1024; count *= 2) {
        float *x = random_floats((size_t)count, 1, 5), *y = new_array((size_t)count * sizeof *y);
        double sum = 0;
        for (int i = 0; i < count; i++)
            sum += x[i] += 2; // far from 0, so is the sum
        cu_warp_sums(x, y, count);
        for (int i = 0; i < count; i++)
            assert_true(fabs(y[i] - (exp(x[i]) / sum + log(2) / 2)) < 1e-6);
    }
}

#include "tests/unit/test_kernels.c"
