// Messages between ranks, and waits for them, for the files that move data: collectives.c and
// transfers.c.
#pragma once
#include "comm.h"

// waits.c.

struct cpu_wait {
    struct ncclComm *comm;
    const struct call *call;
    int peer;         // the rank that this rank waits for
    int tries, armed; // armed: other ranks ring the bell
    unsigned bell;
    int crossed; // checks in a row that found the peer in a call that comes after this one
    double since, checked; // since: without the time in which this process was stopped
    const char *at;        // the place in the program, with CPU_DEVICE_CHECK=1
};

// One round of waiting, which the caller repeats until its condition holds. The first rounds spin
// for some microseconds, the next ones yield the core, and the later ones sleep until the bell
// rings. If it returns ncclSuccess, the caller checks its condition again.
ncclResult_t cpu_wait_round(struct cpu_wait *w);
void cpu_end_wait(struct cpu_wait *w, ncclResult_t result);

// Returns an error if there is a reason to stop waiting. A host that waits for a connection does
// not use what belongs to the call that runs in a stream meanwhile.
ncclResult_t cpu_check_wait(struct cpu_wait *w);

// Ends the communicator's work with an error, and tells all ranks. If the host and a stream give up
// at the same time, the first one's reason stays.
ncclResult_t cpu_give_up(struct ncclComm *c, ncclResult_t result, const char *why);

// "AllReduce (count 512, float, sum)"
const char *cpu_describe_call(char text[96], const struct call *call);

int cpu_same_call(const struct call *a, const struct call *b);

static inline int cpu_is_connection(const struct call *call) {
    return call->kind == CALL_CONNECT_SEND || call->kind == CALL_CONNECT_RECV;
}

// messages.c.

// Waits for a free slot, and writes a message.
ncclResult_t cpu_post(struct ncclComm *c, int peer, const struct call *call, const void *data,
                      size_t bytes);

// Waits for the peer's next message, which must belong to the same call. The caller releases it.
ncclResult_t cpu_take(struct ncclComm *c, int peer, const struct call *call,
                      const struct message **m);

// Frees the slot of the message that cpu_take or cpu_unread returned, for the next message.
ncclResult_t cpu_release_message(struct ncclComm *c, int peer, const struct call *call);

// Waits until a peer on this host has read all messages of this rank.
ncclResult_t cpu_await_reader(struct ncclComm *c, int peer, const struct call *call);

// The same without waiting: returns 1 if the ring has room, and then writes a message; and returns
// the next message from the peer, or NULL if there is none yet.
int cpu_has_room(struct channel *ch);
void cpu_write_message(struct ncclComm *c, int peer, const struct call *call, const void *data,
                       size_t bytes);
struct message *cpu_unread(const struct ncclComm *c, int peer);

// Gives up if the peer's call differs from ours. as_called is our call as the program made it.
ncclResult_t cpu_compare_calls(struct ncclComm *c, int peer, const struct call *ours,
                               const struct call *theirs, const struct call *as_called);

static inline const char *cpu_data_of(const struct message *m, const struct channel *ch) {
    return m->lent ? ch->memory + m->offset : m->data;
}

// Unused buffers are NULL, and C allows no addition to NULL, not even of 0.
static inline const char *cpu_at(const char *buffer, size_t offset) {
    return buffer ? buffer + offset : NULL;
}

// transfers.c.

// Runs all sends and receives of a group.
ncclResult_t cpu_run_transfers(struct ncclComm *c, struct work *work);

// Returns the modelled time at which they end on this rank. All of a group use the protocol with
// which the group ends first.
double cpu_end_of_transfers(const struct ncclComm *c, const struct work *work);
