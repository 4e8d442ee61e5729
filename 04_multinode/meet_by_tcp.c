#include "04_multinode/meet_by_tcp.h"
#include "04_multinode/addresses.h"
#include "04_multinode/hello.h"
#include "common/base/clock.h"
#include "common/base/say.h"
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_NOTES = 5 };     // printed about refused connections
enum { GRACE_SECONDS = 10 }; // how much longer a rank waits for the answer of rank 0

struct meeting_opt meeting_opt;

const struct option_spec meeting_options[] = {
    {"join-timeout", OPTION_INT | OPTION_LOCAL, &meeting_opt.join_timeout, "60", 1, 1e6,
     "seconds to wait for a rank"},
    {"step-timeout", OPTION_REAL | OPTION_LOCAL, &meeting_opt.step_timeout, "120", 0.1, 1e6,
     "seconds that a collective may take"},
    {"token-file", OPTION_TEXT | OPTION_LOCAL, &meeting_opt.token_file, NULL, 0, 0,
     "file with the secret that all ranks share"},
    {0},
};

static struct {
    const char *host; // of rank 0
    char port[8];
    double timeout, end; // seconds, and the time at which they are over
    struct sockets listeners;
    int world, missing; // number of ranks, and of those that have not come
    struct connection {
        int socket;       // -1: it has not come
        char address[64]; // of the other end
    } * ranks;
} rendezvous;

// Ranks on one host can choose a port themselves. They derive it from the name of the run, or from
// the number of their parent process if the run has no name.
static void meet_here(const struct place *p) {
    char port[8];
    unsigned sum = *p->run ? 0 : getppid();
    for (const char *c = p->run; *c; c++)
        sum = 31 * sum + *c;
    snprintf(port, sizeof port, "%u", 20000 + sum % 10000);
    setenv("MASTER_ADDR", "127.0.0.1", 0);
    setenv("MASTER_PORT", port, 0);
}

static void prepare(const struct place *p, const char *token_file, double timeout) {
    if (p->local_world == p->world)
        meet_here(p);
    const char *host = getenv("MASTER_ADDR");
    if (!host || !*host || !getenv("MASTER_PORT"))
        wrong_usage("%s is not set, so no rank knows where rank 0 listens: in a job script, set "
                    "MASTER_PORT=29500 and MASTER_ADDR="
                    "$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1) or "
                    "$(head -n 1 \"$PBS_NODEFILE\")",
                    host && *host ? "MASTER_PORT" : "MASTER_ADDR");
    snprintf(rendezvous.port, sizeof rendezvous.port, "%d", rank0_port());
    rendezvous.host = host;
    rendezvous.timeout = timeout;
    rendezvous.end = seconds() + timeout;
    rendezvous.world = p->world;
    prepare_hello(p, token_file);
}

// The part of rank 0.

// Listens at the addresses of MASTER_ADDR. They may be those of a service or a router, which passes
// connections on to this host. So rank 0 listens at all addresses of this host if a token keeps
// strangers out.
static void listen_for_ranks(int one_host) {
    struct sockets *s = &rendezvous.listeners;
    const char *host = *my_frame.token && !one_host ? NULL : rendezvous.host;
    struct addrinfo *list =
        wait_for_addresses("MASTER_ADDR=", host, rendezvous.port, rendezvous.timeout);
    int error = open_sockets(s, list, SOCK_STREAM, bind), patience = 5;
    freeaddrinfo(list);
    for (int i = 0; i < s->count && !error; i++) {
        // A new connection waits in the kernel until its first bytes come, or for some seconds.
        setsockopt(s->fds[i], IPPROTO_TCP, TCP_DEFER_ACCEPT, &patience, sizeof patience);
        error = listen(s->fds[i], SOMAXCONN) ? errno : 0;
    }
    if (error)
        fail("rank 0 cannot listen at MASTER_ADDR=%s, MASTER_PORT=%s: %s%s", rendezvous.host,
             rendezvous.port, strerror(error),
             error == EADDRNOTAVAIL
                 ? ": it must be an address of this host, or set a token (--token-file or "
                   "MASTER_TOKEN): then rank 0 listens at all its addresses"
             : error == EADDRINUSE ? ": if another run uses this port, choose another one"
                                   : "");
}

// Returns 1 if the process at the other end has ended.
static int has_left(int socket) {
    char byte;
    return recv(socket, &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0 || errno != EAGAIN;
}

// Reads the HELLO of a new connection. Returns 0 if it is that of a rank, or -1 with the reason to
// refuse it. The other connections wait meanwhile, so a stranger has little time.
static int admit(const struct connection *c, struct frame *f, char why[WHY_SIZE]) {
    const struct timeval patience = {.tv_usec = 20000};
    size_t got = 0;
    setsockopt(c->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    int all = receive_more(c->socket, f, &got);
    if (all < 0)
        return refuse(why, "it left after %zu bytes", got);
    if (!all)
        return refuse(why, "it sent no HELLO");
    if (check_hello(f, why))
        return -1;
    struct connection *its = &rendezvous.ranks[f->rank];
    if (its->socket >= 0 && !has_left(its->socket))
        return refuse(why, "rank %u has already come, from %s", f->rank, its->address);
    if (its->socket >= 0) // it has left, and comes again
        close(its->socket);
    else
        rendezvous.missing--;
    *its = *c;
    return 0;
}

// Accepts a connection, or returns 0 if none waits. Refuses strangers with a note.
static int accept_connection(int listener) {
    static int refused;
    char why[WHY_SIZE];
    struct frame f = {0};
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    struct connection c = {accept4(listener, (struct sockaddr *)&address, &bytes, SOCK_CLOEXEC)};
    if (c.socket < 0 && errno == EMFILE)
        fail("rank 0 cannot accept all ranks: %m; raise the limit of open files with 'ulimit -n "
             "4096'");
    if (c.socket < 0)
        return 0;
    show_address(c.address, &address);
    if (!admit(&c, &f, why))
        return 1;
    if (!memcmp(f.magic, my_frame.magic, sizeof f.magic)) // it understands the answer
        answer(c.socket, NO, why, strlen(why));
    if (++refused <= MOST_NOTES)
        fprintf(stderr, "note (%s, rank 0): refused %s: %s%s\n", my_frame.host, c.address, why,
                refused == MOST_NOTES ? " (others are not shown)" : "");
    close(c.socket);
    return 1;
}

// Ends this rank and all ranks that have come. Each one names the missing ranks, such as "ranks 2
// and 5 of 8".
__attribute__((noreturn)) static void give_up_waiting(void) {
    char ranks[200] = "", at[128], why[WHY_SIZE];
    int left = rendezvous.missing;
    for (int r = 1; r < rendezvous.world && strlen(ranks) < 100; r++)
        if (rendezvous.ranks[r].socket < 0) {
            const char *before = left == rendezvous.missing ? "" : left == 1 ? " and " : ", ";
            add_text(ranks, sizeof ranks, "%s%d", before, r);
            left--;
        }
    if (left)
        add_text(ranks, sizeof ranks, " and %d more", left);
    int reachable = describe_sockets(at, &rendezvous.listeners, getsockname);
    refuse(why, "waited %.0f s: rank%s %s of %d never arrived at %s (--join-timeout)%s",
           rendezvous.timeout, PLURAL(rendezvous.missing), ranks, rendezvous.world, at,
           reachable ? ""
                     : ": set MASTER_ADDR to another address of this host, or set a token "
                       "(--token-file or MASTER_TOKEN)");
    for (int r = 1; r < rendezvous.world; r++)
        answer(rendezvous.ranks[r].socket, NO, why, strlen(why));
    fail("%s", why);
}

// Ranks that have been killed since they came are missing again.
static void forget_dead_ranks(void) {
    for (int r = 1; r < rendezvous.world; r++) {
        struct connection *c = &rendezvous.ranks[r];
        if (c->socket < 0 || !has_left(c->socket))
            continue;
        close(c->socket);
        c->socket = -1;
        rendezvous.missing++;
    }
}

// Waits until all ranks have come.
static void collect_ranks(void) {
    for (;;) {
        int late = seconds() > rendezvous.end;
        if (!rendezvous.missing || late)
            forget_dead_ranks();
        if (!rendezvous.missing)
            return;
        if (late)
            give_up_waiting();
        int accepted = 0;
        for (int i = 0; i < rendezvous.listeners.count; i++)
            accepted += accept_connection(rendezvous.listeners.fds[i]);
        if (!accepted)
            usleep(10000);
    }
}

static void hold_rendezvous(const ncclUniqueId *id, int one_host) {
    size_t bytes = rendezvous.world * sizeof *rendezvous.ranks;
    rendezvous.ranks = malloc(bytes);
    if (!rendezvous.ranks)
        fail("out of memory for %d ranks", rendezvous.world);
    memset(rendezvous.ranks, -1, bytes);
    rendezvous.missing = rendezvous.world - 1;
    listen_for_ranks(one_host);
    collect_ranks();
    close_sockets(&rendezvous.listeners);
    for (int r = 1; r < rendezvous.world; r++) { // if a rank has left, the watchdog notices it
        answer(rendezvous.ranks[r].socket, ID, id, sizeof *id);
        close(rendezvous.ranks[r].socket);
    }
    free(rendezvous.ranks);
}

// The part of the other ranks.

// Connects to an address within 3 seconds. Returns the socket, or -1 with the reason in *error.
static int connect_to(const struct addrinfo *a, int *error) {
    int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd fd = {.fd = s, .events = POLLOUT};
    socklen_t bytes = sizeof *error;
    *error = s < 0 || connect(s, a->ai_addr, a->ai_addrlen) ? errno : 0;
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
static int reach_rank0(const struct addrinfo *list) {
    int s, error = ECONNRESET; // if there is no time to try again after a lost connection
    for (; seconds() < rendezvous.end; usleep(20000))
        for (const struct addrinfo *a = list; a; a = a->ai_next)
            if ((s = connect_to(a, &error)) >= 0)
                return s;
    fail("waited %.0f s (--join-timeout) for rank 0 at MASTER_ADDR=%s, MASTER_PORT=%s: %s%s",
         rendezvous.timeout, rendezvous.host, rendezvous.port, strerror(error),
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
            fail("the program at MASTER_ADDR=%s, MASTER_PORT=%s is not rank 0", rendezvous.host,
                 rendezvous.port);
    }
    if (all == 0)
        fail("rank 0 at MASTER_ADDR=%s, MASTER_PORT=%s does not answer", rendezvous.host,
             rendezvous.port);
    return all > 0;
}

static void visit_rank0(ncclUniqueId *id) {
    struct frame f;
    int socket = -1;
    struct addrinfo *list =
        wait_for_addresses("MASTER_ADDR=", rendezvous.host, rendezvous.port, rendezvous.timeout);
    do { // rank 0 may be busy, or an old rank 0 may be about to end
        close(socket);
        usleep(20000);
        socket = reach_rank0(list);
    } while (send(socket, &my_frame, sizeof my_frame, MSG_NOSIGNAL) != sizeof my_frame ||
             !receive_frame(socket, &f, seconds() + rendezvous.timeout + GRACE_SECONDS) ||
             (f.kind != ID && f.kind != NO)); // of a socket connected to itself
    if (f.kind == NO)
        fail("rank 0 on %s: %s", f.host, f.body);
    memcpy(id, f.body, sizeof *id);
    close(socket);
    freeaddrinfo(list);
}

void meet_by_tcp(const struct place *p, ncclUniqueId *id, const char *token_file, double timeout) {
    if (p->world == 1)
        return;
    prepare(p, token_file, timeout);
    if (p->rank == 0)
        hold_rendezvous(id, p->local_world == p->world);
    else
        visit_rank0(id);
}
