// The table of optimizers: what the options choose, and the updates of the parameters, which
// test_kernels.c checks value by value.
#include "common/device.h"
#include "common/optimizer.h"
#include "common/training_options.h"
#include "tests/unit/device_arrays.h"

enum { SAMPLES = 1000, COUNT = 100 };

static struct training_options default_options(const char *name) {
    return (struct training_options){
        .optimizer = name, .schedule = "constant", .momentum = 0.9, .epochs = 3, .batch = 64};
}

static struct optimizer build(const struct training_options *options) {
    struct optimizer o;
    char why[WHY_SIZE] = "";
    assert_int_equal(optimizer_build(&o, options, SAMPLES, why), 0);
    return o;
}

static void each_optimizer_has_its_settings(void **state) {
    (void)state;
    const struct {
        const char *name;
        int states, counts_steps;
        double lr;
        const char *text;
    } cases[] = {
        {"sgd", 1, 0, 0.05, "sgd, lr 0.05, momentum 0.9"},
        {"adam", 2, 1, 0.001, "adam, lr 0.001"},
        {"adamw", 2, 1, 0.001, "adamw, lr 0.001"},
    };
    for (int i = 0; i < 3; i++) {
        struct training_options options = default_options(cases[i].name);
        struct optimizer o = build(&options);
        assert_string_equal(optimizer_name(i), cases[i].name);
        assert_string_equal(o.name, cases[i].name);
        assert_int_equal(o.state_per_parameter, cases[i].states);
        assert_int_equal(optimizer_counts_steps(o.name), cases[i].counts_steps);
        assert_true(o.lr == cases[i].lr);
        assert_string_equal(o.text, cases[i].text);
    }
    assert_null(optimizer_name(3));
    assert_false(optimizer_counts_steps("adamx"));
    struct training_options options = default_options("adamw");
    options.lr = 0.25;
    options.weight_decay = 0.5;
    assert_string_equal(build(&options).text, "adamw, lr 0.25, weight decay 0.5");
}

static void steps_count_the_whole_training(void **state) {
    (void)state;
    struct training_options options = default_options("sgd");
    assert_int_equal(build(&options).steps, 3 * 15);
    options.max_steps = 46;
    assert_int_equal(build(&options).steps, 3 * 15);
    options.max_steps = 44;
    assert_int_equal(build(&options).steps, 44);
}

static void unknown_names_are_refused(void **state) {
    (void)state;
    struct optimizer o;
    char why[WHY_SIZE] = "";
    struct training_options options = default_options("rmsprop");
    assert_int_equal(optimizer_build(&o, &options, SAMPLES, why), -1);
    assert_non_null(strstr(why, "--optimizer rmsprop"));
    options = default_options("sgd");
    options.schedule = "cosine";
    assert_int_equal(optimizer_build(&o, &options, SAMPLES, why), -1);
    assert_non_null(strstr(why, "--schedule cosine"));
    assert_string_equal(schedule_name(0), "constant");
    assert_null(schedule_name(1));
}

// The device's parameters after step number step of the optimizer, all of them at once.
static const float *updated(const char *name, int step) {
    const size_t bytes = COUNT * sizeof(float);
    struct training_options options = default_options(name);
    options.weight_decay = 0.1;
    struct optimizer o = build(&options);
    float *parameters = to_device(random_floats(COUNT, 1, 1), bytes);
    float *states = new_device_array(2 * bytes);
    CUDA_CHECK(cudaMemset(states, 0, 2 * bytes));
    optimizer_step(&o, parameters, to_device(random_floats(COUNT, 1, 2), bytes), states, COUNT,
                   step, NULL);
    return to_host(parameters, bytes);
}

static void each_optimizer_calls_its_kernel(void **state) {
    (void)state;
    const size_t bytes = COUNT * sizeof(float);
    float *gradients = to_device(random_floats(COUNT, 1, 2), bytes);
    for (int step = 1; step <= 10; step += 9)
        for (int i = 0; i < 3; i++) {
            float *parameters = to_device(random_floats(COUNT, 1, 1), bytes);
            float *states = new_device_array(2 * bytes);
            CUDA_CHECK(cudaMemset(states, 0, 2 * bytes));
            if (i == 0)
                sgd_step(parameters, gradients, states, COUNT, 0.05f, 0.9f, 0.1f, NULL);
            else
                adam_step(parameters, gradients, states, states + COUNT, COUNT, 0.001f, 0.1f,
                          i == 2, step, NULL);
            assert_unchanged(parameters, updated(optimizer_name(i), step), bytes);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_optimizer_has_its_settings),
        cmocka_unit_test(steps_count_the_whole_training),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test_teardown(each_optimizer_calls_its_kernel, free_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
