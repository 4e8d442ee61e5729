// The tables of optimizers and of schedules: what the options choose. test_kernels.c checks the
// updates value by value. tests/steps/optimizers.bats compares the losses and the learning rates
// with those of PyTorch, and has settings that are refused.
#include "common/models/model.h"
#include "common/training/optimizer.h"
#include "tests/test.h"
#include "tests/unit/default_options.h"
#include "zoo/training/schedules.h"

enum { SAMPLES = 1000, OPTIMIZERS = 4, STEPS = SAMPLES / 64 }; // STEPS: of an epoch

static struct training_options options_of(const char *name) {
    struct training_options options = default_options();
    options.optimizer = name;
    options.epochs = 3;
    options.batch = 64;
    return options;
}

static const struct model whole; // without a layer, so all parameters decay

static struct optimizer build(const struct training_options *options) {
    struct optimizer o;
    char why[WHY_SIZE] = "";
    assert_int_equal(optimizer_build(&o, options, &whole, SAMPLES, why), 0);
    return o;
}

TEST(each_optimizer_has_its_settings) {
    const struct {
        const char *name;
        int states, counts_steps;
        double lr;
        const char *text;
    } cases[] = {
        {"sgd", 1, 0, 0.05, "sgd, lr 0.05, momentum 0.9"},
        {"adam", 2, 1, 0.001, "adam, lr 0.001"},
        {"adamw", 2, 1, 0.001, "adamw, lr 0.001"},
        {"adadelta", 2, 0, 1, "adadelta, lr 1"},
    };
    for (int i = 0; i < OPTIMIZERS; i++) {
        struct training_options options = options_of(cases[i].name);
        struct optimizer o = build(&options);
        assert_string_equal(optimizer_name(i), cases[i].name);
        assert_string_equal(o.name, cases[i].name);
        assert_int_equal(o.state_per_parameter, cases[i].states);
        assert_int_equal(optimizer_counts_steps(o.name), cases[i].counts_steps);
        assert_true(o.lr == cases[i].lr);
        assert_string_equal(o.text, cases[i].text);
    }
    assert_null(optimizer_name(OPTIMIZERS));
    assert_string_equal(optimizer_lr(3), "1 for adadelta");
    assert_null(optimizer_lr(4));
    assert_false(optimizer_counts_steps("adamx"));
    struct training_options options = options_of("adamw");
    options.lr = 0.25;
    zoo_opt.weight_decay = 0.5;
    assert_string_equal(build(&options).text, "adamw, lr 0.25, weight decay 0.5");
    zoo_opt.beta2 = 0.98;
    zoo_opt.epsilon = 1e-6;
    assert_string_equal(build(&options).text,
                        "adamw, lr 0.25, betas 0.9 and 0.98, epsilon 1e-06, weight decay 0.5");
    options.optimizer = "adadelta"; // has no betas, and this is its epsilon
    zoo_opt.rho = 0.8;
    assert_string_equal(build(&options).text, "adadelta, lr 0.25, rho 0.8, weight decay 0.5");
    options.optimizer = "sgd";
    zoo_opt.nesterov = 1;
    assert_string_equal(build(&options).text,
                        "sgd, lr 0.25, Nesterov momentum 0.9, weight decay 0.5");
}

// tests/steps/optimizers.bats compares the rates with those of PyTorch.
TEST(each_schedule_describes_itself) {
    const struct {
        const char *name;
        long warmup, step_epochs;
        const char *text;
    } cases[] = {
        {"constant", 0, 1, ""},
        {"step", 0, 1, " (times 0.7 after each epoch)"},
        {"step", 0, 2, " (times 0.7 after every 2 epochs)"},
        {"cosine", 0, 1, " (cosine to 0 after step 45)"},
        {"onecycle", 0, 1, " (one cycle: from 0.02 to 0.5, then to 2e-06 in step 45)"},
        {"cosine", 20, 1, " (warm-up of 20 steps, cosine to 0 after step 45)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training_options options = options_of("adam");
        char text[200];
        zoo_opt.schedule = cases[i].name;
        options.lr = 0.5;
        zoo_opt.warmup = cases[i].warmup;
        zoo_opt.step_epochs = cases[i].step_epochs;
        struct optimizer o = build(&options);
        snprintf(text, sizeof text, "adam, lr 0.5%s", cases[i].text);
        assert_string_equal(o.text, text);
        options.max_steps = 7; // stops training, but a continued run must have the same rates
        struct optimizer stopped = build(&options);
        for (long step = 1; step <= 3 * STEPS; step++)
            assert_true(optimizer_rate(&stopped, step) == optimizer_rate(&o, step));
        // Training goes on after the schedule if a finished run gets more steps in an epoch.
        assert_true(optimizer_rate(&o, 3 * STEPS + 9) == optimizer_rate(&o, 3 * STEPS));
    }
    const char *names[] = {"constant", "step", "cosine", "onecycle"};
    for (int i = 0; i < 4; i++)
        assert_string_equal(schedule_name(i), names[i]);
    assert_null(schedule_name(4));
}

// Of few steps, 30 % may be less than one. The rate must stay a number.
TEST(short_schedules_have_rates) {
    for (int i = 0; i < 4; i++)
        for (long steps = 1; steps <= 20; steps++) {
            struct training_options options = options_of("sgd");
            zoo_opt.schedule = schedule_name(i);
            options.batch = SAMPLES;
            options.epochs = steps;
            struct optimizer o = build(&options);
            for (long step = 1; step <= steps; step++) {
                double rate = optimizer_rate(&o, step);
                assert_true(rate > 0 && rate <= 0.05);
            }
        }
}

int main(void) {
    return run_all_tests((struct around){NULL});
}
