#include "exercises/observe_connect.h"
#include "common/base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

// The connection that OBSERVE_DELAY makes slow. The system connects when its time has come.
static struct {
    ino_t socket; // a number that no other socket has; 0: none
    struct sockaddr_storage address;
    socklen_t bytes;
    double ready; // when the result is known
    int error;    // the result, or EINPROGRESS
} slow;

static void record(const char *what, double value, ino_t socket) {
    const char *path = getenv("OBSERVE_CONNECT");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "%s %.3f %lu\n", what, value, (unsigned long)socket);
    fclose(file);
}

static long asked; // calls of connect, poll and select

// On a busy machine, time does not tell whether a loop sleeps. But a process that sleeps gives up
// the processor.
__attribute__((destructor)) static void record_sleep(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    record("asked", asked, 0);
    record("slept", used.ru_nvcsw, 0);
}

static ino_t number_of(int socket) {
    struct stat s;
    return fstat(socket, &s) ? 0 : s.st_ino;
}

// Returns 1 if this is the slow connection. Connects if its time has come.
static int is_slow(int socket) {
    if (!slow.socket || number_of(socket) != slow.socket)
        return 0;
    if (slow.error == EINPROGRESS && seconds() >= slow.ready) {
        slow.error = (connect)(socket, (struct sockaddr *)&slow.address, slow.bytes) ? errno : 0;
        if (slow.error == EINPROGRESS) // the rest is up to the system
            slow.socket = 0;
    }
    return slow.socket != 0;
}

int observe_connect(int socket, const struct sockaddr *address, socklen_t bytes) {
    const char *delay = getenv("OBSERVE_DELAY");
    asked++;
    record("connect", seconds(), number_of(socket));
    if (!delay || !(fcntl(socket, F_GETFL) & O_NONBLOCK))
        return (connect)(socket, address, bytes);
    if (is_slow(socket)) {
        errno = slow.error == EINPROGRESS ? EALREADY : slow.error ? slow.error : EISCONN;
        return -1;
    }
    slow.socket = number_of(socket);
    memcpy(&slow.address, address, bytes);
    slow.bytes = bytes;
    slow.ready = seconds() + atof(delay);
    slow.error = EINPROGRESS;
    is_slow(socket);
    errno = EINPROGRESS;
    return -1;
}

int observe_poll(struct pollfd *fds, nfds_t count, int milliseconds) {
    const char *times = getenv("OBSERVE_CLOCK");
    double limit = milliseconds < 0 ? INFINITY : milliseconds / 1000. / (times ? atof(times) : 1);
    int connecting = 0, ready = 0;
    asked++;
    for (nfds_t i = 0; i < count; i++) {
        connecting |= fds[i].events & POLLOUT;
        if (is_slow(fds[i].fd) && slow.error == EINPROGRESS) {
            double wait = fmax(0, fmin(limit, slow.ready - seconds()));
            usleep(ceil(1e6 * wait));
            limit -= wait;
        }
        if (is_slow(fds[i].fd) && slow.error == EINPROGRESS)
            count = 0; // poll knows nothing of this connection yet
    }
    if (count)
        ready = (poll)(fds, count, isinf(limit) ? -1 : ceil(1000 * limit));
    if (ready == 0)
        record(connecting ? "wait" : "read", milliseconds / 1000., 0);
    return ready;
}

int observe_select(int count, fd_set *read, fd_set *write, struct timeval *limit) {
    struct pollfd fds[FD_SETSIZE];
    nfds_t used = 0;
    int bits = 0;
    for (int i = 0; i < count; i++) {
        short events =
            (read && FD_ISSET(i, read) ? POLLIN : 0) | (write && FD_ISSET(i, write) ? POLLOUT : 0);
        if (events)
            fds[used++] = (struct pollfd){.fd = i, .events = events};
    }
    int ready = observe_poll(fds, used, limit ? limit->tv_sec * 1000 + limit->tv_usec / 1000 : -1);
    if (ready < 0)
        return ready;
    for (nfds_t i = 0; i < used; i++) {
        int in = ready && fds[i].revents & (POLLIN | POLLHUP | POLLERR) && fds[i].events & POLLIN;
        int out =
            ready && fds[i].revents & (POLLOUT | POLLHUP | POLLERR) && fds[i].events & POLLOUT;
        if (read && !in)
            FD_CLR(fds[i].fd, read);
        if (write && !out)
            FD_CLR(fds[i].fd, write);
        bits += in + out;
    }
    return bits;
}

int observe_getsockopt(int socket, int level, int name, void *value, socklen_t *bytes) {
    int failed = (getsockopt)(socket, level, name, value, bytes);
    if (!failed && level == SOL_SOCKET && name == SO_ERROR && is_slow(socket) &&
        slow.error != EINPROGRESS && slow.error)
        *(int *)value = slow.error;
    return failed;
}
