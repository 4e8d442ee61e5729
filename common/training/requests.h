// What training is asked for: to stop, by a signal, or to save, because --save-minutes have passed.
// A signal only sets a flag. Training looks at the requests where it waits for the device, about
// once a second (with a modelled clock, at each --log-every).
#pragma once

struct requests { // doubles, so they can be added up like struct stats
    double stop;  // 1: a signal has told this process to stop
    double save;  // 1: --save-minutes have passed since the last save
    double pace;  // training steps from one wait to the next, a whole number
};

// From now on, a signal (common/base/signals.h) sets the request to stop, and a second request ends
// the process at once.
void stop_on_signals(void);

struct requests current_requests(void);

// Call it with each save: --save-minutes begin again.
void note_save(void);
