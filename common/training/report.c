#include "common/training/report.h"
#include "common/base/alone.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/minmax.h"
#include "common/data/data.h"
#include "common/device/device.h"
#include "common/device/spans.h"
#include "common/models/model.h"
#include "common/training/optimizer.h"
#include "common/training/training_options.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LOG_SECONDS = 30, CSV_SIZE = 512 };

static struct {
    FILE *csv;
    long steps, last; // of an epoch; the number of the last step, over all epochs
    struct moment {
        long steps; // completed
        double time;
    } loss, wait; // when the loss was last read, and at the last wait for the device
    double line;  // time of the last line
    double speed; // steps per second before the last wait
    int modelled; // 1: the device has a modelled clock
} report;

static void check_csv(int written) {
    if (written < 0 || fflush(report.csv)) // reports a full disk at once
        fail("cannot write the --csv file: %s", strerror(errno));
}

// What rates count.
static const char *unit(void) {
    return data_tokens ? "tokens" : data_samples;
}

static int units_per_sample(void) {
    return data_tokens ? data_tokens : 1;
}

// Returns the titles or the values (prefix: NULL) of the watcher's columns (struct watcher).
static const char *watched_columns(const char *prefix) {
    static char text[CSV_SIZE];
    if (watcher)
        watcher->columns(text, sizeof text, prefix);
    return text;
}

// A file that is continued keeps its columns. Their titles tell which times are modelled.
static void open_csv(const char *path, int goes_on) {
    char titles[2 * CSV_SIZE], line[2 * CSV_SIZE] = "";
    const char *prefix = report.modelled ? "modelled_" : "";
    snprintf(titles, sizeof titles,
             "step,loss,epoch,epoch_loss,test_loss,accuracy,%sseconds,lr%s%s\n", prefix,
             data_tokens ? ",perplexity" : "", watched_columns(prefix));
    FILE *old = goes_on ? fopen(path, "r") : NULL;
    if (old && fgets(line, sizeof line, old) && strcmp(line, titles))
        fail("--csv %s: this file has other columns: continue with the same --profile and "
             "CPU_DEVICE_MODEL and the same kind of data, or choose another file",
             path);
    if (old)
        fclose(old);
    if (!(report.csv = fdopen(open_alone("--csv", path, goes_on), "a")))
        fail("--csv %s: %m", path);
    fseek(report.csv, 0, SEEK_END);
    if (ftell(report.csv) == 0)
        check_csv(fputs(titles, report.csv));
}

void report_run(const struct model *model, const struct dataset *train, const struct dataset *test,
                const struct optimizer *optimizer) {
    print_device();
    print_model(model);
    print_data(opt.data, train, test);
    print_unused();
    say("training  %ld steps of batch %ld per epoch, %s%s, seed %ld\n", optimizer->steps_per_epoch,
        opt.batch, optimizer->text, opt.tf32 ? ", tf32" : "", opt.seed);
}

void report_open(const char *path, long done, long steps) {
    long all = opt.epochs * steps;
    report.steps = steps;
    report.last = opt.max_steps && opt.max_steps < all ? opt.max_steps : all;
    report.line = seconds();
    report.loss = report.wait = (struct moment){done, report.line};
    report.speed = 0;
    report.modelled = device_is_modelled();
    if (path)
        open_csv(path, done > 0);
    spans_open(min_size(steps, report.last - done), opt.log_every);
}

// With a modelled clock, there is no progress report: the second of real time ends at a different
// step in each run, and the wait for the report changes the modelled times.
int report_due(long done, double pace) {
    return !report.modelled && done >= report.wait.steps + fmax(pace, 1);
}

double report_pace(void) {
    return ceil(fmax(report.speed, 1));
}

// Returns the number as a text, which stays for three more calls, or none if the device leaves out
// the arithmetic for it.
static const char *computed(const char *format, double value, const char *none) {
    static char texts[4][32];
    static int last;
    last = (last + 1) % 4;
    snprintf(texts[last], sizeof texts[last], device_computes() ? format : none, value);
    return texts[last];
}

// Call it after each wait for the device, which has done so many steps.
static void measure_speed(long done, double now) {
    report.speed = (done - report.wait.steps) / (now - report.wait.time);
    report.wait = (struct moment){done, now};
}

// Prints a line with this text. With a modelled clock there are no rates, because the clock here is
// that of the host.
static void print_progress(long done, double now, const char *text) {
    long epoch = (done - 1) / report.steps + 1, step = (done - 1) % report.steps + 1;
    double rate = (done - report.loss.steps) / (now - report.loss.time); // steps per second
    long left = (report.last - done) / rate;                             // seconds
    say("epoch %ld/%ld  step %ld/%ld%s", epoch, opt.epochs, step, report.steps, text);
    if (!report.modelled)
        say("  %.0f %s/s  %ld:%02ld:%02ld left", rate * opt.batch * units_per_sample(), unit(),
            left / 3600, left / 60 % 60, left % 60);
    say("\n");
    report.line = now;
}

void report_progress(long done) {
    double now = seconds();
    measure_speed(done, now);
    if (now >= report.line + LOG_SECONDS)
        print_progress(done, now, "");
}

// Ends a line of the CSV file with the columns of texts and of the watcher.
static void end_csv_line(const char *perplexity) {
    check_csv(
        fprintf(report.csv, "%s%s%s\n", data_tokens ? "," : "", perplexity, watched_columns(NULL)));
}

void report_loss(long done, double loss, double lr) {
    char text[48];
    double now = seconds();
    measure_speed(done, now);
    snprintf(text, sizeof text, "  loss %s", computed("%.4f", loss, "-"));
    print_progress(done, now, text);
    report.loss = (struct moment){done, now};
    if (report.csv) {
        check_csv(fprintf(report.csv, "%ld,%s,,,,,,%.9g", done, computed("%.9g", loss, ""), lr));
        end_csv_line("");
    }
    spans_report(0);
}

static void csv_epoch(long epoch, long total, const double values[3], double elapsed) {
    check_csv(fprintf(report.csv, "%ld,,%ld,%s,%s,%s,%.*f,", total, epoch,
                      computed("%.9g", values[0], ""), computed("%.9g", values[1], ""),
                      computed("%.2f", values[2], ""), report.modelled ? 6 : 3, elapsed));
    end_csv_line(data_tokens ? computed("%.9g", exp(values[1]), "") : "");
}

void report_epoch(long epoch, long total, struct stats train, struct stats test, double elapsed,
                  double samples_per_second) {
    double values[] = {train.loss / train.samples, test.loss / test.samples,
                       100 * test.correct / test.samples};
    say("epoch %ld/%ld  loss %s  test loss %s  ", epoch, opt.epochs,
        computed("%.4f", values[0], "-"), computed("%.4f", values[1], "-"));
    if (data_tokens)
        say("perplexity %s  ", computed("%.2f", exp(values[1]), "-"));
    say("accuracy %s  %s%.*f s  %.0f %s/s\n", computed("%.2f%%", values[2], "-"),
        report.modelled ? "modelled " : "", report.modelled ? 6 : 2, elapsed,
        samples_per_second * units_per_sample(), unit());
    spans_report(1);
    report.line = report.loss.time = report.wait.time = seconds(); // without evaluation
    if (report.csv)
        csv_epoch(epoch, total, values, elapsed);
}

void report_stop(long done) {
    say("stopped after step %ld\n", done);
    spans_report(1);
}

void report_finish(int told_to_stop) {
    if (told_to_stop)
        say("told to stop by a signal; %s\n",
            opt.snapshot ? "saved" : "without --snapshot nothing is saved");
}
