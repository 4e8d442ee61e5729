// Says what the host queues on a stream, to a watcher of the run, if the program is linked with one
// (watch/watch.c). Without one, nothing happens.
#pragma once
#include <cuda_runtime.h>
#include <stddef.h>

enum phase {
    PHASE_DATA, // the stream waits for samples
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
    // Training begins, with so many steps in an epoch or in all, and one report in report_every
    // steps. 0 steps: the program does not train.
    void (*open)(long steps, long report_every);
    // The end of a report, which waits for the device before. 1: also of an epoch or of training,
    // so the watcher prints its times.
    void (*report)(int ends_epoch);
    // Training has got a batch, which reader 1, 2, ... read between these times of the host: those
    // of cpu_moment, or on a GPU of seconds().
    void (*read)(int reader, double begin, double end);
    // Writes columns of the CSV file, each with a comma in front of it: titles with this prefix, or
    // if it is NULL, the times that have been printed last and not written.
    void (*columns)(char *text, size_t size, const char *prefix);
};
extern const struct watcher *watcher; // NULL: none

void spans_open(long steps, long report_every);
void spans_report(int ends_epoch);
void span_begin(enum phase phase, const char *name, cudaStream_t stream);
void span_end(void);
void span_read(int reader, double begin, double end);
