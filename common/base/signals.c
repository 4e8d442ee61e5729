#include "common/base/signals.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

static int is_ignored(int number) {
    struct sigaction action;
    return !sigaction(number, NULL, &action) && action.sa_handler == SIG_IGN;
}

void add_stop_signals(sigset_t *set) {
    for (int i = 0; i < 4; i++)
        if (!is_ignored(numbers[i]))
            sigaddset(set, numbers[i]);
}

void handle_stop_signals(void (*handler)(int signal)) {
    for (int i = 0; i < 4; i++)
        if (!is_ignored(numbers[i]))
            signal(numbers[i], handler);
}

enum request count_request(void) {
    static _Atomic double first; // several threads may handle signals
    char line[256];
    double now = seconds();
    if (!first) {
        first = now;
        return FIRST_REQUEST;
    }
    if (*error_name || now <= first + 1)
        return SAME_REQUEST;
    first = INFINITY;
    int size = snprintf(line, sizeof line,
                        "error (%s): a second signal ended this run before it had saved and "
                        "stopped: after one signal, wait\n",
                        error_origin());
    ssize_t written = write(STDERR_FILENO, line, size); // fprintf is not safe in a signal handler
    (void)written; // the run also ends if the line cannot be written
    return SECOND_REQUEST;
}
