// Signals that tell a program to stop: SIGINT, SIGTERM, SIGHUP and SIGUSR1, without those that its
// parent ignores, as nohup ignores SIGHUP.
#pragma once
#include <signal.h>

// Adds these signals to the set.
void add_stop_signals(sigset_t *set);

// From now on, the handler gets these signals.
void handle_stop_signals(void (*handler)(int signal));

// A user may send a signal again to end the program at once. But one request may also arrive
// several times, because timeout and others send a signal to a process and to its group. So a
// signal that arrives within a second of the first one is the same request.
enum request { FIRST_REQUEST, SAME_REQUEST, SECOND_REQUEST };

// Call it for each of these signals, also in a handler. Returns SECOND_REQUEST once, after a line
// on stderr that says why the program ends. A process with an error_name (common/base/error.h)
// leaves this to the process that has started it: it gets no SECOND_REQUEST.
enum request count_request(void);
