#include "common/training/requests.h"
#include "common/base/clock.h"
#include "common/training/report.h"
#include "common/training/training_options.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t told_to_stop;
static double saved_at; // 0: training has not begun

// A second signal ends this process at once, unless it comes within a second of the first: when a
// job ends, both a launcher and its processes may get the signal, and the launcher passes it on.
static void on_signal(int number) {
    static time_t first;
    if (!told_to_stop)
        first = time(NULL);
    else if (time(NULL) > first + 1)
        _exit(128 + number);
    told_to_stop = 1;
}

void handle_stop_signals(void (*handler)(int signal)) {
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (int i = 0; i < 4; i++)
        if (signal(numbers[i], handler) == SIG_IGN) // as nohup ignores SIGHUP
            signal(numbers[i], SIG_IGN);
}

void stop_on_signals(void) {
    handle_stop_signals(on_signal);
}

struct requests current_requests(void) {
    if (!saved_at)
        begin_save_minutes();
    return (struct requests){
        .stop = told_to_stop,
        .save = opt.save_minutes && seconds() > saved_at + 60 * opt.save_minutes,
        .pace = report_pace(),
    };
}

void begin_save_minutes(void) {
    saved_at = seconds();
}
