#include "common/base/error.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char error_name[32];
void (*error_hook)(void);

// Since glibc 2.37, fprintf to an unbuffered stream writes a long line in pieces, which mix with
// the lines of other processes.
__attribute__((constructor)) static void write_whole_lines(void) {
    static char line[4096];
    setvbuf(stderr, line, _IOLBF, sizeof line);
}

const char *host_name(void) {
    static char name[HOST_NAME_MAX + 1] = "?";
    gethostname(name, sizeof name);
    return name;
}

const char *error_origin(void) {
    static char origin[128];
    snprintf(origin, sizeof origin, "%s%s%s", host_name(), *error_name ? ", " : "", error_name);
    return origin;
}

void fail(const char *format, ...) {
    char message[2048];
    int error = errno; // for %m in the format
    void (*hook)(void) = error_hook;
    alarm(10); // if exit waits for a kernel that never ends
    error_hook = NULL;
    if (hook)
        hook();
    va_list arguments;
    va_start(arguments, format);
    errno = error;
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fflush(stdout);
    fprintf(stderr, "error (%s): %s\n", error_origin(), message);
    exit(1);
}

int refuse(char why[WHY_SIZE], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, WHY_SIZE, format, arguments);
    va_end(arguments);
    make_printable(why);
    return -1;
}

void make_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ')
            *text = '?';
}
