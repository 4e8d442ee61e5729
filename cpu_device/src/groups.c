// Groups: the calls of a thread wait in a list until the group ends. A call outside a group is a
// group of its own.
#include "comm.h"

static _Thread_local struct {
    int depth;
    ncclResult_t error;
    struct work *first, **last;
} group;

ncclResult_t cpu_noted(ncclResult_t result) {
    if (group.depth && result && !group.error)
        group.error = result;
    return result;
}

int cpu_in_group(void) {
    return group.depth > 0;
}

int cpu_group_uses(const struct ncclComm *c) {
    for (const struct work *w = group.first; w; w = w->next)
        if (w->comm == c)
            return 1;
    return 0;
}

uint64_t cpu_issue(struct ncclComm *c, uint64_t turns) {
    return atomic_fetch_add(&c->issued, turns);
}

static void run_call(void *arguments) {
    cpu_run_work(*(struct work **)arguments);
}

// Adds the send or receive of one work to another work. Returns the result, which may have moved.
static struct work *merge(struct work *into, const struct work *from) {
    if (into->note) {
        from->note->next = into->note;
        into->note = from->note;
    }
    size_t transfers = (size_t)(into->transfers + from->transfers);
    struct work *bigger = cpu_resized(into, sizeof *into + transfers * sizeof *into->transfer);
    bigger->transfer[bigger->transfers++] = from->transfer[0];
    bigger->cost.bytes += from->cost.bytes;
    return bigger;
}

// Removes the next call from the list. Collectives come first, in their order. Then all sends and
// receives of a communicator follow as one call.
static struct work *next_work(void) {
    struct work **link = &group.first;
    while (*link && (*link)->transfers)
        link = &(*link)->next;
    if (!*link)
        link = &group.first;
    struct work *w = *link, *other;
    *link = w->next;
    while (w->transfers && (other = *link)) {
        if (!other->transfers || other->comm != w->comm) {
            link = &other->next;
            continue;
        }
        *link = other->next;
        w = merge(w, other);
        other->next = w->merged;
        w->merged = other;
    }
    return w;
}

// Makes a stream wait for the work that is now on another one.
static void let_wait(cudaStream_t stream, cudaStream_t for_other) {
    cudaEvent_t event;
    if (stream == for_other || cudaEventCreate(&event))
        return;
    cudaEventRecord(event, for_other);
    cudaStreamWaitEvent(stream, event, 0);
    cudaEventDestroy(event);
}

// Launches the call on the communicator's device, which may differ from the current one. If other
// calls are merged into it, it runs in the stream of the first call, and the streams of the others
// wait for it.
static ncclResult_t launch(struct work *work) {
    struct ncclComm *c = work->comm;
    cudaStream_t stream = work->stream;
    const struct work *merged = work->merged;
    int before = cpu_current_device();
    work->turn = cpu_issue(c, 1);
    work->call.number = c->collectives_issued;
    c->collectives_issued += !work->transfers;
    cudaSetDevice(c->device);
    for (const struct work *m = merged; m; m = m->next)
        let_wait(stream, m->stream);
    cpu_give_note(work->note);
    work->cost.number = work->call.number;
    cpu_give_cost(&work->cost);
    cudaError_t error = cpu_launch_always(stream, run_call, &work, sizeof work);
    for (const struct work *m = merged; m; m = m->next)
        let_wait(m->stream, stream);
    cudaSetDevice(before);
    if (error) {
        cpu_issue(c, -1ull);
        c->collectives_issued = work->call.number;
        free(work);
        return cpu_refuse(ncclUnhandledCudaError, "%s", cudaGetErrorString(error));
    }
    return ncclSuccess;
}

// Connects the ranks of all sends and receives of the group. They all tell their peers before the
// first one waits, because two peers may be ranks of this thread.
static ncclResult_t connect_all(ncclResult_t result) {
    for (const struct work *w = group.first; w && !result; w = w->next)
        cpu_announce(w);
    for (const struct work *w = group.first; w && !result; w = w->next)
        result = cpu_connect(w);
    return result;
}

// Launches all calls of the group, or frees them if the group has failed.
static ncclResult_t launch_all(ncclResult_t result) {
    result = connect_all(result);
    while (group.first) {
        struct work *w = next_work(), *merged = w->merged;
        if (result) {
            cpu_free_note(w->note);
            free(w);
        } else {
            result = launch(w);
        }
        for (struct work *m; (m = merged);) {
            merged = m->next;
            free(m);
        }
    }
    return result;
}

ncclResult_t cpu_enqueue(struct work *work, cudaStream_t stream) {
    work->stream = stream;
    if (!group.first)
        group.last = &group.first;
    *group.last = work;
    group.last = &work->next;
    return group.depth ? ncclSuccess : launch_all(ncclSuccess);
}

ncclResult_t pncclGroupStart(void) {
    if (group.depth++ == 0)
        group.error = ncclSuccess;
    return ncclSuccess;
}

// The calls of a group run at the same time, so no other one may use the bytes that one writes.
static ncclResult_t check_group(void) {
    for (const struct work *a = group.first; a; a = a->next)
        for (const struct work *b = group.first; b; b = b->next) {
            if (a == b || !(cpu_overlap(a->recv, a->recv_bytes, b->send, b->send_bytes) ||
                            cpu_overlap(a->recv, a->recv_bytes, b->recv, b->recv_bytes)))
                continue;
            return cpu_refuse(ncclInvalidUsage,
                              "ncclGroupEnd: the calls of a group run at the same time, but %s "
                              "writes to a buffer of %s; use two buffers, or two groups",
                              a->cost.name, b->cost.name);
        }
    return ncclSuccess;
}

ncclResult_t pncclGroupEnd(void) {
    if (group.depth == 0)
        return cpu_refuse(ncclInvalidUsage, "ncclGroupEnd: there was no ncclGroupStart");
    if (--group.depth > 0)
        return ncclSuccess;
    return launch_all(group.error ? group.error : check_group());
}

MAY_BE_REPLACED(ncclGroupStart);
MAY_BE_REPLACED(ncclGroupEnd);
