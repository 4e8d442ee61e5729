#include "watch/watch.h"
#include "common/device/spans.h"
#include "common/training/training_options.h"
#include "watch/profile.h"
#include "watch/trace.h"

static struct {
    const char *trace;
    long profile;
} options; // options_parse sets it

const struct option_spec watch_options[] = {
    {"profile", OPTION_FLAG | OPTION_LOCAL, &options.profile, NULL, 0, 0,
     "prints where the time of a training step goes, and adds it to the CSV file"},
    {"trace", OPTION_TEXT | OPTION_LOCAL | OPTION_OUTPUT, &options.trace, NULL, 0, 0,
     "file for a trace: what the device did and when"},
    {0},
};

static struct phases taken; // the sums of the last epoch
static const struct phases none;

static void open(long steps) {
    if (options.profile || trace_needs_spans())
        profile_open(steps, opt.log_every, (int)options.profile);
}

static void take(void) {
    taken = profile_take();
}

static void print(int modelled) {
    if (options.profile)
        phases_print(&taken, modelled);
}

static void columns(char *text, size_t size, int empty) {
    if (options.profile)
        phases_csv(text, size, empty ? &none : &taken);
}

static size_t titles(char *text, size_t size, const char *prefix) {
    return options.profile ? phases_csv_titles(text, size, prefix) : 0;
}

void trace_and_profile(int process, int processes) {
    static const struct watcher self = {.begin = profile_begin,
                                        .end = profile_end,
                                        .step = profile_step,
                                        .open = open,
                                        .reported = profile_report,
                                        .take = take,
                                        .print = print,
                                        .columns = columns,
                                        .titles = titles};
    watcher = &self;
    trace_open(options.trace, process, processes);
}
