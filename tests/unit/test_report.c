// Tests of the progress reports and of signals with a simulated clock: this file replaces the
// function of libc that they ask for the time.
#include "common/base/error.h"
#include "common/data/data.h"
#include "common/training/report.h"
#include "common/training/requests.h"
#include "common/training/training_options.h"
#include "exercises/messages.h"
#include "tests/test.h"
#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

static double now;
static int reads; // of the device's sums

int clock_gettime(clockid_t clock, struct timespec *t) {
    *t = (struct timespec){(time_t)now, (long)(1e9 * (now - floor(now)))};
    return 0;
}

static int real_stdout, caught;
static char text[1 << 16];

static int catch_stdout(void **state) {
    fflush(stdout);
    caught = memfd_create("stdout", 0);
    real_stdout = dup(STDOUT_FILENO);
    return dup2(caught, STDOUT_FILENO) < 0;
}

static int release_stdout(void **state) {
    fflush(stdout);
    close(caught);
    return dup2(real_stdout, STDOUT_FILENO) < 0 || close(real_stdout);
}

static const char *printed(void) {
    fflush(stdout);
    ssize_t size = pread(caught, text, sizeof text - 1, 0);
    assert_true(size >= 0 && (size_t)size < sizeof text - 1);
    text[size] = 0;
    if (ftruncate(caught, 0) || lseek(caught, 0, SEEK_SET))
        fail();
    return text;
}

// Reports training steps of this many seconds as a trainer does, with the loss after each
// log_every. Returns the longest time between two reads of the device's sums.
static double train(long from, long to, double step_seconds, long log_every) {
    double last = now, longest = 0, pace = report_pace();
    for (long done = from + 1; done <= to; done++) {
        now += step_seconds;
        double next = report_pace(); // a trainer reads it before it waits for the device
        if (done % log_every == 0)
            report_loss(done, 1.25, 0.05);
        else if (report_due(done, pace))
            report_progress(done);
        else
            continue;
        reads++;
        longest = fmax(longest, now - last);
        last = now;
        pace = next;
    }
    return fmax(longest, now - last);
}

static void open_report(const char *path, long done, long epochs, long steps, long most,
                        long batch) {
    opt.epochs = epochs;
    opt.max_steps = most;
    opt.batch = batch;
    report_open(path, done, steps);
}

TEST(log_lines) {
    open_report(NULL, 0, 2, 500, 0, 64);
    train(0, 200, 0.125, 100);
    assert_string_equal(printed(),
                        "epoch 1/2  step 100/500  loss 1.2500  512 images/s  0:01:52 left\n"
                        "epoch 1/2  step 200/500  loss 1.2500  512 images/s  0:01:40 left\n");
}

TEST(log_grows_by_time) {
    open_report(NULL, 0, 1, 3600, 0, 1);
    train(0, 250, 0.5, 10000);
    const char *line = printed();
    int lines = 0;
    for (long step; sscanf(line, "epoch 1/1  step %ld/3600  %*d images/s", &step) == 1; lines++) {
        assert_true(step >= 60 * (lines + 1) && step <= 64 * (lines + 1));
        assert_null(strstr(line, "loss")); // none is new
        line = strchr(line, '\n') + 1;
    }
    assert_int_equal(lines, 4); // in 125 s
    assert_string_equal(line, "");
}

// The device is read about once a second, whatever a step takes. The first line comes after 30 s.
TEST(device_is_read_each_second) {
    for (double pace = 1e-4; pace < 2; pace *= 3) {
        open_report(NULL, 0, 1, 1000000, 0, 1);
        reads = 0;
        assert_true(train(0, (long)(20 / pace), pace, 1000000) <= 1 + 2 * pace);
        assert_true(reads >= 10 && reads <= 22); // and not after every step
        assert_string_equal(printed(), "");
    }
    // If training becomes slower, the device is read more often.
    open_report(NULL, 0, 1, 1000000, 0, 1);
    train(0, 2000, 0.001, 1000000);
    assert_true(train(2000, 10000, 0.002, 1000000) <= 2.1);
}

// Sends signals to a child at these times. Returns how it ends: as the signals let it, or with 0
// if it has noted the request and goes on.
static int end_of_signalled(const char *name, double second, double third) {
    int status = 0;
    const double times[] = {0, second, third};
    const int signals[] = {SIGUSR1, SIGTERM, SIGINT};
    now = 0.25;
    if (fork() == 0) {
        strcpy(error_name, name);
        signal(SIGINT, SIG_DFL); // which a test in the background of a shell would ignore
        stop_on_signals();
        dup2(caught, STDERR_FILENO);
        for (int i = 0; i < 3; i++) {
            now = 0.25 + times[i];
            raise(signals[i]);
        }
        _exit(current_requests().stop != 1);
    }
    wait(&status);
    return status;
}

TEST(a_second_request_comes_more_than_a_second_after_the_first) {
    assert_int_equal(end_of_signalled("", 0.5, 1), 0);
    assert_string_equal(printed(), "");
    assert_int_equal(WEXITSTATUS(end_of_signalled("", 1, 1.125)), 128 + SIGINT);
    assert_non_null(strstr(printed(), "): " SECOND_SIGNAL));
    assert_int_equal(end_of_signalled("rank 0", 2, 4), 0); // its launcher decides
    assert_string_equal(printed(), "");
}

int main(void) {
    return run_all_tests((struct around){.begin = catch_stdout, .end = release_stdout});
}
