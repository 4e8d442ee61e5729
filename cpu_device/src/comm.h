// Types and functions that the files of the CPU device's NCCL share.
//
// Ranks talk in pairs. A pair has two rings of messages, one for each direction. On one host both
// ranks map them; between hosts, a thread of each (network.c) carries the messages over a socket.
// So collectives and transfers use only rings (messages.h). On one host, a message may say where
// its data lie in the sender's device memory, instead of holding them (peer_memory.c). Each rank
// has a seat in the memory that the ranks of its host share. There, other ranks wake it, and it
// records which call it waits in and why it has given up.
#pragma once
#include "internal.h"
#include "record.h"
#include <limits.h>
#include <nccl.h>
#include <netinet/in.h>

// The data of a message are a chunk of a rank's part. If chunks are large, a peer reads data long
// after their owner wrote them. By then, the data lie in the cache that all cores share, and no
// longer in that of the owner's core, which is slow to read for others. Messages that hold copies
// are faster with small chunks, and large ones would take much memory for many ranks.
// With eight slots, most collectives never wait for a free one (run_exchange). More slots are
// faster on one host: a slot that is reused at once would still be in the cache of the other core.
// Up to SMALL_BYTES, an all-reduce has one phase, and messages hold copies.
enum {
    LEAST_SLOTS = 8, // of a ring
    MOST_SLOTS = 32,
    CHUNK_BYTES = 128 << 10,
    LARGE_CHUNK_BYTES = 512 << 10,
    MOST_LARGE = 8, // ranks; more of them use small chunks
    SMALL_BYTES = 32 << 10,
    WHY_BYTES = 448,
    WAITS_AT_BYTES = 128,
    MOST_PEERS = 256
};

enum call_kind {
    CALL_NONE,
    CALL_ALL_REDUCE,
    CALL_BROADCAST,
    CALL_REDUCE,
    CALL_ALL_GATHER,
    CALL_REDUCE_SCATTER,
    CALL_SEND,
    CALL_RECV,
    CALL_CONNECT_SEND, // the host waits for the connection of a send or receive
    CALL_CONNECT_RECV,
    CALL_SPLIT
};

// The part of a call that must be the same on all ranks. Every message carries it.
struct call {
    int kind, type, op;
    int root;             // or the peer of a send or receive
    uint64_t count, comm; // comm: name of the communicator, the same on all its ranks
    uint64_t number;      // number of earlier collectives of this communicator
    int named;            // root, as messages name it (struct peer)
};

struct message {
    _Atomic uint64_t number; // of this message in its ring, from 1; written last
    struct call call;
    double arrived; // when the sender came to this call: modelled time
    uint64_t bytes; // of data
    int lent;       // 1: the data lie in the sender's device memory, at this offset
    uint64_t offset;
    _Alignas(64) char data[]; // [chunk] of the communicator
};

// One rank writes messages, and the other rank reads them. Each counts its own. The reader looks at
// the number of the next message, which comes with its description, and not at written, because
// each line of memory that moves between two cores takes time.
struct ring {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    atomic_int called[2];         // the reader has called a receive, the writer a send
    _Alignas(64) char messages[]; // [slots of the channel], see cpu_slot
};

struct seat {
    _Alignas(64) atomic_uint bell; // a futex; other ranks ring it if this rank is asleep
    atomic_uint asleep;
    atomic_int left, failed;
    atomic_int reads_peers;        // 1: it has mapped the device memory of all ranks of its host
    struct call waits_in;          // the call of a long wait, of any communicator
    char waits_at[WAITS_AT_BYTES]; // its place in the program, with CPU_DEVICE_CHECK=1
    char why[WHY_BYTES];           // reason of the failure
};

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

// The file that holds the device memory of a process, or zeros if there is none.
struct peer_memory {
    int file;
    uint64_t device, inode;
    size_t bytes;
};

// What ranks know about each other after they have met.
struct peer {
    int rank, ranks;
    int named;    // as messages name it, also after splits: its rank in the first communicator
    int pid, bus; // bus: the device's number before CUDA_VISIBLE_DEVICES
    uint64_t host;
    char host_name[HOST_NAME_MAX + 1];
    union address address; // accepts connections from other hosts
    char socket_name[16];  // accepts connections from this host, in the abstract namespace
    struct peer_memory memory;
};

struct channel {
    struct ring *out, *in;
    uint64_t slots;       // of each ring
    uint64_t known_read;  // messages of out that the peer had read when this rank looked last
    struct seat *seat;    // the peer's seat; for a peer on another host, a local copy
    const char *memory;   // the peer's device memory, or NULL
    int has_lent;         // this rank has lent data, and has not waited for the peer since
    int socket;           // for a peer on another host, else none
    _Atomic double heard; // when something arrived from it last; for a peer on another host
    atomic_int hung_up;   // the error that ended the connection; EPIPE: the peer closed it
    atomic_int missed;    // checks in a row that did not find the peer's process
    struct transit *transit;
};

struct ncclComm {
    int rank, ranks, device;
    int named;                // this rank (struct peer)
    uint64_t name;            // a random number, the same on all ranks
    uint64_t label;           // the same on all ranks and in all runs, for traces
    unsigned splits;          // how often it was split
    struct peer *peers;       // [ranks]
    struct channel *channels; // [ranks]
    int seat_number;          // among the ranks of this host
    struct seat *seat;
    size_t chunk; // most bytes of a message's data
    void *memory; // shared by the host's ranks
    size_t memory_bytes;
    void *lock_page; // keeps the lock of this seat
    int memory_file; // shows whether other seats are locked
    double patience; // seconds of waiting before a rank sleeps, if its core is otherwise free
    int crowded;     // yields in a row after which another thread used the core

    _Atomic uint64_t issued; // calls
    atomic_int aborted;
    pthread_mutex_t lock; // protects the members up to place
    pthread_cond_t changed;
    _Atomic ncclResult_t state; // the answer of ncclCommGetAsyncError
    atomic_int finalized;
    int connecting;            // threads of the program that wait for a connection (transfers.c)
    _Atomic uint64_t finished; // calls; they run in the order in which they were issued
    uint64_t collectives_issued, collectives_finished;
    const struct cpu_place *place; // of the call that runs, with CPU_DEVICE_CHECK=1
    double arrived;                // modelled time at which this rank came to the call that runs
    double latest;                 // the same of the last rank, as far as this rank knows
    double ended;                  // modelled time at which the last call ended

    int network_wake[2]; // connected sockets, if there are peers on other hosts
    atomic_int network_stop;
    atomic_int network_runs;
    pthread_t network;
    struct ncclComm *next;
};

// Returns the slot for the message with this number in a ring of the channel.
static inline struct message *cpu_slot(const struct ncclComm *c, const struct channel *ch,
                                       struct ring *ring, uint64_t number) {
    return (void *)(ring->messages + number % ch->slots * (sizeof(struct message) + c->chunk));
}

static inline int cpu_is_remote(const struct channel *ch) {
    return ch->socket >= 0;
}

// Defines a function with the body of the one that begins with p. It is weak, so a program may
// define a function of this name itself (nccl.h).
#define MAY_BE_REPLACED(function)                                                                  \
    __typeof__(p##function) function __attribute__((weak, alias("p" #function)))

// Stores the text for ncclGetLastError, and returns the result.
__attribute__((format(printf, 2, 3))) ncclResult_t cpu_refuse(ncclResult_t result,
                                                              const char *format, ...);

// Stores why this rank waits now. As long as there was no error, ncclGetLastError returns it.
void cpu_explain_wait(const char *text);

// Returns how many seconds ranks wait for each other (CPU_DEVICE_TIMEOUT).
double cpu_timeout(void);

// meet.c. The ranks of a new communicator find each other. Sets peers, channels and seats.
ncclResult_t cpu_meet(struct ncclComm *comm, const ncclUniqueId *id);
void cpu_part(struct ncclComm *comm); // frees all that cpu_meet allocated

// Makes a unique id whose root is in this process, even if NCCL_COMM_ID is set.
ncclResult_t cpu_make_id(ncclUniqueId *id);

// sockets.c. Closes the descriptor if there is one, and sets it to -1. errno stays.
void cpu_close(int *file);

// network.c. Carries messages between hosts, if there are several. cpu_network_stop first sends all
// written messages, or, with at_once, only the reason of a failure.
ncclResult_t cpu_network_start(struct ncclComm *comm);
void cpu_network_stop(struct ncclComm *comm, int at_once);
void cpu_network_wake(struct ncclComm *comm);
// Tells the peers on other hosts in which call this rank waits, or that it failed.
void cpu_network_tell(struct ncclComm *comm);

// peer_memory.c. Describes the device memory of this process, maps that of all peers on this host,
// and ends these mappings.
void cpu_offer_memory(struct peer *self);
void cpu_map_peers(struct ncclComm *comm);
void cpu_unmap_peers(struct ncclComm *comm);
// Returns 1 if the peer can read the data from this process, at the offset.
int cpu_may_lend(const struct channel *channel, const void *data, size_t bytes, uint64_t *offset);

// communicators.c. Returns an error if comm is no communicator of this process, or cannot take a
// new call. name is the calling function.
ncclResult_t cpu_ready_comm(struct ncclComm *comm, const char *name);

// groups.c.
int cpu_in_group(void);
// Returns the result. If it is an error, the open group fails.
ncclResult_t cpu_noted(ncclResult_t result);
// Returns 1 if calls of the open group wait that use the communicator.
int cpu_group_uses(const struct ncclComm *comm);
// Takes this number of turns of the communicator, and returns the first one. Calls run in the order
// of turns.
uint64_t cpu_issue(struct ncclComm *comm, uint64_t turns);

// collectives.c.
struct transfer {
    struct call call;
    char *data;
    size_t bytes, done;
    int peer, started;
    double arrived; // of a receive: when the sender came to it, in modelled time
};

// A call that waits in a stream, or all sends and receives of one group. The buffers are addresses
// for device threads (cpu_view).
struct work {
    struct ncclComm *comm;
    uint64_t turn;
    struct call call;
    const char *send;
    char *recv;
    size_t send_bytes, recv_bytes;
    struct cpu_note *note; // belongs to the work until the launch
    struct cpu_cost cost;
    const struct cpu_place *place;
    cudaStream_t stream;
    struct work *next;   // of the group, or of merged
    struct work *merged; // the sends and receives that were added to this work
    int transfers;
    struct transfer transfer[];
};

// Launches the call, or adds it to the open group (groups.c).
ncclResult_t cpu_enqueue(struct work *work, cudaStream_t stream);

// Waits for the work's turn, runs it, and frees it.
void cpu_run_work(struct work *work);

// All-gathers bytes between host buffers in the calling thread, when its turn has come.
ncclResult_t cpu_gather_now(struct ncclComm *comm, uint64_t turn, const void *send, void *recv,
                            size_t bytes);

// transfers.c. NCCL connects two ranks at their first send and receive in a direction: the host of
// each waits until the other one's host has called, too, before it launches the call or any other
// call of its group. cpu_announce tells the peer that this rank has called. With random delays,
// cpu_connect waits for the peer, if both are on one host.
void cpu_announce(const struct work *work);
ncclResult_t cpu_connect(const struct work *work);

// Wakes a rank that sleeps while it waits.
void cpu_ring_bell(struct seat *seat);

// Calls f for each communicator of this process.
void cpu_for_each_comm(void (*f)(struct ncclComm *comm, const void *argument),
                       const void *argument);
