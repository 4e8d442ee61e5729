// The functions of NCCL's interface. This file checks arguments, at least as strictly as NCCL, puts
// calls into streams, and makes and ends communicators. collectives.c runs the calls.
#include "cpu_device/check.h"
#include "cpu_device/comm.h"
#include "cpu_device/reduce.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *comms;
static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_error[640], wait_text[WHY_BYTES];

ncclResult_t cpu_refuse(ncclResult_t result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&text_lock);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    pthread_mutex_unlock(&text_lock);
    va_end(arguments);
    if (result == ncclUnhandledCudaError)
        cudaGetLastError(); // NCCL returns the error, and does not leave it to the next launch
    return result;
}

void cpu_explain_wait(const char *text) {
    pthread_mutex_lock(&text_lock);
    snprintf(wait_text, sizeof wait_text, "%s", text);
    pthread_mutex_unlock(&text_lock);
}

const char *ncclGetLastError(ncclComm_t comm) {
    static _Thread_local char copy[sizeof last_error];
    (void)comm;
    pthread_mutex_lock(&text_lock);
    snprintf(copy, sizeof copy, "%s", *last_error ? last_error : wait_text);
    pthread_mutex_unlock(&text_lock);
    return copy;
}

const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
    };
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}

ncclResult_t ncclGetVersion(int *version) {
    if (!version)
        return cpu_refuse(ncclInvalidArgument, "ncclGetVersion: version is NULL");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

double cpu_timeout(void) {
    // Longer than the limits of the course's watchdog, which names the step and the collective.
    return (double)cpu_positive_number("CPU_DEVICE_TIMEOUT", 300);
}

void cpu_for_each_comm(void (*f)(struct ncclComm *, const void *), const void *argument) {
    pthread_mutex_lock(&list_lock);
    for (struct ncclComm *c = comms; c; c = c->next)
        f(c, argument);
    pthread_mutex_unlock(&list_lock);
}

// A program may end without ncclCommDestroy. The other ranks must not report that it was killed,
// and they still get its messages.
static void say_goodbye(struct ncclComm *c, const void *argument) {
    (void)argument;
    if (c->seat)
        c->seat->left = 1;
    c->network_stop = 1;
    cpu_network_wake(c);
}

static void wait_for_network(struct ncclComm *c, const void *argument) {
    (void)argument;
    cpu_network_stop(c, 0);
}

static void at_exit(void) {
    if (cpu_enter())
        return;
    cpu_for_each_comm(say_goodbye, NULL); // first to all, so that they wait at the same time
    cpu_for_each_comm(wait_for_network, NULL);
}

// Returns an error if comm is no communicator of this process. name is the calling function.
static ncclResult_t known(struct ncclComm *comm, const char *name) {
    pthread_mutex_lock(&list_lock);
    const struct ncclComm *c = comms;
    while (c && c != comm)
        c = c->next;
    pthread_mutex_unlock(&list_lock);
    return c ? ncclSuccess
             : cpu_refuse(ncclInvalidArgument, "%s: comm is not a communicator", name);
}

// Returns an error if the communicator cannot take a new call.
static ncclResult_t ready(struct ncclComm *c, const char *name) {
    ncclResult_t result = known(c, name);
    if (result)
        return result;
    pthread_mutex_lock(&c->lock);
    if (c->state == ncclInProgress || c->unpolled)
        result = cpu_refuse(ncclInvalidArgument,
                            "%s: the previous call is still in progress; call "
                            "ncclCommGetAsyncError until it has ended",
                            name);
    else if (c->state)
        result = c->state; // ncclGetLastError keeps the text of the first error
    else if (c->finalized)
        result = cpu_refuse(ncclInvalidUsage, "%s: the communicator has been finalized", name);
    pthread_mutex_unlock(&c->lock);
    return result;
}

// Groups: a thread's calls wait in a list until the group ends.

struct queued {
    struct work *work;
    cudaStream_t stream;
    struct queued *next, *merged; // merged: calls whose work was added to this one's work
};

// A communicator that is being made, by a split if it has a parent.
struct job {
    struct ncclComm *comm, *parent;
    ncclUniqueId id;
    int color, key;
    uint64_t turn; // the first of two turns in the parent
    ncclComm_t *out;
    ncclResult_t result;
};

static _Thread_local struct {
    int depth;
    ncclResult_t error;
    struct queued *first, **last;
    struct job *jobs[MOST_PEERS];
    int job_count;
} group;

// If a call in a group fails, the group fails.
static ncclResult_t note(ncclResult_t result) {
    if (group.depth && result && result != ncclInProgress && !group.error)
        group.error = result;
    return result;
}

// Takes this number of turns of the communicator, and returns the first one. Calls run in the order
// of turns.
static uint64_t issue(struct ncclComm *c, uint64_t turns) {
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
    work->turn = issue(c, 1);
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
        issue(c, -1ull);
        c->collectives_issued = work->call.number;
        free(work);
        return cpu_refuse(ncclUnhandledCudaError, "%s", cudaGetErrorString(error));
    }
    if (c->blocking)
        return ncclSuccess;
    pthread_mutex_lock(&c->lock);
    c->unpolled = 1;
    pthread_mutex_unlock(&c->lock);
    return ncclInProgress;
}

// Launches all calls of the group, or frees them if the group has failed.
static ncclResult_t launch_queued(ncclResult_t result) {
    while (group.first) {
        struct queued *q = next_queued();
        if (result && result != ncclInProgress) {
            cpu_free_note(q->work->note);
            free(q->work);
        } else {
            ncclResult_t launched = launch(q->work, q->stream, q->merged);
            result = launched ? launched : result;
        }
        for (struct queued *m; (m = q->merged);) {
            q->merged = m->next;
            free(m);
        }
        free(q);
    }
    return result;
}

// Launches the call, or adds it to the open group.
static ncclResult_t enqueue(struct work *work, cudaStream_t stream) {
    if (!group.depth)
        return launch(work, stream, NULL);
    struct queued *q = malloc(sizeof *q);
    if (!q)
        abort();
    *q = (struct queued){work, stream, NULL, NULL};
    if (!group.first)
        group.last = &group.first;
    *group.last = q;
    group.last = &q->next;
    return ncclSuccess;
}

// Communicators.

// Closes the files of all communicators in a forked child. Otherwise the child would keep the lock
// and the connections of its parent, and other ranks would not notice the parent's end.
static void let_go(void) {
    for (struct ncclComm *c = comms; c; c = c->next) {
        close(c->memory_file);
        for (int p = 0; c->channels && p < c->ranks; p++)
            close(c->channels[p].socket);
    }
}

static void register_at_exit(void) {
    atexit(at_exit);
    pthread_atfork(NULL, NULL, let_go);
}

static struct ncclComm *new_comm(int ranks, int rank, int blocking) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static atomic_uint made;
    struct ncclComm *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    pthread_once(&once, register_at_exit);
    c->ranks = ranks;
    c->rank = rank;
    c->device = cpu_current_device();
    c->label = ++made;
    c->blocking = blocking;
    c->memory_file = c->network_wake = -1;
    c->state = ncclInProgress;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    pthread_mutex_lock(&list_lock);
    c->next = comms;
    comms = c;
    pthread_mutex_unlock(&list_lock);
    return c;
}

static void free_comm(struct ncclComm *c, int at_once) {
    pthread_mutex_lock(&list_lock);
    struct ncclComm **link = &comms;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_lock(&cpu_lock);
    cpu_check_comm_ends(c);
    pthread_mutex_unlock(&cpu_lock);
    if (c->seat)
        c->seat->left = 1;
    cpu_network_stop(c, at_once);
    cpu_part(c);
    for (struct scaling *s; (s = c->scalings); free(s))
        c->scalings = s->next;
    for (struct ncclWindow_vidmem *w; (w = c->windows); free(w))
        c->windows = w->next;
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c);
}

// Waits for all calls of the communicator.
static void drain(struct ncclComm *c) {
    pthread_mutex_lock(&c->lock);
    while (c->background || c->finished != c->issued)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

struct choice {
    int color, key, rank;
};

static int comes_before(const struct choice *a, const struct choice *b) {
    return a->key != b->key ? a->key < b->key : a->rank < b->rank;
}

// Makes a communicator of the ranks that chose the same color, in the order of their keys.
static ncclResult_t split(struct job *job) {
    struct ncclComm *c = job->comm, *parent = job->parent;
    struct choice own = {job->color, job->key, parent->rank}, first = own;
    struct choice *all = calloc((size_t)parent->ranks, sizeof *all);
    ncclUniqueId *ids = calloc((size_t)parent->ranks, sizeof *ids);
    if (!all || !ids)
        abort();
    ncclResult_t result = cpu_gather_now(parent, c, job->turn, &own, all, sizeof own);
    for (const struct choice *other = all; other < all + parent->ranks; other++) {
        if (other->color != own.color)
            continue;
        c->ranks++;
        c->rank += comes_before(other, &own);
        if (comes_before(other, &first))
            first = *other;
    }
    if (!result && own.color != NCCL_SPLIT_NOCOLOR && first.rank == own.rank)
        result = cpu_make_id(&job->id);
    ncclResult_t gathered = cpu_gather_now(parent, c, job->turn + 1, &job->id, ids, sizeof *ids);
    if (!result && !gathered && own.color != NCCL_SPLIT_NOCOLOR)
        result = cpu_meet(c, &ids[first.rank]);
    free(all);
    free(ids);
    return result ? result : gathered;
}

static void run_job(struct job *job) {
    struct ncclComm *c = job->comm;
    job->result = job->parent ? split(job) : cpu_meet(c, &job->id);
    pthread_mutex_lock(&c->lock);
    c->state = job->result;
    pthread_mutex_unlock(&c->lock);
}

// Stores the new communicator for the caller of a blocking call, or NULL.
static ncclResult_t end_job(struct job *job) {
    ncclResult_t result = job->result;
    int wanted = !result && !(job->parent && job->color == NCCL_SPLIT_NOCOLOR);
    *job->out = wanted ? job->comm : NULL;
    if (!wanted)
        free_comm(job->comm, 1);
    free(job);
    return result;
}

static void *run_job_in_group(void *argument) {
    run_job(argument);
    return NULL;
}

static void end_background(struct ncclComm *c) {
    pthread_mutex_lock(&c->lock);
    c->background--;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

// Returns the parent if the program must ask the parent for the state of a split. As in NCCL, this
// is the case if the parent is non-blocking; the program gets the new communicator when the split
// ends.
static struct ncclComm *polled_parent(const struct job *job) {
    return job->parent && !job->parent->blocking ? job->parent : NULL;
}

static void begin_split(struct ncclComm *parent, struct ncclComm *making) {
    pthread_mutex_lock(&parent->lock);
    parent->state = ncclInProgress;
    parent->making = making;
    parent->background++;
    pthread_mutex_unlock(&parent->lock);
}

static void end_split(struct ncclComm *parent, ncclResult_t result) {
    pthread_mutex_lock(&parent->lock);
    parent->state = result;
    parent->making = NULL;
    pthread_mutex_unlock(&parent->lock);
    end_background(parent);
}

static void *run_job_in_background(void *argument) {
    struct job *job = argument;
    run_job(job);
    struct ncclComm *c = job->comm, *parent = polled_parent(job);
    if (parent) {
        *job->out = c;
        end_split(parent, job->result);
    }
    free(job);
    end_background(c);
    return NULL;
}

static void *finalize_in_background(void *argument) {
    struct ncclComm *c = argument;
    pthread_mutex_lock(&c->lock);
    while (c->finished != c->issued)
        pthread_cond_wait(&c->changed, &c->lock);
    if (c->state == ncclInProgress)
        c->state = ncclSuccess;
    pthread_mutex_unlock(&c->lock);
    end_background(c);
    return NULL;
}

static ncclResult_t run_in_background(struct ncclComm *c, void *(*run)(void *), void *argument) {
    pthread_t thread;
    pthread_mutex_lock(&c->lock); // the thread before may still be ending
    int failed = cpu_start_thread(&thread, run, argument);
    if (failed)
        c->state = cpu_refuse(ncclSystemError, "cannot start a thread");
    else
        c->background++;
    pthread_mutex_unlock(&c->lock);
    if (failed)
        return ncclSystemError;
    pthread_detach(thread);
    return ncclInProgress;
}

// A split takes its two turns when it starts, because its group may fail before that. With -2, it
// returns them.
static void take_turns(struct job *job, int turns) {
    if (job->parent)
        job->turn = issue(job->parent, (uint64_t)turns);
}

// Starts a job: in the background for a non-blocking communicator, at the end of an open group, or
// now.
static ncclResult_t start_job(struct job *job) {
    struct ncclComm *c = job->comm;
    if (!c->blocking && !(job->parent && job->color == NCCL_SPLIT_NOCOLOR)) {
        struct ncclComm *parent = polled_parent(job);
        *job->out = parent ? NULL : c;
        take_turns(job, 2);
        if (parent)
            begin_split(parent, c);
        ncclResult_t result = run_in_background(c, run_job_in_background, job);
        if (result == ncclInProgress)
            return parent ? ncclSuccess
                          : ncclInProgress; // as NCCL 2.28: only the parent's state counts
        if (parent)
            end_split(parent, result);
        take_turns(job, -2);
        free(job);
        return result;
    }
    if (group.depth) {
        if (group.job_count == MOST_PEERS)
            abort();
        group.jobs[group.job_count++] = job;
        return ncclSuccess;
    }
    take_turns(job, 2);
    run_job(job);
    return end_job(job);
}

// Runs the jobs of a group at the same time, because they may wait for each other.
static ncclResult_t run_jobs(ncclResult_t result) {
    pthread_t threads[MOST_PEERS];
    int started = 0, count = group.job_count;
    group.job_count = 0;
    while (!result && started < count) {
        struct job *job = group.jobs[started];
        take_turns(job, 2);
        if (!cpu_start_thread(&threads[started], run_job_in_group, job)) {
            started++;
            continue;
        }
        take_turns(job, -2);
        result = cpu_refuse(ncclSystemError, "cannot start a thread");
    }
    for (int i = 0; i < count; i++) {
        if (i < started)
            pthread_join(threads[i], NULL);
        else
            group.jobs[i]->result = result;
        ncclResult_t ended = end_job(group.jobs[i]);
        result = result ? result : ended;
    }
    return result;
}

static ncclResult_t is_blocking(const ncclConfig_t *config, const char *name, int *blocking) {
    if (config && config->magic != 0xcafebeef)
        return cpu_refuse(ncclInvalidArgument, "%s: config was not set to NCCL_CONFIG_INITIALIZER",
                          name);
    if (config && config->blocking != NCCL_CONFIG_UNDEF_INT)
        *blocking = config->blocking;
    if (*blocking != 0 && *blocking != 1)
        return cpu_refuse(ncclInvalidArgument, "%s: config.blocking is %d, not 0 or 1", name,
                          *blocking);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
    int blocking = 1;
    ncclResult_t result = is_blocking(config, "ncclCommInitRank", &blocking);
    if (cpu_enter())
        result = cpu_refuse(ncclUnhandledCudaError, "ncclCommInitRank: %s",
                            cudaGetErrorString(cpu_enter()));
    else if (!comm)
        result = cpu_refuse(ncclInvalidArgument, "ncclCommInitRank: comm is NULL");
    else if (ranks < 1 || ranks > MOST_PEERS)
        result = cpu_refuse(ncclInvalidArgument, "ncclCommInitRank: nranks is %d, not 1 to %d",
                            ranks, MOST_PEERS);
    else if (rank < 0 || rank >= ranks)
        result = cpu_refuse(ncclInvalidArgument, "ncclCommInitRank: rank %d is not one of %d ranks",
                            rank, ranks);
    if (result)
        return note(result);
    struct job *job = malloc(sizeof *job);
    if (!job)
        abort();
    *job = (struct job){.comm = new_comm(ranks, rank, blocking), .id = id, .out = comm};
    return note(start_job(job));
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
    return ncclCommInitRankConfig(comm, ranks, id, rank, NULL);
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms_out, int count, const int *devices) {
    ncclUniqueId id;
    int before = cpu_current_device();
    if (!comms_out || count < 1 || count > MOST_PEERS)
        return cpu_refuse(ncclInvalidArgument, "ncclCommInitAll: comm is NULL, or ndev is %d",
                          count);
    ncclResult_t result = cpu_make_id(&id);
    if (result)
        return result;
    pncclGroupStart();
    for (int i = 0; i < count && !group.error; i++) {
        if (cudaSetDevice(devices ? devices[i] : i))
            note(cpu_refuse(ncclInvalidArgument, "ncclCommInitAll: there is no device %d",
                            devices ? devices[i] : i));
        else
            ncclCommInitRank(&comms_out[i], count, id, i);
    }
    cudaSetDevice(before);
    return pncclGroupEnd();
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                           ncclConfig_t *config) {
    ncclResult_t result = ready(comm, "ncclCommSplit");
    int blocking = result ? 1 : comm->blocking;
    if (!result)
        result = is_blocking(config, "ncclCommSplit", &blocking);
    if (!result && (!newcomm || color < NCCL_SPLIT_NOCOLOR))
        result = cpu_refuse(ncclInvalidArgument,
                            "ncclCommSplit: newcomm is NULL, or color %d is negative", color);
    if (result)
        return note(result);
    struct job *job = malloc(sizeof *job);
    if (!job)
        abort();
    *job = (struct job){.comm = new_comm(0, 0, blocking),
                        .parent = comm,
                        .color = color,
                        .key = key,
                        .out = newcomm};
    job->comm->device = comm->device;
    job->comm->label = ((comm->label << 8 | ++comm->splits) << 12) + (uint64_t)color;
    return note(start_job(job));
}

ncclResult_t ncclCommFinalize(ncclComm_t c) {
    ncclResult_t result = ready(c, "ncclCommFinalize");
    if (result)
        return note(result);
    if (c->blocking) {
        drain(c);
        c->finalized = 1;
        return c->state;
    }
    pthread_mutex_lock(&c->lock);
    c->finalized = 1;
    c->state = ncclInProgress;
    pthread_mutex_unlock(&c->lock);
    return run_in_background(c, finalize_in_background, c);
}

// Returns an error if the communicator cannot be destroyed now.
static ncclResult_t may_end(struct ncclComm *c, const char *name) {
    ncclResult_t result = known(c, name);
    const struct queued *q = group.first;
    while (q && q->work->comm != c)
        q = q->next;
    int waiting = q != NULL;
    for (int i = 0; i < group.job_count; i++)
        waiting |= group.jobs[i]->parent == c;
    if (!result && waiting)
        result = cpu_refuse(ncclInvalidUsage, "%s: calls of this group still wait for ncclGroupEnd",
                            name);
    return result;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) {
    // cpu_enter fails if the program is exiting, because at_exit has already ended the
    // communicator, and in a forked child, because the communicator belongs to its parent.
    if (!c || cpu_enter())
        return ncclSuccess;
    ncclResult_t result = may_end(c, "ncclCommDestroy");
    if (result)
        return note(result);
    drain(c);
    free_comm(c, 0);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c) {
    if (!c || cpu_enter())
        return ncclSuccess;
    ncclResult_t result = may_end(c, "ncclCommAbort");
    if (result)
        return note(result);
    c->aborted = 1;
    pthread_mutex_lock(&c->lock);
    if (c->making)
        c->making->aborted = 1;
    while (c->background) // this thread may still make the seat
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    if (c->seat)
        cpu_ring_bell(c->seat);
    drain(c);
    free_comm(c, 1);
    cpu_resume_streams();
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error) {
    ncclResult_t result = known(c, "ncclCommGetAsyncError");
    if (!result && !error)
        result = cpu_refuse(ncclInvalidArgument, "ncclCommGetAsyncError: asyncError is NULL");
    if (result)
        return result;
    pthread_mutex_lock(&c->lock);
    *error = c->state;
    if (c->state != ncclInProgress)
        c->unpolled = 0;
    pthread_mutex_unlock(&c->lock);
    return ncclSuccess;
}

static ncclResult_t ask(ncclComm_t c, const char *name, int *out, size_t member) {
    ncclResult_t result = known(c, name);
    if (!result && !out)
        result = cpu_refuse(ncclInvalidArgument, "%s: the pointer for the result is NULL", name);
    if (!result)
        memcpy(out, (const char *)c + member, sizeof *out);
    return result;
}

ncclResult_t ncclCommCount(const ncclComm_t c, int *count) {
    return ask(c, "ncclCommCount", count, offsetof(struct ncclComm, ranks));
}

ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank) {
    return ask(c, "ncclCommUserRank", rank, offsetof(struct ncclComm, rank));
}

ncclResult_t ncclCommCuDevice(const ncclComm_t c, int *device) {
    return ask(c, "ncclCommCuDevice", device, offsetof(struct ncclComm, device));
}

ncclResult_t ncclMemAlloc(void **pointer, size_t size) {
    return (cudaMalloc)(pointer, size)
               ? cpu_refuse(ncclUnhandledCudaError, "ncclMemAlloc: out of memory")
               : ncclSuccess;
}

ncclResult_t ncclMemFree(void *pointer) {
    return cudaFree(pointer) ? cpu_refuse(ncclUnhandledCudaError, "ncclMemFree: not an allocation")
                             : ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t c, void *buffer, size_t size, void **handle) {
    ncclResult_t result = ready(c, "ncclCommRegister");
    if (!result && (!handle || !cpu_view(buffer, size)))
        result = cpu_refuse(ncclInvalidArgument,
                            "ncclCommRegister: buff is not device memory, or handle is NULL");
    if (!result)
        *handle = buffer;
    return result;
}

ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle) {
    (void)handle;
    return ready(c, "ncclCommDeregister");
}

ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *buffer, size_t size, ncclWindow_t *window,
                                    int flags) {
    ncclResult_t result = ready(c, "ncclCommWindowRegister");
    if (!result && (!window || !cpu_view(buffer, size)))
        result = cpu_refuse(ncclInvalidArgument,
                            "ncclCommWindowRegister: buff is not device memory, or win is NULL");
    if (!result && (uintptr_t)buffer % NCCL_WIN_REQUIRED_ALIGNMENT)
        result =
            cpu_refuse(ncclInvalidArgument, "ncclCommWindowRegister: buff is not a multiple of %d",
                       NCCL_WIN_REQUIRED_ALIGNMENT);
    if (!result && (flags & ~NCCL_WIN_COLL_SYMMETRIC))
        result = cpu_refuse(ncclInvalidArgument, "ncclCommWindowRegister: winFlags %#x is unknown",
                            (unsigned)flags);
    if (result)
        return note(result);
    struct ncclWindow_vidmem *w = malloc(sizeof *w);
    if (!w)
        abort();
    w->next = c->windows;
    *window = c->windows = w;
    return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t window) {
    ncclResult_t result = ready(c, "ncclCommWindowDeregister");
    if (result)
        return note(result);
    struct ncclWindow_vidmem **link = &c->windows;
    while (*link && *link != window)
        link = &(*link)->next;
    if (!*link)
        return note(
            cpu_refuse(ncclInvalidArgument,
                       "ncclCommWindowDeregister: win is not a window of this communicator"));
    *link = window->next;
    free(window);
    return ncclSuccess;
}

// Returns the link to the scaling with this number, or the list's last link, which is NULL.
static struct scaling **find_scaling(ncclComm_t c, int op) {
    struct scaling **link = &c->scalings;
    while (*link && (*link)->op != op)
        link = &(*link)->next;
    return link;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t c) {
    // Numbers are unique in a process, so a communicator rejects the operations of another one.
    static atomic_int last = ncclNumOps;
    ncclResult_t result = ready(c, "ncclRedOpCreatePreMulSum");
    size_t bytes = cpu_type_size(type);
    if (!result && (!op || !scalar))
        result = cpu_refuse(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: op or scalar is NULL");
    else if (!result && !bytes)
        result = cpu_refuse(ncclInvalidArgument,
                            "ncclRedOpCreatePreMulSum: datatype %d is not supported", (int)type);
    else if (!result && residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
        result = cpu_refuse(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: residence is %d",
                            (int)residence);
    else if (!result && (residence == ncclScalarDevice ? !cpu_view(scalar, bytes)
                                                       : cpu_is_device_pointer(scalar)))
        result = cpu_refuse(ncclInvalidArgument,
                            "ncclRedOpCreatePreMulSum: scalar is not in the memory of residence");
    if (result)
        return note(result);
    struct scaling *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct scaling){.op = ++last, .type = type, .next = c->scalings};
    if (residence == ncclScalarDevice)
        s->on_device = scalar;
    else
        memcpy(s->value, scalar, bytes);
    c->scalings = s;
    *op = (ncclRedOp_t)s->op;
    return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t c) {
    ncclResult_t result = ready(c, "ncclRedOpDestroy");
    if (result)
        return note(result);
    struct scaling **link = find_scaling(c, (int)op), *s = *link;
    if (!s)
        return note(cpu_refuse(ncclInvalidArgument,
                               "ncclRedOpDestroy: op %d was not made for this communicator", op));
    *link = s->next;
    free(s);
    return ncclSuccess;
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
            if (q != other && (cpu_overlap(a->recv, a->recv_bytes, b->send, b->send_bytes) ||
                               cpu_overlap(a->recv, a->recv_bytes, b->recv, b->recv_bytes)))
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
    for (int i = 0; i < group.job_count && group.first; i++)
        if (!group.jobs[i]->parent)
            group.error = cpu_refuse(ncclInvalidUsage, "ncclGroupEnd: a group may not hold both "
                                                       "ncclCommInitRank and collectives");
    if (!group.error)
        group.error = check_group();
    return launch_queued(run_jobs(group.error));
}

// Calls.

// Stores the buffer's address for device threads, or NULL if this rank needs no elements of it.
static ncclResult_t view(const char *name, const char *argument, const struct ncclComm *c,
                         const void *pointer, size_t elements, size_t element, void **out) {
    *out = NULL;
    if (elements == 0)
        return ncclSuccess;
    if (!pointer)
        return cpu_refuse(ncclInvalidArgument, "%s: %s is NULL", name, argument);
    int device = cpu_device_of(pointer);
    if (device >= 0 && device != c->device)
        return cpu_refuse(ncclInvalidArgument,
                          "%s: %s is memory of device %d, and the communicator uses device %d",
                          name, argument, device, c->device);
    if (elements <= SIZE_MAX / 16 && (*out = cpu_view(pointer, elements * element)))
        return ncclSuccess;
    size_t bytes = cpu_bytes_from(pointer);
    if (!bytes)
        return cpu_refuse(ncclInvalidArgument, "%s: %s is not device memory", name, argument);
    return cpu_refuse(ncclInvalidArgument,
                      "%s: %s is too short: the call needs %zu elements, and only %zu fit", name,
                      argument, elements, bytes / element);
}

// Counts the elements that this rank uses of both buffers.
static void count_elements(const struct ncclComm *c, const struct call *call, size_t *send,
                           size_t *recv) {
    size_t ranks = (size_t)c->ranks,
           of_all = call->count > SIZE_MAX / ranks ? SIZE_MAX : call->count * ranks;
    *send = *recv = call->count;
    if (call->kind == CALL_ALL_TO_ALL)
        *send = *recv = of_all;
    else if (call->kind == CALL_ALL_GATHER)
        *recv = of_all;
    else if (call->kind == CALL_REDUCE_SCATTER)
        *send = of_all;
    else if (call->kind == CALL_GATHER)
        *recv = c->rank == call->root ? of_all : 0;
    else if (call->kind == CALL_SCATTER)
        *send = c->rank == call->root ? of_all : 0;
    else if (call->kind == CALL_RECV || (call->kind == CALL_BROADCAST && c->rank != call->root))
        *send = 0;
    else if (call->kind == CALL_SEND || (call->kind == CALL_REDUCE && c->rank != call->root))
        *recv = 0;
}

// Returns an error if the buffers have bytes in common, except in the form that NCCL calls in
// place.
static ncclResult_t check_overlap(const char *name, const struct ncclComm *c,
                                  const struct call *call, const char *send, size_t to_send,
                                  const char *recv, size_t to_receive, size_t element) {
    size_t block = (size_t)c->rank * call->count * element; // of this rank, in the longer buffer
    int in_place = to_send == to_receive  ? send == recv && call->kind != CALL_ALL_TO_ALL
                   : to_send > to_receive ? recv == send + block
                                          : send == recv + block;
    if (in_place || !cpu_overlap(send, to_send * element, recv, to_receive * element))
        return ncclSuccess;
    return cpu_refuse(ncclInvalidArgument,
                      "%s: sendbuff and recvbuff overlap, which is undefined; %s", name,
                      call->kind == CALL_ALL_TO_ALL ? "use two buffers"
                      : to_send > to_receive ? "in place, recvbuff is sendbuff + rank * count"
                      : to_send < to_receive ? "in place, sendbuff is recvbuff + rank * count"
                                             : "in place, both are the same pointer");
}

// Copies the scalar of the work's operation, because the program may destroy the operation before
// the call runs.
static ncclResult_t take_scalar(const char *name, struct work *work) {
    const struct scaling *s = *find_scaling(work->comm, work->call.op);
    if (!s)
        return cpu_refuse(ncclInvalidArgument, "%s: there is no operation %d", name, work->call.op);
    if ((int)s->type != work->call.type)
        return cpu_refuse(ncclInvalidArgument,
                          "%s: the operation was made for datatype %d, not for %d", name,
                          (int)s->type, work->call.type);
    if (s->on_device && !(work->scalar = cpu_view(s->on_device, cpu_type_size(s->type))))
        return cpu_refuse(ncclInvalidArgument, "%s: the operation's scalar has been freed", name);
    memcpy(work->scalar_value, s->value, sizeof s->value);
    if (s->on_device)
        cpu_uses(name, s->on_device, cpu_type_size(s->type), 0);
    work->scaled = 1;
    work->call.op = OP_PRE_MUL_SUM;
    return ncclSuccess;
}

// The common part of all collectives, sends and receives: checks the arguments and queues the call.
static ncclResult_t call(const char *name, struct call call, const void *send, void *recv,
                         ncclComm_t c, cudaStream_t stream) {
    ncclResult_t result = ready(c, name);
    size_t element = cpu_type_size((ncclDataType_t)call.type);
    int transfer = call.kind == CALL_SEND || call.kind == CALL_RECV;
    size_t to_send, to_receive;
    void *from, *to;
    if (result)
        return note(result);
    if (!element)
        return note(
            cpu_refuse(ncclInvalidArgument, "%s: datatype %d is not supported", name, call.type));
    if (call.root < 0 || call.root >= c->ranks)
        return note(cpu_refuse(ncclInvalidArgument, "%s: %s %d is not one of %d ranks", name,
                               transfer ? "peer" : "root", call.root, c->ranks));
    count_elements(c, &call, &to_send, &to_receive);
    if ((result = view(name, "sendbuff", c, send, to_send, element, &from)) ||
        (result = view(name, "recvbuff", c, recv, to_receive, element, &to)))
        return note(result);
    if (from && to &&
        (result = check_overlap(name, c, &call, send, to_send, recv, to_receive, element)))
        return note(result);
    struct work *work = calloc(1, sizeof *work + sizeof(struct transfer));
    if (!work)
        abort();
    call.comm = c->name;
    *work = (struct work){.comm = c,
                          .call = call,
                          .send = from,
                          .recv = to,
                          .send_bytes = to_send * element,
                          .recv_bytes = to_receive * element,
                          .transfers = transfer};
    if (transfer)
        work->transfer[0] = (struct transfer){.call = call,
                                              .data = call.kind == CALL_SEND ? from : to,
                                              .bytes = cpu_computes ? call.count * element : 0,
                                              .peer = call.root};
    if ((call.op < 0 || call.op >= ncclNumOps) && (result = take_scalar(name, work))) {
        free(work);
        return note(result);
    }
    cpu_uses(name, send, to_send * element, 0);
    cpu_uses(name, recv, to_receive * element, 1);
    cpu_take_cost();
    work->cost =
        (struct cpu_cost){.kind = CPU_COLLECTIVE, .name = name, .comm = transfer ? 0 : c->label};
    // The root of a gather or scatter has the longest buffer, and the cost is that of all ranks.
    size_t longest = call.kind == CALL_GATHER || call.kind == CALL_SCATTER
                         ? call.count * (size_t)c->ranks
                         : (to_send > to_receive ? to_send : to_receive);
    work->cost.bytes = (double)longest * (double)element;
    if ((work->note = cpu_take_note())) {
        work->note->comm = c;
        work->place = work->note->place;
    }
    return note(enqueue(work, stream));
}

ncclResult_t pncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t c, cudaStream_t stream) {
    return call("ncclAllReduce", (struct call){CALL_ALL_REDUCE, (int)type, (int)op, 0, count, 0, 0},
                send, recv, c, stream);
}

ncclResult_t pncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                            int root, ncclComm_t c, cudaStream_t stream) {
    return call("ncclBroadcast", (struct call){CALL_BROADCAST, (int)type, 0, root, count, 0, 0},
                send, recv, c, stream);
}

ncclResult_t pncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t c,
                        cudaStream_t stream) {
    return ncclBroadcast(buffer, buffer, count, type, root, c, stream);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t stream) {
    return call("ncclReduce", (struct call){CALL_REDUCE, (int)type, (int)op, root, count, 0, 0},
                send, recv, c, stream);
}

ncclResult_t pncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                            ncclComm_t c, cudaStream_t stream) {
    return call("ncclAllGather", (struct call){CALL_ALL_GATHER, (int)type, 0, 0, count, 0, 0}, send,
                recv, c, stream);
}

ncclResult_t pncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t c, cudaStream_t stream) {
    return call("ncclReduceScatter",
                (struct call){CALL_REDUCE_SCATTER, (int)type, (int)op, 0, count, 0, 0}, send, recv,
                c, stream);
}

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
                          ncclComm_t c, cudaStream_t stream) {
    return call("ncclAlltoAll", (struct call){CALL_ALL_TO_ALL, (int)type, 0, 0, count, 0, 0}, send,
                recv, c, stream);
}

ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                        ncclComm_t c, cudaStream_t stream) {
    return call("ncclGather", (struct call){CALL_GATHER, (int)type, 0, root, count, 0, 0}, send,
                recv, c, stream);
}

ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                         ncclComm_t c, cudaStream_t stream) {
    return call("ncclScatter", (struct call){CALL_SCATTER, (int)type, 0, root, count, 0, 0}, send,
                recv, c, stream);
}

ncclResult_t pncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                       cudaStream_t stream) {
    return call("ncclSend", (struct call){CALL_SEND, (int)type, 0, peer, count, 0, 0}, send, NULL,
                c, stream);
}

ncclResult_t pncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                       cudaStream_t stream) {
    return call("ncclRecv", (struct call){CALL_RECV, (int)type, 0, peer, count, 0, 0}, NULL, recv,
                c, stream);
}

// Weak, so a program may define functions of these names (nccl.h).
#define MAY_BE_REPLACED(function)                                                                  \
    __typeof__(p##function) function __attribute__((weak, alias("p" #function)))
MAY_BE_REPLACED(ncclAllReduce);
MAY_BE_REPLACED(ncclBcast);
MAY_BE_REPLACED(ncclAllGather);
MAY_BE_REPLACED(ncclReduceScatter);
MAY_BE_REPLACED(ncclBroadcast);
MAY_BE_REPLACED(ncclSend);
MAY_BE_REPLACED(ncclRecv);
MAY_BE_REPLACED(ncclGroupStart);
MAY_BE_REPLACED(ncclGroupEnd);
