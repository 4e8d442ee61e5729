// Included in front of the attendee's sources of step 4. (Other steps have functions whose names
// the headers of the sockets use.)
#pragma once
#include <poll.h>
#include <sys/select.h>
#include <sys/socket.h>

// Adds a line "connect SECONDS SOCKET" to the file that OBSERVE_CONNECT names. With
// OBSERVE_DELAY=SECONDS, a connection takes this time, as between two hosts: if connect does not
// wait, it is in progress, and poll and getsockopt tell its result later. At the end of a process,
// the lines "asked N" and "slept N" say how often it called connect, poll or select, and how often
// it slept.
int observe_connect(int socket, const struct sockaddr *address, socklen_t bytes);

// Adds a line "wait SECONDS" to this file if the limit ends before the connection is there, and
// "read SECONDS" if it ends before data comes. With OBSERVE_CLOCK=N, the limit is N times as short
// as it says, because the clock is as fast.
int observe_poll(struct pollfd *fds, nfds_t count, int milliseconds);
int observe_select(int count, fd_set *read, fd_set *write, struct timeval *limit);
int observe_getsockopt(int socket, int level, int name, void *value, socklen_t *bytes);

#define connect(socket, address, bytes) observe_connect(socket, address, bytes)
#define poll(fds, count, milliseconds) observe_poll(fds, count, milliseconds)
#define select(count, read, write, except, limit) observe_select(count, read, write, limit)
#define getsockopt(socket, level, name, value, bytes)                                              \
    observe_getsockopt(socket, level, name, value, bytes)
