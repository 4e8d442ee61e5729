// The collectives of the CPU device. All of them are variants of one exchange with two phases:
// 1. Every rank sends each other rank the part of its data that the other rank needs. The receiver
//    reduces the parts of all ranks, or places them side by side.
// 2. Every rank sends its result to all other ranks.
// The exchange moves data in chunks, so a chunk is still in a cache when it is used again. Parts
// are always reduced in the order of the ranks, so a sum has the same bits on every rank.
#include "comm.h"
#include "reduce.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 100, YIELDS = 10 };
static const double CHECK_SECONDS = 0.25;
static const double SILENT_SECONDS = 5; // a rank on another host says each second that it is alive

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static int is_connection(const struct call *call) {
    return call->kind == CALL_CONNECT_SEND || call->kind == CALL_CONNECT_RECV;
}

static int is_transfer(const struct call *call) {
    return call->kind == CALL_SEND || call->kind == CALL_RECV || is_connection(call);
}

// "AllReduce (count 512, float, sum)"
static const char *describe(char text[96], const struct call *call) {
    static const char *const kinds[] = {"no collective", "AllReduce",     "Broadcast", "Reduce",
                                        "AllGather",     "ReduceScatter", "AlltoAll",  "Gather",
                                        "Scatter",       "Send",          "Recv",      "Send",
                                        "Recv",          "CommSplit"};
    static const char *const types[] = {"int8",   "uint8", "int32", "uint32", "int64",
                                        "uint64", "half",  "float", "double", "bfloat16"};
    static const char *const ops[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
    int n = snprintf(text, 96, "%s%s", is_connection(call) ? "the connection for " : "",
                     kinds[call->kind]);
    if (call->kind == CALL_NONE || call->kind == CALL_SPLIT)
        return text;
    n += snprintf(text + n, (size_t)(96 - n), " (count %llu, %s", (unsigned long long)call->count,
                  types[call->type]);
    if (call->kind == CALL_ALL_REDUCE || call->kind == CALL_REDUCE ||
        call->kind == CALL_REDUCE_SCATTER)
        n += snprintf(text + n, (size_t)(96 - n), ", %s", ops[call->op]);
    if (call->kind == CALL_BROADCAST || call->kind == CALL_REDUCE || call->kind == CALL_GATHER ||
        call->kind == CALL_SCATTER)
        n += snprintf(text + n, (size_t)(96 - n), ", root %d", call->named);
    if (is_transfer(call))
        n += snprintf(text + n, (size_t)(96 - n), ", %s rank %d",
                      call->kind == CALL_SEND || call->kind == CALL_CONNECT_SEND ? "to" : "from",
                      call->named);
    snprintf(text + n, (size_t)(96 - n), ")");
    return text;
}

static int same_call(const struct call *a, const struct call *b) {
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

// Ends the communicator's work with an error, and tells all ranks. If the host and a stream give up
// at the same time, the first one's reason stays.
static ncclResult_t give_up(struct ncclComm *c, ncclResult_t result, const char *why) {
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

// Returns 1 if the peer's process has ended: its connection or its lock is gone.
static int is_gone(struct ncclComm *c, int p) {
    const struct channel *ch = &c->channels[p];
    if (cpu_is_remote(ch))
        return ch->hung_up;
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (char *)ch->seat - (char *)c->memory,
                         .l_len = 1};
    cpu_need(&c->memory_file);
    return !fcntl(c->memory_file.number, F_OFD_GETLK, &lock) && lock.l_type == F_UNLCK;
}

struct wait {
    struct ncclComm *comm;
    const struct call *call;
    int peer;         // the rank that this rank waits for
    int tries, armed; // armed: other ranks ring the bell
    unsigned bell;
    double since, checked;
    const char *at; // the place in the program, with CPU_DEVICE_CHECK=1
};

// Shows the call in which this rank waits to the other ranks of all communicators on the same
// device, or, with a call of NULL, that it does not wait.
static void show_call(struct ncclComm *c, const void *argument) {
    const struct wait *w = argument;
    if (c->device != w->comm->device || !c->seat)
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

// Adds the silent ranks of this rank's host to why, which has n characters. Returns the new number.
static int list_silent(char why[WHY_BYTES], int n, const struct ncclComm *c, int rank) {
    n += snprintf(why + n, (size_t)(WHY_BYTES - n), "; nothing heard for %.0f s from",
                  cpu_now() - c->channels[rank].heard);
    for (int p = rank; p < c->ranks && n < WHY_BYTES; p++)
        if (c->peers[p].host == c->peers[rank].host && is_silent(c, p))
            n += snprintf(why + n, (size_t)(WHY_BYTES - n), "%s rank %d", p > rank ? "," : "",
                          c->peers[p].named);
    if (n < WHY_BYTES)
        n += snprintf(why + n, (size_t)(WHY_BYTES - n),
                      " on %s, so the node or its network may be down", c->peers[rank].host_name);
    return n;
}

// Writes why this rank waits: its call, and the ranks that are silent, in no call or in a different
// one. Returns 1 if one is silent.
static int explain_wait(char why[WHY_BYTES], const struct wait *w) {
    struct ncclComm *c = w->comm;
    char call[96];
    int n = snprintf(why, WHY_BYTES, "rank %d waits in %s for %.0f s", c->named,
                     describe(call, w->call), fmin(cpu_now() - w->since, cpu_timeout()));
    int silent = 0;
    pthread_mutex_lock(&c->lock);
    for (int p = 0; p < c->ranks && n < WHY_BYTES; p++) {
        const struct call *theirs = &c->channels[p].seat->waits_in;
        if (p == c->rank || (is_transfer(w->call) && p != w->peer))
            continue;
        if (is_silent(c, p)) {
            int first = p;
            for (int q = 0; q < p; q++)
                first = c->peers[q].host == c->peers[p].host && is_silent(c, q) ? q : first;
            silent = 1;
            n = first == p ? list_silent(why, n, c, p) : n;
        } else if (p == w->peer || !same_call(theirs, w->call)) {
            int elsewhere = theirs->kind && theirs->comm != c->name;
            n += snprintf(why + n, (size_t)(WHY_BYTES - n), "; rank %d is in %s%s",
                          c->peers[p].named, describe(call, theirs),
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
static ncclResult_t compare_orders(struct wait *w) {
    struct ncclComm *c = w->comm;
    const struct seat *seat = c->channels[w->peer].seat;
    char texts[2][96], why[WHY_BYTES];
    pthread_mutex_lock(&c->lock);
    struct unfinished u = {c, seat->waits_in, 0}, *argument = &u;
    pthread_mutex_unlock(&c->lock);
    if (u.call.kind != CALL_NONE && u.call.kind < CALL_SEND)
        cpu_for_each_comm(look_for, &argument);
    if (!u.is_ours)
        return ncclSuccess;
    snprintf(why, sizeof why,
             "CPU_DEVICE_CHECK: the ranks use two communicators in different orders, and wait for "
             "each other: rank %d is in %s at %s, rank %d is in %s of the other communicator%s%s",
             c->named, describe(texts[0], w->call), w->at, c->peers[w->peer].named,
             describe(texts[1], &u.call), *seat->waits_at ? " at " : "", seat->waits_at);
    return give_up(c, ncclInvalidUsage, why);
}

// Returns an error if there is a reason to stop waiting. A host that waits for a connection does
// not use what belongs to the call that runs in a stream meanwhile.
static ncclResult_t check(struct wait *w) {
    struct ncclComm *c = w->comm;
    char call[96], why[WHY_BYTES];
    double now = cpu_now();
    int gone = -1, in_stream = !is_connection(w->call);
    if (c->aborted) // from now on, the program may change or free what this rank has lent
        c->seat->left = 1;
    if (c->aborted || (in_stream && c->also_aborted && *c->also_aborted) || cpu_exiting())
        return cpu_refuse(ncclInternalError, "rank %d: aborted in %s", c->named,
                          describe(call, w->call));
    if (now - w->checked < CHECK_SECONDS)
        return ncclSuccess;
    if (w->checked == w->since) { // the first check of this wait
        w->at = in_stream && c->place ? cpu_describe_place(c->place) : NULL;
        cpu_for_each_comm(show_call, w);
    }
    w->checked = now;
    for (int p = 0; p < c->ranks; p++) {
        struct channel *ch = &c->channels[p];
        if (p == c->rank)
            continue;
        if (ch->seat->failed) {
            snprintf(why, sizeof why, "%s", ch->seat->why);
            return give_up(c, (ncclResult_t)ch->seat->failed, why);
        }
        ch->missed = is_gone(c, p) ? ch->missed + 1 : 0;
        // Reports a dead rank at the second check only. If a launcher is ending all ranks, it
        // should be the first to report the cause.
        if (ch->missed > 1 && (p == w->peer || !ch->seat->left) &&
            (gone < 0 || ch->missed > c->channels[gone].missed))
            gone = p;
    }
    if (gone >= 0) {
        snprintf(why, sizeof why, "rank %d (pid %d on %s) has ended while rank %d was in %s",
                 c->peers[gone].named, c->peers[gone].pid, c->peers[gone].host_name, c->named,
                 describe(call, w->call));
        return give_up(c, ncclRemoteError, why);
    }
    ncclResult_t result = w->at ? compare_orders(w) : ncclSuccess;
    if (result)
        return result;
    int silent = explain_wait(why, w);
    if (now - w->since > cpu_timeout())
        return give_up(c, silent ? ncclRemoteError : ncclInvalidUsage, why);
    cpu_explain_wait(why); // for a program that gives up before this device does
    return ncclSuccess;
}

// One round of waiting, which the caller repeats until its condition holds. The first rounds spin
// for some microseconds, the next ones yield the core, and the later ones sleep until the bell
// rings. If it returns ncclSuccess, the caller checks its condition again.
static ncclResult_t wait(struct wait *w) {
    struct ncclComm *c = w->comm;
    w->tries++;
    if (w->tries <= SPINS) {
        cpu_relax();
    } else if (w->tries <= SPINS + YIELDS ||
               (w->tries <= c->patience && cpu_streams_computing() == 1)) {
        sched_yield();
    } else if (!w->armed) {
        if (!w->since)
            w->since = w->checked = cpu_now();
        w->armed = 1;
        w->bell = atomic_load(&c->seat->bell);
        atomic_store(&c->seat->asleep, 1);
        atomic_thread_fence(memory_order_seq_cst); // before the caller's last check
    } else {
        struct timespec limit = {0, (long)(CHECK_SECONDS * 1e9)};
        syscall(SYS_futex, &c->seat->bell, FUTEX_WAIT, w->bell, &limit, NULL, 0);
        atomic_store(&c->seat->asleep, 0);
        w->armed = 0;
        return check(w);
    }
    return ncclSuccess;
}

// A rank that gave up keeps showing the call that it waited in, because other ranks report it.
static void end_wait(struct wait *w, ncclResult_t result) {
    if (w->armed)
        atomic_store(&w->comm->seat->asleep, 0);
    if (w->checked > w->since && !result) {
        cpu_explain_wait("");
        w->call = NULL;
        cpu_for_each_comm(show_call, w);
    }
}

static int has_room(const struct channel *ch) {
    return atomic_load_explicit(&ch->out->written, memory_order_relaxed) -
               atomic_load_explicit(&ch->out->read, memory_order_acquire) <
           ch->slots;
}

// Returns the next message from the peer, or NULL if there is none yet.
static struct message *unread(const struct ncclComm *c, int peer) {
    const struct channel *ch = &c->channels[peer];
    uint64_t read = atomic_load_explicit(&ch->in->read, memory_order_relaxed);
    if (atomic_load_explicit(&ch->in->written, memory_order_acquire) == read)
        return NULL;
    return cpu_slot(c, ch, ch->in, read);
}

// Wakes the peer, or the network thread that serves it, after a change in a ring.
static void changed(struct ncclComm *c, int peer) {
    if (!cpu_is_remote(&c->channels[peer]))
        cpu_ring_bell(c->channels[peer].seat);
    else
        cpu_network_wake(c);
}

// Writes a message into a ring that has room.
static void write_message(struct ncclComm *c, int peer, const struct call *call, const void *data,
                          size_t bytes) {
    struct ring *out = c->channels[peer].out;
    uint64_t written = atomic_load_explicit(&out->written, memory_order_relaxed);
    struct message *m = cpu_slot(c, &c->channels[peer], out, written);
    m->call = *call;
    m->arrived = c->arrived;
    m->bytes = bytes;
    m->lent = cpu_may_lend(&c->channels[peer], data, bytes, &m->offset);
    c->channels[peer].has_lent |= m->lent;
    if (bytes && !m->lent)
        memcpy(m->data, data, bytes);
    atomic_store_explicit(&out->written, written + 1, memory_order_release);
    changed(c, peer);
}

static const char *data_of(const struct message *m, const struct channel *ch) {
    return m->lent ? ch->memory + m->offset : m->data;
}

// Frees the slot of the message that unread returned, for the next message. A peer that has failed
// or left the communicator may have changed or freed the memory that it lent.
static ncclResult_t release(struct ncclComm *c, int peer, const struct call *call) {
    struct channel *ch = &c->channels[peer];
    char text[96], why[WHY_BYTES];
    atomic_thread_fence(memory_order_acquire); // reads the state of the peer after its data
    int lent = unread(c, peer)->lent, failed = ch->seat->failed;
    if (lent && failed)
        return give_up(c, (ncclResult_t)failed, ch->seat->why);
    if (lent && ch->seat->left) {
        snprintf(why, sizeof why,
                 "rank %d has aborted or left the communicator while rank %d was in %s",
                 c->peers[peer].named, c->named, describe(text, call));
        return give_up(c, ncclRemoteError, why);
    }
    atomic_fetch_add_explicit(&ch->in->read, 1, memory_order_release);
    changed(c, peer);
    return ncclSuccess;
}

// Waits for a free slot, and writes a message.
static ncclResult_t post(struct ncclComm *c, int peer, const struct call *call, const void *data,
                         size_t bytes) {
    struct wait w = {.comm = c, .call = call, .peer = peer};
    ncclResult_t result = ncclSuccess;
    while (!has_room(&c->channels[peer]) && !result)
        result = wait(&w);
    end_wait(&w, result);
    if (!result)
        write_message(c, peer, call, data, bytes);
    return result;
}

// Waits until a peer on this host has read all messages of this rank.
static ncclResult_t await_reader(struct ncclComm *c, int peer, const struct call *call) {
    struct channel *ch = &c->channels[peer];
    struct wait w = {.comm = c, .call = call, .peer = peer};
    ncclResult_t result = ncclSuccess;
    while (!cpu_is_remote(ch) && !result &&
           atomic_load(&ch->out->read) != atomic_load(&ch->out->written))
        result = wait(&w);
    end_wait(&w, result);
    ch->has_lent = 0;
    return result;
}

// Gives up if the peer's call differs from ours. as_called is our call as the program made it.
static ncclResult_t compare(struct ncclComm *c, int peer, const struct call *ours,
                            const struct call *theirs, const struct call *as_called) {
    char texts[2][96], why[WHY_BYTES];
    if (same_call(ours, theirs))
        return ncclSuccess;
    snprintf(why, sizeof why, "the ranks' calls differ: rank %d called %s, rank %d called %s",
             c->named, describe(texts[0], as_called), c->peers[peer].named,
             describe(texts[1], theirs));
    return give_up(c, ncclInvalidUsage, why);
}

// Waits for the peer's next message, which must belong to the same call. The caller releases it.
static ncclResult_t take(struct ncclComm *c, int peer, const struct call *call,
                         const struct message **m) {
    struct wait w = {.comm = c, .call = call, .peer = peer};
    ncclResult_t result = ncclSuccess;
    while (!(*m = unread(c, peer)) && !result)
        result = wait(&w);
    end_wait(&w, result);
    if (result)
        return result;
    c->latest = fmax(c->latest, (*m)->arrived);
    return compare(c, peer, call, &(*m)->call, call);
}

// A range of bytes.
struct part {
    size_t at, bytes;
};

// Unused buffers are NULL, and C allows no addition to NULL, not even of 0.
static const char *at(const char *buffer, size_t offset) {
    return buffer ? buffer + offset : NULL;
}

static size_t chunk(const struct ncclComm *c, struct part part, size_t from) {
    return from < part.bytes ? smaller(part.bytes - from, c->chunk) : 0;
}

// The plan of an exchange, as seen by one rank.
// Phase 1: sent[r] is the part of this rank's send buffer that rank r receives. If places is 0,
// this rank reduces the parts that it receives into result. If places is 1, it copies the part from
// rank r to placed[r] of its recv buffer. Phase 2: given[r] is the part of every rank's recv buffer
// that rank r fills with its gift. Each rank sends at least one message to each other rank, so all
// ranks notice different calls.
struct exchange {
    struct call call;
    const char *send, *gift;
    char *recv, *result;
    int places;
    struct part sent[MOST_PEERS], placed[MOST_PEERS], given[MOST_PEERS];
};

// Returns the i-th peer of this rank. Each rank starts with the next one, so that not all ranks
// send to the same peer at the same time.
static int turn_to(const struct ncclComm *c, int i) {
    return (c->rank + i) % c->ranks;
}

// Phase 1: sends each peer its part of the chunk that begins at from.
static ncclResult_t send_parts(struct ncclComm *c, const struct exchange *e, size_t from) {
    ncclResult_t result = ncclSuccess;
    for (int i = 1; i < c->ranks && !result; i++) {
        int p = turn_to(c, i);
        size_t bytes = chunk(c, e->sent[p], from);
        if (bytes || from == 0)
            result = post(c, p, &e->call, at(e->send, e->sent[p].at + from), bytes);
    }
    return result;
}

// Phase 1: reduces the chunk, with the parts of all ranks in the order of the ranks.
static ncclResult_t reduce_part(struct ncclComm *c, const struct exchange *e, size_t from) {
    ncclResult_t result = ncclSuccess;
    const void *inputs[MOST_PEERS];
    struct part own = e->sent[c->rank];
    size_t bytes = chunk(c, own, from), element = cpu_type_size((ncclDataType_t)e->call.type);
    ncclRedOp_t op = e->call.op == OP_PRE_MUL_SUM ? ncclSum : (ncclRedOp_t)e->call.op;
    if (!bytes && from > 0)
        return ncclSuccess;
    for (int p = 0; p < c->ranks && !result; p++) {
        const struct message *m;
        inputs[p] = at(e->send, own.at + from);
        if (p != c->rank && !(result = take(c, p, &e->call, &m)))
            inputs[p] = data_of(m, &c->channels[p]);
    }
    if (result)
        return result;
    if (bytes)
        cpu_reduce((ncclDataType_t)e->call.type, op, e->result + from, inputs, c->ranks,
                   bytes / element);
    for (int i = 1; i < c->ranks && !result; i++)
        result = release(c, turn_to(c, i), &e->call);
    return result;
}

// Phase 1, if parts are placed: copies the chunk from each peer to its place.
static ncclResult_t place_parts(struct ncclComm *c, const struct exchange *e, size_t from) {
    ncclResult_t result = ncclSuccess;
    for (int i = 1; i < c->ranks && !result; i++) {
        const struct message *m;
        int p = turn_to(c, i);
        size_t bytes = chunk(c, e->placed[p], from);
        if ((!bytes && from > 0) || (result = take(c, p, &e->call, &m)))
            continue;
        if (bytes)
            memcpy(e->recv + e->placed[p].at + from, data_of(m, &c->channels[p]), bytes);
        result = release(c, p, &e->call);
    }
    return result;
}

// Phase 2: sends the chunk of this rank's gift to all peers.
static ncclResult_t give(struct ncclComm *c, const struct exchange *e, size_t from) {
    ncclResult_t result = ncclSuccess;
    size_t bytes = chunk(c, e->given[c->rank], from);
    for (int i = 1; i < c->ranks && bytes && !result; i++)
        result = post(c, turn_to(c, i), &e->call, e->gift + from, bytes);
    return result;
}

// Phase 2: receives the chunk of each peer's gift.
static ncclResult_t receive(struct ncclComm *c, const struct exchange *e, size_t from) {
    ncclResult_t result = ncclSuccess;
    for (int i = 1; i < c->ranks && !result; i++) {
        const struct message *m;
        int p = turn_to(c, i);
        size_t bytes = chunk(c, e->given[p], from);
        if (!bytes || (result = take(c, p, &e->call, &m)))
            continue;
        memcpy(e->recv + e->given[p].at + from, data_of(m, &c->channels[p]), bytes);
        result = release(c, p, &e->call);
    }
    return result;
}

// Each rank sends two chunks ahead, and receives the gifts of a chunk after it has reduced the next
// one. So what it takes has mostly arrived, and ranks that are not quite equally fast do not wait
// for each other. A rank only ever waits for a rank that is behind it, for its data or for a free
// slot, so they cannot all wait. In an all-reduce, all-gather or reduce-scatter, no rank waits for
// a free slot: when it has reduced chunk k, the others have sent it theirs, so they have taken its
// chunks up to k - 2 and its gifts up to k - 4, and at most eight of its messages to a peer are
// unread.
static ncclResult_t run_exchange(struct ncclComm *c, const struct exchange *e) {
    size_t longest = 1;
    for (int r = 0; r < c->ranks; r++) {
        longest = e->sent[r].bytes > longest ? e->sent[r].bytes : longest;
        longest = e->placed[r].bytes > longest ? e->placed[r].bytes : longest;
        longest = e->given[r].bytes > longest ? e->given[r].bytes : longest;
    }
    ncclResult_t result = send_parts(c, e, 0);
    if (!result && c->chunk < longest)
        result = send_parts(c, e, c->chunk);
    for (size_t from = 0; from < longest + c->chunk && !result; from += c->chunk) {
        if (from < longest)
            result = e->places ? place_parts(c, e, from) : reduce_part(c, e, from);
        if (!result)
            result = give(c, e, from);
        if (!result && from + 2 * c->chunk < longest)
            result = send_parts(c, e, from + 2 * c->chunk);
        if (!result && from > 0)
            result = receive(c, e, from - c->chunk);
    }
    for (int p = 0; p < c->ranks && !result; p++) // the program may change what a peer still reads
        if (p != c->rank && c->channels[p].has_lent)
            result = await_reader(c, p, &e->call);
    return result;
}

// Expresses a collective as an exchange.
static void plan(struct exchange *e, const struct ncclComm *c, const struct work *work) {
    const struct call *call = &work->call;
    size_t element = cpu_type_size((ncclDataType_t)call->type), bytes = call->count * element;
    *e = (struct exchange){
        .call = *call, .send = work->send, .recv = work->recv, .result = work->recv};
    e->gift = work->send;
    e->places =
        call->kind == CALL_ALL_TO_ALL || call->kind == CALL_GATHER || call->kind == CALL_SCATTER;
    for (int r = 0; r < c->ranks; r++) {
        size_t from = call->count * (size_t)r / (size_t)c->ranks * element;
        size_t to = call->count * ((size_t)r + 1) / (size_t)c->ranks * element;
        switch (call->kind) {
        case CALL_ALL_REDUCE:
            if (bytes <= SMALL_BYTES) { // one phase is faster: every rank reduces all elements
                e->sent[r] = (struct part){0, bytes};
                break;
            }
            e->sent[r] = e->given[r] = (struct part){from, to - from};
            if (r == c->rank)
                e->gift = e->result = work->recv + from;
            break;
        case CALL_REDUCE_SCATTER:
            e->sent[r] = (struct part){(size_t)r * bytes, bytes};
            break;
        case CALL_REDUCE:
            e->sent[r] = (struct part){0, r == call->root ? bytes : 0};
            break;
        case CALL_ALL_TO_ALL:
            e->sent[r] = e->placed[r] = (struct part){(size_t)r * bytes, bytes};
            break;
        case CALL_GATHER:
            e->sent[r] = (struct part){0, r == call->root ? bytes : 0};
            e->placed[r] = (struct part){(size_t)r * bytes, c->rank == call->root ? bytes : 0};
            break;
        case CALL_SCATTER:
            e->sent[r] = (struct part){(size_t)r * bytes, c->rank == call->root ? bytes : 0};
            e->placed[r] = (struct part){0, r == call->root ? bytes : 0};
            break;
        case CALL_ALL_GATHER:
        case CALL_SPLIT:
            e->given[r] = (struct part){(size_t)r * bytes, bytes};
            break;
        default: // broadcast
            e->given[r] = (struct part){0, r == call->root ? bytes : 0};
        }
    }
    if (e->given[c->rank].bytes && e->gift == work->send &&
        at(work->recv, e->given[c->rank].at) != work->send)
        memcpy(work->recv + e->given[c->rank].at, work->send, e->given[c->rank].bytes);
    struct part from = e->sent[c->rank], to = e->placed[c->rank];
    if (to.bytes && work->send + from.at != work->recv + to.at)
        memcpy(work->recv + to.at, work->send + from.at, to.bytes);
}

// The exchange without arithmetic: rank 0 receives the times at which the ranks arrived, and sends
// them the latest one. These are 2 (N - 1) messages, not N (N - 1), so few cores serve 64 ranks.
static ncclResult_t tell_times(struct ncclComm *c, const struct call *call) {
    ncclResult_t result = c->rank > 0 ? post(c, 0, call, NULL, 0) : ncclSuccess;
    for (int p = c->rank > 0 ? 0 : 1; p < (c->rank > 0 ? 1 : c->ranks) && !result; p++) {
        const struct message *m;
        if (!(result = take(c, p, call, &m)))
            result = release(c, p, call);
    }
    c->arrived = c->latest;
    for (int p = 1; p < c->ranks && c->rank == 0 && !result; p++)
        result = post(c, p, call, NULL, 0);
    return result;
}

// Moves at most one message. Returns 1 if a message was moved.
static int progress(struct ncclComm *c, struct transfer *t, ncclResult_t *result) {
    struct channel *ch = &c->channels[t->peer];
    size_t bytes = smaller(t->bytes - t->done, c->chunk);
    const struct message *m;
    if (t->call.kind == CALL_SEND) {
        if (!has_room(ch))
            return 0;
        write_message(c, t->peer, &t->call, at(t->data, t->done), bytes);
    } else {
        if (!(m = unread(c, t->peer)))
            return 0;
        struct call expected = t->call;
        expected.kind = CALL_SEND;
        expected.root = c->rank;
        if ((*result = compare(c, t->peer, &expected, &m->call, &t->call)))
            return 0;
        if (bytes)
            memcpy(t->data + t->done, data_of(m, ch), bytes);
        t->arrived = m->arrived;
        if ((*result = release(c, t->peer, &t->call)))
            return 0;
    }
    t->done += bytes;
    t->started = 1;
    return 1;
}

static int is_done(const struct transfer *t) {
    return t->started && t->done == t->bytes;
}

// Sends of a rank to itself: the i-th send goes to the i-th receive.
static ncclResult_t send_to_self(struct ncclComm *c, struct work *work) {
    struct transfer *receive = work->transfer;
    const struct transfer *end = receive + work->transfers;
    for (struct transfer *t = work->transfer; t < end; t++) {
        if (t->peer != c->rank || t->call.kind != CALL_SEND)
            continue;
        while (receive < end && (receive->peer != c->rank || receive->call.kind != CALL_RECV))
            receive++;
        if (receive == end || receive->bytes != t->bytes)
            break;
        if (t->bytes)
            memmove(receive->data, t->data, t->bytes);
        receive->done = t->done = t->bytes;
        receive->started = t->started = 1;
        receive++;
    }
    for (const struct transfer *t = work->transfer; t < end; t++)
        if (t->peer == c->rank && !t->started)
            return give_up(c, ncclInvalidUsage,
                           "a send or receive of a rank with itself has no counterpart of the same "
                           "size in its group");
    return ncclSuccess;
}

// A send ends when the peer has received it, although the ring could hold a small message longer.
// On a GPU, too, two ranks that both send first, without a group, may wait forever, so this
// mistake must show here. Between hosts, the rings do not show whether the peer has received a
// message.
static ncclResult_t wait_for_receivers(struct ncclComm *c, struct work *work) {
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < work->transfers && !result; i++) {
        const struct transfer *t = &work->transfer[i];
        if (t->call.kind == CALL_SEND && t->peer != c->rank)
            result = await_reader(c, t->peer, &t->call);
    }
    return result;
}

// All sends and receives of a group advance together. Those with the same peer and direction run
// one after the other.
static ncclResult_t run_transfers(struct ncclComm *c, struct work *work) {
    ncclResult_t result = send_to_self(c, work);
    struct wait w = {.comm = c};
    while (!result) {
        int moved = 0, left = 0;
        unsigned char busy[2][MOST_PEERS] = {{0}};
        for (int i = 0; i < work->transfers && !result; i++) {
            struct transfer *t = &work->transfer[i];
            unsigned char *direction = &busy[t->call.kind == CALL_SEND][t->peer];
            if (is_done(t))
                continue;
            if (!*direction) {
                while (!is_done(t) && progress(c, t, &result))
                    moved = 1;
                *direction = !is_done(t);
            }
            if (!is_done(t) && !left) {
                w.call = &t->call;
                w.peer = t->peer;
            }
            left += !is_done(t);
        }
        if (!left || result)
            break;
        if (moved) {
            end_wait(&w, result);
            w = (struct wait){.comm = c};
        } else {
            result = wait(&w);
        }
    }
    end_wait(&w, result);
    return result ? result : wait_for_receivers(c, work);
}

// Returns the products of a rank's data and its scalar. Products are rounded to the type of the
// data, as in NCCL. The caller frees them.
static void *products(const struct ncclComm *c, const struct work *work) {
    ncclDataType_t type = (ncclDataType_t)work->call.type;
    size_t parts = work->call.kind == CALL_REDUCE_SCATTER ? (size_t)c->ranks : 1;
    void *product = malloc(work->call.count * parts * cpu_type_size(type) + 1);
    if (product)
        cpu_scale(type, product, work->send, work->scalar ? work->scalar : work->scalar_value,
                  work->call.count * parts);
    return product;
}

// What the model needs to know about a send or receive of this rank.
struct timed {
    double begin; // modelled time at which both ranks have come to it
    int link;     // the direction, and inside the node or not
    struct cpu_transfer cost;
};

static struct timed time_transfer(const struct ncclComm *c, const struct transfer *t,
                                  int protocol) {
    int own = c->peers[c->rank].bus, other = c->peers[t->peer].bus;
    int sends = t->call.kind == CALL_SEND;
    double bytes = (double)(t->call.count * cpu_type_size((ncclDataType_t)t->call.type));
    return (struct timed){
        .begin = fmax(c->arrived, t->arrived),
        .link = 2 * sends + (cpu_model_node(own) != cpu_model_node(other)),
        .cost = cpu_model_transfer(protocol, bytes, sends ? own : other, sends ? other : own),
    };
}

// Returns the modelled time at which the sends and receives of a group end on this rank with a
// protocol. A send ends when its bytes have left, without waiting for the receiver. From the time
// of each transfer on, its link carries the bytes of this one and of all that begin later.
static double end_with(const struct ncclComm *c, const struct work *work, int protocol) {
    struct timed *all = cpu_new((size_t)work->transfers * sizeof *all);
    double end = c->arrived;
    for (int i = 0; i < work->transfers; i++)
        all[i] = time_transfer(c, &work->transfer[i], protocol);
    for (int i = 0; i < work->transfers; i++) {
        double link = 0;
        for (int j = 0; j < work->transfers; j++)
            if (all[j].link == all[i].link && all[j].begin >= all[i].begin)
                link += all[j].cost.link;
        end = fmax(end, all[i].begin + all[i].cost.latency + fmax(link, all[i].cost.path));
    }
    free(all);
    return end;
}

// All sends and receives of a group use the protocol with which the group ends first.
static double end_of_transfers(const struct ncclComm *c, const struct work *work) {
    double first = INFINITY;
    for (int protocol = 0; protocol < CPU_PROTOCOLS; protocol++)
        first = fmin(first, end_with(c, work, protocol));
    return first;
}

// Returns the modelled time at which the call ends on this rank. A collective ends on all ranks at
// the same time.
static double modelled_end(const struct ncclComm *c, const struct work *work) {
    int devices[MOST_PEERS];
    if (work->transfers)
        return end_of_transfers(c, work);
    for (int p = 0; p < c->ranks; p++)
        devices[p] = c->peers[p].bus;
    // NCCL does nothing for a single rank in place.
    int is_nothing = c->ranks == 1 && work->send == work->recv && !work->scaled;
    if (work->call.kind == CALL_SPLIT || is_nothing)
        return c->latest;
    return c->latest + cpu_model_collective(work->call.kind, work->cost.bytes, devices, c->ranks);
}

static ncclResult_t run(struct ncclComm *c, struct work *work) {
    c->arrived = c->latest = fmax(cpu_moment(), c->ended);
    c->also_aborted = work->made ? &work->made->aborted : NULL;
    c->place = work->place;
    cpu_need(&c->memory_file); // in each call, because only some wait so long that they use it
    if (work->transfers)
        return run_transfers(c, work);
    if (!cpu_computes && work->call.kind != CALL_SPLIT)
        return tell_times(c, &work->call);
    struct exchange *e = malloc(sizeof *e);
    void *product = work->scaled ? products(c, work) : NULL;
    ncclResult_t result;
    if (!e || (work->scaled && !product)) {
        result = give_up(c, ncclSystemError, "out of memory");
    } else {
        work->send = product ? product : work->send;
        plan(e, c, work);
        result = run_exchange(c, e);
    }
    free(product);
    free(e);
    return result;
}

// Calls of one communicator run one after the other, even in different streams.
static ncclResult_t take_turn(struct ncclComm *c, struct work *work) {
    pthread_mutex_lock(&c->lock);
    while (c->finished != work->turn)
        pthread_cond_wait(&c->changed, &c->lock);
    ncclResult_t result = c->state == ncclInProgress ? ncclSuccess : c->state;
    pthread_mutex_unlock(&c->lock);
    // The kernels before it have not run, so it has nothing to send. As if a GPU had failed, its
    // peers wait until this process ends.
    int stopped = cpu_why_stopped() && work->call.kind != CALL_SPLIT;
    if (!result && !stopped)
        result = c->aborted || cpu_exiting() ? ncclInternalError : run(c, work);
    if (!result && !stopped && cpu_model) {
        c->ended = modelled_end(c, work);
        cpu_move_to(c->ended);
    }
    pthread_mutex_lock(&c->lock);
    c->finished++;
    c->collectives_finished += !work->transfers && work->call.kind != CALL_SPLIT;
    if (result)
        c->state = result;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return result;
}

// Returns where a send or receive and its counterpart tell that they were called, or NULL if they
// need no connection.
static atomic_int *called(const struct work *work) {
    const struct ncclComm *c = work->comm;
    const struct channel *ch = &c->channels[work->call.root];
    if (!work->transfers || work->call.root == c->rank || cpu_is_remote(ch))
        return NULL;
    return work->call.kind == CALL_SEND ? ch->out->called : ch->in->called;
}

void cpu_announce(const struct work *work) {
    atomic_int *both = called(work);
    if (both && !both[work->call.kind == CALL_SEND])
        both[work->call.kind == CALL_SEND] = 1;
}

ncclResult_t cpu_connect(const struct work *work) {
    struct ncclComm *c = work->comm;
    struct call call = work->call;
    int sends = call.kind == CALL_SEND;
    const atomic_int *both = called(work);
    if (!cpu_chaos_seed || !c->blocking || !both || both[!sends])
        return ncclSuccess;
    call.kind = sends ? CALL_CONNECT_SEND : CALL_CONNECT_RECV;
    struct wait w = {.comm = c, .call = &call, .peer = call.root, .since = cpu_now()};
    w.checked = w.since;
    pthread_mutex_lock(&c->lock);
    c->background++; // ncclCommAbort in another thread waits for this one
    pthread_mutex_unlock(&c->lock);
    ncclResult_t result = ncclSuccess;
    while (!both[!sends] && !result) { // without the bell, which a stream may wait for meanwhile
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        result = check(&w);
    }
    end_wait(&w, result);
    pthread_mutex_lock(&c->lock);
    if (result)
        c->state = result;
    c->background--;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return result;
}

void cpu_run_work(struct work *work) {
    take_turn(work->comm, work);
    free(work);
}

ncclResult_t cpu_gather_now(struct ncclComm *c, const struct ncclComm *made, uint64_t turn,
                            const void *send, void *recv, size_t bytes) {
    struct work work = {.comm = c, .made = made, .turn = turn, .send = send, .recv = recv};
    work.call =
        (struct call){.kind = CALL_SPLIT, .type = ncclInt8, .count = bytes, .comm = c->name};
    return take_turn(c, &work);
}
