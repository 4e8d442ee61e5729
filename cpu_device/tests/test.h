// What all test programs in C share. TEST(name) { ... } is a test: it registers itself, and
// run_all_tests runs all tests of the program in the order of the source.
#pragma once
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
// cmocka needs some of the headers above.
#include <cmocka.h>

// The functions of tests, and others with a given form, need not use each of their parameters.
#pragma GCC diagnostic ignored "-Wunused-parameter"

// Whether this is a build with a sanitizer, in which a test leaves out what only repeats lines.
#ifndef __has_feature // gcc does not have it
#define __has_feature(name) 0
#endif
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer) ||                         \
    defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { MOST_TESTS = 150 };
static struct CMUnitTest tests[MOST_TESTS];
static int test_count;

// state: what the test gets.
static inline void add_test(const char *name, CMUnitTestFunction run, const void *state) {
    assert_true(test_count < MOST_TESTS);
    tests[test_count++] = (struct CMUnitTest){name, run, NULL, NULL, (void *)state};
}

// Of CUDA, cuBLAS or NCCL: 0 means success.
#define OK(call) assert_int_equal(call, 0)

#define TEST(name) TEST_OF(name, NULL)
#define TEST_OF(name, its_state)                                                                   \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void add_##name(void) {                                    \
        add_test(#name, name, its_state);                                                          \
    }                                                                                              \
    static void name(void **state)

// What runs around all tests, and around each of them.
struct around {
    CMFixtureFunction begin_all, end_all, begin, end;
};

static inline int run_all_tests(struct around around) {
    for (int i = 0; i < test_count; i++) {
        tests[i].setup_func = around.begin;
        tests[i].teardown_func = around.end;
    }
    return _cmocka_run_group_tests("tests", tests, (size_t)test_count, around.begin_all,
                                   around.end_all);
}
