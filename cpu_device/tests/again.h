// For tests that set variables, end their process or fork: the program runs again, in a process of
// its own.
#pragma once
#include "test.h"

// Runs the program with these variables and this argument. Returns its exit code, or the number of
// a signal with a minus. output [size] gets what it prints to stdout and stderr.
static inline int run_again(const char *variables, const char *argument, char *output,
                            size_t size) {
    char command[500]; // without the program's path, which may hold quotes
    snprintf(command, sizeof command, "exec env %s /proc/%d/exe '%s' 2>&1", variables, getpid(),
             argument);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    output[fread(output, 1, size - 1, pipe)] = 0;
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
