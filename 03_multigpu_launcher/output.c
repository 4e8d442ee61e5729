#include "03_multigpu_launcher/output.h"
#include "common/base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OUTPUT_BYTES = 1 << 16 }; // of an output that the launcher keeps
enum { LAST_LINES = 20 };        // of stderr, that show_last_lines prints

// stdout or stderr of the launcher. Text waits here until it can be written. There is room for a
// whole output, even if each byte is a line that begins with [rank].
static struct screen {
    int fd;
    size_t used; // bytes in text
    char text[8 * OUTPUT_BYTES];
} screens[2];

// stdout or stderr of a rank.
struct output {
    int pipe, file;        // -1: none
    struct screen *screen; // NULL: none
    int rank;  // printed before each line; -1: no number, and parts of lines are shown, too
    int ended; // 1: the rank has ended, and the launcher reads only rest more bytes
    int rest;  // the bytes that the rank has left in the pipe
    size_t used, shown; // bytes in text, and how many of them the screen has got
    char text[OUTPUT_BYTES];
};

static struct output *outputs; // stdout and stderr of each rank in turn
static int output_count;

// Opens a terminal or a pipe again, because other processes share its O_NONBLOCK flag otherwise.
void open_screens(int ranks) {
    output_count = 2 * ranks;
    if (!(outputs = calloc(output_count, sizeof *outputs)))
        fail("out of memory for the output of %d ranks", ranks);
    for (int i = 0; i < output_count; i++)
        outputs[i].pipe = outputs[i].file = -1;
    for (int k = 0; k < 2; k++) {
        struct stat s;
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", k + 1);
        int may_block = !fstat(k + 1, &s) && (S_ISFIFO(s.st_mode) || S_ISCHR(s.st_mode));
        screens[k].fd = may_block ? open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
        if (screens[k].fd < 0)
            screens[k].fd = k + 1;
    }
}

static void flush_screen(struct screen *s) {
    ssize_t written = s->used ? write(s->fd, s->text, s->used) : 0;
    if (written < 0 && errno == ENOSPC && s == &screens[0]) {
        s->used = 0; // for empty_screens
        fail("cannot write the output of the ranks to stdout: %m");
    }
    if (written < 0)
        written = errno == EAGAIN ? 0 : s->used; // without a reader, the text is lost
    s->used -= written;
    memmove(s->text, s->text + written, s->used);
}

int screens_hold_text(void) {
    return screens[0].used || screens[1].used;
}

void empty_screens(void) {
    for (int k = 0; k < 2; k++)
        for (; screens[k].used; flush_screen(&screens[k]))
            poll(&(struct pollfd){.fd = screens[k].fd, .events = POLLOUT}, 1, -1);
}

// Prints the whole text on stderr, or nothing if the screen has no room for it.
static void print_text(const char *text, size_t length) {
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
    print_text(line, sprintf(line, "launch: %s\n", text));
}

// Creates the folders of the path, too.
static int open_log(const char *folder, int rank, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/rank_%d.%s", folder, rank, name);
    for (char *slash = path; (slash = strchr(slash + 1, '/')); *slash = '/') {
        *slash = 0;
        mkdir(path, 0777);
    }
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0)
        fail("--log-dir: cannot write %s: %m", path);
    return file;
}

// stderr always needs a pipe, for its last lines. stdout needs one only for a file or for [rank].
void open_outputs(int local_rank, int rank, const char *folder, int tee, int to_rank[2]) {
    for (int k = 0; k < 2; k++) {
        struct output *o = &outputs[2 * local_rank + k];
        int ends[2] = {-1, -1};
        if ((k == 1 || folder || tee) && pipe2(ends, O_CLOEXEC))
            fail("cannot start rank %d: %m", rank);
        o->pipe = ends[0];
        to_rank[k] = ends[1];
        o->file = folder ? open_log(folder, rank, k ? "stderr" : "stdout") : -1;
        o->screen = folder && !tee ? NULL : &screens[k];
        o->rank = tee ? rank : -1;
        o->used = o->shown = o->ended = 0;
    }
}

// Moves text[shown..end) to the screen.
static void show(struct output *o, size_t end) {
    while (o->screen && o->shown < end) {
        char *from = o->text + o->shown, *newline = memchr(from, '\n', end - o->shown);
        size_t length = o->rank >= 0 && newline ? (size_t)(newline + 1 - from) : end - o->shown;
        char *to = o->screen->text + o->screen->used, *start = to;
        if (o->rank >= 0)
            to += sprintf(to, "[%d] ", o->rank);
        to = (char *)memcpy(to, from, length) + length;
        if (o->rank >= 0 && !newline)
            *to++ = '\n';
        o->screen->used += to - start;
        o->shown += length;
    }
    o->shown = end;
    if (o->screen)
        flush_screen(o->screen);
}

// Returns 1 if the pipe is open and the screen has room for all that read_output may read.
static int can_read(const struct output *o) {
    return o->pipe >= 0 && !(o->screen && o->screen->used);
}

static void close_output(struct output *o) {
    if (can_read(o))
        show(o, o->used);
    close(o->pipe);
    if (o->file >= 0)
        close(o->file);
    o->pipe = o->file = -1;
}

// A disk that becomes full takes a part of the text first.
static void write_log(int file, const char *text, size_t size) {
    while (size > 0) {
        ssize_t written = write(file, text, size);
        if (written < 0)
            fail("cannot write to --log-dir: %m");
        text += written;
        size -= written;
    }
}

// Reads from the pipe once, and passes the text on. Call it only if can_read.
static void read_output(struct output *o) {
    size_t most = OUTPUT_BYTES - o->used;
    if (o->ended && most > (size_t)o->rest)
        most = o->rest;
    ssize_t got = most ? read(o->pipe, o->text + o->used, most) : 0;
    if (got <= 0) {
        close_output(o);
        return;
    }
    if (o->file >= 0)
        write_log(o->file, o->text + o->used, got);
    o->used += got;
    o->rest -= got;
    char *last = o->rank >= 0 ? memrchr(o->text + o->shown, '\n', o->used - o->shown)
                              : o->text + o->used - 1;
    if (last)
        show(o, last + 1 - o->text);
    if (o->used == OUTPUT_BYTES) { // keep the newer half
        if (o->shown < OUTPUT_BYTES / 2)
            show(o, o->used); // a very long line appears in parts
        memmove(o->text, o->text + OUTPUT_BYTES / 2, OUTPUT_BYTES / 2);
        o->used -= OUTPUT_BYTES / 2;
        o->shown -= OUTPUT_BYTES / 2;
    }
}

void poll_with_outputs(const struct pollfd *fds, int count, int timeout) {
    struct pollfd all[count + 2 + output_count], *of_screens = all + count,
                                                 *of_outputs = of_screens + 2;
    memcpy(all, fds, count * sizeof *fds);
    for (int k = 0; k < 2; k++)
        of_screens[k] =
            (struct pollfd){.fd = screens[k].used ? screens[k].fd : -1, .events = POLLOUT};
    for (int i = 0; i < output_count; i++)
        of_outputs[i] =
            (struct pollfd){.fd = can_read(&outputs[i]) ? outputs[i].pipe : -1, .events = POLLIN};
    if (poll(all, count + 2 + output_count, timeout) <= 0)
        return;
    flush_screen(&screens[0]);
    flush_screen(&screens[1]);
    for (int i = 0; i < output_count; i++)
        if ((of_outputs[i].revents || outputs[i].ended) && can_read(&outputs[i]))
            read_output(&outputs[i]);
}

void end_outputs(int local_rank) {
    for (struct output *o = &outputs[2 * local_rank]; o < &outputs[2 * local_rank + 2]; o++) {
        o->ended = 1;
        if (ioctl(o->pipe, FIONREAD, &o->rest))
            o->rest = 0;
        while (can_read(o))
            read_output(o);
    }
}

int open_outputs_count(void) {
    int count = 0;
    for (int i = 0; i < output_count; i++)
        count += outputs[i].pipe >= 0;
    return count;
}

void close_outputs(void) {
    for (int i = 0; i < output_count; i++)
        if (outputs[i].pipe >= 0)
            close_output(&outputs[i]);
}

void show_last_lines(int local_rank) {
    const struct output *o = &outputs[2 * local_rank + 1];
    if (o->used == 0 || o->screen)
        return;
    int whole = o->text[o->used - 1] == '\n', newlines = !whole;
    size_t from = o->used;
    while (from > 0 && (newlines += o->text[from - 1] == '\n') <= LAST_LINES)
        from--;
    note("the last lines of its stderr:");
    print_text(o->text + from, o->used - from);
    if (!whole)
        print_text("\n", 1);
}
