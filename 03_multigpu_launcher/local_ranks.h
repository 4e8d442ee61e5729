// The ranks of this node: processes that the launcher starts, watches and ends.
#pragma once

// Prepares the start of me->nproc ranks. argv is that of main.
void prepare_local_ranks(char **argv);

// Starts all ranks of this node for attempt me->attempt, when states.c says so. A failure ends the
// program.
void start_local_ranks(void);

// Returns the number of ranks that have not ended.
int local_ranks_left(void);

// Sends a signal to the ranks and to their children.
void signal_local_ranks(int signal);

// Ends the ranks: SIGTERM lets them clean up, and SIGKILL follows after --shutdown-timeout.
void stop_local_ranks(void);

// Kills the ranks after --shutdown-timeout, or earlier if stop_local_ranks has been called before.
void kill_local_ranks_later(void);

// Returns 1 if the ranks have a time at which SIGKILL follows.
int kill_is_pending(void);

// Passes events to states.h: RANK_FAILED for the first rank that fails, RANKS_ENDED when all ranks
// have ended, and TIME_OVER. Kills ranks whose time is over. Call it after each event of the
// launcher's descriptors, and often if kill_is_pending.
void check_local_ranks(void);

// Kills all ranks and waits for them.
void end_local_ranks(void);
