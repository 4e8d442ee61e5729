// Sockets at the addresses of MASTER_ADDR, for the ranks (TCP) and for the launchers (UDP). A name
// may have several addresses, and a host only some of them.
#pragma once
#include <netdb.h>

enum { MOST_SOCKETS = 16 };

struct sockets {
    int count, fds[MOST_SOCKETS];
};

// Returns the addresses of a host (NULL: all that this host has), or NULL with the reason in *why.
// The caller frees them with freeaddrinfo.
struct addrinfo *find_addresses(const char *host, const char *port, const char **why);

// Works like find_addresses, but waits for at most timeout seconds, because a name server may learn
// the name later. Then the program ends. option stands before the name in messages.
struct addrinfo *wait_for_addresses(const char *option, const char *host, const char *port,
                                    double timeout);

// Opens a socket for each address: binds or connects it. type is SOCK_STREAM or SOCK_DGRAM. Skips
// the addresses at which this fails. Returns 0, or the reason if no socket is left.
int open_sockets(struct sockets *s, const struct addrinfo *list, int type,
                 int (*attach)(int, const struct sockaddr *, socklen_t));

void close_sockets(struct sockets *s);

// Writes an address such as "10.0.0.1" without its port.
void show_address(char text[64], const struct sockaddr_storage *address);

// Writes a text such as "10.0.0.1, port 29500": the first address that other hosts can reach, if
// there is one. get_name is getsockname or getpeername. Returns 1 if other hosts can reach it.
int describe_sockets(char text[128], const struct sockets *s,
                     int (*get_name)(int, struct sockaddr *, socklen_t *));
