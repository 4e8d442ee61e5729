// CUDA graphs that come from capturing a stream. A captured graph is the list of the operations
// that the stream would have run. A launch is one operation, which runs the list.
#include "stream.h"

struct node {
    struct operation operation;
    struct cpu_note *note; // for the checker
};

struct CUgraph_st {
    int references; // of the program's handle, and of executable graphs
    int live;       // the program has the handle
    int device;
    struct node *nodes;
    size_t count, room;
    // While it is captured.
    struct CUstream_st *stream; // NULL: the capture has ended
    pthread_t thread;
    int invalid;
    struct CUgraph_st *next;
};

struct CUgraphExec_st {
    int references; // of the program's handle, and of launches
    struct CUgraph_st *graph;
    struct record *last; // the end of its last launch
    struct CUgraphExec_st *next;
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
static int legacy_meets_capture(const struct CUstream_st *legacy) {
    int found = 0;
    for (struct CUstream_st *s = cpu_streams; s; s = s->next)
        if (s->capture && s->blocking && s->device == legacy->device)
            found = s->capture->invalid = 1;
    return found;
}

cudaError_t cpu_capture_forbids_work(struct CUstream_st *s) {
    if (s->capture && s->capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (graphs && cpu_is_legacy(s) && legacy_meets_capture(s))
        return cudaErrorStreamCaptureImplicit;
    return cudaSuccess;
}

// Calls that may be unsafe, such as cudaMalloc: they are not captured, and a later launch of the
// graph might rely on them.
static cudaError_t forbids_unsafe_calls(void) {
    cudaError_t error = cudaSuccess;
    for (struct CUgraph_st *g = graphs; g; g = g->next)
        if (g->stream)
            error = cpu_invalidate(g, cudaErrorStreamCaptureUnsupported);
    return error;
}

cudaError_t cpu_capture_forbids_waiting(struct CUstream_st *s) {
    if (!graphs)
        return cudaSuccess;
    if (s && s->capture)
        return cpu_invalidate(s->capture, cudaErrorStreamCaptureUnsupported);
    if (s && cpu_is_legacy(s) && legacy_meets_capture(s))
        return cudaErrorStreamCaptureImplicit;
    return forbids_unsafe_calls();
}

cudaError_t cpu_capture_forbids(enum cpu_captured_call call, cudaStream_t stream) {
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&cpu_lock);
    struct CUstream_st *s = graphs ? cpu_resolve(stream) : NULL;
    if (call == CPU_UNSAFE_CALL)
        error = forbids_unsafe_calls();
    else if (call == CPU_COPY_CALL)
        error = cpu_capture_forbids_waiting(s);
    else if (s && s->capture && !s->capture->invalid)
        error = cpu_invalidate(s->capture, cudaErrorStreamCaptureUnsupported);
    pthread_mutex_unlock(&cpu_lock);
    return error;
}

void cpu_capture_operation(struct CUstream_st *s, const struct operation *op, const void *arguments,
                           size_t bytes, struct cpu_note *note) {
    struct CUgraph_st *g = s->capture;
    if (g->count == g->room) {
        g->room = g->room ? 2 * g->room : 64;
        g->nodes = cpu_resized(g->nodes, g->room * sizeof *g->nodes);
    }
    struct node *n = &g->nodes[g->count++];
    *n = (struct node){*op, note};
    memcpy(n->operation.arguments, arguments, bytes);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    cudaError_t error = cpu_begin_locked(mode == cudaStreamCaptureModeGlobal);
    if (error)
        return error;
    struct CUstream_st *s = cpu_resolve(stream);
    if (!s)
        return cpu_end(cudaErrorInvalidResourceHandle);
    if (cpu_is_legacy(s))
        return cpu_end(cudaErrorStreamCaptureUnsupported);
    if (s->capture)
        return cpu_end(cudaErrorIllegalState);
    struct CUgraph_st *g = cpu_new(sizeof *g);
    *g = (struct CUgraph_st){1, .device = s->device, .stream = s, .next = graphs};
    g->thread = pthread_self();
    s->capture = graphs = g;
    return cpu_end(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    cudaError_t error = cpu_begin_locked(1);
    if (error)
        return error;
    if (graph)
        *graph = NULL;
    struct CUstream_st *s = cpu_resolve(stream);
    struct CUgraph_st *g = s ? s->capture : NULL;
    if (!s)
        return cpu_end(cudaErrorInvalidResourceHandle);
    if (!g || !graph)
        return cpu_end(g ? cudaErrorInvalidValue : cudaErrorIllegalState);
    s->capture = NULL;
    g->stream = NULL;
    error = !pthread_equal(g->thread, pthread_self()) ? cudaErrorStreamCaptureWrongThread
            : g->invalid                              ? cudaErrorStreamCaptureInvalidated
                                                      : cudaSuccess;
    g->live = !error;
    if (error)
        unlink_graph(g);
    else
        *graph = g;
    return cpu_end(error);
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
    cpu_release_record(e->last);
    release_graph(e->graph);
    free(e);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    cudaError_t error = cpu_begin_locked(1);
    if (error)
        return error;
    if (!is_live(graph))
        return cpu_end(cudaErrorInvalidValue);
    unlink_graph(graph);
    return cpu_end(cudaSuccess);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    cudaError_t error = cpu_begin(count != NULL);
    if (error || nodes)
        return cpu_error(error ? error : cudaErrorNotSupported);
    pthread_mutex_lock(&cpu_lock);
    if (!is_live(graph))
        return cpu_end(cudaErrorInvalidValue);
    *count = graph->count;
    return cpu_end(cudaSuccess);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags) {
    cudaError_t error = cpu_begin_locked(exec && !flags);
    if (error)
        return error;
    if (!is_live(graph))
        return cpu_end(cudaErrorInvalidValue);
    struct CUgraphExec_st *e = cpu_new(sizeof *e);
    *e = (struct CUgraphExec_st){.references = 1, .graph = graph, .next = execs};
    graph->references++;
    *exec = execs = e;
    return cpu_end(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    cudaError_t error = cpu_begin_locked(1);
    if (error)
        return error;
    struct CUgraphExec_st **link = find_exec(exec);
    if (!*link)
        return cpu_end(cudaErrorInvalidValue);
    *link = exec->next;
    release_exec(exec);
    return cpu_end(cudaSuccess);
}

// Launches.

struct launch {
    struct CUgraphExec_st *exec;
    struct CUstream_st *stream;
    int traced;
};

static void run_graph(void *arguments) {
    const struct launch *l = arguments;
    const struct CUgraph_st *g = l->exec->graph;
    for (size_t i = 0; i < g->count && !cpu_exiting(); i++) {
        struct operation op = g->nodes[i].operation; // a copy, which the kernel may change
        op.traced = l->traced;
        cpu_execute(l->stream, &op);
    }
    pthread_mutex_lock(&cpu_lock);
    release_exec(l->exec);
    pthread_mutex_unlock(&cpu_lock);
}

// Queues a launch on the stream. Called with cpu_lock held.
static void play(struct CUgraphExec_st *e, struct CUstream_st *s) {
    cpu_take_turns(s);
    if (e->last) { // one launch of a graph comes after the other
        cpu_join(s->clock, e->last->clock);
        cpu_append_wait(s, e->last);
    }
    for (size_t i = 0; i < e->graph->count; i++)
        if (!cpu_check_operation(s->clock, e->graph->nodes[i].note))
            return;
    struct launch l = {e, s, cpu_tracing};
    e->references++;
    cpu_append_always(s, run_graph, &l, sizeof l);
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
    cudaError_t error = cpu_begin_locked(1);
    if (error)
        return error;
    return cpu_end(cannot_run(exec, stream, &s));
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
