// CUDA graphs that come from capturing a stream. A captured graph is the list of the operations
// that its streams would have run, in the order of the calls, with the records of events and the
// waits for them. A launch plays the list: the launching stream runs the operations of the stream
// whose capture began, and streams of the graph's own run those of the others.
#include "stream.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct node {
    enum { OPERATION, RECORD, WAIT } kind;
    int branch;  // the number of its stream in the graph
    size_t mark; // of a record and of the waits for it: the number of the record
    struct operation operation;
    struct cpu_note *note; // for the checker
};

struct CUgraph_st {
    int references; // of the program's handle, of events, and of executable graphs
    int live;       // the program has the handle
    int device;
    int branches; // streams; number 0 is the one whose capture began
    size_t marks; // records of events
    struct node *nodes;
    size_t count, room;
    // While it is captured.
    struct CUstream_st *origin; // NULL: the capture has ended
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    int invalid;
    struct CUgraph_st *next;
};

struct CUgraphExec_st {
    int references; // of the program's handle, and of launches
    int live;
    struct CUgraph_st *graph;
    struct CUstream_st **streams; // of the branches from number 1 on
    struct record *last;          // the end of its last launch
    struct CUgraphExec_st *next;
};

// One launch, which the streams of all branches share.
struct playing {
    int parts; // branches that have not ended
    struct CUgraphExec_st *exec;
    struct record *records[]; // by mark
};

// One branch of a launch.
struct part {
    struct playing *playing;
    struct CUstream_st *stream;
    int branch, traced;
};

static struct CUgraph_st *graphs; // that live, or that are captured
static struct CUgraphExec_st *execs;

// Captures.

static void release_graph(struct CUgraph_st *g) {
    if (!g || --g->references > 0)
        return;
    for (size_t i = 0; i < g->count; i++)
        cpu_free_note(g->nodes[i].note);
    free(g->nodes);
    free(g);
}

static void unlink_graph(struct CUgraph_st *g) {
    struct CUgraph_st **link = &graphs;
    while (*link != g)
        link = &(*link)->next;
    *link = g->next;
    release_graph(g);
}

cudaError_t cpu_invalidate(struct CUgraph_st *graph, cudaError_t error) {
    graph->invalid = 1;
    return error;
}

// Invalidates the captures of blocking streams on the device of the legacy default stream. Returns
// 1 if there are any.
static int legacy_meets_capture(const struct CUstream_st *legacy, int invalidates) {
    int found = 0;
    for (struct CUstream_st *s = cpu_streams; s; s = s->next)
        if (s->capture && s->blocking && s->device == legacy->device) {
            found = 1;
            s->capture->invalid |= invalidates;
        }
    return found;
}

cudaError_t cpu_capture_forbids_work(struct CUstream_st *s) {
    if (s->capture && s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (graphs && cpu_is_legacy(s) && legacy_meets_capture(s, 1))
        return cudaErrorStreamCaptureImplicit;
    return cudaSuccess;
}

// Calls that may be unsafe, such as cudaMalloc: they are not captured, and a later launch of the
// graph might rely on them. The mode of a capture says which threads may not make them.
static cudaError_t forbids_unsafe_calls(void) {
    cudaError_t error = cudaSuccess;
    for (struct CUgraph_st *g = graphs; g; g = g->next)
        if (g->origin && (g->mode == cudaStreamCaptureModeGlobal ||
                          (g->mode == cudaStreamCaptureModeThreadLocal &&
                           pthread_equal(g->thread, pthread_self()))))
            error = cpu_invalidate(g, cudaErrorStreamCaptureUnsupported);
    return error;
}

cudaError_t cpu_capture_forbids_waiting(struct CUstream_st *s) {
    if (!graphs)
        return cudaSuccess;
    if (s && s->capture)
        return cpu_invalidate(s->capture, cudaErrorStreamCaptureUnsupported);
    if (s && cpu_is_legacy(s) && legacy_meets_capture(s, 1))
        return cudaErrorStreamCaptureImplicit;
    return forbids_unsafe_calls();
}

cudaError_t cpu_capture_forbids_call(void) {
    pthread_mutex_lock(&cpu_lock);
    cudaError_t error = forbids_unsafe_calls();
    pthread_mutex_unlock(&cpu_lock);
    return error;
}

cudaError_t cpu_capture_forbids_copy(void) {
    pthread_mutex_lock(&cpu_lock);
    cudaError_t error = graphs ? cpu_capture_forbids_waiting(cpu_resolve(NULL)) : cudaSuccess;
    pthread_mutex_unlock(&cpu_lock);
    return error;
}

cudaError_t cpu_capture_forbids_pageable(cudaStream_t stream) {
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = cpu_resolve(stream);
    cudaError_t error = s && s->capture && !s->capture->invalid
                            ? cpu_invalidate(s->capture, cudaErrorStreamCaptureUnsupported)
                            : cudaSuccess;
    pthread_mutex_unlock(&cpu_lock);
    return error;
}

// Adds a node of the stream's branch.
static struct node *add(struct CUstream_st *s, int kind, size_t mark) {
    struct CUgraph_st *g = s->capture;
    if (g->count == g->room) {
        g->room = g->room ? 2 * g->room : 64;
        if (!(g->nodes = realloc(g->nodes, g->room * sizeof *g->nodes)))
            abort();
    }
    struct node *n = &g->nodes[g->count++];
    *n = (struct node){.kind = kind, .branch = s->branch, .mark = mark};
    return n;
}

void cpu_capture_operation(struct CUstream_st *s, const struct operation *op, const void *arguments,
                           size_t bytes, struct cpu_note *note) {
    struct node *n = add(s, OPERATION, 0);
    n->operation = *op;
    memcpy(n->operation.arguments, arguments, bytes);
    n->note = note;
}

void cpu_forget_capture(struct CUevent_st *event) {
    release_graph(event->captured);
    event->captured = NULL;
}

void cpu_capture_record(struct CUstream_st *s, struct CUevent_st *event) {
    cpu_forget_capture(event);
    cpu_release_record(event->last);
    event->last = NULL;
    event->captured = s->capture;
    event->mark = s->capture->marks++;
    s->capture->references++;
    add(s, RECORD, event->mark);
}

cudaError_t cpu_capture_forbids_event(const struct CUevent_st *event) {
    return !event->captured          ? cudaSuccess
           : event->captured->origin ? cudaErrorCapturedEvent
                                     : cudaErrorInvalidValue;
}

cudaError_t cpu_capture_wait(struct CUstream_st *s, struct CUevent_st *event) {
    struct CUgraph_st *g = event->captured;
    if (!g) // it would depend on work that the graph does not contain
        return cpu_invalidate(s->capture, cudaErrorStreamCaptureIsolation);
    if (!g->origin || g->invalid) // the event will not be reached
        return cpu_invalidate(s->capture ? s->capture : g, cudaErrorInvalidValue);
    if (s->capture && s->capture != g) {
        cpu_invalidate(s->capture, cudaErrorStreamCaptureMerge);
        return cpu_invalidate(g, cudaErrorStreamCaptureMerge);
    }
    if (cpu_is_legacy(s) || s->device != g->device)
        return cpu_invalidate(g, cudaErrorStreamCaptureUnsupported);
    if (!s->capture) {
        s->capture = g;
        s->branch = g->branches++;
    }
    add(s, WAIT, event->mark);
    return cudaSuccess;
}

// Returns 1 if the end of the first branch comes after all operations: goes back from it through
// the waits and the records of their events.
static int is_joined(const struct CUgraph_st *g) {
    char *branch = cpu_new((size_t)g->branches), *mark = cpu_new(g->marks + 1);
    int joined = 1;
    branch[0] = 1;
    for (size_t i = g->count; i-- > 0;) {
        const struct node *n = &g->nodes[i];
        if (n->kind == RECORD)
            branch[n->branch] |= mark[n->mark];
        else if (n->kind == WAIT)
            mark[n->mark] |= branch[n->branch];
        else
            joined &= branch[n->branch];
    }
    free(branch);
    free(mark);
    return joined;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    cudaError_t error = cpu_begin((unsigned)mode <= cudaStreamCaptureModeRelaxed);
    if (error)
        return error;
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = cpu_resolve(stream);
    if (!s)
        error = cudaErrorInvalidResourceHandle;
    else if (cpu_is_legacy(s))
        error = cudaErrorStreamCaptureUnsupported;
    else if (s->capture)
        error = cudaErrorIllegalState;
    else {
        struct CUgraph_st *g = cpu_new(sizeof *g);
        *g = (struct CUgraph_st){.references = 1,
                                 .device = s->device,
                                 .branches = 1,
                                 .origin = s,
                                 .mode = mode,
                                 .thread = pthread_self(),
                                 .next = graphs};
        s->capture = graphs = g;
        s->branch = 0;
    }
    pthread_mutex_unlock(&cpu_lock);
    return cpu_error(error);
}

// Takes the streams of the graph out of the capture. Returns the error of a graph that is invalid.
static cudaError_t end_capture(struct CUgraph_st *g) {
    g->origin = NULL;
    for (struct CUstream_st *s = cpu_streams; s; s = s->next)
        if (s->capture == g)
            s->capture = NULL;
    cudaError_t error = g->invalid      ? cudaErrorStreamCaptureInvalidated
                        : !is_joined(g) ? cudaErrorStreamCaptureUnjoined
                                        : cudaSuccess;
    g->live = !error;
    if (error)
        unlink_graph(g);
    return error;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    cudaError_t error = cpu_begin(1);
    if (error)
        return error;
    if (graph)
        *graph = NULL;
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = cpu_resolve(stream);
    struct CUgraph_st *g = s ? s->capture : NULL;
    if (!s)
        error = cudaErrorInvalidResourceHandle;
    else if (!g)
        error = cudaErrorIllegalState;
    else if (!graph)
        error = cudaErrorInvalidValue;
    else if (g->origin != s)
        error = cpu_invalidate(g, cudaErrorStreamCaptureUnmatched);
    else if (g->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(g->thread, pthread_self())) {
        error = cpu_invalidate(g, cudaErrorStreamCaptureWrongThread);
        end_capture(g); // discards it
    } else if (!(error = end_capture(g)))
        *graph = g;
    pthread_mutex_unlock(&cpu_lock);
    return cpu_error(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    cudaError_t error = cpu_begin(status != NULL);
    if (error)
        return error;
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = cpu_resolve(stream);
    if (!s)
        error = cudaErrorInvalidResourceHandle;
    else if (cpu_is_legacy(s) && legacy_meets_capture(s, 0))
        error = cudaErrorStreamCaptureImplicit;
    else
        *status = !s->capture           ? cudaStreamCaptureStatusNone
                  : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
    pthread_mutex_unlock(&cpu_lock);
    return cpu_error(error);
}

// Graphs.

static int is_live(const struct CUgraph_st *graph) {
    const struct CUgraph_st *g = graphs;
    while (g && g != graph)
        g = g->next;
    return g && g->live;
}

static struct CUgraphExec_st **find_exec(const struct CUgraphExec_st *exec) {
    struct CUgraphExec_st **link = &execs;
    while (*link && *link != exec)
        link = &(*link)->next;
    return link;
}

static void release_exec(struct CUgraphExec_st *e) {
    if (--e->references > 0)
        return;
    for (int i = 1; i < e->graph->branches; i++)
        cpu_end_stream(e->streams[i]);
    cpu_release_record(e->last);
    release_graph(e->graph);
    free(e->streams);
    free(e);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    cudaError_t error = cpu_begin(1);
    if (error)
        return error;
    pthread_mutex_lock(&cpu_lock);
    if (is_live(graph))
        unlink_graph(graph);
    else
        error = cudaErrorInvalidValue;
    pthread_mutex_unlock(&cpu_lock);
    return cpu_error(error);
}

// Records and waits become dependencies of other nodes in CUDA, so they do not count.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    cudaError_t error = cpu_begin(count != NULL);
    if (error || nodes)
        return cpu_error(error ? error : cudaErrorNotSupported);
    pthread_mutex_lock(&cpu_lock);
    if (is_live(graph)) {
        *count = 0;
        for (size_t i = 0; i < graph->count; i++)
            *count += graph->nodes[i].kind == OPERATION;
    } else {
        error = cudaErrorInvalidValue;
    }
    pthread_mutex_unlock(&cpu_lock);
    return cpu_error(error);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
    cudaError_t error = cpu_begin(exec && !flags);
    if (error)
        return error;
    pthread_mutex_lock(&cpu_lock);
    if (is_live(graph)) {
        struct CUgraphExec_st *e = cpu_new(sizeof *e);
        *e = (struct CUgraphExec_st){.references = 1, .graph = graph, .next = execs};
        e->streams = cpu_new((size_t)graph->branches * sizeof(struct CUstream_st *));
        for (int i = 1; i < graph->branches; i++)
            if (!(e->streams[i] = cpu_new_stream(graph->device, 0, 1)))
                abort();
        graph->references++;
        *exec = execs = e;
    } else {
        error = cudaErrorInvalidValue;
    }
    pthread_mutex_unlock(&cpu_lock);
    return cpu_error(error);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags) {
    return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    cudaError_t error = cpu_begin(1);
    if (error)
        return error;
    pthread_mutex_lock(&cpu_lock);
    struct CUgraphExec_st **link = find_exec(exec);
    if (*link) {
        *link = exec->next;
        release_exec(exec);
    } else {
        error = cudaErrorInvalidValue;
    }
    pthread_mutex_unlock(&cpu_lock);
    return cpu_error(error);
}

// Launches.

// The operation of one branch, in the thread of its stream.
static void run_part(void *arguments) {
    struct part *p = arguments;
    struct playing *all = p->playing;
    const struct CUgraph_st *g = all->exec->graph;
    for (size_t i = 0; i < g->count && !cpu_exiting(); i++) {
        const struct node *n = &g->nodes[i];
        if (n->branch != p->branch)
            continue;
        if (n->kind == RECORD) {
            cpu_complete(all->records[n->mark]);
        } else if (n->kind == WAIT) {
            cpu_wait_for(all->records[n->mark], p->stream->number, p->traced);
        } else {
            struct operation op = n->operation; // a copy, which the kernel may change
            op.traced = p->traced;
            cpu_execute(p->stream, &op);
        }
    }
    pthread_mutex_lock(&cpu_lock);
    if (--all->parts == 0) {
        for (size_t i = 0; i < g->marks; i++)
            cpu_release_record(all->records[i]);
        release_exec(all->exec);
        free(all);
    }
    pthread_mutex_unlock(&cpu_lock);
}

// Goes through the launch in the order of the captured calls: gives the records to the waits, and
// lets the checker see each operation. Returns 0 if the checker has found a conflict.
static int prepare(struct playing *all, struct CUstream_st *const *streams) {
    const struct CUgraph_st *g = all->exec->graph;
    for (size_t i = 0; i < g->count; i++) {
        const struct node *n = &g->nodes[i];
        struct cpu_clock *clock = streams[n->branch]->clock;
        struct record **r = &all->records[n->mark];
        if (n->kind == RECORD) {
            *r = cpu_new(sizeof **r);
            (*r)->references = 2; // of the launch, and of the operation
            (*r)->stream = streams[n->branch]->number;
            (*r)->clock = cpu_copy_clock(clock);
        } else if (n->kind == WAIT) {
            (*r)->references++;
            cpu_join(clock, (*r)->clock);
        } else if (!cpu_check_operation(clock, n->note)) {
            return 0;
        }
    }
    return 1;
}

// Queues a launch on the stream. Called with cpu_lock held.
static void play(struct CUgraphExec_st *e, struct CUstream_st *s) {
    const struct CUgraph_st *g = e->graph;
    struct playing *all = cpu_new(sizeof *all + g->marks * sizeof *all->records);
    *all = (struct playing){.parts = g->branches, .exec = e};
    cpu_take_turns(s);
    if (e->last) { // one launch of a graph comes after the other
        cpu_join(s->clock, e->last->clock);
        cpu_append_wait(s, e->last);
    }
    e->streams[0] = s;
    struct record *begin = g->branches > 1 ? cpu_append_record(s) : NULL;
    for (int i = 1; i < g->branches; i++) {
        cpu_join(e->streams[i]->clock, begin->clock);
        cpu_append_wait(e->streams[i], begin);
    }
    cpu_release_record(begin);
    if (!prepare(all, e->streams)) {
        free(all);
        return;
    }
    e->references++;
    struct operation op = {.run = run_part, .always = 1, .cost.kind = CPU_NO_COST};
    for (int i = 0; i < g->branches; i++) {
        struct part part = {all, e->streams[i], i, cpu_tracing};
        cpu_append(e->streams[i], &op, &part, sizeof part);
    }
    cpu_release_record(e->last);
    e->last = cpu_append_record(s);
}

// Returns why the graph cannot run in the stream, and sets *s to the stream. The caller holds
// cpu_lock.
static cudaError_t cannot_run(cudaGraphExec_t exec, cudaStream_t stream, struct CUstream_st **s) {
    *s = cpu_resolve(stream);
    if (!*find_exec(exec) || (*s && (*s)->device != exec->graph->device))
        return cudaErrorInvalidValue;
    if (!*s)
        return cudaErrorInvalidResourceHandle;
    if ((*s)->capture)
        return cpu_invalidate((*s)->capture, cudaErrorStreamCaptureUnsupported);
    return cpu_capture_forbids_work(*s);
}

// There is nothing to copy to a device.
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
    struct CUstream_st *s;
    cudaError_t error = cpu_begin(1);
    if (error)
        return error;
    pthread_mutex_lock(&cpu_lock);
    error = cannot_run(exec, stream, &s);
    pthread_mutex_unlock(&cpu_lock);
    return cpu_error(error);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    struct CUstream_st *s;
    cudaError_t error = cpu_begin(1);
    if (error || cpu_why_stopped())
        return cpu_error(error ? error : cudaErrorLaunchFailure);
    pthread_mutex_lock(&cpu_lock);
    error = cannot_run(exec, stream, &s);
    if (!error && cpu_model)
        cpu_call_takes(cpu_model->launch_call + (double)exec->graph->count * cpu_model->graph_node);
    if (!error)
        play(exec, s);
    pthread_mutex_unlock(&cpu_lock);
    cpu_check_report();
    return cpu_error(error);
}
