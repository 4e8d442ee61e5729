// Says what the host queues on a stream, to a watcher of the run, if the program is linked with one
// (watch/watch.c). Without one, nothing happens.
#pragma once
#include <cuda_runtime.h>
#include <stddef.h>

enum phase {
    PHASE_COPY,
    PHASE_FORWARD,
    PHASE_LOSS,
    PHASE_BACKWARD,
    PHASE_UPDATE,
    PHASE_COMMUNICATION,
    PHASES
};

struct watcher {
    // A span: the calls between the two queue a part of a phase on the stream. The name stays
    // valid.
    void (*begin)(enum phase phase, const char *name, cudaStream_t stream);
    void (*end)(void);
    void (*step)(cudaStream_t stream); // a training step begins
    // The others are for the report, which waits for the device before.
    // Training begins, with so many steps in an epoch or in all, and one report in report_every
    // steps. 0 steps: the program does not train.
    void (*open)(long steps, long report_every);
    void (*reported)(void);      // the end of a report within an epoch
    void (*take)(void);          // the end of an epoch or of training: the next two are about it
    void (*print)(int modelled); // modelled 1: the times are those of a model
    // Writes columns of the CSV file, each with a comma in front of it: their values, or nothing if
    // empty is 1.
    void (*columns)(char *text, size_t size, int empty);
    // Writes their titles, each with this prefix. Returns the length.
    size_t (*titles)(char *text, size_t size, const char *prefix);
};
extern const struct watcher *watcher; // NULL: none

void spans_open(long steps, long report_every);
void spans_reported(void);
void span_begin(enum phase phase, const char *name, cudaStream_t stream);
void span_end(void);
