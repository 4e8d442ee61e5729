// The record of operations: what each one is called, where in the program it was queued, and which
// memory it reads and writes. A call notes what its operation uses; the launch that follows takes
// the note and hands it to the readers of the record. There is one reader so far, the checker of
// ordering (check.h), and without a reader nothing is recorded.
#pragma once
#include <stddef.h>
#include <stdint.h>

// Whether somebody reads the record. Set once, before the first operation.
extern int cpu_recording;

// rows pieces of width bytes, the first at start, each pitch bytes after the one before: a matrix
// that is part of a larger one, or with one row any stretch of bytes.
struct cpu_span {
    uintptr_t start;
    size_t width, pitch, rows;
    int written; // else only read
};

enum { CPU_MOST_SPANS = 8 };

struct ncclComm;

// What is known of an operation before it has a stream.
struct cpu_note {
    const char *name; // a literal, such as "sgd_step"
    const struct cpu_place *place;
    const struct ncclComm *comm; // of a collective, else NULL
    int span_count;
    struct cpu_span spans[CPU_MOST_SPANS];
    struct cpu_note *next; // of a group of calls that is launched as one operation
};

// The operation that this thread launches next has this name and uses these bytes.
void cpu_uses(const char *name, const void *pointer, size_t bytes, int written);
void cpu_uses_span(const char *name, struct cpu_span span);

// Takes the note for an operation that is launched later, and gives it back just before the launch.
// NULL where nothing is recorded. Whoever takes a note frees it.
struct cpu_note *cpu_take_note(void);
void cpu_give_note(struct cpu_note *note);
void cpu_free_note(struct cpu_note *note);

// The calls that led here. Equal places are the same pointer, which stays valid.
const struct cpu_place *cpu_here(void);

// "02_multigpu_fork/train.c:188 (backward)": the innermost call outside common/; a call in a header
// is followed by its callers up to the program's own file. Takes some milliseconds for the first
// time; the text stays valid.
const char *cpu_describe_place(const struct cpu_place *place);
