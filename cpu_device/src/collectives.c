// The collectives of the CPU device. All of them are variants of one exchange with two phases:
// 1. Every rank sends each other rank the part of its data that the other rank needs. The receiver
//    reduces the parts of all ranks, or places them side by side.
// 2. Every rank sends its result to all other ranks.
// The exchange moves data in chunks, so a chunk is still in a cache when it is used again. Parts
// are always reduced in the order of the ranks, so a sum has the same bits on every rank.
#include "messages.h"
#include "reduce.h"

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

// A range of bytes.
struct part {
    size_t at, bytes;
};

static size_t chunk(const struct ncclComm *c, struct part part, size_t from) {
    return from < part.bytes ? smaller(part.bytes - from, c->chunk) : 0;
}

// The plan of an exchange, as seen by one rank.
// Phase 1: sent[r] is the part of this rank's send buffer that rank r receives. This rank reduces
// the parts that it receives into result. Phase 2: given[r] is the part of every rank's recv buffer
// that rank r fills with its gift. Each rank sends at least one message to each other rank, so all
// ranks notice different calls.
struct exchange {
    struct call call;
    const char *send, *gift;
    char *recv, *result;
    struct part sent[MOST_PEERS], given[MOST_PEERS];
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
            result = cpu_post(c, p, &e->call, cpu_at(e->send, e->sent[p].at + from), bytes);
    }
    return result;
}

// Phase 1: reduces the chunk, with the parts of all ranks in the order of the ranks.
static ncclResult_t reduce_part(struct ncclComm *c, const struct exchange *e, size_t from) {
    ncclResult_t result = ncclSuccess;
    const void *inputs[MOST_PEERS];
    struct part own = e->sent[c->rank];
    size_t bytes = chunk(c, own, from), element = cpu_type_size((ncclDataType_t)e->call.type);
    if (!bytes && from > 0)
        return ncclSuccess;
    for (int p = 0; p < c->ranks && !result; p++) {
        const struct message *m;
        inputs[p] = cpu_at(e->send, own.at + from);
        if (p != c->rank && !(result = cpu_take(c, p, &e->call, &m)))
            inputs[p] = cpu_data_of(m, &c->channels[p]);
    }
    if (result)
        return result;
    if (bytes)
        cpu_reduce((ncclDataType_t)e->call.type, (ncclRedOp_t)e->call.op, e->result + from, inputs,
                   c->ranks, bytes / element);
    for (int i = 1; i < c->ranks && !result; i++)
        result = cpu_release_message(c, turn_to(c, i), &e->call);
    return result;
}

// Phase 2: sends the chunk of this rank's gift to all peers.
static ncclResult_t give(struct ncclComm *c, const struct exchange *e, size_t from) {
    ncclResult_t result = ncclSuccess;
    size_t bytes = chunk(c, e->given[c->rank], from);
    for (int i = 1; i < c->ranks && bytes && !result; i++)
        result = cpu_post(c, turn_to(c, i), &e->call, e->gift + from, bytes);
    return result;
}

// Phase 2: receives the chunk of each peer's gift.
static ncclResult_t receive(struct ncclComm *c, const struct exchange *e, size_t from) {
    ncclResult_t result = ncclSuccess;
    for (int i = 1; i < c->ranks && !result; i++) {
        const struct message *m;
        int p = turn_to(c, i);
        size_t bytes = chunk(c, e->given[p], from);
        if (!bytes || (result = cpu_take(c, p, &e->call, &m)))
            continue;
        memcpy(e->recv + e->given[p].at + from, cpu_data_of(m, &c->channels[p]), bytes);
        result = cpu_release_message(c, p, &e->call);
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
        longest = e->given[r].bytes > longest ? e->given[r].bytes : longest;
    }
    ncclResult_t result = send_parts(c, e, 0);
    if (!result && c->chunk < longest)
        result = send_parts(c, e, c->chunk);
    for (size_t from = 0; from < longest + c->chunk && !result; from += c->chunk) {
        if (from < longest)
            result = reduce_part(c, e, from);
        if (!result)
            result = give(c, e, from);
        if (!result && from + 2 * c->chunk < longest)
            result = send_parts(c, e, from + 2 * c->chunk);
        if (!result && from > 0)
            result = receive(c, e, from - c->chunk);
    }
    for (int p = 0; p < c->ranks && !result; p++) // the program may change what a peer still reads
        if (p != c->rank && c->channels[p].has_lent)
            result = cpu_await_reader(c, p, &e->call);
    return result;
}

// Returns the bytes of the elements that rank r sums.
static struct part share_of(const struct ncclComm *c, size_t count, size_t element, int r) {
    size_t from = count * (size_t)r / (size_t)c->ranks,
           to = count * ((size_t)r + 1) / (size_t)c->ranks;
    return (struct part){from * element, (to - from) * element};
}

// Expresses a collective as an exchange.
static void plan(struct exchange *e, const struct ncclComm *c, const struct work *work) {
    const struct call *call = &work->call;
    size_t element = cpu_type_size((ncclDataType_t)call->type), bytes = call->count * element;
    e->call = *call;
    e->send = e->gift = work->send;
    e->recv = e->result = work->recv;
    for (int r = 0; r < c->ranks; r++) {
        e->sent[r] = e->given[r] = (struct part){0, 0};
        switch (call->kind) {
        case CALL_ALL_REDUCE:
            if (bytes <= SMALL_BYTES) { // one phase is faster: every rank reduces all elements
                e->sent[r] = (struct part){0, bytes};
                break;
            }
            e->sent[r] = e->given[r] = share_of(c, call->count, element, r);
            if (r == c->rank)
                e->gift = e->result = work->recv + e->sent[r].at;
            break;
        case CALL_REDUCE_SCATTER:
            e->sent[r] = (struct part){(size_t)r * bytes, bytes};
            break;
        case CALL_REDUCE:
            e->sent[r] = (struct part){0, r == call->root ? bytes : 0};
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
        cpu_at(work->recv, e->given[c->rank].at) != work->send)
        memcpy(work->recv + e->given[c->rank].at, work->send, e->given[c->rank].bytes);
}

// The exchange without arithmetic: rank 0 receives the times at which the ranks arrived, and sends
// them the latest one. These are 2 (N - 1) messages, not N (N - 1), so few cores serve 64 ranks.
static ncclResult_t tell_times(struct ncclComm *c, const struct call *call) {
    ncclResult_t result = c->rank > 0 ? cpu_post(c, 0, call, NULL, 0) : ncclSuccess;
    for (int p = c->rank > 0 ? 0 : 1; p < (c->rank > 0 ? 1 : c->ranks) && !result; p++) {
        const struct message *m;
        if (!(result = cpu_take(c, p, call, &m)))
            result = cpu_release_message(c, p, call);
    }
    c->arrived = c->latest;
    for (int p = 1; p < c->ranks && c->rank == 0 && !result; p++)
        result = cpu_post(c, p, call, NULL, 0);
    return result;
}

// Returns the modelled time at which the call ends on this rank. A collective ends on all ranks at
// the same time.
static double modelled_end(const struct ncclComm *c, const struct work *work) {
    int devices[MOST_PEERS];
    if (work->transfers)
        return cpu_end_of_transfers(c, work);
    for (int p = 0; p < c->ranks; p++)
        devices[p] = c->peers[p].bus;
    // NCCL does nothing for a single rank in place.
    int is_nothing = c->ranks == 1 && work->send == work->recv;
    if (work->call.kind == CALL_SPLIT || is_nothing)
        return c->latest;
    return c->latest + cpu_model_collective(work->call.kind, work->cost.bytes, devices, c->ranks);
}

static ncclResult_t run(struct ncclComm *c, struct work *work) {
    if (cpu_model)
        c->arrived = c->latest = fmax(cpu_moment(), c->ended);
    c->place = work->place;
    if (work->transfers)
        return cpu_run_transfers(c, work);
    if (!cpu_computes && work->call.kind != CALL_SPLIT)
        return tell_times(c, &work->call);
    struct exchange e; // with room for the most ranks, so plan sets only what these ranks need
    plan(&e, c, work);
    return run_exchange(c, &e);
}

// Calls of one communicator run one after the other, even in different streams.
static ncclResult_t take_turn(struct ncclComm *c, struct work *work) {
    if (c->finished != work->turn) {
        pthread_mutex_lock(&c->lock);
        while (c->finished != work->turn)
            pthread_cond_wait(&c->changed, &c->lock);
        pthread_mutex_unlock(&c->lock);
    }
    ncclResult_t result = c->state;
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
    atomic_store_explicit(&c->finished, work->turn + 1, memory_order_release);
    c->collectives_finished += !work->transfers && work->call.kind != CALL_SPLIT;
    if (result)
        c->state = result;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return result;
}

void cpu_run_work(struct work *work) {
    take_turn(work->comm, work);
    free(work);
}

ncclResult_t cpu_gather_now(struct ncclComm *c, uint64_t turn, const void *send, void *recv,
                            size_t bytes) {
    struct work work = {.comm = c, .turn = turn, .send = send, .recv = recv};
    work.call =
        (struct call){.kind = CALL_SPLIT, .type = ncclInt8, .count = bytes, .comm = c->name};
    return take_turn(c, &work);
}
