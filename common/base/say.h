// Prints to stdout, which may show a progress bar. It needs no device, so error lines and the
// launcher can use it.
#pragma once

// Works like printf. If report_muted is set, say and the functions of report.h print nothing, but
// stdout stays open for the logs of libraries.
extern int report_muted;
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

// For a format such as "%ld epoch%s".
#define PLURAL(count) ((count) == 1 ? "" : "s")

// Returns 1 if stdout is an interactive terminal. There, progress is a bar that is redrawn in
// place; otherwise, it is plain lines.
int report_on_terminal(void);

// Prints the text in place of the bar, with a width of at most the given columns.
void report_draw_bar(const char *text, int columns);

// Erases the bar, if there is one.
void report_erase_bar(void);

// Ends the line of the progress bar, if there is one. Call it before you print another line.
void report_end_bar(void);

// Returns the text with which a line on stderr begins. On a terminal, it erases a bar that another
// process may have drawn; otherwise, it is empty.
const char *report_clear_bar(void);
