// The record of operations. For each operation, it holds the name, the place in the program that
// queued it, and the memory that it reads and writes. A call notes the memory of its operation, and
// the launch that follows passes the note to the reader of the record. The only reader is the
// checker of ordering (check.h). Without a reader, nothing is recorded.
#pragma once
#include <stddef.h>
#include <stdint.h>

// 1 if there is a reader. Set once, before the first operation.
extern int cpu_recording;

// A matrix in memory: rows of width bytes, each pitch bytes after the previous one. With one row,
// it is a plain range of bytes.
struct cpu_span {
    uintptr_t start;
    size_t width, pitch, rows;
    int written; // 0: only read
};

enum { CPU_MOST_SPANS = 8 };

struct ncclComm;

// The part of the record that is known before the operation has a stream.
struct cpu_note {
    const char *name; // a literal, such as "sgd_step"
    const struct cpu_place *place;
    const struct ncclComm *comm; // of a collective, else NULL
    int span_count;
    struct cpu_span spans[CPU_MOST_SPANS];
    struct cpu_note *next; // of a group of calls that is launched as one operation
};

// Notes the name of the operation that this thread launches next, and the bytes that it uses.
void cpu_uses(const char *name, const void *pointer, size_t bytes, int written);
void cpu_uses_span(const char *name, struct cpu_span span);

// Takes the note for an operation that is launched later, and gives it back just before the launch.
// NULL if nothing is recorded. The caller that takes a note frees it.
struct cpu_note *cpu_take_note(void);
void cpu_give_note(struct cpu_note *note);
void cpu_free_note(struct cpu_note *note);

// The chain of calls that led here. Equal places have the same pointer, which stays valid.
const struct cpu_place *cpu_here(void);

// "02_multigpu_fork/train.c:188 (backward)": the innermost call outside common/; a call in a header
// is followed by its callers up to the program's own file. Takes some milliseconds for the first
// time; the text stays valid.
const char *cpu_describe_place(const struct cpu_place *place);
