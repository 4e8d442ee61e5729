// Types and functions that the files of the CPU device's NCCL share.
//
// Ranks talk in pairs. A pair has two rings of messages, one for each direction. On one host both
// ranks map them; between hosts, a thread of each (network.c) carries the messages over a socket.
// So the collectives (collectives.c) use only rings. Each rank has a seat in the memory that the
// ranks of its host share. There, other ranks wake it, and it records which call it waits in and
// why it has given up.
#pragma once
#include "device.h"
#include "record.h"
#include <nccl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

// Four slots are the least that collectives need. More are faster on one host: a slot that is
// written again at once is still in the other core's cache.
enum {
    LEAST_SLOTS = 4,
    MOST_SLOTS = 32,
    SLOT_BYTES = 128 << 10,
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
    CALL_ALL_TO_ALL,
    CALL_GATHER,
    CALL_SCATTER,
    CALL_SEND,
    CALL_RECV,
    CALL_SPLIT
};

enum { OP_PRE_MUL_SUM = ncclNumOps }; // ranks may use different numbers for this operation

// A call as the ranks compare it: it goes with every message.
struct call {
    int kind, type, op;
    int root;             // or the peer of a send or receive
    uint64_t count, comm; // comm: which communicator, the same on all its ranks
    uint64_t number;      // of a collective: as many of its communicator come before it
};

struct message {
    struct call call;
    uint64_t bytes; // of data, in elements of no particular type
    _Alignas(64) char data[SLOT_BYTES];
};

// One writes messages, the other reads them, each counting its own.
struct ring {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    struct message messages[]; // as many as the channel says
};

struct seat {
    _Alignas(64) atomic_uint bell; // a futex, rung while asleep
    atomic_uint asleep;
    atomic_int left, failed;
    struct call waits_in;          // while it has waited for long, whatever the communicator
    char waits_at[WAITS_AT_BYTES]; // the place in the program, where ordering is checked
    char why[WHY_BYTES];           // it failed
};

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

// What ranks know of each other after they have met.
struct peer {
    int rank, ranks;
    int pid, bus; // the device's number before CUDA_VISIBLE_DEVICES
    uint64_t host;
    char host_name[64];
    union address address; // where it takes connections from other hosts
    char socket_name[16];  // and, in the abstract namespace, from its own
};

struct channel {
    struct ring *out, *in;
    uint64_t slots;    // of each
    struct seat *seat; // the peer's; a copy of our own for a peer on another host
    int socket;        // to a peer on another host, else -1
    atomic_int hung_up;
    int missed; // checks in a row that found the peer gone
    struct transit *transit;
};

// An operation of ncclRedOpCreatePreMulSum.
struct scaling {
    int op;
    ncclDataType_t type;
    const void *on_device; // or NULL: the value
    char value[8];
    struct scaling *next;
};

struct ncclWindow_vidmem {
    struct ncclWindow_vidmem *next;
};

struct ncclComm {
    int rank, ranks, device, blocking;
    uint64_t name;            // the same on all ranks
    struct peer *peers;       // [ranks]
    struct channel *channels; // [ranks]
    int seat_number;          // among the ranks of this host
    struct seat *seat;
    void *memory; // shared by the host's ranks
    size_t memory_bytes;
    int memory_file; // holds a lock on the byte of this seat for as long as the process lives
    int patience;    // looks before sleeping, when nothing else wants the core

    atomic_int aborted;
    const atomic_int *also_aborted; // of the communicator that is being split off
    pthread_mutex_t lock;           // for what follows
    pthread_cond_t changed;
    ncclResult_t state;        // what ncclCommGetAsyncError says
    int unpolled;              // a call on a non-blocking communicator has not been asked about
    int finalized, background; // background: threads at work for it
    struct ncclComm *making;   // what is being split off, which its caller does not have yet
    uint64_t issued, finished; // calls, which run in the order in which they were issued
    uint64_t collectives_issued, collectives_finished;
    const struct cpu_place *place; // of the call that runs, where ordering is checked
    struct scaling *scalings;
    struct ncclWindow_vidmem *windows;

    int network_wake; // an eventfd, if there are peers on other hosts
    atomic_int network_stop;
    pthread_t network;
    struct ncclComm *next;
};

// Remembers the sentence for ncclGetLastError and returns the result.
__attribute__((format(printf, 2, 3))) ncclResult_t cpu_refuse(ncclResult_t result,
                                                              const char *format, ...);

// Seconds that ranks wait for each other: CPU_DEVICE_TIMEOUT.
double cpu_timeout(void);

// meet.c: the ranks of a new communicator find each other; fills in peers, channels, seats.
ncclResult_t cpu_meet(struct ncclComm *comm, const ncclUniqueId *id);
void cpu_part(struct ncclComm *comm); // gives back what cpu_meet took

// A unique id whose root is in this process, whatever NCCL_COMM_ID says.
ncclResult_t cpu_make_id(ncclUniqueId *id);

// network.c: carries messages between hosts, if there are any. Stopping sends what is written
// first.
ncclResult_t cpu_network_start(struct ncclComm *comm);
void cpu_network_stop(struct ncclComm *comm, int at_once);
void cpu_network_wake(struct ncclComm *comm);
// Tells the peers on other hosts what this rank waits in, or that it failed.
void cpu_network_tell(struct ncclComm *comm);

// collectives.c.
struct transfer {
    struct call call;
    char *data;
    size_t bytes, done;
    int peer, started;
};

// A call that waits in a stream, or several sends and receives of one group. The buffers are the
// device threads' views.
struct work {
    struct ncclComm *comm;
    const struct ncclComm *made; // that is being split off
    uint64_t turn;
    struct call call;
    const char *send;
    char *recv;
    int scaled;         // by this scalar, which the device reads when the call runs
    const void *scalar; // or NULL: scalar_value
    char scalar_value[8];
    struct cpu_note *note; // until it is launched
    const struct cpu_place *place;
    int transfers;
    struct transfer transfer[];
};

// Runs when its turn has come; frees the work.
void cpu_run_work(struct work *work);

// An all-gather of bytes between host buffers, by the calling thread, when its turn has come; for a
// communicator that is being made, which may be aborted meanwhile.
ncclResult_t cpu_gather_now(struct ncclComm *comm, const struct ncclComm *made, uint64_t turn,
                            const void *send, void *recv, size_t bytes);

// Wakes a rank that sleeps in a wait.
void cpu_ring_bell(struct seat *seat);

// Calls f for each communicator of this process.
void cpu_for_each_comm(void (*f)(struct ncclComm *comm, const void *argument),
                       const void *argument);
