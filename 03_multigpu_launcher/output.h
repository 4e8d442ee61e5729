// What ranks write comes through pipes: it goes to a file as it is and to the screen, and the last of it is
// kept.
#pragma once
#include <err.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN = 20, TEXT = 1 << 14 }; // lines of a report; bytes of a stream that are kept

struct stream {
    int pipe, file;     // -1: none
    FILE *screen;       // NULL: not there
    int rank;           // named at the start of lines on the screen; -1: not, and lines need not be whole
    size_t used, shown; // bytes in text, and how many of them the screen has had
    char text[TEXT];
};

// LOG_DIR/RUN_ID/attempt_N/rank_R.stdout or .stderr. What an earlier run has left there stays.
static int open_log(const char *folder, const char *run_id, int attempt, int rank, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/attempt_%d/rank_%d.%s", folder, run_id, attempt, rank, name);
    for (char *slash = path; (slash = strchr(slash + 1, '/')); *slash = '/') {
        *slash = 0;
        mkdir(path, 0777);
    }
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0)
        err(1, "--log-dir: cannot write %s", path);
    return file;
}

// Shows what has not been shown of text[0..end).
static void show(struct stream *s, size_t end) {
    while (s->screen && s->shown < end) {
        char *from = s->text + s->shown, *newline = memchr(from, '\n', end - s->shown);
        size_t length = s->rank >= 0 && newline ? (size_t)(newline + 1 - from) : end - s->shown;
        if (s->rank >= 0)
            fprintf(s->screen, "[%d] ", s->rank);
        fwrite(from, 1, length, s->screen);
        if (s->rank >= 0 && !newline)
            putc('\n', s->screen);
        s->shown += length;
    }
    s->shown = end;
    if (s->screen)
        fflush(s->screen);
}

static void close_stream(struct stream *s) {
    show(s, s->used);
    close(s->pipe);
    if (s->file >= 0)
        close(s->file);
    s->pipe = s->file = -1;
}

// Passes on what is in the pipe.
static void pump(struct stream *s) {
    ssize_t got = read(s->pipe, s->text + s->used, TEXT - s->used);
    if (got <= 0) {
        close_stream(s);
        return;
    }
    if (s->file >= 0 && write(s->file, s->text + s->used, got) != got)
        err(1, "cannot write to --log-dir");
    s->used += got;
    char *last = s->rank >= 0 ? memrchr(s->text + s->shown, '\n', s->used - s->shown) : s->text + s->used - 1;
    if (last)
        show(s, last + 1 - s->text);
    if (s->used == TEXT) { // the newer half stays
        if (s->shown < TEXT / 2)
            show(s, s->used); // a long line goes in pieces
        memmove(s->text, s->text + TEXT / 2, TEXT / 2);
        s->used -= TEXT / 2;
        s->shown -= TEXT / 2;
    }
}

// What was written until now is the last: a process that got away may hold the other end, and write for ever.
static void finish_stream(struct stream *s) {
    struct pollfd p = {.fd = s->pipe, .events = POLLIN};
    for (int reads = 0; s->pipe >= 0 && reads < 1000 && poll(&p, 1, 0) > 0; reads++)
        pump(s);
    if (s->pipe >= 0)
        close_stream(s);
}

static void show_last_lines(const struct stream *s) {
    int whole = s->used && s->text[s->used - 1] == '\n', newlines = !whole;
    size_t from = s->used;
    while (from > 0 && (newlines += s->text[from - 1] == '\n') <= SHOWN)
        from--;
    fwrite(s->text + from, 1, s->used - from, stderr);
    if (!whole && s->used)
        putc('\n', stderr);
}
