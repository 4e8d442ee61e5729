// Operations, streams and events, for the files that queue work (stream.c, event.c) and that
// capture it in graphs (graph.c). Unless stated otherwise, the caller holds cpu_lock.
#pragma once
#include "check.h"
#include "internal.h"

enum {
    CPU_RING = 1024
}; // operations that fit; the host blocks while a ring is full, as with a GPU

struct operation {
    void (*run)(void *); // NULL: use run_range
    void (*run_range)(void *, size_t, size_t);
    size_t count, grain;
    int always; // runs even after cpu_stop_streams
    struct cpu_cost cost;
    const char *scope; // the range of the host that queued it
    int traced;        // it was queued after cpu_record_events
    double from;       // modelled time before which it cannot start
    double seconds;    // modelled duration, without the time that it waits in run
    double end;        // modelled time at which it ends
    _Alignas(16) unsigned char arguments[CPU_LAUNCH_BYTES];
};

// Streams are never freed, so a thread may wait for one, or walk through the list, without holding
// the lock all the time. A destroyed stream finishes its work and is then reused.
struct CUstream_st {
    int alive;     // created and not yet destroyed
    int busy;      // an operation runs
    int called;    // 1: the stream's thread runs the queue; 0: it leaves the queue to a host
    int prompt;    // how many times in a row a host has waited soon after it had queued
    int64_t since; // the tick when the first operation in the queue came; 0: it is no collective
    int device;
    int blocking;          // takes turns with the legacy default stream
    uint64_t queued, done; // operations since the thread was started
    uint64_t wake_at;      // the smallest value of done that a thread waits for
    double now;            // modelled time at which its last operation ends
    int number;            // row of the timeline, from 1
    pthread_cond_t work, progress;
    uint64_t chaos;             // state of the random delays; 0: no delays
    struct cpu_clock *clock;    // NULL without CPU_DEVICE_CHECK
    struct record *awaited;     // by the operation that runs; NULL: none
    struct CUgraph_st *capture; // the graph that its operations go into; NULL: they run
    struct CUstream_st *next;
    struct operation ring[CPU_RING];
};
extern struct CUstream_st *cpu_streams;

// One cudaEventRecord. A wait keeps the record that was the event's last one when the wait was
// queued, even if the event is recorded again or destroyed meanwhile.
struct record {
    int references;          // one of the event, and one for each queued operation
    int completed, failed;   // failed: after the work had failed
    pthread_cond_t changed;  // completed was set, or the program exits
    double seconds;          // time of completion, by the modelled clock or cpu_now
    int stream;              // number of the stream
    struct cpu_clock *clock; // copy of the stream's clock; NULL without CPU_DEVICE_CHECK
};

struct CUevent_st {
    unsigned flags;
    int device;
    struct record *last;
    struct CUevent_st *next;
};

// Returns the stream of a handle, or NULL if the handle is wrong. NULL is the default stream of the
// current device, which begins with its first use.
struct CUstream_st *cpu_resolve(cudaStream_t handle);

int cpu_is_legacy(const struct CUstream_st *s);

// Lets a stream of the program wait for the legacy default stream or the other way round.
void cpu_take_turns(struct CUstream_st *s);

// Copies an event, a wait or the launch of a graph into the ring, which has no cost of its own, and
// runs even after cpu_stop_streams, because other threads wait for it. Blocks while the ring is
// full.
void cpu_append_always(struct CUstream_st *s, void (*run)(void *), const void *arguments,
                       size_t bytes);

// Waits until no kernel is loaded on the current device (see load_kernel).
void cpu_await_loading(void);

// Makes stream s wait for the operations that are now on the other stream.
void cpu_let_wait(struct CUstream_st *s, struct CUstream_st *other);

// Queues the record of an event. Returns it with a reference for the caller.
struct record *cpu_append_record(struct CUstream_st *s);
void cpu_append_wait(struct CUstream_st *s, struct record *r);
void cpu_release_record(struct record *r);

// Runs one operation in the stream's thread, and advances the modelled time. Called without
// cpu_lock.
void cpu_execute(struct CUstream_st *s, struct operation *op);

// Adds the time of a call to the modelled time of the calling thread, with or without cpu_lock.
void cpu_call_takes(double seconds);

// Returns when a call begins to wait, for cpu_answer.
double cpu_begin_wait(void);

// Ends a call that has waited since this time, after which the host takes a moment to continue, or
// that has only asked (call is NULL). Called without cpu_lock.
cudaError_t cpu_answer(const char *call, double since, int fails, int done);

// Captures (graph.c).

// Returns an error if the program may not queue work on this stream because of a capture.
cudaError_t cpu_capture_forbids_work(struct CUstream_st *s);

// Returns an error if the program may not wait for the stream, or ask for its state. NULL: for the
// device, or for an event.
cudaError_t cpu_capture_forbids_waiting(struct CUstream_st *s);

// Invalidates the graph, and returns the error.
cudaError_t cpu_invalidate(struct CUgraph_st *graph, cudaError_t error);

// Adds an operation, whose note the graph takes, to the graph of a stream that captures.
void cpu_capture_operation(struct CUstream_st *s, const struct operation *op, const void *arguments,
                           size_t bytes, struct cpu_note *note);
