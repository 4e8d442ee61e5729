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

// A test that runs again, with its name as the argument.
struct alone {
    const char *name, *variables;
    void (*run)(void);
    int status;           // as run_again returns it
    const char *texts[4]; // what its output must contain; none: it prints nothing
    int is_report;        // 1: the output may have several lines
};

static inline void run_alone(void **state) {
    const struct alone *test = *state;
    char output[8000];
    int status = run_again(test->variables, test->name, output, sizeof output);
    int one_line = strchr(output, '\n') == output + strlen(output) - 1;
    int right = status == test->status && (test->texts[0] ? one_line || test->is_report : !*output);
    for (int i = 0; i < 4 && test->texts[i]; i++)
        right = right && strstr(output, test->texts[i]);
    if (!right)
        fail_msg("%s %s: %d, output: %s", test->variables, test->name, status, output);
}

// Runs the test that argument 1 names, or adds all tests. Returns 1 if it has run one.
static inline int run_or_add(const struct alone *cases, int count, int argc, char **argv) {
    for (int i = 0; i < count; i++)
        if (argc > 1 && !strcmp(cases[i].name, argv[1]))
            return cases[i].run(), 1;
        else if (argc < 2)
            add_test(cases[i].name, run_alone, &cases[i]);
    return 0;
}
