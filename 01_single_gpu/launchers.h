// A launcher, such as torchrun or srun, starts a program several times, and tells each process in
// environment variables which rank it is. From step 3 on, the ranks work together. A program of
// steps 1 and 2 must be started once, because its copies would write the same files.
#pragma once

struct launcher {
    const char *name; // for the banner
    // The variables that it sets. run: those that together name the run.
    const char *rank, *world, *local_rank, *local_world, *run[3];
};

// Returns the launcher that has started this process, or NULL if none has. A launcher that does not
// tell all that a rank needs to know ends the program (wrong usage).
const struct launcher *find_launcher(void);

// Ends the program (wrong usage) if a launcher has started it several times.
void refuse_launchers(void);

// Returns the number in an environment variable. The program ends (wrong usage) if the variable is
// not set, or if it is not a number from min to max.
int number_from_environment(const char *name, int min, int max);
