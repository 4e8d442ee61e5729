// The smaller and the larger of two sizes, also where a double cannot hold them.
#include "common/base/minmax.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h> // wants the headers above first

static void picks_exactly(void **state) {
    (void)state;
    assert_int_equal(min_size(2, 3), 2);
    assert_int_equal(min_size(3, 2), 2);
    assert_int_equal(max_size(2, 3), 3);
    assert_int_equal(max_size(3, 2), 3);
    assert_true(min_size(SIZE_MAX, SIZE_MAX - 1) == SIZE_MAX - 1);
    assert_true(max_size(SIZE_MAX, SIZE_MAX - 1) == SIZE_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(picks_exactly)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
