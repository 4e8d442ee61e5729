// How a rank waits for another one. A rank that waits spins first and then sleeps, and looks four
// times a second whether a peer has died, has failed, makes another call, or keeps it waiting for
// too long. Then it gives up, and tells all ranks why.
#include "messages.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

enum { SPINS = 100, YIELDS = 10, MOST_CROWDED = 16 };
static const double CHECK_SECONDS = 0.25;
static const double SUSPENDED_SECONDS = 1; // later checks mean that this process did not run
static const double SILENT_SECONDS = 5; // a rank on another host says each second that it is alive

static int is_transfer(const struct call *call) {
    return call->kind == CALL_SEND || call->kind == CALL_RECV || cpu_is_connection(call);
}

const char *cpu_describe_call(char text[96], const struct call *call) {
    static const char *const kinds[] = {"no collective", "AllReduce",     "Broadcast", "Reduce",
                                        "AllGather",     "ReduceScatter", "Send",      "Recv",
                                        "Send",          "Recv",          "CommSplit"};
    static const char *const types[] = {"int8",   "uint8", "int32", "uint32", "int64",
                                        "uint64", "half",  "float", "double", "bfloat16"};
    static const char *const ops[] = {"sum", "prod", "max", "min", "avg"};
    snprintf(text, 96, "%s%s", cpu_is_connection(call) ? "the connection for " : "",
             kinds[call->kind]);
    if (call->kind == CALL_NONE || call->kind == CALL_SPLIT)
        return text;
    cpu_add_text(text, 96, " (count %llu, %s", (unsigned long long)call->count, types[call->type]);
    if (call->kind == CALL_ALL_REDUCE || call->kind == CALL_REDUCE ||
        call->kind == CALL_REDUCE_SCATTER)
        cpu_add_text(text, 96, ", %s", ops[call->op]);
    if (call->kind == CALL_BROADCAST || call->kind == CALL_REDUCE)
        cpu_add_text(text, 96, ", root %d", call->named);
    if (is_transfer(call))
        cpu_add_text(text, 96, ", %s rank %d",
                     call->kind == CALL_SEND || call->kind == CALL_CONNECT_SEND ? "to" : "from",
                     call->named);
    cpu_add_text(text, 96, ")");
    return text;
}

int cpu_same_call(const struct call *a, const struct call *b) {
    return a->kind == b->kind && a->type == b->type && a->op == b->op && a->root == b->root &&
           a->count == b->count && a->comm == b->comm;
}

void cpu_ring_bell(struct seat *seat) {
    atomic_thread_fence(memory_order_seq_cst); // after the change that the other rank waits for
    if (!atomic_load_explicit(&seat->asleep, memory_order_relaxed))
        return;
    atomic_fetch_add(&seat->bell, 1);
    syscall(SYS_futex, &seat->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

ncclResult_t cpu_give_up(struct ncclComm *c, ncclResult_t result, const char *why) {
    pthread_mutex_lock(&c->lock);
    if (!c->seat->failed) {
        snprintf(c->seat->why, sizeof c->seat->why, "%s", why);
        atomic_store(&c->seat->failed, result);
    }
    pthread_mutex_unlock(&c->lock);
    for (int p = 0; p < c->ranks; p++)
        if (p != c->rank && !cpu_is_remote(&c->channels[p]))
            cpu_ring_bell(c->channels[p].seat);
    cpu_network_tell(c);
    cpu_stop_streams(why);
    return cpu_refuse(result, "%s", why);
}

// Returns 1 if the peer's connection or the lock of its process is gone.
static int is_gone(struct ncclComm *c, int p) {
    const struct channel *ch = &c->channels[p];
    if (cpu_is_remote(ch))
        return ch->hung_up;
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (char *)ch->seat - (char *)c->memory,
                         .l_len = 1};
    return !fcntl(c->memory_file, F_OFD_GETLK, &lock) && lock.l_type == F_UNLCK;
}

// Shows the call in which this rank waits to the other ranks of all communicators on the same
// device, or, with a call of NULL, that it does not wait.
static void show_call(struct ncclComm *c, const void *argument) {
    const struct cpu_wait *w = argument;
    if (c->device != w->comm->device)
        return;
    pthread_mutex_lock(&c->lock);
    snprintf(c->seat->waits_at, WAITS_AT_BYTES, "%s", w->call && w->at ? w->at : "");
    c->seat->waits_in = w->call ? *w->call : (struct call){.kind = CALL_NONE};
    pthread_mutex_unlock(&c->lock);
    cpu_network_tell(c);
}

static int is_silent(const struct ncclComm *c, int p) {
    return cpu_is_remote(&c->channels[p]) && cpu_now() - c->channels[p].heard > SILENT_SECONDS;
}

// Adds the silent ranks of this rank's host to why.
static void list_silent(char why[WHY_BYTES], const struct ncclComm *c, int rank) {
    cpu_add_text(why, WHY_BYTES, "; nothing heard for %.0f s from",
                 cpu_now() - c->channels[rank].heard);
    for (int p = rank; p < c->ranks; p++)
        if (c->peers[p].host == c->peers[rank].host && is_silent(c, p))
            cpu_add_text(why, WHY_BYTES, "%s rank %d", p > rank ? "," : "", c->peers[p].named);
    cpu_add_text(why, WHY_BYTES, " on %s, so the node or its network may be down",
                 c->peers[rank].host_name);
}

// Writes why this rank waits: its call, and the ranks that are silent, in no call or in a different
// one. Returns 1 if one is silent.
static int explain_wait(char why[WHY_BYTES], const struct cpu_wait *w) {
    struct ncclComm *c = w->comm;
    char call[96];
    snprintf(why, WHY_BYTES, "rank %d waits in %s for %.0f s", c->named,
             cpu_describe_call(call, w->call), fmin(cpu_now() - w->since, cpu_timeout()));
    int silent = 0;
    pthread_mutex_lock(&c->lock);
    for (int p = 0; p < c->ranks; p++) {
        const struct call *theirs = &c->channels[p].seat->waits_in;
        if (p == c->rank || (is_transfer(w->call) && p != w->peer))
            continue;
        if (is_silent(c, p)) {
            int first = p;
            for (int q = 0; q < p; q++)
                first = c->peers[q].host == c->peers[p].host && is_silent(c, q) ? q : first;
            silent = 1;
            if (first == p)
                list_silent(why, c, p);
        } else if (p == w->peer || !cpu_same_call(theirs, w->call)) {
            int elsewhere = theirs->kind && theirs->comm != c->name;
            cpu_add_text(why, WHY_BYTES, "; rank %d is in %s%s", c->peers[p].named,
                         cpu_describe_call(call, theirs),
                         elsewhere ? " of another communicator" : "");
        }
    }
    pthread_mutex_unlock(&c->lock);
    return silent;
}

// A collective that a rank has not finished yet.
struct unfinished {
    const struct ncclComm *waiting; // the communicator that waits; the call belongs to another one
    struct call call;
    int is_ours; // this rank has not finished the call
};

static void look_for(struct ncclComm *c, const void *argument) {
    struct unfinished *u = *(struct unfinished *const *)argument;
    if (c == u->waiting || c->device != u->waiting->device || c->name != u->call.comm)
        return;
    pthread_mutex_lock(&c->lock);
    u->is_ours |= c->collectives_finished <= u->call.number;
    pthread_mutex_unlock(&c->lock);
}

// The peer has not come to our call. If it is in a call of another communicator that comes after
// ours on this rank, both ranks wait for each other. The checker of ordering makes sure that each
// rank orders the calls of its communicators, but it cannot compare the orders of two ranks.
// Reports it at the second check in a row only: this process may have been stopped since the caller
// looked for the peer's message, and between two checks the caller looks again.
static ncclResult_t compare_orders(struct cpu_wait *w) {
    struct ncclComm *c = w->comm;
    const struct seat *seat = c->channels[w->peer].seat;
    char texts[2][96], why[WHY_BYTES];
    pthread_mutex_lock(&c->lock);
    struct unfinished u = {c, seat->waits_in, 0}, *argument = &u;
    pthread_mutex_unlock(&c->lock);
    if (u.call.kind != CALL_NONE && u.call.kind < CALL_SEND)
        cpu_for_each_comm(look_for, &argument);
    w->crossed = u.is_ours ? w->crossed + 1 : 0;
    if (w->crossed < 2)
        return ncclSuccess;
    snprintf(why, sizeof why,
             "CPU_DEVICE_CHECK: the ranks use two communicators in different orders, and wait for "
             "each other: rank %d is in %s at %s, rank %d is in %s of the other communicator%s%s",
             c->named, cpu_describe_call(texts[0], w->call), w->at, c->peers[w->peer].named,
             cpu_describe_call(texts[1], &u.call), *seat->waits_at ? " at " : "", seat->waits_at);
    return cpu_give_up(c, ncclInvalidUsage, why);
}

ncclResult_t cpu_check_wait(struct cpu_wait *w) {
    struct ncclComm *c = w->comm;
    char call[96], why[WHY_BYTES];
    double now = cpu_now();
    int gone = -1, in_stream = !cpu_is_connection(w->call);
    if (c->aborted) // from now on, the program may change or free what this rank has lent
        c->seat->left = 1;
    if (c->aborted || cpu_exiting())
        return cpu_refuse(ncclInternalError, "rank %d: aborted in %s", c->named,
                          cpu_describe_call(call, w->call));
    if (now - w->checked < CHECK_SECONDS)
        return ncclSuccess;
    if (w->checked == w->since) { // the first check of this wait
        w->at = in_stream && c->place ? cpu_describe_place(c->place) : NULL;
        cpu_for_each_comm(show_call, w);
    }
    if (now - w->checked > SUSPENDED_SECONDS) // perhaps with all other ranks, which then need time
        w->since += now - w->checked - CHECK_SECONDS;
    w->checked = now;
    for (int p = 0; p < c->ranks; p++) {
        struct channel *ch = &c->channels[p];
        if (p == c->rank)
            continue;
        if (ch->seat->failed) {
            snprintf(why, sizeof why, "%s", ch->seat->why);
            return cpu_give_up(c, (ncclResult_t)ch->seat->failed, why);
        }
        ch->missed = is_gone(c, p) ? ch->missed + 1 : 0;
        // Reports a dead rank at the second check only. If a launcher is ending all ranks, it
        // should be the first to report the cause.
        if (ch->missed > 1 && (p == w->peer || !ch->seat->left) &&
            (gone < 0 || ch->missed > c->channels[gone].missed))
            gone = p;
    }
    if (gone >= 0) {
        const struct peer *peer = &c->peers[gone];
        int error = c->channels[gone].hung_up;
        cpu_describe_call(call, w->call);
        if (error && error != EPIPE)
            snprintf(why, sizeof why,
                     "the connection to rank %d (pid %d on %s) has broken while rank %d was in %s: "
                     "%s",
                     peer->named, peer->pid, peer->host_name, c->named, call, strerror(error));
        else
            snprintf(why, sizeof why, "rank %d (pid %d on %s) has ended while rank %d was in %s",
                     peer->named, peer->pid, peer->host_name, c->named, call);
        return cpu_give_up(c, ncclRemoteError, why);
    }
    ncclResult_t result = w->at ? compare_orders(w) : ncclSuccess;
    if (result)
        return result;
    int silent = explain_wait(why, w);
    if (now - w->since > cpu_timeout())
        return cpu_give_up(c, silent ? ncclRemoteError : ncclInvalidUsage, why);
    cpu_explain_wait(why); // for a program that gives up before this device does
    return ncclSuccess;
}

// Returns 1 if it is too early to sleep. On a busy machine, a yield may take as long as many turns
// of other processes, so the clock decides. If another thread runs at each yield, it may be the
// rank that this one waits for. Then this rank sleeps once: the system leaves threads that yield to
// each other on one core, but when it wakes one up, it looks for a free core.
static int shall_yield(const struct cpu_wait *w) {
    double waited = cpu_now() - w->since;
    return w->comm->crowded < MOST_CROWDED &&
           ((w->tries <= SPINS + YIELDS && waited < CHECK_SECONDS) ||
            (waited < w->comm->patience && cpu_streams_computing() == 1));
}

// Returns how often another thread has run in the place of this one, which did not wait.
static long switches(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

// Leaves the core to its other hardware thread.
static void relax(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

ncclResult_t cpu_wait_round(struct cpu_wait *w) {
    struct ncclComm *c = w->comm;
    w->tries++;
    if (w->tries <= SPINS) {
        relax();
        return ncclSuccess;
    }
    if (!w->since)
        w->since = w->checked = cpu_now();
    if (!w->armed && shall_yield(w)) {
        long before = switches();
        sched_yield();
        c->crowded = switches() > before ? c->crowded + 1 : 0;
    } else if (!w->armed) {
        c->crowded = 0;
        w->armed = 1;
        w->bell = atomic_load(&c->seat->bell);
        atomic_store(&c->seat->asleep, 1);
        atomic_thread_fence(memory_order_seq_cst); // before the caller's last check
    } else {
        struct timespec limit = {0, (long)(CHECK_SECONDS * 1e9)};
        syscall(SYS_futex, &c->seat->bell, FUTEX_WAIT, w->bell, &limit, NULL, 0);
        atomic_store(&c->seat->asleep, 0);
        w->armed = 0;
        return cpu_check_wait(w);
    }
    return ncclSuccess;
}

// A rank that gave up keeps showing the call that it waited in, because other ranks report it.
void cpu_end_wait(struct cpu_wait *w, ncclResult_t result) {
    if (w->armed)
        atomic_store(&w->comm->seat->asleep, 0);
    if (w->checked > w->since && !result) {
        cpu_explain_wait("");
        w->call = NULL;
        cpu_for_each_comm(show_call, w);
    }
}
