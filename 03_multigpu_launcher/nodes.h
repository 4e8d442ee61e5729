// Launchers of several nodes agree here. Each says what its ranks do, again and again, in
// datagrams; node 0 takes it all down and says what all are to do. So a lost datagram does no harm,
// as the next says the same, and silence means that a node is gone. With one node, node 0 talks to
// nobody, and the rest is the same.
#pragma once
#include "output.h"
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LOST = 8 }; // seconds of silence

enum state { IDLE, RUNNING, STOPPING, FAILED, DONE, GONE }; // of the ranks of a node
enum order { STOP, GO, END }; // GO starts attempt order_attempt, if not yet done

struct message { // all nodes have the same byte order, or do not understand magic
    uint32_t magic;
    int32_t node, nnodes, nproc, max_restarts, pid; // of the launcher
    int32_t state, attempt,
        final;                    // attempt: the last that was started, -1: none; final: no restart
    int32_t order, order_attempt; // of node 0, and what the others have heard of it
    int32_t code;                 // to exit with at the END
    char run_id[64];              // empty where node 0 has not told it yet
};

struct node {
    struct message said;
    double heard; // when
    struct sockaddr_storage address;
    socklen_t address_bytes;
};
static struct node *nodes;
static struct message *me, *boss; // what this launcher says, and what node 0 said last
static int udp;
static double complete; // when node 0 last saw that no node is missing

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int is_lost(int n) {
    return n != me->node && (nodes[n].said.state == GONE || now() - nodes[n].heard > LOST);
}

// What this launcher says from now on; a run without a name gets one.
static void join_nodes(int node, int nnodes, int nproc, int max_restarts, const char *run_id) {
    if (!(nodes = calloc(nnodes, sizeof *nodes)))
        err(1, "--nnodes %d", nnodes);
    boss = &nodes[0].said;
    me = &nodes[node].said;
    *me = (struct message){.magic = 0x4c4e4348,
                           .node = node,
                           .nnodes = nnodes,
                           .nproc = nproc,
                           .max_restarts = max_restarts};
    me->pid = getpid();
    me->attempt = me->order_attempt = -1;
    me->code = 1;
    snprintf(me->run_id, sizeof me->run_id, "%s", run_id);
    if (node == 0 && !*run_id)
        snprintf(me->run_id, sizeof me->run_id, "%ld-%d", time(NULL), getpid());
    complete = now();
    for (int n = 0; n < nnodes; n++)
        nodes[n].heard = n == 0 ? now() : -1e9; // node 0 has some time to answer for the first time
}

// Node 0 has the port twice. The launchers talk over UDP. TCP is for rank 0 to listen at: a socket
// that is bound and does not listen keeps others from being given the port, and with SO_REUSEADDR
// does not hinder rank 0. Port 0 becomes a free one.
static void open_port(const char *host, long *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *a;
    char text[8];
    int on = 1, failed;
    do {
        snprintf(text, sizeof text, "%ld", *port);
        if ((failed = getaddrinfo(host, text, &hints, &a)))
            errx(1, "--master-addr %s: %s", host, gai_strerror(failed));
        udp = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (me->node > 0) {
            if (connect(udp, a->ai_addr, a->ai_addrlen))
                err(1, "--master-addr %s", host);
            break;
        }
        int tcp = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        failed = bind(udp, a->ai_addr, a->ai_addrlen) ||
                 getsockname(udp, a->ai_addr, &a->ai_addrlen) ||
                 bind(tcp, a->ai_addr, a->ai_addrlen);
        if (failed && (errno != EADDRINUSE || *port)) {
            const char *advice = errno == EADDRINUSE ? "; choose another with --master-port, or 0"
                                 : errno == EADDRNOTAVAIL
                                     ? "; --master-addr is not an address of this node"
                                     : "";
            errx(1, "node 0 cannot have port %s of %s: %s%s", text, host, strerror(errno), advice);
        }
        if (failed) // free over UDP only
            close(udp), close(tcp);
        else // an IPv6 address has it at the same place
            *port = ntohs(((struct sockaddr_in *)a->ai_addr)->sin_port);
    } while (failed);
    freeaddrinfo(a);
}

static void say(void) {
    if (me->node > 0)
        send(udp, me, sizeof *me, 0);
    for (int n = 1; n < me->nnodes && me->node == 0; n++)
        sendto(udp, me, sizeof *me, 0, (struct sockaddr *)&nodes[n].address,
               nodes[n].address_bytes);
}

static int same_run(const struct message *m) {
    return m->nnodes == me->nnodes && m->nproc == me->nproc &&
           m->max_restarts == me->max_restarts &&
           (!*m->run_id || !*me->run_id || !strcmp(m->run_id, me->run_id));
}

// Takes down what others have said. Strangers are not listened to.
static void hear(void) {
    static double before;
    struct node from;
    struct message *m = &from.said;
    double t = now(),
           held_up = before && t - before > 2 ? t - before : 0; // SIGSTOP, or a slow start of ranks
    before = t;
    for (int n = 0; n < me->nnodes; n++)
        nodes[n].heard += held_up; // which must not be taken for the silence of others
    for (;;) {
        from.address_bytes = sizeof from.address;
        ssize_t got = recvfrom(udp, m, sizeof *m, MSG_TRUNC, (struct sockaddr *)&from.address,
                               &from.address_bytes);
        if (got < 0)
            return;
        if (got != sizeof *m || m->magic != me->magic || m->run_id[sizeof m->run_id - 1] ||
            strchr(m->run_id, '/') || m->node < 0 || (m->node == 0) == (me->node == 0))
            continue;
        int same = same_run(m);
        if (!same && me->node == 0) // it is told, and gives up
            sendto(udp, me, sizeof *me, 0, (struct sockaddr *)&from.address, from.address_bytes);
        else if (!same)
            errx(1,
                 "node 0 has --nnodes %d --nproc-per-node %d --max-restarts %d --run-id %s, node "
                 "%d has not",
                 m->nnodes, m->nproc, m->max_restarts, m->run_id, me->node);
        if (!same || m->node >= me->nnodes)
            continue;
        struct node *n = &nodes[m->node];
        int other = n->said.pid != m->pid || n->address_bytes != from.address_bytes ||
                    memcmp(&n->address, &from.address, from.address_bytes);
        if (n->address_bytes && other &&
            (!is_lost(m->node) || (me->node == 0 && me->order != STOP)))
            continue; // somebody else says that it is this node, and may be it from the next
                      // attempt on
        from.heard = now();
        *n = from;
        if (me->node > 0)
            strcpy(me->run_id, m->run_id);
    }
}

// Node 0: what all are to do, from what they have said. Attempts go on as long as restarts remain.
static void decide(double join_timeout) {
    int busy = 0, done = 0, failed = 0, final = 0, missing = 0;
    for (int n = 0; n < me->nnodes; n++) {
        struct message *m = &nodes[n].said;
        if (me->order == STOP && m->magic &&
            m->attempt > me->order_attempt) // node 0 was started anew
            me->order_attempt = m->attempt;
        if (is_lost(n))
            missing = n;
        else
            busy += m->state == RUNNING || m->state == STOPPING;
        done += m->state == DONE && m->attempt == me->order_attempt;
        failed += (m->state == STOPPING || m->state == FAILED) && m->attempt == me->order_attempt;
        final += m->final && m->state != DONE && m->state != RUNNING;
    }
    if (!missing) // which cannot be node 0, this one
        complete = now();
    // All is done; or a part is not to be had, so nothing is.
    if (me->order == GO && done == me->nnodes) {
        me->order = END;
        me->code = 0;
    } else if (me->order == GO && (failed || final || missing)) {
        me->order = STOP;
        if (missing)
            note("node %d is lost: its launcher %s", missing,
                 nodes[missing].said.state == GONE ? "has ended" : "is silent");
    }
    // Who has not heard the order to stop may yet start what was ordered before.
    for (int n = 1; n < me->nnodes; n++) {
        const struct message *m = &nodes[n].said;
        busy += !is_lost(n) && (m->order != STOP || m->order_attempt != me->order_attempt);
    }
    if (me->order != STOP || busy)
        return;
    // All have stopped: once more, or never again.
    int last = final || me->order_attempt == me->max_restarts;
    if (missing && !last) {
        if (now() - complete < join_timeout)
            return;
        note("node %d of %d has not come within %g s (--join-timeout)", missing, me->nnodes,
             join_timeout);
    }
    me->order = missing || last ? END : GO;
    if (me->order == GO && ++me->order_attempt > 0)
        note("starting all %d ranks again: restart %d of %d", me->nnodes * me->nproc,
             me->order_attempt, me->max_restarts);
}

// There is nothing left to do, and every node that is there knows.
static int is_over(void) {
    for (int n = 1; n < me->nnodes && me->node == 0; n++)
        if (!is_lost(n))
            return 0;
    return boss->order == END;
}
