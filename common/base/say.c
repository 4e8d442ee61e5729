#include "common/base/say.h"
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static int bar; // 1: the terminal shows a bar, and its line has not ended
int report_muted;

void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!report_muted)
        vprintf(format, arguments);
    va_end(arguments);
}

// Open MPI's mpirun gives its processes a pseudo-terminal, even if it writes their output to a
// file. It is not their controlling terminal, so tcgetpgrp fails for it.
int report_on_terminal(void) {
    return isatty(STDOUT_FILENO) && tcgetpgrp(STDOUT_FILENO) >= 0;
}

void report_draw_bar(const char *text, int columns) {
    say("\r\033[K%.*s", columns, text); // goes to the first column, and erases the line
    fflush(stdout);
    bar = 1;
}

void report_erase_bar(void) {
    if (bar)
        say("\r\033[K");
    bar = 0;
}

void report_end_bar(void) {
    if (bar)
        say("\n");
    bar = 0;
}

const char *report_clear_bar(void) {
    return isatty(STDERR_FILENO) ? "\r\033[K" : "";
}
