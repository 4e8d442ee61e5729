// The signals of the launcher. It reads them from a descriptor, together with all other events.
#pragma once

// Lets the launcher wait for its children, even if its parent ignores SIGCHLD. Call it first.
void allow_children(void);

// Blocks SIGCHLD and the signals that the launcher passes on to its ranks, unless its parent
// ignores them. Returns the descriptor from which read_signal reads them.
int open_signals(void);

// Returns the next signal that has arrived, or 0 if there is none.
int read_signal(int signals);

// Handles all signals again as the parent of the launcher wanted, such as in a child before exec.
void restore_signals(void);
