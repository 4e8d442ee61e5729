// How the ranks of a communicator find each other. The unique id holds the address of the root,
// which is a thread of the process that made the id.
// 1. Each rank sends the root its number and its own address. When all ranks have connected, the
//    root sends the whole list to every rank.
// 2. Ranks of one host map the same memory. The first rank makes it, and passes it to the others
//    through a socket. The memory has no name, so no file can stay behind.
// 3. Ranks of different hosts connect.
// 4. When all ranks are ready, the root tells them to continue.
#include "comm.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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

struct verdict {
    int refused;
    char why[WHY_BYTES];
};

struct root {
    struct cpu_file listener;
    int ranks;
    int wanted, heard; // processes; wanted: the smallest number of ranks that a process has named
    uint64_t magic;
    struct cpu_file *sockets; // [ranks], none: the rank has not come
    struct peer *peers;
    int refused;
    struct cpu_file
        refused_sockets[MOST_PEERS]; // of processes with a wrong rank or number of ranks
};

static socklen_t address_bytes(const union address *a) {
    return a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

static const char *show_address(char text[80], const union address *a) {
    char host[64] = "?", port[8] = "?";
    getnameinfo(&a->any, address_bytes(a), host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, 80, "%s:%s", host, port);
    return text;
}

// Waits for a socket until the deadline, in short periods, so it notices ncclCommAbort and the end
// of the program. Returns 0 if the socket is ready.
static int await(const struct cpu_file *socket, short events, double deadline,
                 const struct ncclComm *comm) {
    while (cpu_now() < deadline && !cpu_exiting() && !(comm && comm->aborted)) {
        struct pollfd p = {.fd = socket->number, .events = events};
        int ready = poll(&p, 1, 100) > 0;
        cpu_need(socket);
        if (ready)
            return 0;
    }
    return -1;
}

static int send_all(const struct cpu_file *socket, const void *data, size_t bytes, double deadline,
                    const struct ncclComm *comm) {
    for (size_t done = 0; done < bytes;) {
        if (await(socket, POLLOUT, deadline, comm))
            return -1;
        ssize_t n = send(socket->number, (const char *)data + done, bytes - done,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int receive_all(const struct cpu_file *socket, void *data, size_t bytes, double deadline,
                       const struct ncclComm *comm) {
    for (size_t done = 0; done < bytes;) {
        if (await(socket, POLLIN, deadline, comm))
            return -1;
        ssize_t n = recv(socket->number, (char *)data + done, bytes - done, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int has_prefix(const char *name, const char *list, int exact) {
    for (const char *word = list; *word;
         word += strcspn(word, ",") + (word[strcspn(word, ",")] == ',')) {
        size_t n = strcspn(word, ",");
        if (!strncmp(name, word, n) && (!exact || strlen(name) == n))
            return 1;
    }
    return 0;
}

// NCCL_SOCKET_IFNAME is a list of prefixes. After "=", it lists whole names. After "^", it lists
// the interfaces to avoid.
static int allowed_interface(const char *name) {
    const char *list = getenv("NCCL_SOCKET_IFNAME");
    if (!list || !*list)
        return 1;
    int except = *list == '^';
    int exact = list[except] == '=';
    return has_prefix(name, list + except + exact, exact) != except;
}

// Finds the address of the first suitable interface. The interfaces of virtual machines and
// containers, and then the loopback interface, come last. Returns 0 if it finds one.
static int own_address(union address *found) {
    struct ifaddrs *list;
    int best = 0;
    if (getifaddrs(&list))
        return -1;
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !allowed_interface(i->ifa_name))
            continue;
        const union address *a = (const union address *)i->ifa_addr;
        int v6 = a->any.sa_family == AF_INET6;
        if ((!v6 && a->any.sa_family != AF_INET) || (v6 && IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr)))
            continue;
        int merit = i->ifa_flags & IFF_LOOPBACK                  ? 1
                    : has_prefix(i->ifa_name, "docker,virbr", 0) ? 3
                                                                 : 5;
        if (merit + !v6 <= best)
            continue;
        best = merit + !v6;
        memcpy(found, a, address_bytes(a));
    }
    freeifaddrs(list);
    return best ? 0 : -1;
}

static void any_port(union address *address) {
    if (address->any.sa_family == AF_INET6)
        address->v6.sin6_port = 0;
    else
        address->v4.sin_port = 0;
}

static struct cpu_file open_listener(union address *address) {
    int s = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    socklen_t bytes = address_bytes(address);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (s >= 0 && !bind(s, &address->any, bytes) && !listen(s, SOMAXCONN) &&
        !getsockname(s, &address->any, &bytes))
        return cpu_keep(s);
    int error = errno;
    close(s);
    errno = error;
    return CPU_NO_FILE;
}

// If no process listens at a port, Linux may choose this port for the connecting socket, and then
// connects the socket to itself.
static int is_connected(int s) {
    union address ends[2] = {0};
    socklen_t bytes[2] = {sizeof *ends, sizeof *ends};
    return !getsockname(s, &ends[0].any, &bytes[0]) && !getpeername(s, &ends[1].any, &bytes[1]) &&
           memcmp(&ends[0], &ends[1], sizeof *ends);
}

static struct cpu_file open_connection(const union address *address, double deadline,
                                       const struct ncclComm *comm) {
    for (;;) { // repeats, because the other side may not listen yet
        struct cpu_file s =
            cpu_keep(socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        int on = 1;
        if (s.number < 0)
            return s;
        setsockopt(s.number, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if ((!connect(s.number, &address->any, address_bytes(address)) ||
             (errno == EINPROGRESS && !await(&s, POLLOUT, deadline, comm))) &&
            is_connected(s.number))
            return s;
        struct linger at_once = {1, 0}; // frees the port for the other side
        setsockopt(s.number, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        cpu_close(&s);
        if (cpu_now() > deadline || cpu_exiting() || (comm && comm->aborted))
            return s;
        poll(NULL, 0, 20);
    }
}

// The connections to a listener that have not sent their whole greeting. Some may belong to
// strangers that send nothing, so no connection delays the others, and the oldest must go first.
enum { MOST_GUESTS = MOST_PEERS + 64 };
struct door {
    struct cpu_file listener;
    int count;
    size_t bytes; // of a greeting
    struct guest {
        struct cpu_file socket;
        size_t got;
        char greeting[sizeof(struct hello)];
    } guests[MOST_GUESTS]; // in the order in which they came
};

static void forget_guest(struct door *d, int i) {
    memmove(&d->guests[i], &d->guests[i + 1], (size_t)(--d->count - i) * sizeof *d->guests);
}

static void close_door(struct door *d) {
    for (; d->count > 0; forget_guest(d, 0))
        cpu_close(&d->guests[0].socket);
}

static void let_in(struct door *d) {
    int s = accept4(d->listener.number, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int no_room = s < 0 ? errno == EMFILE || errno == ENFILE : d->count == MOST_GUESTS;
    if (no_room && d->count > 0) {
        cpu_close(&d->guests[0].socket);
        forget_guest(d, 0);
    }
    if (s >= 0)
        d->guests[d->count++] = (struct guest){.socket = cpu_keep(s)};
}

// Waits at most 0.1 s for a guest whose greeting is complete. Returns its socket, which the caller
// closes, and copies the greeting. Returns no socket if there is none yet.
static struct cpu_file next_guest(struct door *d, void *greeting) {
    struct pollfd polled[1 + MOST_GUESTS] = {{.fd = d->listener.number, .events = POLLIN}};
    int i = 0;
    for (int g = 0; g < d->count; g++)
        polled[1 + g] = (struct pollfd){.fd = d->guests[g].socket.number, .events = POLLIN};
    int ready = poll(polled, (nfds_t)d->count + 1, 100);
    cpu_need(&d->listener);
    if (ready <= 0)
        return CPU_NO_FILE;
    while (i < d->count && !polled[1 + i].revents)
        i++;
    if (i == d->count) {
        let_in(d);
        return CPU_NO_FILE;
    }
    struct guest *g = &d->guests[i];
    cpu_need(&g->socket);
    ssize_t n = recv(g->socket.number, g->greeting + g->got, d->bytes - g->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return CPU_NO_FILE;
    g->got += n > 0 ? (size_t)n : 0;
    if (n > 0 && g->got < d->bytes)
        return CPU_NO_FILE;
    if (n <= 0)
        cpu_close(&g->socket);
    struct cpu_file s = g->socket;
    memcpy(greeting, g->greeting, d->bytes);
    forget_guest(d, i);
    return s;
}

// The root. It usually is a thread of rank 0's process, and ends with that process. So it writes to
// rank 0 last.

// Sends the verdict to all ranks that have connected: accepted, or the reason of the refusal.
static void judge(struct root *r, const char *why) {
    struct verdict v = {.refused = why != NULL};
    snprintf(v.why, sizeof v.why, "%s", why ? why : "");
    for (int i = 0; i < r->refused; i++)
        send_all(&r->refused_sockets[i], &v, sizeof v, cpu_now() + 5, NULL);
    for (int i = r->ranks - 1; i >= 0; i--)
        if (r->sockets[i].number >= 0)
            send_all(&r->sockets[i], &v, sizeof v, cpu_now() + 5, NULL);
}

// Accepts the hello of a rank. A connection with the wrong magic number does not belong to this
// run, and is closed.
static void admit(struct root *r, struct cpu_file s, const struct hello *h, char *why) {
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
            r->sockets[i] = CPU_NO_FILE;
    }
    r->heard++;
    if (h->peer.ranks < r->wanted)
        r->wanted = h->peer.ranks;
    int fits = h->peer.ranks == r->ranks && r->sockets[h->peer.rank].number < 0;
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

// Waits for all ranks. After a process with a wrong rank or number of ranks, collect waits up to 5
// s for the other ranks, so that they get the reason.
static void collect(struct root *r, char *why) {
    struct door door = {.listener = r->listener, .bytes = sizeof(struct hello)};
    double deadline = 0;
    while ((!r->ranks || (r->heard < r->wanted && cpu_now() < deadline)) && !cpu_exiting()) {
        struct hello hello;
        if (!r->ranks)
            deadline = cpu_now() + cpu_timeout(); // starts when the first rank comes
        if (*why && deadline > cpu_now() + 5)
            deadline = cpu_now() + 5;
        struct cpu_file s = next_guest(&door, &hello);
        if (s.number >= 0)
            admit(r, s, &hello, why);
    }
    close_door(&door);
    if (*why || (r->ranks && r->heard == r->ranks))
        return;
    size_t n = (size_t)snprintf(
        why, WHY_BYTES, "waited %.0f s: these of the %d ranks never connected:", cpu_timeout(),
        r->ranks);
    for (int i = 0; i < r->ranks && n < WHY_BYTES - 8; i++)
        if (r->sockets[i].number < 0)
            n += (size_t)snprintf(why + n, WHY_BYTES - n, " %d", i);
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
        good = !send_all(&r->sockets[i], r->peers, (size_t)r->ranks * sizeof *r->peers, deadline,
                         NULL);
    for (int i = 0; i < r->ranks && good; i++)
        good = !receive_all(&r->sockets[i], &ready, 1, deadline, NULL);
    for (int i = r->ranks - 1; i >= 0 && good; i--)
        send_all(&r->sockets[i], &ready, 1, deadline, NULL);
    for (int i = 0; i < r->ranks; i++)
        cpu_close(&r->sockets[i]);
    for (int i = 0; i < r->refused; i++)
        cpu_close(&r->refused_sockets[i]);
    free(r->sockets);
    free(r->peers);
    free(r);
    return NULL;
}

static ncclResult_t start_root(union address *address, uint64_t magic) {
    char text[80];
    pthread_t thread;
    struct root *r = cpu_new(sizeof *r);
    r->magic = magic;
    r->listener = open_listener(address);
    if (r->listener.number < 0) {
        free(r);
        return cpu_refuse(ncclSystemError, "cannot listen on %s: %s", show_address(text, address),
                          strerror(errno));
    }
    if (cpu_start_thread(&thread, serve_root, r)) {
        cpu_close(&r->listener);
        free(r);
        return cpu_refuse(ncclSystemError, "cannot start a thread");
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
    if (own_address(&h.root))
        return cpu_refuse(ncclSystemError, "no network interface with an address%s%s",
                          interfaces ? ", of those that NCCL_SOCKET_IFNAME allows: " : "",
                          interfaces ? interfaces : "");
    if (getrandom(&h.magic, sizeof h.magic, 0) != sizeof h.magic)
        return cpu_refuse(ncclSystemError, "no random numbers: %s", strerror(errno));
    any_port(&h.root);
    ncclResult_t result = start_root(&h.root, h.magic);
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

// The ranks.

static uint64_t hash(uint64_t h, const char *text) { // FNV-1a
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3;
    return h;
}

// Identifies the host as NCCL does: by NCCL_HOSTID if it is set, else by the host's name and the id
// of its last boot.
static uint64_t host_identity(const char *name) {
    const char *fixed = getenv("NCCL_HOSTID");
    char boot[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f && !fgets(boot, sizeof boot, f))
        *boot = 0;
    if (f)
        fclose(f);
    return fixed && *fixed ? hash(0xcbf29ce484222325, fixed)
                           : hash(hash(0xcbf29ce484222325, boot), name);
}

// The state of a rank while it meets the others.
struct rendezvous {
    struct ncclComm *comm;
    double deadline;
    uint64_t magic;
    struct cpu_file root, listener, local_listener; // sockets
};

// Explains why the connection to the root or to another rank ended.
static ncclResult_t lost(const struct rendezvous *m, const char *doing) {
    if (m->comm->aborted)
        return cpu_refuse(ncclInternalError, "rank %d: aborted while %s", m->comm->named, doing);
    if (cpu_now() > m->deadline)
        return cpu_refuse(ncclSystemError, "rank %d: gave up after %.0f s %s", m->comm->named,
                          cpu_timeout(), doing);
    poll(NULL, 0,
         500); // a launcher that is ending all ranks should be the first to report the cause
    return cpu_refuse(ncclRemoteError, "rank %d: another rank has ended while %s", m->comm->named,
                      doing);
}

// Sends this rank's description to the root, and receives the list of all ranks.
static ncclResult_t introduce(struct rendezvous *m, const struct handle *h) {
    struct ncclComm *c = m->comm;
    char address[80];
    struct hello hello = {
        .magic = m->magic,
        .peer = {.rank = c->rank, .ranks = c->ranks, .named = c->named, .pid = (int)getpid()}};
    struct peer *self = &hello.peer;
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof(sa_family_t); // without a name: the kernel chooses one
    struct cudaDeviceProp properties;
    struct verdict verdict;

    gethostname(self->host_name, sizeof self->host_name - 1);
    self->host = host_identity(self->host_name);
    if (cudaGetDeviceProperties(&properties, c->device))
        return cpu_refuse(ncclUnhandledCudaError, "rank %d: no device %d", c->named, c->device);
    self->bus = properties.pciBusID;
    cpu_offer_memory(self);
    m->local_listener = cpu_keep(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (m->local_listener.number < 0 ||
        bind(m->local_listener.number, (struct sockaddr *)&local, bytes) ||
        listen(m->local_listener.number, SOMAXCONN))
        return cpu_refuse(ncclSystemError, "rank %d: cannot make a Unix socket: %s", c->named,
                          strerror(errno));
    bytes = sizeof local;
    getsockname(m->local_listener.number, (struct sockaddr *)&local, &bytes);
    memcpy(self->socket_name, local.sun_path + 1,
           bytes - offsetof(struct sockaddr_un, sun_path) - 1);

    m->root = open_connection(&h->root, m->deadline, c);
    if (m->root.number < 0)
        return cpu_refuse(ncclSystemError, "rank %d: no answer at %s within %.0f s", c->named,
                          show_address(address, &h->root), cpu_timeout());
    // Other ranks reach this rank at the address of its connection to the root.
    bytes = sizeof self->address;
    getsockname(m->root.number, &self->address.any, &bytes);
    any_port(&self->address);
    m->listener = open_listener(&self->address);
    if (m->listener.number < 0)
        return cpu_refuse(ncclSystemError, "rank %d: cannot listen on %s: %s", c->named,
                          show_address(address, &self->address), strerror(errno));
    if (send_all(&m->root, &hello, sizeof hello, m->deadline, c) ||
        // Waits longer than the root, because the root reports the missing ranks.
        receive_all(&m->root, &verdict, sizeof verdict, m->deadline + 5, c))
        return lost(m, "waiting for all ranks to connect");
    if (verdict.refused)
        return cpu_refuse(ncclInvalidUsage, "rank %d: %.*s", c->named, WHY_BYTES - 1, verdict.why);
    if (receive_all(&m->root, c->peers, (size_t)c->ranks * sizeof *c->peers, m->deadline + 5, c))
        return lost(m, "waiting for the list of ranks");
    return ncclSuccess;
}

// Refuses two ranks on one device, as NCCL does and with the words of NCCL before and since 2.30,
// unless the variable of NCCL 2.30 allows it.
static ncclResult_t refuse_duplicates(const struct ncclComm *c) {
    const char *allowed = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (allowed && atoi(allowed) != 0)
        return ncclSuccess;
    for (int a = 0; a < c->ranks; a++)
        for (int b = a + 1; b < c->ranks; b++)
            if (c->peers[a].host == c->peers[b].host && c->peers[a].bus == c->peers[b].bus)
                return cpu_refuse(
                    ncclInvalidUsage,
                    "Duplicate GPU detected : rank %d and rank %d both on CUDA device %x (NCCL "
                    "2.30: Multiple Ranks are using the same GPU/Partition. Set "
                    "NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this configuration.)",
                    c->peers[a].named, c->peers[b].named, (unsigned)c->peers[a].bus << 12);
    return ncclSuccess;
}

// Sends an open file to another process through a Unix socket.
static int hand_over(int s, int file) {
    char byte = 1;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof file)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file)};
    memcpy(CMSG_DATA(c), &file, sizeof file);
    return sendmsg(s, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

// Receives an open file, or returns -1.
static int take_over(int s) {
    char byte;
    int file = -1;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof file)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    if (recvmsg(s, &m, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&m))
        memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof file);
    return file;
}

// Returns 1 if the process at the other end belongs to the same user. Other users could find the
// socket.
static int is_same_user(int s) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    return !getsockopt(s, SOL_SOCKET, SO_PEERCRED, &who, &bytes) && who.uid == geteuid();
}

// The first rank of a host makes the memory, and passes it to the others.
static ncclResult_t share_file(struct rendezvous *m, int first, int seats) {
    struct ncclComm *c = m->comm;
    static const char doing[] = "sharing memory with the other ranks of this host";
    if (first == c->rank) {
        c->memory_file = cpu_keep(cpu_make_memory("nccl", c->memory_bytes));
        if (c->memory_file.number < 0)
            return cpu_refuse(ncclSystemError,
                              "rank %d: cannot make %zu bytes of memory for the ranks of this "
                              "host: %s%s",
                              c->rank, c->memory_bytes, strerror(errno),
                              errno == EFBIG ? "; raise the limit with 'ulimit -f unlimited'" : "");
        int left = seats - 1;
        while (left > 0 && !await(&m->local_listener, POLLIN, m->deadline, c)) {
            int s = accept4(m->local_listener.number, NULL, NULL, SOCK_CLOEXEC);
            left -= s >= 0 && is_same_user(s) && !hand_over(s, c->memory_file.number);
            close(s);
        }
        return left ? lost(m, doing) : ncclSuccess;
    }
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    size_t name_bytes = strnlen(c->peers[first].socket_name, sizeof c->peers[first].socket_name);
    memcpy(local.sun_path + 1, c->peers[first].socket_name, name_bytes);
    struct cpu_file s = cpu_keep(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!connect(s.number, (struct sockaddr *)&local,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name_bytes)) &&
        is_same_user(s.number) && !await(&s, POLLIN, m->deadline, c))
        c->memory_file = cpu_keep(take_over(s.number));
    cpu_close(&s);
    return c->memory_file.number < 0 ? lost(m, doing) : ncclSuccess;
}

// Locks this rank's seat as long as its process lives. A lock belongs to an open file, so each rank
// opens the memory again. A mapping keeps that file open, because the program cannot close it by
// mistake, and a forked child does not inherit it.
static int lock_seat(struct ncclComm *c) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", c->memory_file.number);
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)((size_t)c->seat_number * sizeof(struct seat)),
                         .l_len = 1};
    c->lock_page = mmap(NULL, 1, PROT_NONE, MAP_SHARED, file, 0);
    int failed = c->lock_page == MAP_FAILED || madvise(c->lock_page, 1, MADV_DONTFORK) ||
                 fcntl(file, F_OFD_SETLK, &lock);
    if (file >= 0)
        close(file);
    return failed;
}

static size_t ring_bytes(const struct ncclComm *c, uint64_t slots) {
    return sizeof(struct ring) + slots * (sizeof(struct message) + c->chunk);
}

// Maps the memory that the ranks of this host share: the seats, and behind them the rings of all
// pairs.
static ncclResult_t share_memory(struct rendezvous *m) {
    struct ncclComm *c = m->comm;
    int seats = 0, first = -1, processes = 0, offered = 1, numbers[MOST_PEERS] = {0};
    for (int p = 0; p < c->ranks; p++) {
        numbers[p] = c->peers[p].host == c->peers[c->rank].host ? seats++ : -1;
        if (numbers[p] == 0)
            first = p;
        int known = 0;
        for (int q = 0; q < p; q++)
            known |= numbers[q] >= 0 && c->peers[q].pid == c->peers[p].pid;
        processes += numbers[p] >= 0 && !known;
        offered &= c->peers[p].memory.bytes > 0;
    }
    size_t seats_bytes = (size_t)seats * sizeof(struct seat);
    uint64_t slots = seats > 1 ? MOST_SLOTS / ((uint64_t)seats - 1) : 1;
    slots = slots < LEAST_SLOTS ? LEAST_SLOTS : slots;
    int large = offered && processes == c->ranks && processes <= MOST_LARGE;
    c->chunk = large ? LARGE_CHUNK_BYTES : CHUNK_BYTES;
    c->seat_number = numbers[c->rank];
    c->memory_bytes = seats_bytes + (size_t)(seats * seats) * ring_bytes(c, slots);
    ncclResult_t result = share_file(m, first, seats);
    if (result)
        return result;
    c->memory =
        mmap(NULL, c->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->memory_file.number, 0);
    if (lock_seat(c))
        return cpu_refuse(ncclSystemError, "rank %d: cannot lock shared memory: %s", c->named,
                          strerror(errno));
    if (c->memory == MAP_FAILED) {
        c->memory = NULL;
        return cpu_refuse(ncclSystemError, "rank %d: cannot map shared memory: %s", c->named,
                          strerror(errno));
    }
    struct seat *all = c->memory;
    char *rings = (char *)c->memory + seats_bytes;
    for (int p = 0; p < c->ranks; p++) {
        if (numbers[p] < 0)
            continue;
        c->channels[p].seat = &all[numbers[p]];
        c->channels[p].slots = slots;
        c->channels[p].out =
            (void *)(rings + (size_t)(c->seat_number * seats + numbers[p]) * ring_bytes(c, slots));
        c->channels[p].in =
            (void *)(rings + (size_t)(numbers[p] * seats + c->seat_number) * ring_bytes(c, slots));
    }
    c->seat = &all[c->seat_number];
    cpu_map_peers(c);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    c->patience = seats <= cores ? 500 : 0;
    cpu_share_cores(processes);
    return ncclSuccess;
}

// Higher ranks connect to lower ranks on other hosts, and send their number.
static ncclResult_t connect_hosts(struct rendezvous *m) {
    struct ncclComm *c = m->comm;
    uint64_t own[2] = {m->magic, (uint64_t)c->rank};
    int higher = 0;
    for (int p = 0; p < c->ranks; p++) {
        struct channel *ch = &c->channels[p];
        if (c->peers[p].host == c->peers[c->rank].host)
            continue;
        higher += p > c->rank;
        ch->seat = aligned_alloc(_Alignof(struct seat), sizeof *ch->seat);
        ch->slots = LEAST_SLOTS;
        ch->in = aligned_alloc(_Alignof(struct ring), ring_bytes(c, ch->slots));
        ch->out = aligned_alloc(_Alignof(struct ring), ring_bytes(c, ch->slots));
        if (!ch->seat || !ch->in || !ch->out)
            return cpu_refuse(ncclSystemError, "out of memory");
        memset(ch->seat, 0, sizeof *ch->seat);
        ch->in->written = ch->in->read = ch->out->written = ch->out->read = 0;
        if (p > c->rank)
            continue;
        ch->socket = open_connection(&c->peers[p].address, m->deadline, c);
        if (!cpu_is_remote(ch) || send_all(&ch->socket, own, sizeof own, m->deadline, c))
            return lost(m, "connecting to another host");
    }
    struct door door = {.listener = m->listener, .bytes = sizeof own};
    while (higher > 0 && cpu_now() < m->deadline && !cpu_exiting() && !c->aborted) {
        uint64_t who[2];
        struct cpu_file s = next_guest(&door, who);
        int on = 1;
        if (s.number < 0)
            continue;
        if (who[0] != m->magic || who[1] <= (uint64_t)c->rank || who[1] >= (uint64_t)c->ranks ||
            cpu_is_remote(&c->channels[who[1]])) {
            cpu_close(&s);
            continue;
        }
        setsockopt(s.number, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        c->channels[who[1]].socket = s;
        higher--;
    }
    close_door(&door);
    return higher > 0 ? lost(m, "waiting for connections from other hosts") : ncclSuccess;
}

static ncclResult_t wait_for_all(struct rendezvous *m) {
    char ready = 1;
    return send_all(&m->root, &ready, 1, m->deadline, m->comm) ||
                   receive_all(&m->root, &ready, 1, m->deadline, m->comm)
               ? lost(m, "setting up the connections")
               : ncclSuccess;
}

ncclResult_t cpu_meet(struct ncclComm *c, const ncclUniqueId *id) {
    struct handle h;
    memcpy(&h, id, sizeof h);
    struct rendezvous m = {c,          cpu_now() + cpu_timeout(), h.magic, CPU_NO_FILE, CPU_NO_FILE,
                           CPU_NO_FILE};
    ncclResult_t result = ncclSuccess;
    c->name = h.magic;
    c->peers = cpu_new((size_t)c->ranks * sizeof *c->peers);
    c->channels = cpu_new((size_t)c->ranks * sizeof *c->channels);
    for (int p = 0; p < c->ranks; p++)
        c->channels[p].socket = CPU_NO_FILE;
    if (h.root.any.sa_family != AF_INET && h.root.any.sa_family != AF_INET6)
        return cpu_refuse(ncclInvalidArgument,
                          "the unique id is not one that ncclGetUniqueId made");
    if (h.by_environment && c->rank == 0)
        result = start_root(&h.root, h.magic);
    if (!result)
        result = introduce(&m, &h);
    if (!result)
        result = refuse_duplicates(c);
    if (!result)
        result = share_memory(&m);
    if (!result)
        result = connect_hosts(&m);
    if (!result)
        result = wait_for_all(&m);
    if (!result)
        result = cpu_network_start(c);
    cpu_close(&m.root);
    cpu_close(&m.listener);
    cpu_close(&m.local_listener);
    return result;
}

void cpu_part(struct ncclComm *c) {
    for (int p = 0; c->channels && p < c->ranks; p++) {
        struct channel *ch = &c->channels[p];
        cpu_close(&ch->socket);
        free(ch->transit);
        if (c->peers[p].host != c->peers[c->rank].host) {
            free(ch->seat);
            free(ch->in);
            free(ch->out);
        }
    }
    cpu_unmap_peers(c);
    if (c->memory)
        munmap(c->memory, c->memory_bytes);
    if (c->lock_page != MAP_FAILED)
        munmap(c->lock_page, 1);
    cpu_close(&c->memory_file);
    for (int i = 0; i < 2; i++)
        cpu_close(&c->network_wake[i]);
    free(c->peers);
    free(c->channels);
}
