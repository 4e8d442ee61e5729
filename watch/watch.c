// Watches a training run: --profile, which says where the time of a training step goes, and
// --trace. A program that the Makefile links with this file has these options.
#include "common/base/options.h"
#include "common/device/device.h"
#include "common/device/spans.h"
#include "watch/profile.h"
#include "watch/trace.h"

static struct {
    const char *trace;
    long profile;
} options; // options_parse sets it

static const struct option_spec watch_options[] = {
    {"profile", OPTION_FLAG | OPTION_LOCAL, &options.profile, NULL, 0, 0,
     "prints where the time of a training step goes, and adds it to the CSV file"},
    {"trace", OPTION_TEXT | OPTION_LOCAL | OPTION_OUTPUT, &options.trace, NULL, 0, 0,
     "file for a trace: what the device did and when"},
    {0},
};

static struct phases printed; // those of the last epoch, until they are in the CSV file

static void open(long steps, long report_every) {
    if (options.profile && !steps)
        wrong_usage("--profile is about training steps, and this program has none: use --trace");
    trace_open(options.trace);
    if (options.profile || trace_needs_spans())
        profile_open(steps, report_every, (int)options.profile);
}

static void report(int ends_epoch) {
    profile_report();
    if (!ends_epoch || !options.profile)
        return;
    printed = profile_take();
    phases_print(&printed, device_is_modelled());
}

static void columns(char *text, size_t size, const char *prefix) {
    if (!options.profile)
        return;
    if (prefix) {
        phases_csv_titles(text, size, prefix);
        return;
    }
    phases_csv(text, size, &printed);
    printed = (struct phases){0};
}

// Runs before main in each program that is linked with this file.
__attribute__((constructor)) static void join_program(void) {
    static const struct option_table table = {"options to watch a run (watch/)", watch_options};
    static const struct watcher self = {.begin = profile_begin,
                                        .end = profile_end,
                                        .step = profile_step,
                                        .open = open,
                                        .report = report,
                                        .read = trace_read,
                                        .columns = columns};
    watcher = &self;
    options_add(&table, NULL);
}
