// The tables of optimizers and of schedules: what the options choose. test_kernels.c checks the
// updates value by value. tests/steps/optimizers.bats compares the losses and the learning rates
// with those of PyTorch. tests/steps/every.bats has settings that are refused.
#include "common/training/optimizer.h"
#include "tests/test.h"
#include "tests/unit/options.h"
#include "zoo/training/schedules.h"

enum { SAMPLES = 1000, STEPS = SAMPLES / 64 }; // STEPS: of an epoch

static struct optimizer build(const char *words) {
    struct optimizer o;
    char why[WHY_SIZE] = "", all[300];
    snprintf(all, sizeof all, "--batch 64 --epochs 3 %s", words);
    set_options(all);
    assert_int_equal(optimizer_build(&o, &opt, SAMPLES, why), 0);
    return o;
}

TEST(each_optimizer_has_its_settings) {
    static const struct {
        const char *words;
        int states, counts_steps;
        const char *text;
    } cases[] = {
        {"", 1, 0, "sgd, lr 0.05, momentum 0.9"},
        {"--lr 0.25 --nesterov 1 --weight-decay 0.5", 1, 0,
         "sgd, lr 0.25, Nesterov momentum 0.9, weight decay 0.5"},
        {"--optimizer adam", 2, 1, "adam, lr 0.001"},
        {"--optimizer adamw", 2, 1, "adamw, lr 0.001"},
        {"--optimizer adamw --lr 0.25 --beta2 0.98 --epsilon 1e-6 --weight-decay 0.5", 2, 1,
         "adamw, lr 0.25, betas 0.9 and 0.98, epsilon 1e-06, weight decay 0.5"},
        {"--optimizer adadelta", 2, 0, "adadelta, lr 1"},
        {"--optimizer adadelta --rho 0.8", 2, 0, "adadelta, lr 1, rho 0.8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct optimizer o = build(cases[i].words);
        assert_int_equal(o.state_per_parameter, cases[i].states);
        assert_int_equal(optimizer_counts_steps(o.name), cases[i].counts_steps);
        assert_string_equal(o.text, cases[i].text);
    }
}

TEST(each_schedule_describes_itself) {
    static const char *const cases[][2] = {
        {"constant", ""},
        {"step", " (times 0.7 after each epoch)"},
        {"step --step-epochs 2", " (times 0.7 after every 2 epochs)"},
        {"cosine", " (cosine to 0 after step 45)"},
        {"onecycle", " (one cycle: from 0.02 to 0.5, then to 2e-06 in step 45)"},
        {"cosine --warmup 20", " (warm-up of 20 steps, cosine to 0 after step 45)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[100], text[200];
        snprintf(words, sizeof words, "--optimizer adam --lr 0.5 --schedule %s", cases[i][0]);
        struct optimizer o = build(words);
        snprintf(text, sizeof text, "adam, lr 0.5%s", cases[i][1]);
        assert_string_equal(o.text, text);
        strcat(words, " --max-steps 7"); // stops training, but a continued run has the same rates
        struct optimizer stopped = build(words);
        for (long step = 1; step <= 3 * STEPS; step++)
            assert_true(optimizer_rate(&stopped, step) == optimizer_rate(&o, step));
        // Training goes on after the schedule if a finished run gets more steps in an epoch.
        assert_true(optimizer_rate(&o, 3 * STEPS + 9) == optimizer_rate(&o, 3 * STEPS));
    }
}

// Of few steps, 30 % may be less than one. The rate must stay a number.
TEST(short_schedules_have_rates) {
    for (int i = 0; schedule_name(i); i++)
        for (long steps = 1; steps <= 20; steps++) {
            char words[100];
            snprintf(words, sizeof words, "--schedule %s --batch 1000 --epochs %ld",
                     schedule_name(i), steps);
            struct optimizer o = build(words);
            for (long step = 1; step <= steps; step++) {
                double rate = optimizer_rate(&o, step);
                assert_true(rate > 0 && rate <= 0.05);
            }
        }
}

int main(void) {
    return run_all_tests((struct around){NULL});
}
