// Messages between two ranks. comm.h explains the rings that hold them.
#include "messages.h"

// Looks only if the ring may be full, because the count lies in the cache of the peer's core.
int cpu_has_room(struct channel *ch) {
    uint64_t written = atomic_load_explicit(&ch->out->written, memory_order_relaxed);
    if (written - ch->known_read == ch->slots)
        ch->known_read = atomic_load_explicit(&ch->out->read, memory_order_acquire);
    return written - ch->known_read < ch->slots;
}

struct message *cpu_unread(const struct ncclComm *c, int peer) {
    const struct channel *ch = &c->channels[peer];
    uint64_t read = atomic_load_explicit(&ch->in->read, memory_order_relaxed);
    struct message *m = cpu_slot(c, ch, ch->in, read);
    return atomic_load_explicit(&m->number, memory_order_acquire) == read + 1 ? m : NULL;
}

// Wakes the peer, or the network thread that serves it, after a change in a ring.
static void changed(struct ncclComm *c, int peer) {
    if (!cpu_is_remote(&c->channels[peer]))
        cpu_ring_bell(c->channels[peer].seat);
    else
        cpu_network_wake(c);
}

void cpu_write_message(struct ncclComm *c, int peer, const struct call *call, const void *data,
                       size_t bytes) {
    struct ring *out = c->channels[peer].out;
    uint64_t written = atomic_load_explicit(&out->written, memory_order_relaxed);
    struct message *m = cpu_slot(c, &c->channels[peer], out, written);
    uint64_t offset;
    int lent = cpu_may_lend(&c->channels[peer], data, bytes, &offset);
    if (bytes && !lent)
        memcpy(m->data, data, bytes);
    m->call = *call;
    m->arrived = c->arrived;
    m->bytes = bytes;
    m->offset = offset;
    m->lent = lent;
    c->channels[peer].has_lent |= m->lent;
    atomic_store_explicit(&m->number, written + 1, memory_order_release);
    atomic_store_explicit(&out->written, written + 1, memory_order_release);
    changed(c, peer);
}

// A peer that has failed or left the communicator may have changed or freed the memory that it
// lent.
ncclResult_t cpu_release_message(struct ncclComm *c, int peer, const struct call *call) {
    struct channel *ch = &c->channels[peer];
    char text[96], why[WHY_BYTES];
    atomic_thread_fence(memory_order_acquire); // reads the state of the peer after its data
    int lent = cpu_unread(c, peer)->lent, failed = ch->seat->failed;
    if (lent && failed)
        return cpu_give_up(c, (ncclResult_t)failed, ch->seat->why);
    if (lent && ch->seat->left) {
        snprintf(why, sizeof why,
                 "rank %d has aborted or left the communicator while rank %d was in %s",
                 c->peers[peer].named, c->named, cpu_describe_call(text, call));
        return cpu_give_up(c, ncclRemoteError, why);
    }
    atomic_store_explicit(&ch->in->read,
                          atomic_load_explicit(&ch->in->read, memory_order_relaxed) + 1,
                          memory_order_release);
    changed(c, peer);
    return ncclSuccess;
}

ncclResult_t cpu_post(struct ncclComm *c, int peer, const struct call *call, const void *data,
                      size_t bytes) {
    struct cpu_wait w = {.comm = c, .call = call, .peer = peer};
    ncclResult_t result = ncclSuccess;
    while (!cpu_has_room(&c->channels[peer]) && !result)
        result = cpu_wait_round(&w);
    cpu_end_wait(&w, result);
    if (!result)
        cpu_write_message(c, peer, call, data, bytes);
    return result;
}

ncclResult_t cpu_await_reader(struct ncclComm *c, int peer, const struct call *call) {
    struct channel *ch = &c->channels[peer];
    struct cpu_wait w = {.comm = c, .call = call, .peer = peer};
    ncclResult_t result = ncclSuccess;
    while (!cpu_is_remote(ch) && !result &&
           atomic_load(&ch->out->read) != atomic_load(&ch->out->written))
        result = cpu_wait_round(&w);
    cpu_end_wait(&w, result);
    ch->has_lent = 0;
    return result;
}

ncclResult_t cpu_compare_calls(struct ncclComm *c, int peer, const struct call *ours,
                               const struct call *theirs, const struct call *as_called) {
    char texts[2][96], why[WHY_BYTES];
    if (cpu_same_call(ours, theirs))
        return ncclSuccess;
    snprintf(why, sizeof why, "the ranks' calls differ: rank %d called %s, rank %d called %s",
             c->named, cpu_describe_call(texts[0], as_called), c->peers[peer].named,
             cpu_describe_call(texts[1], theirs));
    return cpu_give_up(c, ncclInvalidUsage, why);
}

ncclResult_t cpu_take(struct ncclComm *c, int peer, const struct call *call,
                      const struct message **m) {
    struct cpu_wait w = {.comm = c, .call = call, .peer = peer};
    ncclResult_t result = ncclSuccess;
    while (!(*m = cpu_unread(c, peer)) && !result)
        result = cpu_wait_round(&w);
    cpu_end_wait(&w, result);
    if (result)
        return result;
    c->latest = fmax(c->latest, (*m)->arrived);
    return cpu_compare_calls(c, peer, call, &(*m)->call, call);
}
