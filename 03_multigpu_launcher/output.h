// The output of the ranks of this node. It arrives through pipes. The launcher writes it to files
// and to its own stdout and stderr, which are called screens here.
#pragma once
#include <poll.h>

// Call it first. ranks: number of ranks on this node.
void prepare_outputs(int ranks);

// Prints a line of the launcher on stderr.
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

// Prints the last lines that a rank wrote to stderr, unless a screen has shown them.
void show_last_lines(int local_rank);
