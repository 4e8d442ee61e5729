// How communicators are made, split and ended.
#include "check.h"
#include "comm.h"
#include <sys/mman.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
// Other threads use the communicators of this list, so each enters it when it is complete.
static struct ncclComm *comms;

void cpu_for_each_comm(void (*f)(struct ncclComm *, const void *), const void *argument) {
    pthread_mutex_lock(&list_lock);
    for (struct ncclComm *c = comms; c; c = c->next)
        f(c, argument);
    pthread_mutex_unlock(&list_lock);
}

// A program may end without ncclCommDestroy. The other ranks must not report that it was killed,
// and they still get the messages that hold their data.
static void say_goodbye(struct ncclComm *c, const void *argument) {
    (void)argument;
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

// Returns an error if comm is no communicator of this process.
static ncclResult_t known(struct ncclComm *comm, const char *name) {
    pthread_mutex_lock(&list_lock);
    const struct ncclComm *c = comms;
    while (c && c != comm)
        c = c->next;
    pthread_mutex_unlock(&list_lock);
    return c ? ncclSuccess
             : cpu_refuse(ncclInvalidArgument, "%s: comm is not a communicator", name);
}

ncclResult_t cpu_ready_comm(struct ncclComm *c, const char *name) {
    ncclResult_t result = known(c, name);
    if (result)
        return result;
    if (c->state)
        return c->state; // ncclGetLastError keeps the text of the first error
    return c->finalized
               ? cpu_refuse(ncclInvalidUsage, "%s: the communicator has been finalized", name)
               : ncclSuccess;
}

// Closes the connections of all communicators in a forked child. Otherwise the child would keep
// those of its parent, and other ranks would not notice the parent's end.
static void let_go(void) {
    for (struct ncclComm *c = comms; c; c = c->next)
        for (int p = 0; c->channels && p < c->ranks; p++)
            cpu_close(&c->channels[p].socket);
}

static void register_at_exit(void) {
    atexit(at_exit);
    pthread_atfork(NULL, NULL, let_go);
}

static struct ncclComm *new_comm(int ranks, int rank) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static atomic_uint made;
    struct ncclComm *c = cpu_new(sizeof *c);
    pthread_once(&once, register_at_exit);
    c->ranks = ranks;
    c->rank = c->named = rank;
    c->device = cpu_current_device();
    c->label = ++made;
    c->lock_page = MAP_FAILED;
    c->memory_file = c->network_wake[0] = c->network_wake[1] = -1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    return c;
}

static void free_comm(struct ncclComm *c, int at_once) {
    pthread_mutex_lock(&list_lock);
    struct ncclComm **link = &comms;
    while (*link && *link != c)
        link = &(*link)->next;
    if (*link)
        *link = c->next;
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_lock(&cpu_lock);
    cpu_check_comm_ends(c);
    pthread_mutex_unlock(&cpu_lock);
    if (c->seat)
        c->seat->left = 1;
    cpu_network_stop(c, at_once);
    cpu_part(c);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c);
}

// Waits for all calls of the communicator.
static void drain(struct ncclComm *c) {
    pthread_mutex_lock(&c->lock);
    while (c->connecting || c->finished != c->issued)
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
static ncclResult_t split(struct ncclComm *c, struct ncclComm *parent, int color, int key) {
    struct choice own = {color, key, parent->rank}, first = own;
    struct choice *all = cpu_new((size_t)parent->ranks * sizeof *all);
    ncclUniqueId id = {""}, *ids = cpu_new((size_t)parent->ranks * sizeof *ids);
    uint64_t turn = cpu_issue(parent, 2);
    ncclResult_t result = cpu_gather_now(parent, turn, &own, all, sizeof own);
    for (const struct choice *other = all; other < all + parent->ranks; other++) {
        if (other->color != own.color)
            continue;
        c->ranks++;
        c->rank += comes_before(other, &own);
        if (comes_before(other, &first))
            first = *other;
    }
    if (!result && color != NCCL_SPLIT_NOCOLOR && first.rank == own.rank)
        result = cpu_make_id(&id);
    ncclResult_t gathered = cpu_gather_now(parent, turn + 1, &id, ids, sizeof *ids);
    if (!result && !gathered && color != NCCL_SPLIT_NOCOLOR)
        result = cpu_meet(c, &ids[first.rank]);
    free(all);
    free(ids);
    return result ? result : gathered;
}

// Stores the new communicator for the caller, or frees it and stores NULL.
static ncclResult_t give(struct ncclComm *c, ncclResult_t result, int wanted, ncclComm_t *out) {
    *out = !result && wanted ? c : NULL;
    if (!*out) {
        free_comm(c, 1);
        return result;
    }
    pthread_mutex_lock(&list_lock);
    c->next = comms;
    comms = c;
    pthread_mutex_unlock(&list_lock);
    return ncclSuccess;
}

ncclResult_t pncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
    ncclResult_t result = ncclSuccess;
    if (cpu_enter())
        result = cpu_refuse(ncclUnhandledCudaError, "ncclCommInitRank: %s",
                            cudaGetErrorString(cpu_enter()));
    else if (cpu_in_group())
        result = cpu_refuse(ncclInvalidUsage,
                            "ncclCommInitRank: the CPU device accepts it outside of groups only");
    else if (!comm)
        result = cpu_refuse(ncclInvalidArgument, "ncclCommInitRank: comm is NULL");
    else if (ranks < 1 || ranks > MOST_PEERS)
        result = cpu_refuse(ncclInvalidArgument, "ncclCommInitRank: nranks is %d, not 1 to %d",
                            ranks, MOST_PEERS);
    else if (rank < 0 || rank >= ranks)
        result = cpu_refuse(ncclInvalidArgument, "ncclCommInitRank: rank %d is not one of %d ranks",
                            rank, ranks);
    if (result)
        return cpu_noted(result);
    struct ncclComm *c = new_comm(ranks, rank);
    return give(c, cpu_meet(c, &id), 1, comm);
}
MAY_BE_REPLACED(ncclCommInitRank);

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                           ncclConfig_t *config) {
    ncclResult_t result = cpu_ready_comm(comm, "ncclCommSplit");
    if (!result && cpu_in_group())
        result = cpu_refuse(ncclInvalidUsage,
                            "ncclCommSplit: the CPU device accepts it outside of groups only");
    if (!result && (!newcomm || color < NCCL_SPLIT_NOCOLOR || config))
        result =
            cpu_refuse(ncclInvalidArgument,
                       "ncclCommSplit: newcomm is NULL, color %d is negative, or config is not "
                       "NULL, which the CPU device cannot use",
                       color);
    if (result)
        return cpu_noted(result);
    struct ncclComm *c = new_comm(0, 0);
    c->device = comm->device;
    c->named = comm->named;
    c->label = ((comm->label << 8 | ++comm->splits) << 12) + (uint64_t)color;
    return give(c, split(c, comm, color, key), color != NCCL_SPLIT_NOCOLOR, newcomm);
}

ncclResult_t ncclCommFinalize(ncclComm_t c) {
    if (!c)
        return ncclSuccess;
    ncclResult_t result = cpu_ready_comm(c, "ncclCommFinalize");
    if (result)
        return cpu_noted(result);
    drain(c);
    c->finalized = 1;
    return c->state;
}

// The common part of ncclCommDestroy and ncclCommAbort. cpu_enter fails if the program is exiting,
// because at_exit has already ended the communicator, and in a forked child, because the
// communicator belongs to its parent.
static ncclResult_t end(struct ncclComm *c, const char *name, int at_once) {
    if (!c || cpu_enter())
        return ncclSuccess;
    ncclResult_t result = known(c, name);
    if (!result && cpu_group_uses(c))
        result = cpu_refuse(ncclInvalidUsage, "%s: calls of this group still wait for ncclGroupEnd",
                            name);
    if (result)
        return cpu_noted(result);
    c->aborted = at_once;
    cpu_ring_bell(c->seat);
    drain(c);
    free_comm(c, at_once);
    if (at_once)
        cpu_resume_streams();
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) {
    return end(c, "ncclCommDestroy", 0);
}

ncclResult_t ncclCommAbort(ncclComm_t c) {
    return end(c, "ncclCommAbort", 1);
}

// Copies a member of the communicator at this offset, which has the size of an int.
static ncclResult_t ask(ncclComm_t c, const char *name, void *out, size_t member) {
    ncclResult_t result = known(c, name);
    if (!result && !out)
        result = cpu_refuse(ncclInvalidArgument, "%s: the pointer for the result is NULL", name);
    if (result)
        return result;
    pthread_mutex_lock(&c->lock);
    memcpy(out, (const char *)c + member, sizeof(int));
    pthread_mutex_unlock(&c->lock);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error) {
    return ask(c, "ncclCommGetAsyncError", error, offsetof(struct ncclComm, state));
}

ncclResult_t ncclCommCount(const ncclComm_t c, int *count) {
    return ask(c, "ncclCommCount", count, offsetof(struct ncclComm, ranks));
}

ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank) {
    return ask(c, "ncclCommUserRank", rank, offsetof(struct ncclComm, rank));
}
