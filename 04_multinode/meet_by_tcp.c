#include "04_multinode/meet_by_tcp.h"
#include "04_multinode/frame.h"
#include "common/base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WITH_A_TOKEN                                                                               \
    "or set a token (--token-file or MASTER_TOKEN): then rank 0 listens at all its addresses"

enum { MOST_LISTENERS = 16 };
enum { MOST_UNKNOWN = 200 }; // connections that have not said who they are
enum { MOST_NOTES = 5 };     // printed about refused connections
enum { HELLO_SECONDS = 5 };  // time for a new connection to send its HELLO
enum { GRACE_SECONDS = 10 }; // time for a rank to answer

// A connection to rank 0's port.
struct connection {
    int socket;
    int rank;           // -1: no valid HELLO has arrived yet
    double deadline;    // for its HELLO
    struct frame frame; // the last one, or a part of it
    size_t got;         // bytes in frame
    char address[64];   // of the other end
};

static struct {
    double timeout, end; // seconds, and the time at which they are over
    char *probe;         // path of the file that rank 0 writes beside the snapshot, or NULL
    int listeners[MOST_LISTENERS]; // sockets, one for each address
    int listening;                 // number of listeners, 0: all ranks have come
    int reachable;                 // 1: other hosts can reach a listener
    int one_host;                  // 1: all ranks are on this host
    int count;                     // of connections
    int rejected;                  // number of refused connections
    struct connection *connections;
} rendezvous;

// The part of rank 0.

// Ends this rank and all ranks that have come. Each rank prints the reason.
__attribute__((noreturn, format(printf, 1, 2))) static void end_rendezvous(const char *format,
                                                                           ...) {
    char message[WHY_SIZE], why[WHY_SIZE] = ""; // all bytes of why are sent
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    refuse(why, "%s", message); // removes control characters, which another program may have sent
    for (int i = 0; i < rendezvous.count; i++)
        if (rendezvous.connections[i].rank > 0)
            send_frame(rendezvous.connections[i].socket, NO, why, sizeof why, seconds() + 1);
    if (rendezvous.probe)
        unlink(rendezvous.probe);
    fail("%s", why);
}

static int is_loopback(const struct sockaddr *address) {
    const struct sockaddr_in *four = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    return address->sa_family == AF_INET ? ntohl(four->sin_addr.s_addr) >> 24 == 127
                                         : IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

// Listens at those addresses of the list that this host has. Returns the reason if there is none.
static int listen_at(const struct addrinfo *list) {
    int on = 1, error = EADDRNOTAVAIL;
    for (; list && rendezvous.listening < MOST_LISTENERS; list = list->ai_next) {
        int s = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        // The launcher has bound the port to keep it free, and the last attempt may have used it.
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (list->ai_family == AF_INET6) // IPv4 has a listener of its own
            setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
        if (!bind(s, list->ai_addr, list->ai_addrlen) && !listen(s, SOMAXCONN)) {
            rendezvous.listeners[rendezvous.listening++] = s;
            rendezvous.reachable |= !is_loopback(list->ai_addr);
            continue;
        }
        if (s >= 0 && errno != EADDRNOTAVAIL)
            error = errno;
        close(s);
    }
    return error;
}

static void stop_listening(void) {
    while (rendezvous.listening)
        close(rendezvous.listeners[--rendezvous.listening]);
}

// Listens at the addresses of MASTER_ADDR. If other hosts can reach none of them, the name may be
// that of a service or a router, which passes connections on to this host. Then rank 0 listens at
// all addresses of this host, if a token keeps strangers out.
static void listen_for_ranks(void) {
    struct addrinfo *list, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    const char *why;
    for (; !(list = find_rank0(&why)); usleep(20000))
        if (seconds() > rendezvous.end)
            fail("waited %.0f s (--join-timeout) for an address of MASTER_ADDR=%s: %s",
                 rendezvous.timeout, master_host, why);
    int error = listen_at(list);
    freeaddrinfo(list);
    if (!rendezvous.reachable && !rendezvous.one_host && *my_frame.token &&
        !getaddrinfo(NULL, master_port, &hints, &list)) {
        stop_listening();
        error = listen_at(list);
        freeaddrinfo(list);
    }
    if (!rendezvous.listening)
        fail("rank 0 cannot listen at MASTER_ADDR=%s, MASTER_PORT=%s: %s%s", master_host,
             master_port, strerror(error),
             error == EADDRNOTAVAIL ? ": it must be an address of this host, " WITH_A_TOKEN
             : error == EADDRINUSE  ? ": if another run uses this port, choose another one"
                                    : "");
}

static void drop(int i) {
    close(rendezvous.connections[i].socket);
    rendezvous.connections[i] = rendezvous.connections[--rendezvous.count];
}

// Closes a connection. Sends the reason to the other end, and prints it.
__attribute__((format(printf, 2, 3))) static void reject(int i, const char *format, ...) {
    struct connection *c = &rendezvous.connections[i];
    char message[WHY_SIZE], why[WHY_SIZE] = ""; // all bytes of why are sent
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    refuse(why, "%s", message);
    if (c->got == sizeof c->frame && !memcmp(c->frame.magic, my_frame.magic, sizeof my_frame.magic))
        send_frame(c->socket, NO, why, sizeof why, seconds());
    if (++rendezvous.rejected <= MOST_NOTES)
        fprintf(stderr, "note (%s, rank 0): refused %s: %s%s\n", my_frame.host, c->address, why,
                rendezvous.rejected == MOST_NOTES ? " (others are not shown)" : "");
    drop(i);
}

// Takes the same time for all tokens, so the time does not tell how many characters are right.
static int same_token(const char *a, const char *b) {
    int difference = 0;
    for (size_t i = 0; i < sizeof my_frame.token; i++)
        difference |= a[i] ^ b[i];
    return !difference;
}

// Accepts or refuses the rank that has sent this HELLO.
static void admit(int i) {
    struct connection *c = &rendezvous.connections[i];
    const struct frame *f = &c->frame;
    uint32_t rank = ntohl(f->rank), world = ntohl(f->world);
    int twin = 0;
    while (twin < rendezvous.count && rendezvous.connections[twin].rank != (int)rank)
        twin++;
    if (!is_frame(f) || f->kind != htonl(HELLO))
        reject(i, "not a rank, or one of another version of this program");
    else if (!same_token(f->token, my_frame.token))
        reject(i, "it has another token (MASTER_TOKEN or --token-file)");
    else if (strcmp(f->run, my_frame.run))
        reject(i, "it belongs to run %s, and rank 0 to another one", f->run);
    else if (f->world != my_frame.world)
        reject(i, "it expects %u ranks, but this run has %u", world, ntohl(my_frame.world));
    else if (rank == 0 || rank >= world)
        reject(i, "it says that it is rank %u of %u", rank, world);
    else if (twin < rendezvous.count)
        reject(i, "rank %u has already come, from %s", rank, rendezvous.connections[twin].address);
    else {
        c->rank = rank;
        c->got = 0;
    }
}

// Accepts at most one connection. The caller reads from all connections before it accepts the next.
static void accept_connection(int listener) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    int socket =
        accept4(listener, (struct sockaddr *)&address, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0)
        return;
    int unknown = 0, oldest = -1;
    for (int i = 0; i < rendezvous.count; i++)
        if (rendezvous.connections[i].rank < 0) {
            unknown++;
            if (oldest < 0 ||
                rendezvous.connections[i].deadline < rendezvous.connections[oldest].deadline)
                oldest = i;
        }
    if (unknown == MOST_UNKNOWN)
        reject(oldest, "it sent no HELLO");
    struct connection *c = &rendezvous.connections[rendezvous.count++];
    *c = (struct connection){.socket = socket, .rank = -1, .deadline = seconds() + HELLO_SECONDS};
    getnameinfo((struct sockaddr *)&address, bytes, c->address, sizeof c->address, NULL, 0,
                NI_NUMERICHOST);
}

// Returns 1 if a rank has come. When all have come, returns 1 if it has answered.
static int is_ready(const struct connection *c) {
    return c->rank > 0 && (rendezvous.listening || c->got == sizeof c->frame);
}

// Writes a text such as "ranks 2 and 5 of 8".
static void list_missing(char *text, size_t size) {
    int world = ntohl(my_frame.world), missing = world - 1, listed = 0;
    char ready[world];
    memset(ready, 0, world);
    for (int i = 0; i < rendezvous.count; i++)
        if (is_ready(&rendezvous.connections[i])) {
            ready[rendezvous.connections[i].rank] = 1;
            missing--;
        }
    int used = snprintf(text, size, missing == 1 ? "rank" : "ranks");
    for (int r = 1; r < world && listed < 16; r++)
        if (!ready[r]) {
            const char *before = listed == 0 ? "" : listed + 1 == missing ? " and" : ",";
            used += snprintf(text + used, size - used, "%s %d", before, r);
            listed++;
        }
    if (missing > listed)
        used += snprintf(text + used, size - used, " and %d more", missing - listed);
    snprintf(text + used, size - used, " of %d", world);
}

static void check_deadline(void) {
    char ranks[200], at[1024] = "";
    if (seconds() < rendezvous.end)
        return;
    list_missing(ranks, sizeof ranks);
    if (!rendezvous.listening)
        end_rendezvous("waited %d s: %s did not answer", GRACE_SECONDS, ranks);
    for (int i = 0; i < rendezvous.listening; i++) {
        struct sockaddr_storage address;
        socklen_t bytes = sizeof address;
        size_t used = strlen(at);
        used += snprintf(at + used, sizeof at - used, "%s", i > 0 ? " or " : "");
        getsockname(rendezvous.listeners[i], (struct sockaddr *)&address, &bytes);
        getnameinfo((struct sockaddr *)&address, bytes, at + used, sizeof at - used, NULL, 0,
                    NI_NUMERICHOST);
    }
    end_rendezvous("waited %.0f s: %s never arrived at %s, port %s (--join-timeout)%s",
                   rendezvous.timeout, ranks, at, master_port,
                   rendezvous.reachable ? ""
                                        : ", which only this host can reach: set MASTER_ADDR to "
                                          "another address of this host, " WITH_A_TOKEN);
}

// Reads from a connection, which may have closed.
static void read_connection(int i) {
    struct connection *c = &rendezvous.connections[i];
    int all = receive_more(c->socket, &c->frame, &c->got);
    if (c->rank < 0 && all > 0)
        admit(i);
    else if (c->rank < 0 && all < 0)
        reject(i, "it left after %zu bytes", c->got);
    else if (c->rank > 0 && rendezvous.listening) // the rank may connect again
        reject(i, "rank %d has left, or sent more than its HELLO", c->rank);
    else if (c->rank > 0 && all < 0)
        end_rendezvous("rank %d has left the rendezvous", c->rank);
    else if (c->rank > 0 && all > 0 && c->frame.kind != htonl(SEEN))
        end_rendezvous("rank %d on %s: %s", c->rank, c->frame.host, c->frame.body);
}

// Waits until all ranks are ready.
static void collect_ranks(void) {
    for (int ready = 0; ready < (int)ntohl(my_frame.world) - 1;) {
        struct pollfd fds[rendezvous.count + rendezvous.listening];
        for (int i = 0; i < rendezvous.count; i++)
            fds[i] = (struct pollfd){.fd = rendezvous.connections[i].socket, .events = POLLIN};
        for (int i = 0; i < rendezvous.listening; i++)
            fds[rendezvous.count + i] =
                (struct pollfd){.fd = rendezvous.listeners[i], .events = POLLIN};
        poll(fds, rendezvous.count + rendezvous.listening, 100);
        for (int i = rendezvous.count - 1; i >= 0; i--) // drop moves the last connection
            if (fds[i].revents)
                read_connection(i);
            else if (rendezvous.connections[i].rank < 0 &&
                     seconds() > rendezvous.connections[i].deadline)
                reject(i, "it sent no HELLO");
        for (int i = 0; i < rendezvous.listening; i++)
            accept_connection(rendezvous.listeners[i]);
        ready = 0;
        for (int i = 0; i < rendezvous.count; i++)
            ready += is_ready(&rendezvous.connections[i]);
        if (ready < (int)ntohl(my_frame.world) - 1)
            check_deadline();
    }
}

// NCCL connects no GPU with a CPU device. Call it when all ranks have come, so that all learn about
// a difference.
static void compare_devices(void) {
    for (int i = 0; i < rendezvous.count; i++) {
        const struct frame *f = &rendezvous.connections[i].frame; // still the HELLO
        if (rendezvous.connections[i].rank > 0 && strcmp(f->body, my_frame.body))
            end_rendezvous("rank %d on %s trains on %s, rank 0 on %s: start all ranks on one kind "
                           "of device",
                           rendezvous.connections[i].rank, f->host, f->body, my_frame.body);
    }
}

static void tell_all(enum kind kind, const void *body, size_t bytes) {
    for (int i = 0; i < rendezvous.count; i++)
        if (!send_frame(rendezvous.connections[i].socket, kind, body, bytes,
                        seconds() + GRACE_SECONDS))
            end_rendezvous("rank %d has left the rendezvous: %m", rendezvous.connections[i].rank);
}

// Writes a file beside the snapshot. Each rank looks for it, to check that it sees the same folder.
static void write_probe(const char *snapshot, const ncclUniqueId *id) {
    if (asprintf(&rendezvous.probe, "%s.rendezvous", snapshot) < 0)
        end_rendezvous("out of memory");
    int file = open(rendezvous.probe, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 || write(file, id, sizeof *id) != sizeof *id || close(file))
        end_rendezvous("cannot write %s, in the folder of --snapshot: %m", rendezvous.probe);
}

static void hold_rendezvous(const ncclUniqueId *id, const char *snapshot) {
    rendezvous.connections =
        calloc(ntohl(my_frame.world) + MOST_UNKNOWN, sizeof *rendezvous.connections);
    if (!rendezvous.connections)
        fail("out of memory");
    listen_for_ranks();
    collect_ranks();
    stop_listening();
    rendezvous.end = seconds() + GRACE_SECONDS;
    for (int i = rendezvous.count - 1; i >= 0; i--)
        if (rendezvous.connections[i].rank < 0)
            drop(i);
    compare_devices();
    if (snapshot)
        write_probe(snapshot, id);
    tell_all(ID, id, sizeof *id);
    collect_ranks();
    if (rendezvous.probe)
        unlink(rendezvous.probe);
    tell_all(GO, NULL, 0);
    while (rendezvous.count)
        drop(0);
    free(rendezvous.connections);
}

// The part of the other ranks.

// Connects to an address within 3 seconds. Returns the socket, or -1 with the reason in *error.
static int connect_to(const struct addrinfo *a, int *error) {
    int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd fd = {.fd = s, .events = POLLOUT};
    socklen_t bytes = sizeof *error;
    *error = connect(s, a->ai_addr, a->ai_addrlen) ? errno : 0;
    if (*error == EINPROGRESS &&
        poll(&fd, 1, 1000 * fmax(0, fmin(3, rendezvous.end - seconds() + 0.1))) == 0)
        *error = ETIMEDOUT;
    else if (*error == EINPROGRESS && getsockopt(s, SOL_SOCKET, SO_ERROR, error, &bytes))
        *error = errno;
    if (!*error)
        return s;
    close(s);
    return -1;
}

// Connects to rank 0, which may not listen yet, and returns the socket.
static int reach_rank0(void) {
    const char *why;
    int error = ECONNRESET; // if there is no time to try again after a lost connection
    for (; seconds() < rendezvous.end; usleep(20000)) {
        struct addrinfo *list = find_rank0(&why);
        int s = -1;
        error = list ? error : 0;
        for (struct addrinfo *a = list; a && s < 0; a = a->ai_next)
            s = connect_to(a, &error);
        if (list)
            freeaddrinfo(list);
        if (s >= 0)
            return s;
    }
    fail("waited %.0f s (--join-timeout) for rank 0 at MASTER_ADDR=%s, MASTER_PORT=%s: %s%s",
         rendezvous.timeout, master_host, master_port, error ? strerror(error) : why,
         error == ECONNREFUSED
             ? ": no program listens there; is it the host of rank 0, and does rank 0 still run?"
         : error == ETIMEDOUT ? ": the host does not exist, or a firewall blocks the port"
                              : "");
}

// Waits for a frame of rank 0. Returns 1, or 0 if rank 0 has left.
static int receive_frame(int socket, struct frame *f, double end) {
    struct pollfd fd = {.fd = socket, .events = POLLIN};
    int all = 0;
    for (size_t got = 0; all == 0 && seconds() < end;) {
        if (poll(&fd, 1, 100) > 0)
            all = receive_more(socket, f, &got);
        if (got >= sizeof f->magic && memcmp(f->magic, my_frame.magic, sizeof f->magic))
            fail("the program at MASTER_ADDR=%s, MASTER_PORT=%s is not rank 0", master_host,
                 master_port);
    }
    if (all == 0)
        fail("rank 0 at MASTER_ADDR=%s, MASTER_PORT=%s does not answer", master_host, master_port);
    if (all > 0 && f->kind == htonl(NO))
        fail("rank 0 on %s: %s", f->host, f->body);
    return all > 0;
}

static int sees_probe(const char *snapshot, const ncclUniqueId *id) {
    char *path;
    ncclUniqueId there;
    if (asprintf(&path, "%s.rendezvous", snapshot) < 0)
        return 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    int same = file >= 0 && read(file, &there, sizeof there) == sizeof there &&
               !memcmp(&there, id, sizeof there);
    close(file);
    free(path);
    return same;
}

// Checks that this rank sees the folder of the snapshot. A network file system may need some time.
// Returns 0, or -1 with the reason in why.
static int find_probe(const char *snapshot, const ncclUniqueId *id, char why[WHY_SIZE]) {
    for (double end = seconds() + GRACE_SECONDS / 2; !sees_probe(snapshot, id); usleep(10000))
        if (seconds() > end)
            return refuse(why,
                          "does not see the file that rank 0 has written beside %s: all nodes must "
                          "see that folder",
                          snapshot);
    return 0;
}

static void visit_rank0(ncclUniqueId *id, const char *snapshot) {
    struct frame answer;
    int socket = -1;
    do { // rank 0 may have too many connections, or an old rank 0 may be about to end
        close(socket);
        usleep(20000);
        socket = reach_rank0();
    } while (!send_frame(socket, HELLO, NULL, 0, rendezvous.end) ||
             !receive_frame(socket, &answer, seconds() + rendezvous.timeout + GRACE_SECONDS) ||
             answer.kind != htonl(ID)); // a HELLO comes from a socket that is connected to itself
    memcpy(id, answer.body, sizeof *id);
    char why[WHY_SIZE] = "";
    int failed = snapshot && find_probe(snapshot, id, why);
    if (!send_frame(socket, failed ? NO : SEEN, why, sizeof why, seconds() + GRACE_SECONDS) ||
        !receive_frame(socket, &answer, seconds() + 2 * GRACE_SECONDS))
        fail("rank 0 at MASTER_ADDR=%s, MASTER_PORT=%s has left the rendezvous", master_host,
             master_port);
    close(socket);
}

void meet_by_tcp(const struct place *p, ncclUniqueId *id, const char *snapshot,
                 const char *token_file, double timeout) {
    if (p->world == 1)
        return;
    prepare_frame(p, token_file);
    rendezvous.one_host = p->local_world == p->world;
    rendezvous.timeout = timeout;
    rendezvous.end = seconds() + timeout;
    if (p->rank == 0)
        hold_rendezvous(id, snapshot);
    else
        visit_rank0(id, snapshot);
}
