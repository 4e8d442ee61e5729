// The folder in which the ranks of one node meet (meet_by_file.h). The ranks make it, and the guard
// of the launcher removes it, so both must compute the same path. The launcher needs no NCCL.
#pragma once
#include <limits.h>

// Sets path to that of the folder in $TMPDIR, or in /tmp, for this user's run.
void rendezvous_path(char path[PATH_MAX], const char *run);
