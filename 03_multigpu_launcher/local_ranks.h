// The ranks of this node: processes that the launcher starts, watches and ends.
#pragma once

// Ranks have not started yet (IDLE), run, or are STOPPING because one of them has failed. When all
// have ended, this attempt has FAILED, or it is DONE.
enum state { IDLE, RUNNING, STOPPING, FAILED, DONE };

extern struct local_ranks {
    int attempt; // the last one that has started, from 0; -1: none
    enum state state;
    int final; // 1: the ranks must not start again
} local;

// Opens stdin, stdout and stderr if the parent has closed them, because a pipe must not get their
// numbers, and lets the launcher wait for its children, even if the parent ignores SIGCHLD. Call it
// first.
void start_clean(void);

// Blocks SIGCHLD and the signals that the launcher passes on to its ranks, unless its parent
// ignores them. Returns the descriptor from which pass_signals reads them, together with all other
// events.
int open_signals(void);

// Passes the signals that have arrived on to the ranks and to their children. SIGTERM, SIGINT and
// SIGHUP also end the run: then it calls end_run first, but not again if a signal repeats the
// request of an earlier one. A second request ends this launcher at once.
void pass_signals(int signals, void (*end_run)(int signal));

// Prepares the start of launch_opt.nproc ranks.
void prepare_local_ranks(void);

// Starts all ranks of this node, which then are RUNNING. A failure ends the program.
void start_local_ranks(int attempt);

// Returns the number of ranks that have not ended.
int local_ranks_left(void);

// Ends the ranks: SIGTERM lets them clean up, and SIGKILL follows after --shutdown-timeout.
void stop_local_ranks(void);

// Kills the ranks after --shutdown-timeout, or earlier if stop_local_ranks has been called before.
void kill_local_ranks_later(void);

// Returns 1 if the ranks have a time at which SIGKILL follows.
int kill_is_pending(void);

// Stops all ranks when the first one has failed, kills those whose time is over, and sets
// local.state when all have ended. Call it after each event of the launcher's descriptors, and
// often if kill_is_pending.
void check_local_ranks(void);

// Kills all ranks, and waits for them.
void end_local_ranks(void);
