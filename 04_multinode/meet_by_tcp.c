#include "04_multinode/meet_by_tcp.h"
#include "04_multinode/frame.h"
#include "common/clock.h"
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

enum { STRANGERS = 200, NOTES = 5, HELLO_SECONDS = 5, GRACE_SECONDS = 10 };

struct guest {        // somebody at rank 0's port
    int socket, rank; // rank: -1 until a right hello is there
    double until;     // when its hello must be there
    size_t got;       // bytes of said
    struct frame said;
    char address[64];
};

static struct {
    double timeout, end;
    char *trace; // file that rank 0 leaves beside the snapshot
    int listener, count, refused;
    struct guest *guests;
} meeting;

// Rank 0's part.

// Ends the run for all who are here: each says why.
__attribute__((noreturn, format(printf, 1, 2))) static void end_meeting(const char *format, ...) {
    char message[WHY_SIZE], why[WHY_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    refuse(why, "%s", message); // without what others may have put into it to confuse a terminal
    for (int i = 0; i < meeting.count; i++)
        if (meeting.guests[i].rank > 0)
            send_frame(meeting.guests[i].socket, NO, why, sizeof why, seconds() + 1);
    if (meeting.trace)
        unlink(meeting.trace);
    fail("%s", why);
}

static void listen_for_ranks(void) {
    int on = 1, error = 0;
    struct addrinfo *list;
    for (; !(list = find_rank0()); usleep(20000))
        if (seconds() > meeting.end)
            fail("MASTER_ADDR=%s: the name server does not answer", master_host);
    for (struct addrinfo *a = list; a; a = a->ai_next) {
        meeting.listener = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        // The launcher holds the port for this rank, and the attempt before may have had it.
        setsockopt(meeting.listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        error = bind(meeting.listener, a->ai_addr, a->ai_addrlen) ||
                listen(meeting.listener, SOMAXCONN);
        if (!error)
            break;
        error = errno;
        close(meeting.listener);
    }
    freeaddrinfo(list);
    if (error)
        fail("rank 0 cannot listen at MASTER_ADDR=%s, MASTER_PORT=%s: %s%s", master_host,
             master_port, strerror(error),
             error == EADDRNOTAVAIL ? ": it must be an address of this host"
             : error == EADDRINUSE  ? ": another run? choose another port"
                                    : "");
}

static void forget(int i) {
    close(meeting.guests[i].socket);
    meeting.guests[i] = meeting.guests[--meeting.count];
}

// Tells a guest and whoever reads this why it cannot stay.
__attribute__((format(printf, 2, 3))) static void dismiss(int i, const char *format, ...) {
    struct guest *g = &meeting.guests[i];
    char message[WHY_SIZE], why[WHY_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    refuse(why, "%s", message);
    if (g->got == sizeof g->said && !memcmp(g->said.magic, my_frame.magic, sizeof my_frame.magic))
        send_frame(g->socket, NO, why, sizeof why, seconds());
    if (++meeting.refused <= NOTES) // a thousand would bury what matters
        fprintf(stderr, "note (%s, rank 0): refused %s: %s%s\n", my_frame.host, g->address, why,
                meeting.refused == NOTES ? " (others are not shown)" : "");
    forget(i);
}

static int same_token(const char *a,
                      const char *b) { // in a time that does not tell how much of it is right
    int difference = 0;
    for (size_t i = 0; i < sizeof my_frame.token; i++)
        difference |= a[i] ^ b[i];
    return !difference;
}

// A guest has said who it is.
static void admit(int i) {
    struct guest *g = &meeting.guests[i];
    const struct frame *f = &g->said;
    uint32_t rank = ntohl(f->rank), world = ntohl(f->world);
    int twin = 0;
    while (twin < meeting.count && meeting.guests[twin].rank != (int)rank)
        twin++;
    if (!is_frame(f) || f->kind != htonl(HELLO))
        dismiss(i, "not a rank, or one of another version of this program");
    else if (!same_token(f->token, my_frame.token))
        dismiss(i, "it has another token (MASTER_TOKEN or --token-file)");
    else if (strcmp(f->run, my_frame.run))
        dismiss(i, "it is of run %s, this is run %s", f->run, my_frame.run);
    else if (f->world != my_frame.world)
        dismiss(i, "it knows of %u ranks, this run has %u", world, ntohl(my_frame.world));
    else if (rank == 0 || rank >= world)
        dismiss(i, "it says that it is rank %u of %u", rank, world);
    else if (twin < meeting.count)
        dismiss(i, "rank %u is here already, from %s", rank, meeting.guests[twin].address);
    else {
        g->rank = rank;
        g->got = 0;
    }
}

// One at a time, so that all who are here are heard before the next comes.
static void accept_guest(void) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    int socket = accept4(meeting.listener, (struct sockaddr *)&address, &bytes,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0)
        return;
    int strangers = 0, oldest = -1;
    for (int i = 0; i < meeting.count; i++)
        if (meeting.guests[i].rank < 0) {
            strangers++;
            if (oldest < 0 || meeting.guests[i].until < meeting.guests[oldest].until)
                oldest = i;
        }
    if (strangers == STRANGERS) // a rank says at once who it is
        dismiss(oldest, "silent");
    struct guest *g = &meeting.guests[meeting.count++];
    *g = (struct guest){.socket = socket, .rank = -1, .until = seconds() + HELLO_SECONDS};
    getnameinfo((struct sockaddr *)&address, bytes, g->address, sizeof g->address, NULL, 0,
                NI_NUMERICHOST);
}

// It has come; and, when nobody can come any more, has answered.
static int is_ready(const struct guest *g) {
    return g->rank > 0 && (meeting.listener >= 0 || g->got == sizeof g->said);
}

// "ranks 2 and 5 of 8"
static void list_missing(char *text, size_t size) {
    int world = ntohl(my_frame.world), missing = world - 1, listed = 0;
    char ready[world];
    memset(ready, 0, world);
    for (int i = 0; i < meeting.count; i++)
        if (is_ready(&meeting.guests[i])) {
            ready[meeting.guests[i].rank] = 1;
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

static void check_time(void) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    char ranks[200], at[64];
    if (seconds() < meeting.end)
        return;
    list_missing(ranks, sizeof ranks);
    if (meeting.listener < 0)
        end_meeting("waited %d s: %s did not answer", GRACE_SECONDS, ranks);
    getsockname(meeting.listener, (struct sockaddr *)&address, &bytes);
    getnameinfo((struct sockaddr *)&address, bytes, at, sizeof at, NULL, 0, NI_NUMERICHOST);
    int loopback = !strncmp(at, "127.", 4) || !strcmp(at, "::1");
    end_meeting("waited %.0f s: %s never arrived at %s, port %s (--join-timeout)%s",
                meeting.timeout, ranks, at, master_port,
                loopback ? ", which only this host can reach" : "");
}

// A guest has said more, or has left.
static void hear_guest(int i) {
    struct guest *g = &meeting.guests[i];
    int all = receive_more(g->socket, &g->said, &g->got);
    if (g->rank < 0 && all > 0)
        admit(i);
    else if (g->rank < 0 && all < 0)
        dismiss(i, "left after %zu bytes", g->got);
    else if (g->rank > 0 && meeting.listener >= 0) // it may come again
        dismiss(i, "rank %d has left, or says what nobody has asked", g->rank);
    else if (g->rank > 0 && all < 0)
        end_meeting("rank %d has left the meeting", g->rank);
    else if (g->rank > 0 && all > 0 && g->said.kind != htonl(SEEN))
        end_meeting("rank %d on %s: %s", g->rank, g->said.host, g->said.body);
}

static void gather(void) {
    for (int ready = 0; ready < (int)ntohl(my_frame.world) - 1;) {
        struct pollfd fds[meeting.count + 1];
        for (int i = 0; i < meeting.count; i++)
            fds[i] = (struct pollfd){.fd = meeting.guests[i].socket, .events = POLLIN};
        fds[meeting.count] = (struct pollfd){.fd = meeting.listener, .events = POLLIN};
        poll(fds, meeting.count + 1, 100);
        for (int i = meeting.count - 1; i >= 0; i--) // the last takes the place of one that goes
            if (fds[i].revents)
                hear_guest(i);
            else if (meeting.guests[i].rank < 0 && seconds() > meeting.guests[i].until)
                dismiss(i, "silent");
        accept_guest();
        ready = 0;
        for (int i = 0; i < meeting.count; i++)
            ready += is_ready(&meeting.guests[i]);
        if (ready < (int)ntohl(my_frame.world) - 1)
            check_time();
    }
}

// A plan has parts such as "--batch 128", with ", " between them. Returns where the first part
// begins that differs.
static size_t find_difference(const char *a, const char *b) {
    size_t part = 0;
    for (size_t k = 0; a[k] && a[k] == b[k]; k++)
        if (k > 0 && a[k - 1] == ',' && a[k] == ' ')
            part = k + 1;
    return part;
}

static int part_length(const char *part) {
    const char *end = strstr(part, ", ");
    return end ? end - part : (int)strlen(part);
}

// Call it when all ranks are here, so that all are told.
static void compare_plans(void) {
    for (int i = 0; i < meeting.count; i++) {
        const struct frame *f = &meeting.guests[i].said; // still its hello
        if (meeting.guests[i].rank <= 0 || !strcmp(f->body, my_frame.body))
            continue;
        size_t part = find_difference(f->body, my_frame.body);
        const char *theirs = f->body + part, *ours = my_frame.body + part;
        end_meeting("rank %d on %s has \"%.*s\", rank 0 has \"%.*s\": do all ranks have the "
                    "same options and devices, and see the same --snapshot folder?",
                    meeting.guests[i].rank, f->host, part_length(theirs), theirs, part_length(ours),
                    ours);
    }
}

static void tell_all(enum kind kind, const void *body, size_t bytes) {
    for (int i = 0; i < meeting.count; i++)
        if (!send_frame(meeting.guests[i].socket, kind, body, bytes, seconds() + GRACE_SECONDS))
            end_meeting("rank %d has left the meeting: %m", meeting.guests[i].rank);
}

// Beside the snapshot, for a moment, so that each rank finds out whether it sees the same folder.
static void leave_trace(const char *snapshot, const ncclUniqueId *id) {
    if (asprintf(&meeting.trace, "%s.meeting", snapshot) < 0)
        end_meeting("out of memory");
    int file = open(meeting.trace, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 || write(file, id, sizeof *id) != sizeof *id || close(file))
        end_meeting("cannot write %s, in the folder of --snapshot: %m", meeting.trace);
}

static void hold_meeting(const ncclUniqueId *id, const char *snapshot) {
    meeting.guests = calloc(ntohl(my_frame.world) + STRANGERS, sizeof *meeting.guests);
    if (!meeting.guests)
        fail("out of memory");
    listen_for_ranks();
    gather();
    close(meeting.listener);
    meeting.listener = -1;
    meeting.end = seconds() + GRACE_SECONDS;
    for (int i = meeting.count - 1; i >= 0; i--)
        if (meeting.guests[i].rank < 0)
            forget(i);
    compare_plans();
    if (snapshot)
        leave_trace(snapshot, id);
    tell_all(ID, id, sizeof *id);
    gather();
    if (meeting.trace)
        unlink(meeting.trace);
    tell_all(GO, NULL, 0);
    while (meeting.count)
        forget(0);
    free(meeting.guests);
}

// The part of the other ranks.

// A connection to rank 0, which may not listen yet.
static int reach_rank0(void) {
    int error = ECONNRESET, socket_error; // that: it was there, and has left
    socklen_t bytes = sizeof socket_error;
    for (; seconds() < meeting.end; usleep(20000)) {
        struct addrinfo *list = find_rank0();
        error = list ? error : 0;
        for (struct addrinfo *a = list; a; a = a->ai_next) {
            int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
            struct pollfd fd = {.fd = s, .events = POLLOUT};
            error = connect(s, a->ai_addr, a->ai_addrlen) ? errno : 0;
            if (error == EINPROGRESS &&
                poll(&fd, 1, 1000 * fmax(0, fmin(3, meeting.end - seconds() + 0.1))) == 0)
                error = ETIMEDOUT;
            else if (error == EINPROGRESS &&
                     !getsockopt(s, SOL_SOCKET, SO_ERROR, &socket_error, &bytes))
                error = socket_error;
            if (!error) {
                freeaddrinfo(list);
                return s;
            }
            close(s);
        }
        if (list)
            freeaddrinfo(list);
    }
    fail("waited %.0f s (--join-timeout) for rank 0 at MASTER_ADDR=%s, MASTER_PORT=%s: %s%s",
         meeting.timeout, master_host, master_port,
         error ? strerror(error) : "the name server does not answer",
         error == ECONNREFUSED
             ? ": nothing listens there; is it where rank 0 runs, and does that still run?"
         : error == ETIMEDOUT ? ": a firewall, or no such host?"
                              : "");
}

// Waits for what rank 0 says. Returns 1, or 0 when it has left.
static int receive_frame(int socket, struct frame *f, double end) {
    struct pollfd fd = {.fd = socket, .events = POLLIN};
    int all = 0;
    for (size_t got = 0; all == 0 && seconds() < end;) {
        if (poll(&fd, 1, 100) > 0)
            all = receive_more(socket, f, &got);
        if (got >= sizeof f->magic && memcmp(f->magic, my_frame.magic, sizeof f->magic))
            fail("what listens at MASTER_ADDR=%s, MASTER_PORT=%s is not rank 0", master_host,
                 master_port);
    }
    if (all == 0)
        fail("rank 0 at MASTER_ADDR=%s, MASTER_PORT=%s is silent", master_host, master_port);
    if (all > 0 && f->kind == htonl(NO))
        fail("rank 0 on %s: %s", f->host, f->body);
    return all > 0;
}

static int sees_trace(const char *snapshot, const ncclUniqueId *id) {
    char *path;
    ncclUniqueId there;
    if (asprintf(&path, "%s.meeting", snapshot) < 0)
        return 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    int same = file >= 0 && read(file, &there, sizeof there) == sizeof there &&
               !memcmp(&there, id, sizeof there);
    close(file);
    free(path);
    return same;
}

static void visit_rank0(ncclUniqueId *id, const char *snapshot) {
    struct frame answer;
    int socket = -1;
    do { // it may have had too many guests, or what listened there be about to end
        close(socket);
        usleep(20000);
        socket = reach_rank0();
    } while (!send_frame(socket, HELLO, my_frame.body, sizeof my_frame.body, meeting.end) ||
             !receive_frame(socket, &answer, seconds() + meeting.timeout + GRACE_SECONDS) ||
             answer.kind != htonl(ID)); // and a socket may be connected to itself
    memcpy(id, answer.body, sizeof *id);
    double end = seconds() + GRACE_SECONDS / 2; // some file systems take their time
    int sees = !snapshot || sees_trace(snapshot, id);
    for (; !sees && seconds() < end; sees = sees_trace(snapshot, id))
        usleep(10000);
    char why[WHY_SIZE] = "";
    if (!sees)
        refuse(why,
               "does not see what rank 0 has written beside %s: all nodes must see that folder",
               snapshot);
    if (!send_frame(socket, *why ? NO : SEEN, why, sizeof why, seconds() + GRACE_SECONDS) ||
        !receive_frame(socket, &answer, seconds() + 2 * GRACE_SECONDS))
        fail("rank 0 at MASTER_ADDR=%s, MASTER_PORT=%s has left the meeting", master_host,
             master_port);
    close(socket);
}

void meet_by_tcp(const struct place *p, ncclUniqueId *id, const char *plan, const char *snapshot,
                 const char *token_file, double timeout) {
    if (p->world == 1)
        return;
    prepare_frame(p, plan, token_file);
    meeting.timeout = timeout;
    meeting.end = seconds() + timeout;
    if (p->rank == 0)
        hold_meeting(id, snapshot);
    else
        visit_rank0(id, snapshot);
}
