// Groups: the calls of a thread wait in a list until the group ends. A call outside a group is a
// group of its own.
#include "comm.h"

struct queued {
    struct work *work;
    cudaStream_t stream;
    struct queued *next, *merged; // merged: calls whose work was added to this one's work
};

static _Thread_local struct {
    int depth;
    ncclResult_t error;
    struct queued *first, **last;
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
    for (const struct queued *q = group.first; q; q = q->next)
        if (q->work->comm == c)
            return 1;
    return 0;
}

uint64_t cpu_issue(struct ncclComm *c, uint64_t turns) {
    pthread_mutex_lock(&c->lock);
    uint64_t first = c->issued;
    c->issued += turns;
    pthread_mutex_unlock(&c->lock);
    return first;
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
    struct work *bigger = realloc(into, sizeof *into + transfers * sizeof *into->transfer);
    if (!bigger)
        abort();
    bigger->transfer[bigger->transfers++] = from->transfer[0];
    bigger->cost.bytes += from->cost.bytes;
    return bigger;
}

// Removes the next call from the list. Collectives come first, in their order. Then all sends and
// receives of a communicator follow as one call.
static struct queued *next_queued(void) {
    struct queued **first = &group.first;
    while (*first && (*first)->work->transfers)
        first = &(*first)->next;
    if (!*first)
        first = &group.first;
    struct queued *q = *first, **link = &q->next, *other;
    while (q->work->transfers && (other = *link)) {
        if (!other->work->transfers || other->work->comm != q->work->comm) {
            link = &other->next;
            continue;
        }
        q->work = merge(q->work, other->work);
        free(other->work);
        *link = other->next;
        other->next = q->merged;
        q->merged = other;
    }
    *first = q->next;
    return q;
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
static ncclResult_t launch(struct work *work, cudaStream_t stream, const struct queued *merged) {
    struct ncclComm *c = work->comm;
    int before = cpu_current_device();
    work->turn = cpu_issue(c, 1);
    work->call.number = c->collectives_issued;
    c->collectives_issued += !work->transfers;
    cudaSetDevice(c->device);
    for (const struct queued *m = merged; m; m = m->next)
        let_wait(stream, m->stream);
    cpu_give_note(work->note);
    work->cost.number = work->call.number;
    cpu_give_cost(&work->cost);
    cudaError_t error = cpu_launch_always(stream, run_call, &work, sizeof work);
    for (const struct queued *m = merged; m; m = m->next)
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
static ncclResult_t connect_queued(ncclResult_t result) {
    for (const struct queued *q = group.first; q && !result; q = q->next)
        cpu_announce(q->work);
    for (const struct queued *q = group.first; q && !result; q = q->next)
        result = cpu_connect(q->work);
    return result;
}

// Launches all calls of the group, or frees them if the group has failed.
static ncclResult_t launch_queued(ncclResult_t result) {
    result = connect_queued(result);
    while (group.first) {
        struct queued *q = next_queued();
        if (result) {
            cpu_free_note(q->work->note);
            free(q->work);
        } else {
            result = launch(q->work, q->stream, q->merged);
        }
        for (struct queued *m; (m = q->merged);) {
            q->merged = m->next;
            free(m);
        }
        free(q);
    }
    return result;
}

ncclResult_t cpu_enqueue(struct work *work, cudaStream_t stream) {
    struct queued *q = cpu_new(sizeof *q);
    *q = (struct queued){work, stream, NULL, NULL};
    if (!group.first)
        group.last = &group.first;
    *group.last = q;
    group.last = &q->next;
    return group.depth ? ncclSuccess : launch_queued(ncclSuccess);
}

ncclResult_t pncclGroupStart(void) {
    if (group.depth++ == 0)
        group.error = ncclSuccess;
    return ncclSuccess;
}

// The calls of a group run at the same time, so no other one may use the bytes that one writes.
static ncclResult_t check_group(void) {
    for (const struct queued *q = group.first; q; q = q->next)
        for (const struct queued *other = group.first; other; other = other->next) {
            const struct work *a = q->work, *b = other->work;
            if (q == other || !(cpu_overlap(a->recv, a->recv_bytes, b->send, b->send_bytes) ||
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
    return launch_queued(group.error ? group.error : check_group());
}

MAY_BE_REPLACED(ncclGroupStart);
MAY_BE_REPLACED(ncclGroupEnd);
