// The output of the ranks of this node. It arrives through pipes. The launcher writes it to files
// and to its own stdout and stderr, which are called screens here. A write never blocks, because
// the launcher must watch its ranks even when its screen is full and no program reads from it.
#pragma once
#include <poll.h>

// Call it first. ranks: number of ranks on this node.
void open_screens(int ranks);

// Returns 1 if some text has not been written to the screens yet.
int screens_hold_text(void);

// Waits until all text has been written to the screens.
void empty_screens(void);

// Prints a line of the launcher on stderr. The line is lost if the screen has no room for it.
__attribute__((format(printf, 1, 2))) void note(const char *format, ...);

// Opens the outputs of a rank for a new attempt. to_rank: gets the descriptors that the rank writes
// its stdout and stderr to, which the caller closes; -1: it writes to that of the launcher.
// folder: log files rank_R.stdout and rank_R.stderr are appended there, or NULL. tee 1: the screens
// show all lines, each after [rank]. A failure ends the program.
void open_outputs(int local_rank, int rank, const char *folder, int tee, int to_rank[2]);

// Waits like poll for these descriptors, and passes on the output of ranks that arrives meanwhile.
// It may return early.
void poll_with_outputs(const struct pollfd *fds, int count, int timeout);

// Passes on the rest of the output of a rank that has ended. A process that the rank has left
// behind may write to the same pipes; the launcher does not read that.
void end_outputs(int local_rank);

// Returns the number of outputs that are still open, for example because a screen is slow.
int open_outputs_count(void);

// Closes the outputs of all ranks. Text for a slow screen is lost.
void close_outputs(void);

// Prints the last lines that a rank wrote to stderr, unless a screen has shown them.
void show_last_lines(int local_rank);
