#include "zoo/training/schedules.h"
#include "common/training/training_options.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

// The defaults of torch.optim.lr_scheduler.OneCycleLR. Momentum is not cycled.
static const double RISING = 0.3, START_DIVISOR = 25, END_DIVISOR = 1e4;

// Half a cosine from one number to another; part goes from 0 to 1.
static double anneal(double from, double to, double part) {
    return to + (from - to) / 2 * (1 + cos(acos(-1) * part));
}

static double constant(const struct schedule *s, long done) {
    (void)s, (void)done;
    return 1;
}

// StepLR with step_size=step_epochs, where PyTorch calls scheduler.step() after each epoch.
static double step(const struct schedule *s, long done) {
    return pow(s->gamma, (double)(done / s->steps_per_epoch / s->step_epochs));
}

// CosineAnnealingLR with T_max=steps after the warm-up, where PyTorch calls scheduler.step() after
// each training step.
static double cosine(const struct schedule *s, long done) {
    long after = done - s->warmup;
    return after > 0 ? anneal(1, 0, (double)after / (s->steps - s->warmup)) : 1;
}

// OneCycleLR with total_steps=steps. The highest rate may lie between two steps.
static double onecycle(const struct schedule *s, long done) {
    double top = RISING * s->steps - 1, last = s->steps - 1;
    if (done <= top)
        return anneal(1 / START_DIVISOR, 1, top > 0 ? done / top : 1);
    return anneal(1, 1 / START_DIVISOR / END_DIVISOR, (done - top) / (last - top));
}

static const struct {
    const char *name;
    double (*factor)(const struct schedule *schedule, long done);
} schedules[] = {
    {"constant", constant}, {"step", step}, {"cosine", cosine}, {"onecycle", onecycle}};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

const char *schedule_name(int i) {
    return i < SCHEDULES ? schedules[i].name : NULL;
}

// Describes the schedule for the banner.
static void describe(struct schedule *s, double lr) {
    char warmup[48] = "", change[80] = "";
    if (s->warmup)
        snprintf(warmup, sizeof warmup, "warm-up of %ld step%s", s->warmup,
                 s->warmup == 1 ? "" : "s");
    if (s->factor == step && s->step_epochs == 1)
        snprintf(change, sizeof change, "times %g after each epoch", s->gamma);
    else if (s->factor == step)
        snprintf(change, sizeof change, "times %g after every %ld epochs", s->gamma,
                 s->step_epochs);
    else if (s->factor == cosine)
        snprintf(change, sizeof change, "cosine to 0 after step %ld", s->steps);
    else if (s->factor == onecycle)
        snprintf(change, sizeof change, "one cycle: from %g to %g, then to %g in step %ld",
                 lr / START_DIVISOR, lr, lr / START_DIVISOR / END_DIVISOR, s->steps);
    *s->text = 0;
    if (*warmup || *change)
        snprintf(s->text, sizeof s->text, " (%s%s%s)", warmup, *warmup && *change ? ", " : "",
                 change);
}

int schedule_build(struct schedule *s, const struct training_options *options, long steps_per_epoch,
                   double lr, char why[WHY_SIZE]) {
    int i = 0;
    while (i < SCHEDULES && strcmp(options->schedule, schedules[i].name))
        i++;
    if (i == SCHEDULES)
        return refuse(why, "--schedule %s: there is no such schedule", options->schedule);
    *s = (struct schedule){.factor = schedules[i].factor,
                           .steps = options->epochs * steps_per_epoch,
                           .steps_per_epoch = steps_per_epoch,
                           .warmup = options->warmup,
                           .step_epochs = options->step_epochs,
                           .gamma = options->gamma};
    if (s->warmup && s->factor == onecycle)
        return refuse(why,
                      "--warmup %ld: --schedule onecycle has its own warm-up, %g %% of all "
                      "steps",
                      s->warmup, 100 * RISING);
    if (s->warmup && s->warmup >= s->steps)
        return refuse(why, "--warmup %ld: want fewer steps than training has, which are %ld",
                      s->warmup, s->steps);
    describe(s, lr);
    return 0;
}

// The warm-up is LinearLR with start_factor=1/warmup and total_iters=warmup-1: it ends with the
// full rate, and begins with a rate above 0.
double schedule_factor(const struct schedule *s, long step) {
    long done = step <= s->steps ? step - 1 : s->steps - 1;
    double factor = s->factor(s, done);
    return s->warmup && done < s->warmup ? factor * (done + 1) / s->warmup : factor;
}
