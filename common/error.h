// Errors that end the program: one line on stderr, which says first what is wrong, then what to do
// about the errors that people meet often, and last which call failed and where it stands. The exit
// code is 1.
#pragma once
#include <string.h>

enum { WHY_SIZE = 512 };

// Named in error lines after the host, such as this process among several; empty if unset.
extern char error_name[32];

// Returns the host and error_name as they stand in error lines, such as "node1, NAME". The text
// is valid until the next call.
const char *error_origin(void);

// If it is set, fail() calls it first, once. It may know the cause of the failure, and may end the
// program.
extern void (*error_hook)(void);

// Prints "error (node1, NAME): " and the message, and exits. If exit takes more than 10 s,
// because it waits for a kernel that never ends, SIGALRM ends the process.
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

// Puts the sentence that says why something did not work into why and returns -1.
__attribute__((format(printf, 2, 3))) int refuse(char why[WHY_SIZE], const char *format, ...);

// For "%.*s": a call, which is a string, without its arguments, which would hide the cause.
#define CALL_NAME(call) (int)strcspn(call, "("), call
