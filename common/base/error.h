// Errors that end the program with exit code 1 and one line on stderr. The line says what is wrong,
// then what to do (for common errors), then which call failed, with its file and line.
#pragma once
#include <string.h>

enum { WHY_SIZE = 1024 };

// The name of this process if there are several, or empty. Error lines show it after the host.
extern char error_name[32];

// Returns the name of this host, of at most HOST_NAME_MAX bytes.
const char *host_name(void);

// Returns the host and error_name as error lines show them, such as "node1, NAME". The next call
// overwrites the text.
const char *error_origin(void);

// If it is set, fail() calls it first, once. A function that knows the cause of the failure can
// print it here and end the program.
extern void (*error_hook)(void);

// Prints "error (node1, NAME): " and the message, and exits. If exit waits for a kernel that never
// ends, SIGALRM ends the process after 10 s.
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

// Writes the reason for a failure to why, and returns -1.
__attribute__((format(printf, 2, 3))) int refuse(char why[WHY_SIZE], const char *format, ...);

// Replaces control characters, so the text of a damaged file stays on one line of a terminal.
void make_printable(char *text);

// Two arguments for "%.*s", which print only the name of the function from the text of a call. The
// arguments of the call would hide the cause.
#define CALL_NAME(call) (int)strcspn(call, "("), call
