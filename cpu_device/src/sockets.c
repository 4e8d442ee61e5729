// Sockets for ranks that meet (meet.h).
#include "meet.h"
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

static socklen_t address_bytes(const union address *a) {
    return a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

const char *cpu_show_address(char text[80], const union address *a) {
    char host[64] = "?", port[8] = "?";
    getnameinfo(&a->any, address_bytes(a), host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, 80, "%s:%s", host, port);
    return text;
}

void cpu_close(int *file) {
    int error = errno;
    if (*file >= 0)
        close(*file);
    *file = -1;
    errno = error;
}

int cpu_await_socket(int socket, short events, double deadline) {
    while (cpu_now() < deadline && !cpu_exiting()) {
        struct pollfd p = {.fd = socket, .events = events};
        int ready = poll(&p, 1, 100) > 0;
        if (ready)
            return 0;
    }
    return -1;
}

// event: POLLOUT sends the bytes, POLLIN receives them.
static int move_all(int socket, short event, char *data, size_t bytes, double deadline) {
    for (size_t done = 0; done < bytes;) {
        if (cpu_await_socket(socket, event, deadline))
            return -1;
        ssize_t n = event == POLLOUT
                        ? send(socket, data + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : recv(socket, data + done, bytes - done, MSG_DONTWAIT);
        if ((n == 0 && event == POLLIN) || (n < 0 && errno != EAGAIN && errno != EINTR))
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int cpu_send_all(int socket, const void *data, size_t bytes, double deadline) {
    return move_all(socket, POLLOUT, (char *)data, bytes, deadline);
}

int cpu_receive_all(int socket, void *data, size_t bytes, double deadline) {
    return move_all(socket, POLLIN, data, bytes, deadline);
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

int cpu_own_address(union address *found) {
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
    errno = 0;
    return best ? 0 : -1;
}

void cpu_any_port(union address *address) {
    if (address->any.sa_family == AF_INET6)
        address->v6.sin6_port = 0;
    else
        address->v4.sin_port = 0;
}

int cpu_listen(union address *address) {
    int s = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    socklen_t bytes = address_bytes(address);
    if (s < 0)
        return s;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind(s, &address->any, bytes) && !listen(s, SOMAXCONN) &&
        !getsockname(s, &address->any, &bytes))
        return s;
    cpu_close(&s);
    return s;
}

// If no process listens at a port, Linux may choose this port for the connecting socket, and then
// connects the socket to itself.
static int is_connected(int s) {
    union address ends[2] = {0};
    socklen_t bytes[2] = {sizeof *ends, sizeof *ends};
    return !getsockname(s, &ends[0].any, &bytes[0]) && !getpeername(s, &ends[1].any, &bytes[1]) &&
           memcmp(&ends[0], &ends[1], sizeof *ends);
}

int cpu_open_connection(const union address *address, double deadline) {
    for (;;) { // repeats, because the other side may not listen yet
        int s = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int on = 1;
        if (s < 0)
            return s;
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if ((!connect(s, &address->any, address_bytes(address)) ||
             (errno == EINPROGRESS && !cpu_await_socket(s, POLLOUT, deadline))) &&
            is_connected(s))
            return s;
        struct linger at_once = {1, 0}; // frees the port for the other side
        setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        cpu_close(&s);
        if (cpu_now() > deadline || cpu_exiting())
            return s;
        poll(NULL, 0, 20);
    }
}

static void forget_guest(struct cpu_door *d, int i) {
    memmove(&d->guests[i], &d->guests[i + 1], (size_t)(--d->count - i) * sizeof *d->guests);
}

void cpu_close_door(struct cpu_door *d) {
    for (; d->count > 0; forget_guest(d, 0))
        cpu_close(&d->guests[0].socket);
}

static void let_in(struct cpu_door *d) {
    int s = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s < 0 && (errno == EMFILE || errno == ENFILE))
        cpu_fail("CPU device: cannot accept all ranks: %s", cpu_system_error(errno));
    if (s < 0)
        return;
    if (d->count == MOST_GUESTS) {
        cpu_close(&d->guests[0].socket);
        forget_guest(d, 0);
    }
    d->guests[d->count++] = (struct guest){.socket = s};
}

int cpu_next_guest(struct cpu_door *d, void *greeting) {
    struct pollfd polled[1 + MOST_GUESTS] = {{.fd = d->listener, .events = POLLIN}};
    int i = 0;
    for (int g = 0; g < d->count; g++)
        polled[1 + g] = (struct pollfd){.fd = d->guests[g].socket, .events = POLLIN};
    int ready = poll(polled, (nfds_t)d->count + 1, 100);
    if (ready <= 0)
        return -1;
    while (i < d->count && !polled[1 + i].revents)
        i++;
    if (i == d->count) {
        let_in(d);
        return -1;
    }
    struct guest *g = &d->guests[i];
    ssize_t n = recv(g->socket, g->greeting + g->got, d->bytes - g->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return -1;
    g->got += n > 0 ? (size_t)n : 0;
    if (n > 0 && g->got < d->bytes)
        return -1;
    if (n <= 0)
        cpu_close(&g->socket);
    int s = g->socket;
    memcpy(greeting, g->greeting, d->bytes);
    forget_guest(d, i);
    return s;
}
