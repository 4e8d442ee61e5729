#include "watch/trace.h"
#include "common/base/alone.h"
#include "common/base/error.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct trace_process trace_process = {0, 1};

enum { MOST_READS = 1 << 16 };

static struct {
    size_t count, dropped;
    struct read {
        int reader;
        double begin, end;
    } list[MOST_READS];
} reads;

void trace_read(int reader, double begin, double end) {
    if (reads.count < MOST_READS)
        reads.list[reads.count++] = (struct read){reader, begin, end};
    else
        reads.dropped++;
}

struct trace_file trace_create(const char *path) {
    char name[4096];
    const char *dot = strrchr(path, '.');
    if (!dot || strchr(dot, '/'))
        dot = path + strlen(path);
    snprintf(name, sizeof name, "%s", path);
    if (trace_process.count > 1)
        snprintf(name, sizeof name, "%.*s.%d%s", (int)(dot - path), path, trace_process.number,
                 dot);
    FILE *file = fdopen(open_alone("--trace", name, 0), "a");
    if (!file)
        fail("--trace %s: %m", name);
    return (struct trace_file){file, 0};
}

void trace_write_head(struct trace_file *t, const char *model) {
    t->dropped += reads.dropped;
    fprintf(t->file,
            "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"clock\":\"%s%s\",\"process\":%d,"
            "\"processes\":%d,\"host\":\"%s\",\"dropped\":%zu},\n\"traceEvents\":[\n",
            model ? "modelled " : "measured", model ? model : "", trace_process.number,
            trace_process.count, host_name(), t->dropped);
    fprintf(t->file,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":"
            "\"process %d\"}}",
            trace_process.number, trace_process.number);
}

static void name_row(const struct trace_file *t, int row, const char *kind, int number) {
    char name[40];
    snprintf(name, sizeof name, number ? "%s %d" : "%s", kind, number);
    fprintf(t->file,
            ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":"
            "\"%s\"}}",
            trace_process.number, row, name);
}

void trace_write_row(const struct trace_file *t, int row) {
    name_row(t, row, row ? "stream" : "host", row);
}

void trace_write_reads(const struct trace_file *t, int row) {
    size_t left = reads.count;
    for (int reader = 1; left > 0; reader++, row++) {
        name_row(t, row, "reader", reader);
        for (const struct read *r = reads.list; r < reads.list + reads.count; r++)
            if (r->reader == reader) {
                trace_write_span(t, NULL, "read", "read", row, r->begin, r->end);
                fputc('}', t->file);
                left--;
            }
    }
}

// Writes a text without the characters that JSON does not allow in it.
static void write_text(FILE *file, const char *text) {
    for (const char *c = text; *c; c++)
        fputc((unsigned char)*c < ' ' || *c == '"' || *c == '\\' ? '_' : *c, file);
}

void trace_write_span(const struct trace_file *t, const char *scope, const char *name,
                      const char *category, int row, double begin, double end) {
    fprintf(t->file, ",\n{\"ph\":\"X\",\"name\":\"");
    if (scope && strcmp(scope, name)) {
        write_text(t->file, scope);
        write_text(t->file, ": ");
    }
    write_text(t->file, name);
    fprintf(t->file, "\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f", category,
            trace_process.number, row, begin * 1e6, (end - begin) * 1e6);
}

void trace_close(struct trace_file *t) {
    fprintf(t->file, "\n]}\n");
    int incomplete = ferror(t->file) | fclose(t->file);
    t->file = NULL;
    if (t->dropped && trace_process.number == 0)
        fprintf(stderr,
                "note (%s): --trace had no room for the last %zu operations; to trace all "
                "of them, make the run shorter, such as with --max-steps 1000\n",
                error_origin(), t->dropped);
    if (incomplete) {
        fprintf(stderr, "error (%s): --trace: cannot write the whole file: %s\n", error_origin(),
                strerror(errno));
        exit(1); // in exit: the C library goes on with the other functions of atexit
    }
}
