#include "common/report.h"
#include "common/clock.h"
#include "common/device.h"
#include "common/error.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LOG_SECONDS = 30 };

static struct {
    FILE *csv;
    long epochs, steps, last, batch; // last: the number of the last step, over all epochs
    // Completed steps when training began, when the loss was last read, and at the last wait for
    // the device; the times of these three events, and of the last line in a log.
    long begun, known, waited;
    double begin, know, wait, line;
    double speed; // steps per second before the last wait
    double loss;  // when it was last read
    int modelled; // 1: the device has a modelled clock
    int bar;      // 1: the terminal shows a bar, and its line has not ended
} report;

int report_muted;

void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!report_muted)
        vprintf(format, arguments);
    va_end(arguments);
}

// Open MPI's mpirun gives its processes a pseudo-terminal, even if it writes their output to a
// file. It is not their controlling terminal, so tcgetpgrp fails for it.
int report_on_terminal(void) {
    return isatty(STDOUT_FILENO) && tcgetpgrp(STDOUT_FILENO) >= 0;
}

static void check_csv(int written) {
    if (written < 0 || fflush(report.csv)) // reports a full disk at once
        fail("cannot write the --csv file: %s", strerror(errno));
}

void report_open(const char *path, long done, long epochs, long steps, long most, long batch) {
    report.epochs = epochs;
    report.steps = steps;
    report.last = most && most < epochs * steps ? most : epochs * steps;
    report.batch = batch;
    report.begun = report.known = report.waited = done;
    report.begin = report.know = report.wait = report.line = seconds();
    report.speed = 0; // report_due returns 1 after the first step, to measure the speed
    report.loss = NAN;
    report.modelled = device_is_modelled();
    if (path && !(report.csv = fopen(path, done > 0 ? "a" : "w")))
        fail("--csv %s: %s", path, strerror(errno));
    if (path && ftell(report.csv) == 0)
        check_csv(fputs("step,loss,epoch,epoch_loss,test_loss,accuracy,seconds,lr\n", report.csv));
}

// A wait would change modelled times, and it would come at a different step in each run.
int report_due(long done) {
    return !report.modelled && done >= report.waited + fmax(report.speed, 1);
}

// The bar fills the width that the text leaves. A narrow terminal shows no speed, and an even
// narrower one no remaining time. A line that is still too long is cut, because a wrapped line
// cannot be redrawn.
static void draw(const char *head, double part, const char *state, const char *speed,
                 const char *left) {
    const char *full = "##############################";
    char line[256], tail[200];
    struct winsize size = {0};
    int columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
    int width = 0;
    for (int parts = 3; parts > 0 && width < 5; parts--) {
        snprintf(tail, sizeof tail, "%s%s%s", state, parts > 2 ? speed : "", parts > 1 ? left : "");
        int text = strlen(head) + strlen("[]") + strlen(tail);
        int room = columns - 1 - text, most = strlen(full);
        width = room < most ? room : most;
    }
    if (width >= 5)
        snprintf(line, sizeof line, "%s[%-*.*s]%s", head, width, (int)(part * width), full, tail);
    else
        snprintf(line, sizeof line, "%sstep%s", head, tail);
    say("\r\033[K%.*s", columns - 1, line); // goes to the first column, and erases the line
    fflush(stdout);
    report.bar = 1;
}

// Prints the progress after done steps. loss is NAN if there is no new loss.
static void print_progress(long done, double loss) {
    double now = seconds();
    long epoch = (done - 1) / report.steps + 1, step = (done - 1) % report.steps + 1;
    long left = (report.last - done) * (now - report.begin) / (done - report.begun);
    double images = report.batch * (done - report.known) / (now - report.know); // per second
    char head[64], state[96], speed[48], rest[48], text[32] = "";
    report.speed = (done - report.waited) / (now - report.wait);
    report.waited = done;
    report.wait = now;
    if (!isnan(loss)) {
        report.loss = loss;
        report.known = done;
        report.know = now;
    }
    if (report_on_terminal())
        loss = report.loss;
    else if (isnan(loss) && now < report.line + LOG_SECONDS)
        return;
    if (!isnan(loss))
        snprintf(text, sizeof text, "  loss %.4f", loss);
    snprintf(head, sizeof head, "epoch %ld/%ld  ", epoch, report.epochs);
    snprintf(state, sizeof state, " %ld/%ld%s", step, report.steps, text);
    snprintf(speed, sizeof speed, "  %.0f images/s", images);
    snprintf(rest, sizeof rest, "  %ld:%02ld:%02ld left", left / 3600, left / 60 % 60, left % 60);
    if (report_on_terminal())
        draw(head, (double)step / report.steps, state, speed, rest);
    else
        say("%sstep%s%s%s\n", head, state, speed, rest);
    report.line = now;
}

void report_progress(long done) {
    print_progress(done, NAN);
}

void report_loss(long done, double loss, double lr) {
    print_progress(done, loss);
    if (report.csv)
        check_csv(fprintf(report.csv, "%ld,%.9g,,,,,,%.9g\n", done, loss, lr));
}

void report_epoch(long epoch, long epochs, long total, struct stats train, struct stats test,
                  double elapsed, double images_per_second) {
    double loss = train.loss / train.samples, test_loss = test.loss / test.samples;
    double accuracy = 100 * test.correct / test.samples;
    if (report.bar)
        say("\r\033[K"); // erases the bar
    report.bar = 0;
    say("epoch %ld/%ld  loss %.4f  test loss %.4f  accuracy %.2f%%  %.2f s  %.0f images/s\n", epoch,
        epochs, loss, test_loss, accuracy, elapsed, images_per_second);
    report.know = report.wait = report.line = seconds(); // the speed does not include evaluation
    if (report.csv)
        check_csv(fprintf(report.csv, "%ld,,%ld,%.9g,%.9g,%.2f,%.3f,\n", total, epoch, loss,
                          test_loss, accuracy, elapsed));
}

void report_stop(long done) {
    report_end_bar();
    say("stopped after step %ld\n", done);
}

const char *report_clear_bar(void) {
    return isatty(STDERR_FILENO) ? "\r\033[K" : "";
}

void report_end_bar(void) {
    if (report.bar)
        say("\n");
    report.bar = 0;
}
