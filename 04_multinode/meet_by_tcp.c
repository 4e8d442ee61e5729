#include "04_multinode/meet_by_tcp.h"
#include "04_multinode/addresses.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/device/device.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 3 };        // of the frames
enum { MOST_UNKNOWN = 200 }; // connections that have not said who they are
enum { MOST_NOTES = 5 };     // printed about refused connections
enum { HELLO_SECONDS = 5 };  // time for a new connection to send its HELLO
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

// A rank sends HELLO. When all ranks have come, rank 0 sends ID to each one, or NO.
enum kind { HELLO = 1, ID, NO };

// A message. Numbers are in network byte order, and texts end with a 0.
struct frame {
    char magic[8];
    uint32_t version, kind, world, rank; // of the sender
    char run[256], token[64], host[HOST_NAME_MAX + 1];
    char body[WHY_SIZE]; // HELLO: the kind of its device; ID: NCCL's id; NO: the reason
};

// A connection to rank 0's port.
struct connection {
    int socket;
    int rank;           // -1: no valid HELLO has arrived yet
    double deadline;    // for its HELLO
    struct frame frame; // its HELLO, or a part of it
    size_t got;         // bytes in frame
    char address[64];   // of the other end
};

static struct frame my_frame; // this rank's HELLO

static struct {
    const char *host, *port; // of rank 0
    double timeout, end;     // seconds, and the time at which they are over
    struct sockets listeners;
    int world, count, arrived;      // number of ranks, of connections, and of those that are ranks
    int rejected;                   // number of refused connections
    struct connection *connections; // the oldest one first
} rendezvous;

// The token comes from a file or the environment, because everybody on the host can read a command
// line.
static void read_token(const char *path) {
    struct stat s;
    const char *name = path ? path : "MASTER_TOKEN", *given = getenv("MASTER_TOKEN");
    char token[sizeof my_frame.token + 2] = "";
    if (!path && !given)
        return;
    if (path) {
        int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe would block
        if (file < 0 || fstat(file, &s) || read(file, token, sizeof token - 1) < 0)
            fail("--token-file %s: %m", path);
        if (!S_ISREG(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 077))
            fail("--token-file %s must be a plain file that only this user can read: chmod 600",
                 path);
        close(file);
    } else {
        snprintf(token, sizeof token, "%s", given);
    }
    token[strcspn(token, "\n")] = 0;
    if (!*token || strlen(token) >= sizeof my_frame.token)
        fail("%s: a token has 1 to %zu characters in one line", name, sizeof my_frame.token - 1);
    memcpy(my_frame.token, token, strlen(token));
}

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

static void prepare(const struct place *p, const char *token_file) {
    static char port[8];
    if (p->local_world == p->world)
        meet_here(p);
    const char *host = getenv("MASTER_ADDR");
    if (!host || !*host || !getenv("MASTER_PORT"))
        wrong_usage("%s is not set, so no rank knows where rank 0 listens: in a job script, set "
                    "MASTER_PORT=29500 and MASTER_ADDR="
                    "$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1) or "
                    "$(head -n 1 \"$PBS_NODEFILE\")",
                    host && *host ? "MASTER_PORT" : "MASTER_ADDR");
    snprintf(port, sizeof port, "%d", rank0_port());
    rendezvous.host = host;
    rendezvous.port = port;
    rendezvous.world = p->world;
    my_frame = (struct frame){.magic = "ranks\r\n",
                              .version = htonl(VERSION),
                              .kind = htonl(HELLO),
                              .world = htonl(p->world),
                              .rank = htonl(p->rank)};
    snprintf(my_frame.run, sizeof my_frame.run, "%s", p->run);
    snprintf(my_frame.body, sizeof my_frame.body, "%s", device_kind());
    strcpy(my_frame.host, host_name());
    read_token(token_file);
}

// Sends a frame without the run and the token, because the other end may know neither of them. A
// new connection has room for a frame, so this does not wait.
static int answer(int socket, enum kind kind, const void *body, size_t bytes) {
    struct frame f = my_frame;
    f.kind = htonl(kind);
    memset(f.run, 0, sizeof f.run);
    memset(f.token, 0, sizeof f.token);
    memset(f.body, 0, sizeof f.body);
    memcpy(f.body, body, bytes);
    return send(socket, &f, sizeof f, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof f;
}

// Receives the next part of a frame, without waiting. Returns 1 if the frame is complete, 0 if not,
// and -1 if the other end has closed the connection.
static int receive_more(int socket, struct frame *f, size_t *got) {
    ssize_t n = recv(socket, (char *)f + *got, sizeof *f - *got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    *got += n;
    f->run[sizeof f->run - 1] = f->token[sizeof f->token - 1] = 0;
    f->host[sizeof f->host - 1] = f->body[sizeof f->body - 1] = 0;
    return *got == sizeof *f;
}

// The part of rank 0.

// Ends this rank and all ranks that have come. Each rank prints the reason.
__attribute__((noreturn)) static void end_rendezvous(const char *why) {
    for (int i = 0; i < rendezvous.count; i++)
        if (rendezvous.connections[i].rank > 0)
            answer(rendezvous.connections[i].socket, NO, why, strlen(why));
    fail("%s", why);
}

// Listens at the addresses of MASTER_ADDR. If other hosts can reach none of them, the name may be
// that of a service or a router, which passes connections on to this host. Then rank 0 listens at
// all addresses of this host, if a token keeps strangers out.
static void listen_for_ranks(int one_host) {
    struct sockets *s = &rendezvous.listeners;
    char at[128];
    const char *why;
    struct addrinfo *list =
        wait_for_addresses("MASTER_ADDR=", rendezvous.host, rendezvous.port, rendezvous.timeout);
    int error = open_sockets(s, list, SOCK_STREAM, bind);
    freeaddrinfo(list);
    if (!one_host && *my_frame.token && !describe_sockets(at, s, getsockname) &&
        (list = find_addresses(NULL, rendezvous.port, &why))) {
        close_sockets(s);
        error = open_sockets(s, list, SOCK_STREAM, bind);
        freeaddrinfo(list);
    }
    for (int i = 0; i < s->count && !error; i++)
        error = listen(s->fds[i], SOMAXCONN) ? errno : 0;
    if (error)
        fail("rank 0 cannot listen at MASTER_ADDR=%s, MASTER_PORT=%s: %s%s", rendezvous.host,
             rendezvous.port, strerror(error),
             error == EADDRNOTAVAIL
                 ? ": it must be an address of this host, or set a token (--token-file or "
                   "MASTER_TOKEN): then rank 0 listens at all its addresses"
             : error == EADDRINUSE ? ": if another run uses this port, choose another one"
                                   : "");
}

// Closes a connection. Sends the reason to the other end, and prints it.
static void reject(int i, const char *why) {
    struct connection *c = &rendezvous.connections[i];
    if (c->got == sizeof c->frame && !memcmp(c->frame.magic, my_frame.magic, sizeof my_frame.magic))
        answer(c->socket, NO, why, strlen(why));
    if (++rendezvous.rejected <= MOST_NOTES)
        fprintf(stderr, "note (%s, rank 0): refused %s: %s%s\n", my_frame.host, c->address, why,
                rendezvous.rejected == MOST_NOTES ? " (others are not shown)" : "");
    close(c->socket);
    rendezvous.arrived -= c->rank > 0;
    memmove(c, c + 1, (--rendezvous.count - i) * sizeof *c);
}

// Takes the same time for all tokens, so the time does not tell how many characters are right.
static int same_token(const char *a, const char *b) {
    int difference = 0;
    for (size_t i = 0; i < sizeof my_frame.token; i++)
        difference |= a[i] ^ b[i];
    return !difference;
}

static const struct connection *find_rank(uint32_t rank) {
    for (int i = 0; i < rendezvous.count; i++)
        if (rendezvous.connections[i].rank == (int)rank)
            return &rendezvous.connections[i];
    return NULL;
}

// Accepts the rank that has sent this HELLO, or returns -1 with a reason.
static int admit(struct connection *c, char why[WHY_SIZE]) {
    const struct frame *f = &c->frame;
    uint32_t rank = ntohl(f->rank), world = ntohl(f->world);
    if (memcmp(f->magic, my_frame.magic, sizeof f->magic) || f->version != my_frame.version ||
        f->kind != htonl(HELLO))
        return refuse(why, "not a rank, or one of another version of this program");
    if (!same_token(f->token, my_frame.token))
        return refuse(why, "it has another token (MASTER_TOKEN or --token-file)");
    if (strcmp(f->run, my_frame.run))
        return refuse(why, "it belongs to run %s, and rank 0 to another one", f->run);
    if (f->world != my_frame.world)
        return refuse(why, "it expects %u ranks, but this run has %d", world, rendezvous.world);
    if (rank == 0 || rank >= world)
        return refuse(why, "it says that it is rank %u of %u", rank, world);
    if (find_rank(rank))
        return refuse(why, "rank %u has already come, from %s", rank, find_rank(rank)->address);
    c->rank = rank;
    rendezvous.arrived++;
    return 0;
}

// Accepts at most one connection. The caller reads from all connections before it accepts the next.
static void accept_connection(int listener) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    int i = 0, s = accept4(listener, (struct sockaddr *)&address, &bytes, SOCK_CLOEXEC);
    if (s < 0 && errno == EMFILE)
        fail("rank 0 cannot accept all ranks: %m; raise the limit of open files with 'ulimit -n "
             "4096'");
    if (s < 0)
        return;
    if (rendezvous.count - rendezvous.arrived == MOST_UNKNOWN) {
        while (rendezvous.connections[i].rank > 0)
            i++;
        reject(i, "it sent no HELLO");
    }
    struct connection *c = &rendezvous.connections[rendezvous.count++];
    *c = (struct connection){.socket = s, .rank = -1, .deadline = seconds() + HELLO_SECONDS};
    show_address(c->address, &address);
}

// Reads from a connection, which may have closed, and looks at its deadline. Returns 0, or -1 with
// the reason to close it.
static int serve_connection(struct connection *c, int readable, char why[WHY_SIZE]) {
    if (!readable)
        return c->rank < 0 && seconds() > c->deadline ? refuse(why, "it sent no HELLO") : 0;
    if (c->rank > 0) // the rank may connect again
        return refuse(why, "rank %d has left, or sent more than its HELLO", c->rank);
    int all = receive_more(c->socket, &c->frame, &c->got);
    if (all < 0)
        return refuse(why, "it left after %zu bytes", c->got);
    return all ? admit(c, why) : 0;
}

// Writes a text such as "ranks 2 and 5 of 8".
static void list_missing(char *text, size_t size) {
    int missing = rendezvous.world - 1 - rendezvous.arrived, listed = 0;
    int used = snprintf(text, size, missing == 1 ? "rank" : "ranks");
    for (int r = 1; r < rendezvous.world && listed < 16; r++)
        if (!find_rank(r)) {
            const char *before = listed == 0 ? "" : listed + 1 == missing ? " and" : ",";
            used += snprintf(text + used, size - used, "%s %d", before, r);
            listed++;
        }
    if (missing > listed)
        used += snprintf(text + used, size - used, " and %d more", missing - listed);
    snprintf(text + used, size - used, " of %d", rendezvous.world);
}

static void check_deadline(void) {
    char ranks[200], at[128], why[WHY_SIZE];
    if (seconds() < rendezvous.end)
        return;
    list_missing(ranks, sizeof ranks);
    int reachable = describe_sockets(at, &rendezvous.listeners, getsockname);
    refuse(why, "waited %.0f s: %s never arrived at %s (--join-timeout)%s", rendezvous.timeout,
           ranks, at,
           reachable ? ""
                     : ": set MASTER_ADDR to another address of this host, or set a token "
                       "(--token-file or MASTER_TOKEN)");
    end_rendezvous(why);
}

// Waits until all ranks have come.
static void collect_ranks(void) {
    const struct sockets *s = &rendezvous.listeners;
    char why[WHY_SIZE];
    while (rendezvous.arrived < rendezvous.world - 1) {
        int count = rendezvous.count;
        struct pollfd fds[count + s->count];
        for (int i = 0; i < count; i++)
            fds[i] = (struct pollfd){.fd = rendezvous.connections[i].socket, .events = POLLIN};
        for (int i = 0; i < s->count; i++)
            fds[count + i] = (struct pollfd){.fd = s->fds[i], .events = POLLIN};
        poll(fds, count + s->count, 100);
        for (int i = count - 1; i >= 0; i--) // reject moves those after i
            if (serve_connection(&rendezvous.connections[i], fds[i].revents, why))
                reject(i, why);
        for (int i = 0; i < s->count; i++)
            accept_connection(s->fds[i]);
        if (rendezvous.arrived < rendezvous.world - 1)
            check_deadline();
    }
}

static void hold_rendezvous(const ncclUniqueId *id, int one_host) {
    char why[WHY_SIZE];
    rendezvous.connections =
        calloc(rendezvous.world + MOST_UNKNOWN, sizeof *rendezvous.connections);
    if (!rendezvous.connections)
        fail("out of memory for %d ranks", rendezvous.world);
    listen_for_ranks(one_host);
    collect_ranks();
    close_sockets(&rendezvous.listeners);
    for (int i = 0; i < rendezvous.count; i++) { // NCCL connects no GPU with a CPU device
        const struct connection *c = &rendezvous.connections[i];
        if (c->rank > 0 && strcmp(c->frame.body, my_frame.body)) {
            refuse(
                why,
                "rank %d on %s trains on %s, rank 0 on %s: start all ranks on one kind of device",
                c->rank, c->frame.host, c->frame.body, my_frame.body);
            end_rendezvous(why);
        }
    }
    for (int i = 0; i < rendezvous.count; i++) { // if a rank has left, the watchdog notices it
        if (rendezvous.connections[i].rank > 0)
            answer(rendezvous.connections[i].socket, ID, id, sizeof *id);
        close(rendezvous.connections[i].socket);
    }
    free(rendezvous.connections);
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
static int reach_rank0(void) {
    const char *why;
    int error = ECONNRESET; // if there is no time to try again after a lost connection
    for (; seconds() < rendezvous.end; usleep(20000)) {
        struct addrinfo *list = find_addresses(rendezvous.host, rendezvous.port, &why);
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
         rendezvous.timeout, rendezvous.host, rendezvous.port, error ? strerror(error) : why,
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
    do { // rank 0 may have too many connections, or an old rank 0 may be about to end
        close(socket);
        usleep(20000);
        socket = reach_rank0();
    } while (send(socket, &my_frame, sizeof my_frame, MSG_NOSIGNAL) != sizeof my_frame ||
             !receive_frame(socket, &f, seconds() + rendezvous.timeout + GRACE_SECONDS) ||
             (f.kind != htonl(ID) && f.kind != htonl(NO))); // of a socket connected to itself
    if (f.kind == htonl(NO))
        fail("rank 0 on %s: %s", f.host, f.body);
    memcpy(id, f.body, sizeof *id);
    close(socket);
}

void meet_by_tcp(const struct place *p, ncclUniqueId *id, const char *token_file, double timeout) {
    if (p->world == 1)
        return;
    prepare(p, token_file);
    rendezvous.timeout = timeout;
    rendezvous.end = seconds() + timeout;
    if (p->rank == 0)
        hold_rendezvous(id, p->local_world == p->world);
    else
        visit_rank0(id);
}
