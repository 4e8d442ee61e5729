// The record of operations. For each operation, it holds the name, the place in the program that
// queued it, and the memory that it reads and writes. A call notes the memory of its operation, and
// the launch that follows passes the note to the readers of the record: the checker of ordering
// (check.h), and the model of a GPU (gpu_model.h) with the timeline (timeline.c), which only need
// the name and the number of bytes. For the checker, a note takes longer, so it is made only if
// CPU_DEVICE_CHECK=1.
#pragma once
#include "../include/cpu_device.h"
#include "gpu_model.h"
#include <stddef.h>
#include <stdint.h>

// 1 if the checker reads the record. Set once, before the first operation.
extern int cpu_recording;

// Ranges of width bytes, whose starts lie pitch bytes apart. A column-major matrix has one range
// per column. With a count of 1, it is a plain range of bytes.
struct cpu_span {
    uintptr_t start;
    size_t width, pitch, count;
    int written; // 0: the operation only reads them
};

enum { CPU_MOST_SPANS = 10 };

// Returns 1 if the two spans have a byte in common.
int cpu_spans_overlap(const struct cpu_span *a, const struct cpu_span *b);

struct ncclComm;

// The part of the record that is known before the operation has a stream.
struct cpu_note {
    const char *name; // a literal, such as "sgd_step"
    const struct cpu_place *place;
    const struct ncclComm *comm; // NULL: the operation is no collective
    int span_count;
    struct cpu_span spans[CPU_MOST_SPANS];
    struct cpu_note *next; // next call of a group that is launched as one operation
};

// cpu_uses for a span.
void cpu_uses_span(const char *name, struct cpu_span span);

// Says what the operation that this thread launches next is, if it is not a kernel that reads and
// writes the noted bytes.
void cpu_needs(struct cpu_cost cost);

// Takes what this thread has noted about the costs of the operation that it launches, and gives it
// back if the operation is launched later.
struct cpu_cost cpu_take_cost(void);
void cpu_give_cost(const struct cpu_cost *cost);

// Takes the note for an operation that is launched later, and gives it back just before the launch.
// The note is NULL if nothing is recorded. The caller that takes a note frees it.
struct cpu_note *cpu_take_note(void);
void cpu_give_note(struct cpu_note *note);
void cpu_free_note(struct cpu_note *note);

// The chain of calls that led here. Equal places have the same pointer, which stays valid.
const struct cpu_place *cpu_here(void);

// Returns a text such as "train.c:188 (backward)", which stays valid. It names the innermost call
// outside this library and cpu_passing_on. After a call in a header, it lists the callers up to the
// program's own file. The first call for a place takes some milliseconds.
const char *cpu_describe_place(const struct cpu_place *place);
