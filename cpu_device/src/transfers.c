// Sends and receives of the CPU device: those of one group advance together. Before them, the hosts
// of both ranks connect.
#include "messages.h"
#include "reduce.h"
#include <time.h>

// The connection.

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
    if (!cpu_chaos_seed || !both || both[!sends])
        return ncclSuccess;
    call.kind = sends ? CALL_CONNECT_SEND : CALL_CONNECT_RECV;
    struct cpu_wait w = {.comm = c, .call = &call, .peer = call.root, .since = cpu_now()};
    w.checked = w.since;
    pthread_mutex_lock(&c->lock);
    c->connecting++; // ncclCommAbort in another thread waits for this one
    pthread_mutex_unlock(&c->lock);
    ncclResult_t result = ncclSuccess;
    while (!both[!sends] && !result) { // without the bell, which a stream may wait for meanwhile
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        result = cpu_check_wait(&w);
    }
    cpu_end_wait(&w, result);
    pthread_mutex_lock(&c->lock);
    if (result)
        c->state = result;
    c->connecting--;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return result;
}

// The transfers.

// Moves at most one message. Returns 1 if a message was moved.
static int progress(struct ncclComm *c, struct transfer *t, ncclResult_t *result) {
    struct channel *ch = &c->channels[t->peer];
    size_t left = t->bytes - t->done, bytes = left < c->chunk ? left : c->chunk;
    const struct message *m;
    if (t->call.kind == CALL_SEND) {
        if (!cpu_has_room(ch))
            return 0;
        cpu_write_message(c, t->peer, &t->call, cpu_at(t->data, t->done), bytes);
    } else {
        if (!(m = cpu_unread(c, t->peer)))
            return 0;
        struct call expected = t->call;
        expected.kind = CALL_SEND;
        expected.root = c->rank;
        if ((*result = cpu_compare_calls(c, t->peer, &expected, &m->call, &t->call)))
            return 0;
        if (bytes)
            memcpy(t->data + t->done, cpu_data_of(m, ch), bytes);
        t->arrived = m->arrived;
        if ((*result = cpu_release_message(c, t->peer, &t->call)))
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
            return cpu_give_up(
                c, ncclInvalidUsage,
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
            result = cpu_await_reader(c, t->peer, &t->call);
    }
    return result;
}

// All sends and receives of a group advance together. Those with the same peer and direction run
// one after the other.
ncclResult_t cpu_run_transfers(struct ncclComm *c, struct work *work) {
    ncclResult_t result = send_to_self(c, work);
    struct cpu_wait w = {.comm = c};
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
            cpu_end_wait(&w, result);
            w = (struct cpu_wait){.comm = c};
        } else {
            result = cpu_wait_round(&w);
        }
    }
    cpu_end_wait(&w, result);
    return result ? result : wait_for_receivers(c, work);
}

// Their modelled time.

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

double cpu_end_of_transfers(const struct ncclComm *c, const struct work *work) {
    double first = INFINITY;
    for (int protocol = 0; protocol < CPU_PROTOCOLS; protocol++)
        first = fmin(first, end_with(c, work, protocol));
    return first;
}
