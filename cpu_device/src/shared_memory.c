// The memory that the ranks of a host share: the first rank makes it, and passes it to the others.
#include "meet.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

// As long as a few hundred yields on an idle core.
static const double PATIENCE_SECONDS = 2e-4;

// Sends an open file to another process through a Unix socket, or, with a file of -1, receives one.
// Returns the file, or -1.
static int pass_file(int s, int file) {
    char byte = 1;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof file)] = {0};
    struct iovec data = {&byte, 1};
    struct msghdr m = {.msg_iov = &data,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (file >= 0) {
        *c = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file)};
        memcpy(CMSG_DATA(c), &file, sizeof file);
        return sendmsg(s, &m, MSG_NOSIGNAL) == 1 ? file : -1;
    }
    if (recvmsg(s, &m, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&m))
        memcpy(&file, CMSG_DATA(c), sizeof file);
    else if (m.msg_flags & MSG_CTRUNC)
        errno = EMFILE;
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
        c->memory_file = cpu_make_memory("nccl", c->memory_bytes);
        if (c->memory_file < 0)
            return cpu_cannot(c, "make memory for the ranks of this host");
        int left = seats - 1;
        while (left > 0 && !cpu_await_socket(m->local_listener, POLLIN, m->deadline)) {
            int s = accept4(m->local_listener, NULL, NULL, SOCK_CLOEXEC);
            if (s < 0)
                return cpu_cannot(c, "accept a rank of this host");
            left -= is_same_user(s) && pass_file(s, c->memory_file) >= 0;
            close(s);
        }
        return left ? cpu_lost(m, doing) : ncclSuccess;
    }
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    size_t name_bytes = strnlen(c->peers[first].socket_name, sizeof c->peers[first].socket_name);
    memcpy(local.sun_path + 1, c->peers[first].socket_name, name_bytes);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    errno = s < 0 ? errno : 0;
    if (s >= 0 &&
        !connect(s, (struct sockaddr *)&local,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name_bytes)) &&
        is_same_user(s) && !cpu_await_socket(s, POLLIN, m->deadline))
        c->memory_file = pass_file(s, -1);
    cpu_close(&s);
    if (c->memory_file < 0 && errno == EMFILE)
        return cpu_cannot(c, "get the memory of the ranks of this host");
    return c->memory_file < 0 ? cpu_lost(m, doing) : ncclSuccess;
}

// Locks this rank's seat as long as its process lives. A lock belongs to an open file, so each rank
// opens the memory again. A mapping keeps that file open, because the program cannot close it by
// mistake, and a forked child does not inherit it.
static int lock_seat(struct ncclComm *c) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", c->memory_file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)((size_t)c->seat_number * sizeof(struct seat)),
                         .l_len = 1};
    if (file >= 0)
        c->lock_page = mmap(NULL, 1, PROT_NONE, MAP_SHARED, file, 0);
    int failed = c->lock_page == MAP_FAILED || madvise(c->lock_page, 1, MADV_DONTFORK) ||
                 fcntl(file, F_OFD_SETLK, &lock);
    cpu_close(&file);
    return failed;
}

ncclResult_t cpu_share_memory(struct rendezvous *m) {
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
    c->memory_bytes = seats_bytes + (size_t)(seats * seats) * cpu_ring_bytes(c, slots);
    ncclResult_t result = share_file(m, first, seats);
    if (result)
        return result;
    c->memory = mmap(NULL, c->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->memory_file, 0);
    if (c->memory == MAP_FAILED) {
        c->memory = NULL;
        return cpu_cannot(c, "map shared memory");
    }
    if (lock_seat(c))
        return cpu_cannot(c, "lock shared memory");
    struct seat *all = c->memory;
    char *rings = (char *)c->memory + seats_bytes;
    for (int p = 0; p < c->ranks; p++) {
        if (numbers[p] < 0)
            continue;
        c->channels[p].seat = &all[numbers[p]];
        c->channels[p].slots = slots;
        c->channels[p].out = (void *)(rings + (size_t)(c->seat_number * seats + numbers[p]) *
                                                  cpu_ring_bytes(c, slots));
        c->channels[p].in = (void *)(rings + (size_t)(numbers[p] * seats + c->seat_number) *
                                                 cpu_ring_bytes(c, slots));
    }
    c->seat = &all[c->seat_number];
    cpu_map_peers(c);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    c->patience = seats <= cores ? PATIENCE_SECONDS : 0;
    cpu_share_cores(processes);
    return ncclSuccess;
}
