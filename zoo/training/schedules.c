#include "zoo/training/schedules.h"
#include "zoo/zoo_options.h"
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

static double constant(const struct optimizer *o, long done) {
    (void)o, (void)done;
    return 1;
}

// StepLR with step_size=step_epochs, where PyTorch calls scheduler.step() after each epoch.
static double step(const struct optimizer *o, long done) {
    return pow(zoo_opt.gamma, (double)(done / o->steps_per_epoch / zoo_opt.step_epochs));
}

// CosineAnnealingLR with T_max=steps after the warm-up, where PyTorch calls scheduler.step() after
// each training step.
static double cosine(const struct optimizer *o, long done) {
    long after = done - zoo_opt.warmup;
    return after > 0 ? anneal(1, 0, (double)after / (o->steps - zoo_opt.warmup)) : 1;
}

// OneCycleLR with total_steps=steps. The highest rate may lie between two steps.
static double onecycle(const struct optimizer *o, long done) {
    double top = RISING * o->steps - 1, last = o->steps - 1;
    if (done <= top)
        return anneal(1 / START_DIVISOR, 1, top > 0 ? done / top : 1);
    return anneal(1, 1 / START_DIVISOR / END_DIVISOR, (done - top) / (last - top));
}

static const struct schedule {
    const char *name;
    double (*factor)(const struct optimizer *optimizer, long done);
} schedules[] = {
    {"constant", constant}, {"step", step}, {"cosine", cosine}, {"onecycle", onecycle}};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

const char *schedule_name(int i) {
    return i < SCHEDULES ? schedules[i].name : NULL;
}

static const struct schedule *find_schedule(void) {
    const struct schedule *s = schedules;
    while (s < schedules + SCHEDULES && strcmp(zoo_opt.schedule, s->name))
        s++;
    return s < schedules + SCHEDULES ? s : NULL;
}

static void describe(const struct schedule *s, const struct optimizer *o,
                     char text[SCHEDULE_TEXT]) {
    char warmup[48] = "", change[80] = "";
    if (zoo_opt.warmup)
        snprintf(warmup, sizeof warmup, "warm-up of %ld step%s", zoo_opt.warmup,
                 zoo_opt.warmup == 1 ? "" : "s");
    if (s->factor == step && zoo_opt.step_epochs == 1)
        snprintf(change, sizeof change, "times %g after each epoch", zoo_opt.gamma);
    else if (s->factor == step)
        snprintf(change, sizeof change, "times %g after every %ld epochs", zoo_opt.gamma,
                 zoo_opt.step_epochs);
    else if (s->factor == cosine)
        snprintf(change, sizeof change, "cosine to 0 after step %ld", o->steps);
    else if (s->factor == onecycle)
        snprintf(change, sizeof change, "one cycle: from %g to %g, then to %g in step %ld",
                 o->lr / START_DIVISOR, o->lr, o->lr / START_DIVISOR / END_DIVISOR, o->steps);
    *text = 0;
    if (*warmup || *change)
        snprintf(text, SCHEDULE_TEXT, " (%s%s%s)", warmup, *warmup && *change ? ", " : "", change);
}

int schedule_check(const struct optimizer *o, char text[SCHEDULE_TEXT], char why[WHY_SIZE]) {
    const struct schedule *s = find_schedule();
    if (!s)
        return refuse(why, "--schedule %s: there is no such schedule", zoo_opt.schedule);
    if (zoo_opt.warmup && s->factor == onecycle)
        return refuse(why,
                      "--warmup %ld: --schedule onecycle has its own warm-up, %g %% of all "
                      "steps",
                      zoo_opt.warmup, 100 * RISING);
    if (zoo_opt.warmup && zoo_opt.warmup >= o->steps)
        return refuse(why, "--warmup %ld: want fewer steps than training has, which are %ld",
                      zoo_opt.warmup, o->steps);
    describe(s, o, text);
    return 0;
}

// The warm-up is LinearLR with start_factor=1/warmup and total_iters=warmup-1: it ends with the
// full rate, and begins with a rate above 0.
double schedule_factor(const struct optimizer *o, long step) {
    long done = step <= o->steps ? step - 1 : o->steps - 1, warmup = zoo_opt.warmup;
    double factor = find_schedule()->factor(o, done);
    return warmup && done < warmup ? factor * (done + 1) / warmup : factor;
}
