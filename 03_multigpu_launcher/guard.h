// The guard is a process that outlives the launcher. It kills the ranks when the launcher ends in
// any way, even by SIGKILL.
#pragma once
#include <sys/types.h>

// Starts the guard. Returns an array for the pids of the ranks, which the guard shares: 0 where no
// rank runs. argv is that of main. A failure ends the program.
pid_t *start_guard(int ranks, char **argv);

// Makes the guard kill all ranks, and waits until it has ended.
void end_guard(void);
