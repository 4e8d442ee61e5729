#include "03_multigpu_launcher/nodes.h"
#include "03_multigpu_launcher/output.h"
#include "common/clock.h"
#include "common/error.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct node {
    struct message said;
    double heard; // when
    struct sockaddr_storage address;
    socklen_t address_bytes;
};

static struct node *nodes;
static double complete; // when node 0 last saw that no node is missing
struct message *me, *boss;
int nodes_socket;

static int is_lost(int n) {
    return n != me->node && (nodes[n].said.state == GONE || seconds() - nodes[n].heard > LOST);
}

void join_nodes(int node, int nnodes, int nproc, int max_restarts, const char *run_id) {
    if (!(nodes = calloc(nnodes, sizeof *nodes)))
        fail("--nnodes %d: %m", nnodes);
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
    complete = seconds();
    for (int n = 0; n < nnodes; n++)
        nodes[n].heard =
            n == 0 ? seconds() : -1e9; // node 0 has some time to answer for the first time
}

// Node 0 has the port twice. The launchers talk over UDP. TCP is for rank 0 to listen at: a socket
// that is bound and does not listen keeps others from being given the port, and with SO_REUSEADDR
// does not hinder rank 0. Port 0 becomes a free one.
void open_port(const char *host, long *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *a;
    char text[8];
    int on = 1, failed;
    do {
        snprintf(text, sizeof text, "%ld", *port);
        if ((failed = getaddrinfo(host, text, &hints, &a)))
            fail("--master-addr %s: %s", host, gai_strerror(failed));
        nodes_socket = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (me->node > 0) {
            if (connect(nodes_socket, a->ai_addr, a->ai_addrlen))
                fail("--master-addr %s: %m", host);
            break;
        }
        int tcp = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        failed = bind(nodes_socket, a->ai_addr, a->ai_addrlen) ||
                 getsockname(nodes_socket, a->ai_addr, &a->ai_addrlen) ||
                 bind(tcp, a->ai_addr, a->ai_addrlen);
        if (failed && (errno != EADDRINUSE || *port)) {
            const char *advice = errno == EADDRINUSE ? "; choose another with --master-port, or 0"
                                 : errno == EADDRNOTAVAIL
                                     ? "; --master-addr is not an address of this node"
                                     : "";
            fail("node 0 cannot have port %s of %s: %s%s", text, host, strerror(errno), advice);
        }
        if (failed) // free over UDP only
            close(nodes_socket), close(tcp);
        else // an IPv6 address has it at the same place
            *port = ntohs(((struct sockaddr_in *)a->ai_addr)->sin_port);
    } while (failed);
    freeaddrinfo(a);
}

void send_message(void) {
    if (me->node > 0)
        send(nodes_socket, me, sizeof *me, 0);
    for (int n = 1; n < me->nnodes && me->node == 0; n++)
        sendto(nodes_socket, me, sizeof *me, 0, (struct sockaddr *)&nodes[n].address,
               nodes[n].address_bytes);
}

static int same_run(const struct message *m) {
    return m->nnodes == me->nnodes && m->nproc == me->nproc &&
           m->max_restarts == me->max_restarts &&
           (!*m->run_id || !*me->run_id || !strcmp(m->run_id, me->run_id));
}

// Time in which this launcher did not run, as after SIGSTOP or while it started many ranks, must
// not be taken for the silence of others.
static void forgive_silence(void) {
    static double before;
    double t = seconds(), held_up = before && t - before > 2 ? t - before : 0;
    before = t;
    for (int n = 0; n < me->nnodes; n++)
        nodes[n].heard += held_up;
}

// Returns 1 if the message belongs to this run. To one that does not, node 0 answers, so that its
// launcher gives up.
static int is_of_this_run(const struct node *from) {
    const struct message *m = &from->said;
    int same = same_run(m);
    if (!same && me->node == 0)
        sendto(nodes_socket, me, sizeof *me, 0, (struct sockaddr *)&from->address,
               from->address_bytes);
    else if (!same)
        fail("node 0 has --nnodes %d --nproc-per-node %d --max-restarts %d --run-id %s, node %d "
             "has not",
             m->nnodes, m->nproc, m->max_restarts, m->run_id, me->node);
    return same && m->node < me->nnodes;
}

// Returns 1 if another launcher than before says that it is this node. It is taken when the first
// one is lost, and at node 0 from the next attempt on.
static int is_impostor(const struct node *from) {
    const struct node *n = &nodes[from->said.node];
    int other = n->said.pid != from->said.pid || n->address_bytes != from->address_bytes ||
                memcmp(&n->address, &from->address, from->address_bytes);
    return n->address_bytes && other &&
           (!is_lost(from->said.node) || (me->node == 0 && me->order != STOP));
}

void receive_messages(void) {
    struct node from;
    struct message *m = &from.said;
    forgive_silence();
    for (;;) {
        from.address_bytes = sizeof from.address;
        ssize_t got = recvfrom(nodes_socket, m, sizeof *m, MSG_TRUNC,
                               (struct sockaddr *)&from.address, &from.address_bytes);
        if (got < 0)
            return;
        if (got != sizeof *m || m->magic != me->magic || m->run_id[sizeof m->run_id - 1] ||
            strchr(m->run_id, '/') || m->node < 0 || (m->node == 0) == (me->node == 0))
            continue; // a stranger
        if (!is_of_this_run(&from) || is_impostor(&from))
            continue;
        from.heard = seconds();
        nodes[m->node] = from;
        if (me->node > 0)
            strcpy(me->run_id, m->run_id);
    }
}

struct tally {                     // of nodes
    int busy, done, failed, final; // whose ranks run, and how those of this attempt have ended
    int missing;                   // number of a lost one, 0: none is, as node 0 is this one
};

static struct tally count_nodes(void) {
    struct tally t = {0};
    for (int n = 0; n < me->nnodes; n++) {
        const struct message *m = &nodes[n].said;
        if (me->order == STOP && m->magic &&
            m->attempt > me->order_attempt) // node 0 was started anew
            me->order_attempt = m->attempt;
        int ours = m->attempt == me->order_attempt;
        if (is_lost(n))
            t.missing = n;
        else
            t.busy += m->state == RUNNING || m->state == STOPPING;
        t.done += m->state == DONE && ours;
        t.failed += (m->state == STOPPING || m->state == FAILED) && ours;
        t.final += m->final && m->state != DONE && m->state != RUNNING;
    }
    return t;
}

// A node that has not heard the order to stop may yet start what was ordered before.
static int all_have_heard(void) {
    for (int n = 1; n < me->nnodes; n++) {
        const struct message *m = &nodes[n].said;
        if (!is_lost(n) && (m->order != STOP || m->order_attempt != me->order_attempt))
            return 0;
    }
    return 1;
}

// All ranks have stopped: they start once more, or never again.
static void order_next_attempt(const struct tally *t, double join_timeout) {
    int last = t->final || me->order_attempt == me->max_restarts;
    if (t->missing && !last) {
        if (seconds() - complete < join_timeout)
            return;
        note("node %d of %d has not come within %g s (--join-timeout)", t->missing, me->nnodes,
             join_timeout);
    }
    me->order = t->missing || last ? END : START;
    if (me->order == START && ++me->order_attempt > 0)
        note("starting all ranks again: restart %d of %d", me->order_attempt, me->max_restarts);
}

void decide(double join_timeout) {
    struct tally t = count_nodes();
    if (!t.missing)
        complete = seconds();
    if (me->order == START && t.done == me->nnodes) {
        me->order = END;
        me->code = 0;
    } else if (me->order == START && (t.failed || t.final || t.missing)) {
        me->order = STOP;
        if (t.missing)
            note("node %d is lost: its launcher %s", t.missing,
                 nodes[t.missing].said.state == GONE ? "has ended" : "is silent");
    }
    if (me->order == STOP && !t.busy && all_have_heard())
        order_next_attempt(&t, join_timeout);
}

// Adds the names of the lost nodes to text, the first eight of them.
static void list_lost_nodes(char *text, size_t size) {
    int lost = 0;
    for (int n = 0; n < me->nnodes; n++)
        if (is_lost(n) && ++lost <= 8)
            snprintf(text + strlen(text), size - strlen(text), "%snode %d", lost > 1 ? ", " : "",
                     n);
    if (lost > 8)
        snprintf(text + strlen(text), size - strlen(text), " and %d more", lost - 8);
}

void report_wait(const char *host, long port, double join_timeout) {
    static double next;
    char missing[256] = "";
    int waits = boss->order == STOP && me->state != RUNNING && me->state != STOPPING;
    double t = seconds(), since = me->node > 0 ? nodes[0].heard : complete;
    if (!waits || !next)
        next = t + 5;
    if (t < next)
        return;
    next = t + 30;
    if (me->node > 0 && t - since < 2) {
        note("node 0 has answered at %s, port %ld; it waits for other nodes", host, port);
        return;
    }
    if (me->node > 0)
        strcpy(missing, "node 0");
    else
        list_lost_nodes(missing, sizeof missing);
    if (*missing)
        note("waiting for %s at %s, port %ld, for at most %.0f s more (--join-timeout)", missing,
             host, port, since + join_timeout > t ? since + join_timeout - t : 0);
}

double boss_silence(void) {
    return me->node > 0 ? seconds() - nodes[0].heard : 0;
}

int is_over(void) {
    for (int n = 1; n < me->nnodes && me->node == 0; n++)
        if (!is_lost(n))
            return 0;
    return boss->order == END;
}
