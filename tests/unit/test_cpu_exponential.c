// The exponential function of the CPU device's kernels, against that of the C library.
#include "zoo/kernels/cpu_sequence_kernels.c"

#include "tests/test.h"
#include <math.h>

// Every 997th float from -87 to 88.
TEST(it_is_two_units_from_the_exact_one_at_most) {
    for (uint32_t i = 0; i < UINT32_MAX - 997; i += 997) {
        union {
            uint32_t bits;
            float value;
        } x = {.bits = i};
        if (!(x.value >= -87 && x.value <= 88))
            continue;
        double want = exp(x.value);
        float near = (float)want;
        if (!(fabs(exponential(x.value) - want) <= 2. * (nextafterf(near, INFINITY) - near)))
            fail_msg("e^%.9g is %.9g, not %.9g", x.value, exponential(x.value), want);
    }
}

// Beyond its range, it returns the value at the end.
TEST(it_returns_finite_numbers_but_for_nan) {
    assert_true(isnan(exponential(NAN)));
    assert_true(exponential(-INFINITY) == exponential(-87) && exponential(-1e30f) > 0);
    assert_true(exponential(INFINITY) == exponential(88) && isfinite(exponential(88)));
    assert_true(exponential(0) == 1 && exponential(-0.f) == 1);
}

int main(void) {
    return run_all_tests((struct around){NULL});
}
