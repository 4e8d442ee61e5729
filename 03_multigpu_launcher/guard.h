// The guard is a process that outlives the launcher. When the launcher ends in any way, even by
// SIGKILL, it kills the ranks, and removes the folder in which they met (meet_by_file.h).
#pragma once
#include <limits.h>
#include <sys/types.h>

// Sets path to that of the folder in $TMPDIR, or in /tmp, for this user's run. The ranks make it.
void rendezvous_path(char path[PATH_MAX], const char *run);

// Starts the guard. Returns an array for the pids of the ranks, which the guard shares: 0 where no
// rank runs. rendezvous is the path of the folder, and argv that of main. A failure ends the
// program.
pid_t *start_guard(int ranks, const char *rendezvous, char **argv);

// Makes the guard kill all ranks, and waits until it has ended.
void end_guard(void);
