// The output of ranks comes through pipes: it goes to files and to the launcher's own stdout and
// stderr, here called screens, and the last of it is kept. No write waits, as the launcher must see
// to its ranks even if nobody reads its output.
#pragma once
#include <stddef.h>

enum { OUTPUT_BYTES = 1 << 16 }; // of an output that are kept

// What is not written yet stays in text. It has room for a whole output, each byte of which may be
// a line with its [rank].
struct screen {
    int fd;
    size_t used; // bytes in text
    char text[8 * OUTPUT_BYTES];
};

extern struct screen screens[2]; // stdout and stderr

// stdout or stderr of a rank.
struct output {
    int pipe, file;        // -1: none
    struct screen *screen; // NULL: none
    int rank;  // printed before each line on the screen; -1: not, and lines may come in pieces
    int ended; // the rank has ended, and rest is the number of its bytes in the pipe; a process
    int rest;  // that the rank has left behind may add others, which are not read
    size_t used, shown; // bytes in text, and how many of them the screen has got
    char text[OUTPUT_BYTES];
};

// Call it first. Then call flush_screen whenever a screen with text can be written to;
// empty_screens waits until all is written.
void open_screens(void);
void flush_screen(struct screen *s);
void empty_screens(void);

// Prints a line of the launcher itself on stderr. If there is no room for it, it is lost.
__attribute__((format(printf, 1, 2))) void note(const char *format, ...);

// Opens FOLDER/RUN_ID/attempt_N/rank_R.NAME to append to it, and returns its descriptor. Makes the
// folders. A failure ends the program.
int open_log(const char *folder, const char *run_id, int attempt, int rank, const char *name);

// Returns 1 if the pipe is open and the screen has room for all that read_output may read.
int can_read_output(const struct output *o);

// Reads from the pipe once and passes it on; closes the output at its end. Call can_read_output
// before.
void read_output(struct output *o);

// Call end_output when the rank has ended, to pass on what is in the pipe, and close_output to give
// up what cannot be passed on.
void end_output(struct output *o);
void close_output(struct output *o);

// Prints the last lines that the rank wrote on stderr.
void show_last_lines(const struct output *o);
