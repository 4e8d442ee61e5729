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

// stdout or stderr of a rank.
struct output {
    int pipe, file; // -1: none
    int screen;     // the launcher's stdout or stderr, 0: none
    int rank;       // printed before each line; -1: no number, and parts of lines are shown, too
    size_t used, shown; // bytes in text, and how many of them the screen has got
    char text[OUTPUT_BYTES];
};

static struct output *outputs; // stdout and stderr of each rank in turn
static int output_count;

void prepare_outputs(int ranks) {
    output_count = 2 * ranks;
    if (!(outputs = calloc(output_count, sizeof *outputs)))
        fail("out of memory for the output of %d ranks", ranks);
    for (int i = 0; i < output_count; i++)
        outputs[i].pipe = outputs[i].file = -1;
}

// Writes the whole text. A disk that becomes full takes a part of it first.
static void put(int fd, const char *text, size_t size) {
    while (size > 0) {
        ssize_t written = write(fd, text, size);
        if (written < 0 && errno == EAGAIN) { // another process has made the terminal non-blocking
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (written < 0 && fd > STDERR_FILENO)
            fail("cannot write to --log-dir: %m");
        if (written < 0 && fd == STDOUT_FILENO && errno == ENOSPC)
            fail("cannot write the output of the ranks to stdout: %m");
        if (written < 0) // without a reader, the text is lost
            return;
        text += written;
        size -= written;
    }
}

void note(const char *format, ...) {
    char text[1024], line[1048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(STDERR_FILENO, line, sprintf(line, "launch: %s\n", text));
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
        o->screen = folder && !tee ? 0 : k + 1;
        o->rank = tee ? rank : -1;
        o->used = o->shown = 0;
    }
}

// Writes text[shown..end) to the screen.
static void show(struct output *o, size_t end) {
    static char line[OUTPUT_BYTES + 32];
    while (o->screen && o->shown < end) {
        const char *from = o->text + o->shown, *newline = memchr(from, '\n', end - o->shown);
        size_t length = o->rank >= 0 && newline ? (size_t)(newline + 1 - from) : end - o->shown;
        size_t before = o->rank >= 0 ? sprintf(line, "[%d] ", o->rank) : 0;
        memcpy(line + before, from, length);
        if (o->rank >= 0 && !newline)
            line[before + length] = '\n';
        put(o->screen, line, before + length + (o->rank >= 0 && !newline));
        o->shown += length;
    }
    o->shown = end;
}

static void close_output(struct output *o) {
    show(o, o->used);
    close(o->pipe);
    if (o->file >= 0)
        close(o->file);
    o->pipe = o->file = -1;
}

// Reads up to this number of bytes from the pipe once, and passes them on. Returns how many there
// were. At the end, closes the pipe.
static size_t read_output(struct output *o, size_t most) {
    size_t room = OUTPUT_BYTES - o->used;
    ssize_t got = read(o->pipe, o->text + o->used, most < room ? most : room);
    if (got <= 0) {
        close_output(o);
        return 0;
    }
    if (o->file >= 0)
        put(o->file, o->text + o->used, got);
    o->used += got;
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
    return got;
}

void poll_with_outputs(const struct pollfd *fds, int count, int timeout) {
    struct pollfd all[count + output_count];
    memcpy(all, fds, count * sizeof *fds);
    for (int i = 0; i < output_count; i++)
        all[count + i] = (struct pollfd){.fd = outputs[i].pipe, .events = POLLIN};
    if (poll(all, count + output_count, timeout) <= 0)
        return;
    for (int i = 0; i < output_count; i++)
        if (all[count + i].revents)
            read_output(&outputs[i], OUTPUT_BYTES);
}

void end_outputs(int local_rank) {
    for (struct output *o = &outputs[2 * local_rank]; o < &outputs[2 * local_rank + 2]; o++) {
        int rest = 0;
        if (o->pipe >= 0)
            ioctl(o->pipe, FIONREAD, &rest);
        while (o->pipe >= 0 && rest > 0)
            rest -= read_output(o, rest);
        if (o->pipe >= 0)
            close_output(o);
    }
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
    put(STDERR_FILENO, o->text + from, o->used - from);
    if (!whole)
        put(STDERR_FILENO, "\n", 1);
}
