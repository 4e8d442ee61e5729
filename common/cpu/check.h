// The checker of ordering: CPU_DEVICE_CHECK=1.
//
// Two operations of different streams may run at the same time unless something orders them: an
// event that the one stream records and the other waits for, the host, which waits for the one
// before it queues the other, or the default stream. The checker finds two operations without an
// order that use the same memory, at least one of them writing, or two communicators of one device.
// It looks at the calls of the host alone and not at when the work runs, so what it finds does not
// depend on luck: if a run queues such a pair, the second one ends the program with a line on
// stderr for each of the two.
//
// It also finds memory that is freed while work may still use it, and host code that touches pinned
// memory while a copy may still be under way.
//
// How it works: a stream's operations are numbered. A clock holds for every stream how many of its
// operations are certain to be done. Each stream has a clock, and so have the host and each record
// of an event; whoever waits joins the other one's clock into its own. An operation comes after
// number n of stream s exactly if its own stream's clock holds at least n for s.
//
// All threads of the program share one clock, as nobody sees how threads wait for each other. A
// query (cudaEventQuery) that finds the work done orders what the same thread does next; a program
// that only asks in passing may so hide a missing wait.
//
// All functions are called with cpu_lock held, and do nothing with clocks that are NULL, which all
// are where nothing is checked.
#pragma once
#include "record.h"

struct cpu_clock;
struct cpu_use; // of memory, by an operation that may not be done

// The clock of a new stream; the default stream has no place.
struct cpu_clock *cpu_new_clock(const struct cpu_place *made);
struct cpu_clock *cpu_copy_clock(const struct cpu_clock *clock);

// What comes after later also comes after all that comes before earlier.
void cpu_join(struct cpu_clock *later, const struct cpu_clock *earlier);

// The host has waited for this, or this thread has asked and it is done.
void cpu_host_has_waited(const struct cpu_clock *clock);
void cpu_host_has_asked(const struct cpu_clock *clock);

// The operation of this note is to be queued on the stream of this clock. Returns whether it may
// be: else cpu_check_report is to be called.
int cpu_check_operation(struct cpu_clock *stream, const struct cpu_note *note);

// Memory with these uses is about to be freed.
void cpu_check_free(struct cpu_use **uses);

// The communicator ends, and with it what is known of its calls.
void cpu_check_comm_ends(const struct ncclComm *comm);

// Ends the program if something was found. Called without cpu_lock.
void cpu_check_report(void);

// An operation that may still be under way and that writes the byte or, where reads is set, reads
// it.
const struct cpu_use *cpu_unfinished_use(const struct cpu_use *uses, uintptr_t at, int reads);

// 0: nothing that is under way uses this memory, 1: something reads it, 2: something writes it.
int cpu_unfinished_uses(const struct cpu_use *uses);

// "cudaMemcpyAsync, queued at ... on the stream made at ...". Called without cpu_lock.
char *cpu_describe_use(const struct cpu_use *use);

// What memory.c knows of an allocation; of host memory that CUDA did not allocate only the uses.
struct cpu_memory {
    struct cpu_use **uses;
    uintptr_t start;
    const char *what, *file; // of the macro cudaMalloc
    int line;
    const struct cpu_place *place; // of other functions
};
void cpu_find_memory(uintptr_t address, struct cpu_memory *memory);

// "t->gradients (cudaMalloc at 02_multigpu_fork/train.c:150)". Called without cpu_lock.
char *cpu_describe_memory(const struct cpu_memory *memory);

// Lets host code touch pinned memory again, or no longer, after uses have begun or ended.
void cpu_guard_pinned(void);
