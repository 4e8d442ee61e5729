#include "04_multinode/addresses.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/options.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct addrinfo *find_addresses(const char *host, const char *port, const char **why) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    int error = getaddrinfo(host, port, &hints, &list);
    *why = error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
    return error ? NULL : list;
}

struct addrinfo *wait_for_addresses(const char *option, const char *host, const char *port,
                                    double timeout) {
    double end = seconds() + timeout, next = seconds() + 5;
    const char *why, *colon = host ? strchr(host, ':') : NULL;
    if (colon && !strchr(colon + 1, ':')) // an IPv6 address has at least two
        wrong_usage("%s%s: want a host without its port", option, host);
    for (struct addrinfo *list;; usleep(500000)) { // all ranks ask the same name server
        if ((list = find_addresses(host, port, &why)))
            return list;
        if (seconds() > end)
            fail("waited %.0f s (--join-timeout) for an address of %s%s: %s; is the name right?",
                 timeout, option, host, why);
        if (seconds() > next) {
            next += 30;
            fprintf(stderr, "note (%s): waiting for an address of %s%s: %s\n", error_origin(),
                    option, host, why);
        }
    }
}

int open_sockets(struct sockets *s, const struct addrinfo *list, int type,
                 int (*attach)(int, const struct sockaddr *, socklen_t)) {
    int on = 1, error = EADDRNOTAVAIL;
    for (; list && s->count < MOST_SOCKETS; list = list->ai_next) {
        int fd = socket(list->ai_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 && errno == EAFNOSUPPORT) // IPv6 may be switched off
            continue;
        if (fd < 0)
            return errno;
        // The last attempt may have used the port, and the launcher has bound it to keep it free.
        if (type == SOCK_STREAM)
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (list->ai_family == AF_INET6) // IPv4 has a socket of its own
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
        if (!attach(fd, list->ai_addr, list->ai_addrlen)) {
            s->fds[s->count++] = fd;
            continue;
        }
        if (errno != EADDRNOTAVAIL)
            error = errno;
        close(fd);
    }
    return s->count ? 0 : error;
}

void close_sockets(struct sockets *s) {
    while (s->count)
        close(s->fds[--s->count]);
}

void show_address(char text[64], const struct sockaddr_storage *address) {
    if (getnameinfo((const struct sockaddr *)address, sizeof *address, text, 64, NULL, 0,
                    NI_NUMERICHOST))
        strcpy(text, "?");
}

int describe_sockets(char text[128], const struct sockets *s,
                     int (*get_name)(int, struct sockaddr *, socklen_t *)) {
    int reachable = 0;
    for (int i = 0; i < s->count && !reachable; i++) {
        struct sockaddr_storage a;
        socklen_t bytes = sizeof a;
        char number[64];
        if (get_name(s->fds[i], (struct sockaddr *)&a, &bytes))
            continue;
        show_address(number, &a);
        reachable = strncmp(number, "127.", 4) && strcmp(number, "::1");
        // struct sockaddr_in has the port at the same offset.
        snprintf(text, 128, "%s, port %d%s", number, ntohs(((struct sockaddr_in6 *)&a)->sin6_port),
                 reachable ? "" : ", which only this host can reach");
    }
    return reachable;
}
