// What the files share with which the ranks of a communicator meet: meet.c, root.c, shared_memory.c
// and sockets.c.
#pragma once
#include "comm.h"

// The 128 bytes of the id.
struct handle {
    uint64_t magic;
    int by_environment; // 1: from NCCL_COMM_ID, and rank 0 starts the root
    union address root;
};
_Static_assert(sizeof(struct handle) <= sizeof(ncclUniqueId), "the handle must fit into the id");

struct hello {
    uint64_t magic;
    struct peer peer;
};

// The answer of the root.
struct verdict {
    int refused;
    char why[WHY_BYTES];
};

// The state of a rank while it meets the others.
struct rendezvous {
    struct ncclComm *comm;
    double deadline;
    uint64_t magic;
    int root, listener, local_listener; // sockets
};

// Refuses with the system's error in errno.
ncclResult_t cpu_cannot(const struct ncclComm *comm, const char *what);

// Explains why the connection to the root or to another rank ended.
ncclResult_t cpu_lost(const struct rendezvous *m, const char *doing);

// root.c. Starts the root, which listens on this address.
ncclResult_t cpu_start_root(union address *address, uint64_t magic);

// shared_memory.c. Maps the memory that the ranks of this host share: the seats, and after them
// the rings of all pairs.
ncclResult_t cpu_share_memory(struct rendezvous *m);

static inline size_t cpu_ring_bytes(const struct ncclComm *c, uint64_t slots) {
    return sizeof(struct ring) + slots * (sizeof(struct message) + c->chunk);
}

// sockets.c.

const char *cpu_show_address(char text[80], const union address *a);

// Waits for a socket until the deadline, in short periods, so it notices the end of the program.
// Returns 0 if the socket is ready.
int cpu_await_socket(int socket, short events, double deadline);

// Send or receive all of these bytes before the deadline. Return 0 if they have.
int cpu_send_all(int socket, const void *data, size_t bytes, double deadline);
int cpu_receive_all(int socket, void *data, size_t bytes, double deadline);

// Finds the address of the first suitable interface. The interfaces of virtual machines and
// containers, and then the loopback interface, come last. Returns 0 if it finds one. If there is
// none, errno is 0, or why the interfaces could not be listed.
int cpu_own_address(union address *found);
void cpu_any_port(union address *address);

// Return a socket, or none and set errno. Listening sets the port in the address.
int cpu_listen(union address *address);
int cpu_open_connection(const union address *address, double deadline);

// The connections to a listener that have not sent their whole greeting. Some may belong to
// strangers that send nothing, so no connection delays the others, and the oldest must go first.
enum { MOST_GUESTS = MOST_PEERS + 64 };
struct cpu_door {
    int listener;
    int count;
    size_t bytes; // of a greeting
    struct guest {
        int socket;
        size_t got;
        char greeting[sizeof(struct hello)];
    } guests[MOST_GUESTS]; // in the order in which they came
};

void cpu_close_door(struct cpu_door *d);

// Waits at most 0.1 s for a guest whose greeting is complete. Returns its socket, which the caller
// closes, and copies the greeting. Returns no socket if there is none yet.
int cpu_next_guest(struct cpu_door *d, void *greeting);
