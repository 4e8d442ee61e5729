#include "03_multigpu_launcher/output.h"
#include "common/error.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAST_LINES = 20 }; // that show_last_lines shows

struct screen screens[2];

// A terminal or pipe is opened anew, as not to wait is a property that all share who have the same
// opening.
void open_screens(void) {
    for (int k = 0; k < 2; k++) {
        struct stat s;
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", k + 1);
        int waits = !fstat(k + 1, &s) && (S_ISFIFO(s.st_mode) || S_ISCHR(s.st_mode));
        screens[k].fd = waits ? open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
        if (screens[k].fd < 0)
            screens[k].fd = k + 1;
    }
}

void flush_screen(struct screen *s) {
    ssize_t gone = s->used ? write(s->fd, s->text, s->used) : 0;
    if (gone < 0)
        gone = errno == EAGAIN ? 0 : s->used; // or nobody can read it any more
    s->used -= gone;
    memmove(s->text, s->text + gone, s->used);
}

void empty_screens(void) {
    for (int k = 0; k < 2; k++)
        for (; screens[k].used; flush_screen(&screens[k]))
            poll(&(struct pollfd){.fd = screens[k].fd, .events = POLLOUT}, 1, -1);
}

// On stderr; nothing of it if there is no room for all.
static void complain(const char *text, size_t length) {
    struct screen *s = &screens[1];
    if (length <= sizeof s->text - s->used) {
        memcpy(s->text + s->used, text, length);
        s->used += length;
    }
    flush_screen(s);
}

void note(const char *format, ...) {
    char text[1024], line[1048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    // On a terminal a rank's bar may stand in the line, which is erased.
    const char *erase = isatty(STDERR_FILENO) ? "\r\033[K" : "";
    complain(line, sprintf(line, "%slaunch: %s\n", erase, text));
}

int open_log(const char *folder, const char *run_id, int attempt, int rank, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/attempt_%d/rank_%d.%s", folder, run_id, attempt, rank, name);
    for (char *slash = path; (slash = strchr(slash + 1, '/')); *slash = '/') {
        *slash = 0;
        mkdir(path, 0777);
    }
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0)
        fail("--log-dir: cannot write %s: %m", path);
    return file;
}

// Shows what has not been shown of text[0..end).
static void show(struct output *s, size_t end) {
    while (s->screen && s->shown < end) {
        char *from = s->text + s->shown, *newline = memchr(from, '\n', end - s->shown);
        size_t length = s->rank >= 0 && newline ? (size_t)(newline + 1 - from) : end - s->shown;
        char *to = s->screen->text + s->screen->used, *start = to;
        if (s->rank >= 0)
            to += sprintf(to, "[%d] ", s->rank);
        to = (char *)memcpy(to, from, length) + length;
        if (s->rank >= 0 && !newline)
            *to++ = '\n';
        s->screen->used += to - start;
        s->shown += length;
    }
    s->shown = end;
    if (s->screen)
        flush_screen(s->screen);
}

int can_read_output(const struct output *s) {
    return s->pipe >= 0 && !(s->screen && s->screen->used);
}

void close_output(struct output *s) {
    if (can_read_output(s))
        show(s, s->used);
    close(s->pipe);
    if (s->file >= 0)
        close(s->file);
    s->pipe = s->file = -1;
}

void read_output(struct output *s) {
    size_t most = OUTPUT_BYTES - s->used;
    if (s->ended && most > (size_t)s->rest)
        most = s->rest;
    ssize_t got = most ? read(s->pipe, s->text + s->used, most) : 0;
    if (got <= 0) {
        close_output(s);
        return;
    }
    if (s->file >= 0 && write(s->file, s->text + s->used, got) != got)
        fail("cannot write to --log-dir: %m");
    s->used += got;
    s->rest -= got;
    char *last = s->rank >= 0 ? memrchr(s->text + s->shown, '\n', s->used - s->shown)
                              : s->text + s->used - 1;
    if (last)
        show(s, last + 1 - s->text);
    if (s->used == OUTPUT_BYTES) { // the newer half stays
        if (s->shown < OUTPUT_BYTES / 2)
            show(s, s->used); // a long line goes in pieces
        memmove(s->text, s->text + OUTPUT_BYTES / 2, OUTPUT_BYTES / 2);
        s->used -= OUTPUT_BYTES / 2;
        s->shown -= OUTPUT_BYTES / 2;
    }
}

void end_output(struct output *s) {
    s->ended = 1;
    if (ioctl(s->pipe, FIONREAD, &s->rest))
        s->rest = 0;
    while (can_read_output(s))
        read_output(s);
}

void show_last_lines(const struct output *s) {
    int whole = s->text[s->used - 1] == '\n', newlines = !whole;
    size_t from = s->used;
    while (from > 0 && (newlines += s->text[from - 1] == '\n') <= LAST_LINES)
        from--;
    complain(s->text + from, s->used - from);
    if (!whole)
        complain("\n", 1);
}
