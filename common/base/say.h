// Writes to stdout and to texts. It needs no device, so the launcher can use it.
#pragma once
#include <stddef.h>

// Works like printf. If report_muted is set, say and the functions of report.h print nothing, but
// stdout stays open for the logs of libraries.
extern int report_muted;
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

// Adds to the text, and cuts it if it does not fit.
__attribute__((format(printf, 3, 4))) void add_text(char *text, size_t size, const char *format,
                                                    ...);

// For a format such as "%ld epoch%s".
#define PLURAL(count) ((count) == 1 ? "" : "s")
