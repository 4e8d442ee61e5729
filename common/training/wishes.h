// SIGTERM and SIGUSR1 tell a rank to stop. A signal only sets a flag; at the next read_stats, all
// ranks learn of it and stop after the same step.
#pragma once
#include <signal.h>

// From now on, the two signals set told_to_stop.
void stop_on_signals(void);

extern volatile sig_atomic_t told_to_stop; // 1: a signal has told this rank to stop
