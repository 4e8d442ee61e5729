// Carries the messages of a communicator between hosts. One thread per communicator moves messages
// from the rings to the sockets, and from the sockets into the rings. The collectives therefore use
// rings only. Each second, a rank says that it is alive, because nothing else tells a host that has
// lost its power from one that computes. Frames use the byte order of the machine, so all hosts of
// a run must have the same one.
#include "comm.h"
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { LINGER_SECONDS = 1 };
enum frame_kind { DATA = 1, WAITS, FAILED, BYE };

struct frame {
    int kind, result; // result: of a FAILED frame
    struct call call;
    double arrived; // of a DATA frame, as in struct message
    uint64_t bytes; // of the data that follow
};

struct transit {
    struct frame in, out;
    size_t in_done, out_done; // bytes of a frame and its data that have been moved
    int sending;              // a part of out is not sent yet
    char *follows;            // the data of out
    atomic_int tell;
    int said_failed, said_bye;
};

// Marks the peer as gone, and wakes the rank, which checks its peers when it waits.
static void hang_up(struct ncclComm *c, struct channel *ch, int error) {
    ch->hung_up = error;
    cpu_ring_bell(c->seat);
}

static int in_ring_is_full(const struct channel *ch) {
    return atomic_load(&ch->in->written) - atomic_load(&ch->in->read) == ch->slots;
}

static int wants_input(const struct channel *ch) {
    const struct transit *t = ch->transit;
    return t->in_done < sizeof t->in || t->in.kind != DATA || !in_ring_is_full(ch);
}

static int frame_is_complete(const struct transit *t) {
    return t->in_done >= sizeof t->in && t->in_done == sizeof t->in + t->in.bytes;
}

// Handles a complete frame: a message for the ring, or news about the peer.
static void accept_frame(struct ncclComm *c, struct channel *ch) {
    struct transit *t = ch->transit;
    struct message *m = cpu_slot(c, ch, ch->in, atomic_load(&ch->in->written));
    if (t->in.kind == DATA) {
        m->call = t->in.call;
        m->arrived = t->in.arrived;
        m->bytes = t->in.bytes;
        m->lent = 0;
        m->number = atomic_fetch_add(&ch->in->written, 1) + 1;
    } else if (t->in.kind == WAITS) {
        pthread_mutex_lock(&c->lock);
        ch->seat->waits_in = t->in.call;
        pthread_mutex_unlock(&c->lock);
    } else if (t->in.kind == FAILED) {
        ch->seat->failed = t->in.result;
    } else {
        ch->seat->left = 1;
    }
    t->in_done = 0;
    cpu_ring_bell(c->seat);
}

// Receives as much as the socket has. A message goes straight into its slot of the ring, and the
// reason of a failure into the local copy of the peer's seat.
static void take_in(struct ncclComm *c, struct channel *ch) {
    struct transit *t = ch->transit;
    while (!ch->hung_up && wants_input(ch)) {
        if (frame_is_complete(t)) {
            accept_frame(c, ch);
            continue;
        }
        struct message *m = cpu_slot(c, ch, ch->in, atomic_load(&ch->in->written));
        char *to = (char *)&t->in + t->in_done;
        size_t wanted = sizeof t->in - t->in_done;
        if (t->in_done >= sizeof t->in) {
            size_t done = t->in_done - sizeof t->in;
            to = (t->in.kind == DATA ? m->data : ch->seat->why) + done;
            wanted = t->in.bytes - done;
        }
        ssize_t n = recv(ch->socket, to, wanted, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        t->in_done += n > 0 ? (size_t)n : 0;
        ch->heard = n > 0 ? cpu_now() : ch->heard;
        if (n <= 0)
            hang_up(c, ch, n ? errno : EPIPE);
        else if (t->in.kind < DATA || t->in.kind > BYE ||
                 (t->in_done >= sizeof t->in &&
                  t->in.bytes > (t->in.kind == DATA ? c->chunk : WHY_BYTES)))
            hang_up(c, ch, EPROTO);
    }
}

// FAILED goes before DATA. WAITS goes after them, or a rank whose message is still on its way would
// seem to have gone on without sending it.
static int has_news(const struct ncclComm *c, const struct channel *ch) {
    return ch->transit->tell && !ch->transit->said_failed &&
           (c->seat->failed || atomic_load(&ch->out->written) == atomic_load(&ch->out->read));
}

// Returns 1 if there is a frame to send.
static int next_frame(struct ncclComm *c, struct channel *ch) {
    struct transit *t = ch->transit;
    uint64_t read = atomic_load(&ch->out->read);
    if (t->sending)
        return 1;
    t->out_done = 0;
    t->follows = NULL;
    if (has_news(c, ch)) {
        t->tell = 0;
        int failed = t->said_failed = atomic_load(&c->seat->failed);
        t->out = (struct frame){.kind = failed ? FAILED : WAITS, .result = failed};
        t->out.bytes = failed ? WHY_BYTES : 0;
        t->follows = c->seat->why;
        pthread_mutex_lock(&c->lock);
        t->out.call = c->seat->waits_in;
        pthread_mutex_unlock(&c->lock);
    } else if (atomic_load(&ch->out->written) > read) {
        struct message *m = cpu_slot(c, ch, ch->out, read);
        t->out =
            (struct frame){.kind = DATA, .call = m->call, .arrived = m->arrived, .bytes = m->bytes};
        t->follows = m->data;
    } else if (c->network_stop && !t->said_bye) {
        t->out = (struct frame){.kind = BYE};
    } else {
        return 0;
    }
    return t->sending = 1;
}

// Sends as much as the socket takes, and frees the slots of sent messages.
static void send_out(struct ncclComm *c, struct channel *ch) {
    struct transit *t = ch->transit;
    while (!ch->hung_up && next_frame(c, ch)) {
        size_t of_frame = t->out_done < sizeof t->out ? sizeof t->out - t->out_done : 0;
        size_t past = t->out_done > sizeof t->out ? t->out_done - sizeof t->out : 0;
        struct iovec pieces[2] = {{(char *)&t->out + sizeof t->out - of_frame, of_frame},
                                  {t->follows ? t->follows + past : NULL, t->out.bytes - past}};
        struct msghdr m = {.msg_iov = pieces, .msg_iovlen = 2};
        ssize_t n = sendmsg(ch->socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            hang_up(c, ch, errno);
            return;
        }
        t->out_done += (size_t)n;
        if (t->out_done < sizeof t->out + t->out.bytes)
            continue;
        t->sending = 0;
        if (t->out.kind == DATA) {
            atomic_fetch_add(&ch->out->read, 1);
            cpu_ring_bell(c->seat);
        } else if (t->out.kind == BYE) {
            t->said_bye = 1;
            shutdown(ch->socket, SHUT_WR);
        }
    }
}

// The network thread. After cpu_network_stop, it goes on until all frames are sent (with at_once,
// only WAITS and FAILED), and until the peers have closed their side or LINGER_SECONDS are over. If
// it closed a socket with unread data, the kernel would drop frames that are still on their way.
static void *carry(void *argument) {
    struct ncclComm *c = argument;
    struct pollfd polled[1 + MOST_PEERS] = {{.fd = c->network_wake[0], .events = POLLIN}};
    double deadline = 0, told = cpu_now();
    for (;;) {
        int open = 0, news = 0, is_time = cpu_now() > told + 1 && !c->network_stop;
        told = is_time ? cpu_now() : told;
        for (int p = 0; p < c->ranks; p++) {
            struct channel *ch = &c->channels[p];
            polled[1 + p] = (struct pollfd){.fd = -1};
            if (!cpu_is_remote(ch) || ch->hung_up)
                continue;
            open++;
            if (is_time)
                ch->transit->tell = 1;
            news += has_news(c, ch) || (ch->transit->sending && ch->transit->out.kind != DATA);
            polled[1 + p].events =
                (short)((wants_input(ch) ? POLLIN : 0) | (next_frame(c, ch) ? POLLOUT : 0));
            if (polled[1 + p].events)
                polled[1 + p].fd = ch->socket;
        }
        if (c->network_stop && !deadline)
            deadline = cpu_now() + LINGER_SECONDS;
        if (deadline && (cpu_now() > deadline || !open || (c->network_stop > 1 && !news)))
            return NULL;
        poll(polled, 1 + (nfds_t)c->ranks, deadline ? 50 : 1000);
        char rung[64];
        recv(c->network_wake[0], rung, sizeof rung, MSG_DONTWAIT);
        for (int p = 0; p < c->ranks; p++) {
            if (!cpu_is_remote(&c->channels[p]))
                continue;
            take_in(c, &c->channels[p]);
            send_out(c, &c->channels[p]);
        }
    }
}

ncclResult_t cpu_network_start(struct ncclComm *c) {
    int remote = 0;
    for (int p = 0; p < c->ranks; p++) {
        struct channel *ch = &c->channels[p];
        if (cpu_is_remote(ch))
            ch->transit = cpu_new(sizeof *ch->transit);
        remote += cpu_is_remote(ch);
        ch->heard = cpu_now();
    }
    if (!remote)
        return ncclSuccess;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, c->network_wake))
        c->network_wake[0] = c->network_wake[1] = -1;
    c->network_runs = c->network_wake[0] >= 0 && !cpu_start_thread(&c->network, carry, c);
    if (c->network_runs)
        return ncclSuccess;
    return cpu_refuse(ncclSystemError, "rank %d: cannot start the network thread: %s", c->named,
                      cpu_system_error(errno));
}

void cpu_network_wake(struct ncclComm *c) {
    if (!c->network_runs)
        return;
    send(c->network_wake[1], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL); // fails if it is full
}

void cpu_network_tell(struct ncclComm *c) {
    for (int p = 0; p < c->ranks; p++)
        if (c->channels[p].transit)
            c->channels[p].transit->tell = 1;
    cpu_network_wake(c);
}

void cpu_network_stop(struct ncclComm *c, int at_once) {
    if (c->network_runs) {
        c->network_stop = 1 + at_once;
        cpu_network_wake(c);
        pthread_join(c->network, NULL);
        c->network_runs = 0;
    }
}
