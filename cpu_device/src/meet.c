// How the ranks of a communicator find each other. The unique id holds the address of the root,
// which is a thread of the process that made the id (root.c).
// 1. Each rank sends the root its number and its own address. When all ranks have connected, the
//    root sends the whole list to every rank.
// 2. Ranks of one host map the same memory (shared_memory.c). It has no name, so no file can stay
//    behind.
// 3. Ranks of different hosts connect.
// 4. When all ranks are ready, the root tells them to continue.
#include "meet.h"
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

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

ncclResult_t cpu_cannot(const struct ncclComm *c, const char *what) {
    return cpu_refuse(ncclSystemError, "rank %d: cannot %s: %s", c->named, what,
                      cpu_system_error(errno));
}

ncclResult_t cpu_lost(const struct rendezvous *m, const char *doing) {
    if (cpu_now() > m->deadline)
        return cpu_refuse(ncclSystemError, "rank %d: gave up after %.0f s %s", m->comm->named,
                          cpu_timeout(), doing);
    poll(NULL, 0,
         500); // a launcher that is ending all ranks should be the first to report the cause
    return cpu_refuse(ncclRemoteError, "rank %d: another rank has ended or given up while %s",
                      m->comm->named, doing);
}

// Connects to the root or to another rank. Its port is not that of the program's own rendezvous.
static ncclResult_t reach(struct rendezvous *m, const union address *to, int *socket) {
    char address[80], why[WHY_BYTES];
    snprintf(why, sizeof why, "rank %d gets no answer at %s", m->comm->named,
             cpu_show_address(address, to));
    cpu_explain_wait(why);
    *socket = cpu_open_connection(to, m->deadline);
    if (*socket >= 0)
        cpu_explain_wait("");
    else if (cpu_now() > m->deadline)
        return cpu_refuse(ncclSystemError, "%s within %.0f s", why, cpu_timeout());
    return *socket < 0 ? cpu_cannot(m->comm, "connect to other ranks") : ncclSuccess;
}

// Sends this rank's description to the root, and receives the list of all ranks.
static ncclResult_t introduce(struct rendezvous *m, const struct handle *h) {
    struct ncclComm *c = m->comm;
    struct hello hello = {
        .magic = m->magic,
        .peer = {.rank = c->rank, .ranks = c->ranks, .named = c->named, .pid = (int)getpid()}};
    struct peer *self = &hello.peer;
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof(sa_family_t); // without a name: the kernel chooses one
    struct cudaDeviceProp properties;
    struct verdict verdict;

    gethostname(self->host_name, sizeof self->host_name);
    self->host = host_identity(self->host_name);
    if (cudaGetDeviceProperties(&properties, c->device))
        return cpu_refuse(ncclUnhandledCudaError, "rank %d: no device %d", c->named, c->device);
    self->bus = properties.pciBusID;
    cpu_offer_memory(self);
    m->local_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (m->local_listener < 0 || bind(m->local_listener, (struct sockaddr *)&local, bytes) ||
        listen(m->local_listener, SOMAXCONN))
        return cpu_cannot(c, "make a Unix socket");
    bytes = sizeof local;
    getsockname(m->local_listener, (struct sockaddr *)&local, &bytes);
    memcpy(self->socket_name, local.sun_path + 1,
           bytes - offsetof(struct sockaddr_un, sun_path) - 1);

    if (reach(m, &h->root, &m->root))
        return ncclSystemError;
    // Other ranks reach this rank at the address of its connection to the root.
    bytes = sizeof self->address;
    getsockname(m->root, &self->address.any, &bytes);
    cpu_any_port(&self->address);
    m->listener = cpu_listen(&self->address);
    if (m->listener < 0)
        return cpu_cannot(c, "listen for other ranks");
    if (cpu_send_all(m->root, &hello, sizeof hello, m->deadline) ||
        // Waits longer than the root, because the root reports the missing ranks.
        cpu_receive_all(m->root, &verdict, sizeof verdict, m->deadline + 5))
        return cpu_lost(m, "waiting for all ranks to connect");
    if (verdict.refused)
        return cpu_refuse(ncclInvalidUsage, "rank %d: %.*s", c->named, WHY_BYTES - 1, verdict.why);
    if (cpu_receive_all(m->root, c->peers, (size_t)c->ranks * sizeof *c->peers, m->deadline + 5))
        return cpu_lost(m, "waiting for the list of ranks");
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
        ch->in = aligned_alloc(_Alignof(struct ring), cpu_ring_bytes(c, ch->slots));
        ch->out = aligned_alloc(_Alignof(struct ring), cpu_ring_bytes(c, ch->slots));
        if (!ch->seat || !ch->in || !ch->out)
            return cpu_refuse(ncclSystemError, "out of memory");
        memset(ch->seat, 0, sizeof *ch->seat);
        ch->in->written = ch->in->read = ch->out->written = ch->out->read = 0;
        for (uint64_t i = 0; i < ch->slots; i++)
            cpu_slot(c, ch, ch->in, i)->number = 0;
        if (p > c->rank)
            continue;
        if (reach(m, &c->peers[p].address, &ch->socket))
            return ncclSystemError;
        if (cpu_send_all(ch->socket, own, sizeof own, m->deadline))
            return cpu_lost(m, "connecting to another host");
    }
    struct cpu_door door = {.listener = m->listener, .bytes = sizeof own};
    while (higher > 0 && cpu_now() < m->deadline && !cpu_exiting()) {
        uint64_t who[2];
        int s = cpu_next_guest(&door, who);
        int on = 1;
        if (s < 0)
            continue;
        if (who[0] != m->magic || who[1] <= (uint64_t)c->rank || who[1] >= (uint64_t)c->ranks ||
            cpu_is_remote(&c->channels[who[1]])) {
            cpu_close(&s);
            continue;
        }
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        c->channels[who[1]].socket = s;
        higher--;
    }
    cpu_close_door(&door);
    return higher > 0 ? cpu_lost(m, "waiting for connections from other hosts") : ncclSuccess;
}

static ncclResult_t wait_for_all(struct rendezvous *m) {
    char ready = 1;
    return cpu_send_all(m->root, &ready, 1, m->deadline) ||
                   cpu_receive_all(m->root, &ready, 1, m->deadline)
               ? cpu_lost(m, "setting up the connections")
               : ncclSuccess;
}

ncclResult_t cpu_meet(struct ncclComm *c, const ncclUniqueId *id) {
    struct handle h;
    memcpy(&h, id, sizeof h);
    struct rendezvous m = {c, cpu_now() + cpu_timeout(), h.magic, -1, -1, -1};
    ncclResult_t result = ncclSuccess;
    c->name = h.magic;
    c->peers = cpu_new((size_t)c->ranks * sizeof *c->peers);
    c->channels = cpu_new((size_t)c->ranks * sizeof *c->channels);
    for (int p = 0; p < c->ranks; p++)
        c->channels[p].socket = -1;
    if (h.root.any.sa_family != AF_INET && h.root.any.sa_family != AF_INET6)
        return cpu_refuse(ncclInvalidArgument,
                          "the unique id is not one that ncclGetUniqueId made");
    if (h.by_environment && c->rank == 0)
        result = cpu_start_root(&h.root, h.magic);
    if (!result)
        result = introduce(&m, &h);
    if (!result)
        result = refuse_duplicates(c);
    if (!result)
        result = cpu_share_memory(&m);
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
