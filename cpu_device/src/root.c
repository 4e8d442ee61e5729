// The unique id of a communicator, and its root, to which all ranks introduce themselves. The root
// is a thread that usually belongs to rank 0's process, and ends with that process. So it writes to
// rank 0 last.
#include "meet.h"
#include <netdb.h>
#include <sys/random.h>
#include <sys/socket.h>

struct root {
    int listener;
    int ranks;
    int wanted, heard; // processes; wanted: the smallest number of ranks that a process has named
    uint64_t magic;
    int *sockets; // [ranks], none: the rank has not come
    struct peer *peers;
    int refused;
    int refused_sockets[MOST_PEERS]; // of processes with a wrong rank or number of ranks
};

// Sends the verdict to all ranks that have connected: accepted, or the reason of the refusal.
static void judge(struct root *r, const char *why) {
    struct verdict v = {.refused = why != NULL};
    snprintf(v.why, sizeof v.why, "%s", why ? why : "");
    for (int i = 0; i < r->refused; i++)
        cpu_send_all(r->refused_sockets[i], &v, sizeof v, cpu_now() + 5);
    for (int i = r->ranks - 1; i >= 0; i--)
        if (r->sockets[i] >= 0)
            cpu_send_all(r->sockets[i], &v, sizeof v, cpu_now() + 5);
}

// Accepts the hello of a rank. A connection with the wrong magic number does not belong to this
// run, and is closed.
static void admit(struct root *r, int s, const struct hello *h, char *why) {
    if (h->magic != r->magic || h->peer.ranks < 1 || h->peer.ranks > MOST_PEERS ||
        h->peer.rank < 0 || h->peer.rank >= h->peer.ranks) {
        cpu_close(&s);
        return;
    }
    if (!r->ranks) {
        r->ranks = r->wanted = h->peer.ranks;
        r->peers = cpu_new((size_t)r->ranks * sizeof *r->peers);
        r->sockets = cpu_new((size_t)r->ranks * sizeof *r->sockets);
        for (int i = 0; i < r->ranks; i++)
            r->sockets[i] = -1;
    }
    r->heard++;
    if (h->peer.ranks < r->wanted)
        r->wanted = h->peer.ranks;
    int fits = h->peer.ranks == r->ranks && r->sockets[h->peer.rank] < 0;
    if (h->peer.ranks != r->ranks)
        snprintf(why, WHY_BYTES, "one process says that there are %d ranks, another %d", r->ranks,
                 h->peer.ranks);
    else if (!fits)
        snprintf(why, WHY_BYTES, "two processes say that they are rank %d of %d", h->peer.rank,
                 r->ranks);
    if (fits) {
        r->peers[h->peer.rank] = h->peer;
        r->sockets[h->peer.rank] = s;
    } else if (r->refused < MOST_PEERS) {
        r->refused_sockets[r->refused++] = s;
    } else {
        cpu_close(&s);
    }
}

// Writes which ranks are missing.
static void name_missing(const struct root *r, char *why, double waited) {
    snprintf(why, WHY_BYTES, "waited %.0f s: of %d ranks, these are missing:", waited, r->ranks);
    for (int i = 0; i < r->ranks && strlen(why) < WHY_BYTES - 8; i++)
        if (r->sockets[i] < 0)
            cpu_add_text(why, WHY_BYTES, " %d", i);
}

// Waits for all ranks. After a process with a wrong rank or number of ranks, collect waits up to 5
// s for the other ranks, so that they get the reason.
static void collect(struct root *r, char *why) {
    struct cpu_door door = {.listener = r->listener, .bytes = sizeof(struct hello)};
    char missing[WHY_BYTES];
    double begun = 0, deadline = 0;
    while ((!r->ranks || (r->heard < r->wanted && cpu_now() < deadline)) && !cpu_exiting()) {
        struct hello hello;
        if (!r->ranks)
            deadline = (begun = cpu_now()) + cpu_timeout(); // starts when the first rank comes
        if (*why && deadline > cpu_now() + 5)
            deadline = cpu_now() + 5;
        int s = cpu_next_guest(&door, &hello);
        if (s >= 0)
            admit(r, s, &hello, why);
        name_missing(r, missing, cpu_now() - begun);
        if (r->heard < r->ranks)
            cpu_explain_wait(missing);
    }
    cpu_close_door(&door);
    cpu_explain_wait("");
    if (*why || (r->ranks && r->heard == r->ranks))
        return;
    name_missing(r, why, cpu_timeout());
}

// The thread of the root: sends the list to all ranks, and later the message that all are ready.
static void *serve_root(void *argument) {
    struct root *r = argument;
    char why[WHY_BYTES] = "", ready = 0;
    collect(r, why);
    cpu_close(&r->listener); // before a rank can come back with this id for another communicator
    judge(r, *why ? why : NULL);
    double deadline = cpu_now() + cpu_timeout();
    int good = !*why;
    // Rank 0 comes last: its process, which this thread belongs to, may end after it.
    for (int i = r->ranks - 1; i >= 0 && good; i--)
        good =
            !cpu_send_all(r->sockets[i], r->peers, (size_t)r->ranks * sizeof *r->peers, deadline);
    for (int i = 0; i < r->ranks && good; i++)
        good = !cpu_receive_all(r->sockets[i], &ready, 1, deadline);
    for (int i = r->ranks - 1; i >= 0 && good; i--)
        cpu_send_all(r->sockets[i], &ready, 1, deadline);
    for (int i = 0; i < r->ranks; i++)
        cpu_close(&r->sockets[i]);
    for (int i = 0; i < r->refused; i++)
        cpu_close(&r->refused_sockets[i]);
    free(r->sockets);
    free(r->peers);
    free(r);
    return NULL;
}

ncclResult_t cpu_start_root(union address *address, uint64_t magic) {
    char text[80];
    pthread_t thread;
    struct root *r = cpu_new(sizeof *r);
    r->magic = magic;
    r->listener = cpu_listen(address);
    if (r->listener < 0) {
        const char *why = cpu_system_error(errno);
        free(r);
        return cpu_refuse(ncclSystemError, "cannot listen on %s: %s",
                          cpu_show_address(text, address), why);
    }
    if (cpu_start_thread(&thread, serve_root, r)) {
        cpu_close(&r->listener);
        free(r);
        return cpu_refuse(ncclSystemError, "cannot start a thread: %s", cpu_system_error(errno));
    }
    pthread_detach(thread);
    return ncclSuccess;
}

// NCCL_COMM_ID is host:port, with [] around an IPv6 address.
static ncclResult_t parse_comm_id(const char *text, union address *address) {
    char host[256];
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (n == 0 || n >= sizeof host)
        return cpu_refuse(ncclInvalidArgument, "NCCL_COMM_ID=%s: want host:port", text);
    int brackets = *text == '[' && colon[-1] == ']';
    memcpy(host, text + brackets, n - 2 * (size_t)brackets);
    host[n - 2 * (size_t)brackets] = 0;
    int error = getaddrinfo(host, colon + 1, &hints, &found);
    if (error)
        return cpu_refuse(ncclInvalidArgument, "NCCL_COMM_ID=%s: %s", text, gai_strerror(error));
    memcpy(address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return ncclSuccess;
}

ncclResult_t cpu_make_id(ncclUniqueId *id) {
    struct handle h = {0};
    const char *interfaces = getenv("NCCL_SOCKET_IFNAME");
    if (cpu_own_address(&h.root))
        return errno ? cpu_refuse(ncclSystemError, "cannot list the network interfaces: %s",
                                  cpu_system_error(errno))
                     : cpu_refuse(ncclSystemError, "no network interface with an address%s%s",
                                  interfaces ? ", of those that NCCL_SOCKET_IFNAME allows: " : "",
                                  interfaces ? interfaces : "");
    if (getrandom(&h.magic, sizeof h.magic, 0) != sizeof h.magic)
        return cpu_refuse(ncclSystemError, "no random numbers: %s", strerror(errno));
    cpu_any_port(&h.root);
    ncclResult_t result = cpu_start_root(&h.root, h.magic);
    memset(id, 0, sizeof *id);
    memcpy(id, &h, sizeof h);
    return result;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    struct handle h = {.magic = 0x4e43434c5f49440a,
                       .by_environment = 1}; // a fixed magic number, as in NCCL
    const char *fixed = getenv("NCCL_COMM_ID");
    if (!id)
        return cpu_refuse(ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
    if (!fixed)
        return cpu_make_id(id);
    ncclResult_t result = parse_comm_id(fixed, &h.root);
    memset(id, 0, sizeof *id);
    memcpy(id, &h, sizeof h);
    return result;
}
