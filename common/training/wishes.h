// What this process wishes: to stop after a signal, to save after --save-minutes, and how soon it
// waits for the device again. A signal only sets a flag. Training looks at the wishes where it
// waits for the device, about once a second (with a modelled clock, at each --log-every).
#pragma once

struct wishes {  // doubles, so they can be added up like struct stats
    double stop; // 1: a signal has told this process to stop
    double save; // 1: --save-minutes have passed since the last save
    double pace; // training steps from one wait to the next, a whole number
};

// From now on, SIGINT, SIGTERM, SIGHUP and SIGUSR1 set the wish to stop, unless they are ignored.
void stop_on_signals(void);

// Sets another handler for these signals, unless they are ignored.
void handle_stop_signals(void (*handler)(int signal));

struct wishes current_wishes(void);

// Call it with each save: --save-minutes begin again.
void begin_save_minutes(void);
