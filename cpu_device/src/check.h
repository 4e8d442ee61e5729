// The checker of ordering: CPU_DEVICE_CHECK=1.
//
// README.md says what it finds. Two operations of different streams are unordered unless there is,
// between them, an event that one stream records and the other waits for, a wait of the host, or
// the default stream.
//
// The checker follows the host's calls and not the time at which operations run. A run that makes
// the same calls therefore gets the same report, whatever the timing.
//
// How it works: each stream numbers its operations. A clock holds, for every stream, how many of
// its operations are certain to come before. Each stream has a clock, and so have the host and each
// record of an event. A waiter joins the clock of the other side into its own clock. An operation
// comes after number n of stream s if its own stream's clock holds at least n for s.
//
// What it cannot know:
// - How threads wait for each other. All threads of the program therefore share one host clock.
// - Whether a program relies on a query that finds the work done (cudaEventQuery). Such a query
//   orders what the same thread does next, so a program that asks in passing may hide a missing
//   wait.
// - Which host code touches memory from malloc. Copies to and from it are compared with each other
//   only.
// NCCL runs the calls of one communicator one after the other, even in different streams. It does
// not guarantee this order, so the checker does not rely on it.
//
// Unless stated otherwise, the caller holds cpu_lock. Without CPU_DEVICE_CHECK=1, all clocks are
// NULL, and the functions do nothing.
#pragma once
#include "record.h"

struct cpu_clock;
struct cpu_use; // use of memory by an operation that may still run

// Returns the clock of a new stream that was made at this place; the default stream has none.
struct cpu_clock *cpu_new_clock(const struct cpu_place *made);
struct cpu_clock *cpu_copy_clock(const struct cpu_clock *clock);

// Notes that the stream of this clock was destroyed, so that a later one can take its number.
void cpu_stream_ends(const struct cpu_clock *clock);

// Adds everything that comes before the clock earlier to what comes before the clock later.
void cpu_join(struct cpu_clock *later, const struct cpu_clock *earlier);

// Records that the host has waited for this clock, or that a query found its work done.
void cpu_host_has_waited(const struct cpu_clock *clock);
void cpu_host_has_asked(const struct cpu_clock *clock);

// Checks the operation of this note before it is queued on the stream of this clock. Returns 0 if
// the operation must not be queued, because the checker has found a conflict for cpu_check_report.
int cpu_check_operation(struct cpu_clock *stream, const struct cpu_note *note);

// Checks memory with these uses before it is freed.
void cpu_check_free(struct cpu_use **uses);

// Forgets the calls of a communicator, before it is freed.
void cpu_check_comm_ends(const struct ncclComm *comm);

// Ends the program with a report if the checker has found a conflict. Called without cpu_lock.
void cpu_check_report(void);

// Returns an operation that may still run and writes the byte at this address, or, if reads is 1,
// reads it. Returns NULL if there is none.
const struct cpu_use *cpu_unfinished_use(const struct cpu_use *uses, uintptr_t at, int reads);

// Returns 2 if an operation that may still run writes this memory, 1 if one reads it, else 0.
int cpu_unfinished_uses(const struct cpu_use *uses);

// Returns "cudaMemcpyAsync, queued at ... on the stream made at ...". The caller owns the text.
char *cpu_describe_use(const struct cpu_use *use);

// Facts about an allocation, from memory.c. For host memory that CUDA did not allocate, only uses
// is set.
struct cpu_memory {
    struct cpu_use **uses;
    uintptr_t start;
    const char *what, *file; // from the macro cudaMalloc
    int line;
    const struct cpu_place *place; // of allocations by other functions
};
void cpu_find_memory(uintptr_t address, struct cpu_memory *memory);

// Returns "t->gradients (cudaMalloc at train.c:150)". The caller owns the text.
// Called without cpu_lock.
char *cpu_describe_memory(const struct cpu_memory *memory);

// Allows or forbids host code to touch pinned memory, after uses of the memory have begun or ended.
void cpu_guard_pinned(void);
