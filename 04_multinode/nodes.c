#include "04_multinode/nodes.h"
#include "03_multigpu_launcher/launch_options.h"
#include "03_multigpu_launcher/output.h"
#include "04_multinode/addresses.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/say.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct node {
    struct node_message message; // the last one
    double heard_at;             // time of that message
    int socket;                  // through which it came
    struct sockaddr_storage address;
    socklen_t address_bytes;
};

static struct node *nodes;
static int new_id; // node 0: its launcher has chosen the name of the run, and may tell it
struct node_message *me, *node0;
static double complete_at; // on node 0: the last time at which no node was lost
char node0_at[128];

static struct sockets sockets; // one for each address of node 0

const struct option_spec node_option_specs[] = {
    {"nnodes", OPTION_INT, &launch_opt.nnodes, "1", 1, 10000, "number of nodes"},
    {"node-rank", OPTION_INT, &launch_opt.node_rank, "0", 0, 9999, "number of this node, from 0"},
    {"master-addr", OPTION_TEXT, &launch_opt.master_addr, "127.0.0.1", 0, 0, "address of node 0"},
    {"master-port", OPTION_INT, &launch_opt.master_port, "29500", 1, 65535, "port of node 0"},
    {"join-timeout", OPTION_REAL, &launch_opt.join_timeout, "300", 0, 1e6,
     "seconds to wait for other nodes"},
    {0},
};

int is_lost(int n) {
    return n != me->node && (nodes[n].message.gone || seconds() - nodes[n].heard_at > LOST);
}

const struct node_message *message_of(int n) {
    return &nodes[n].message;
}

void join_nodes(void) {
    int node = launch_opt.node_rank, nnodes = launch_opt.nnodes;
    if (node >= nnodes)
        wrong_usage("--node-rank %d: with --nnodes %d the last is %d", node, nnodes, nnodes - 1);
    if (!(nodes = calloc(nnodes, sizeof *nodes)))
        fail("--nnodes %d: %m", nnodes);
    node0 = &nodes[0].message;
    me = &nodes[node].message;
    *me = (struct node_message){.magic = 0x4c4e4348,
                                .node = node,
                                .nnodes = nnodes,
                                .nproc = launch_opt.nproc,
                                .max_restarts = launch_opt.max_restarts};
    me->pid = getpid();
    me->ranks = local;
    me->order_attempt = -1;
    me->code = 1;
    snprintf(me->run_id, sizeof me->run_id, "%s", launch_opt.run_id);
    new_id = node == 0 && !*launch_opt.run_id;
    if (new_id)
        snprintf(me->run_id, sizeof me->run_id, "%ld-%d", time(NULL), getpid());
    launch_opt.run_id = me->run_id; // other nodes learn it later
    complete_at = seconds();
    for (int n = 0; n < nnodes; n++)
        nodes[n].heard_at = n == 0 ? seconds() : -1e9; // node 0 has time for its first answer
}

static int use_addresses(const struct addrinfo *list) {
    return open_sockets(&sockets, list, SOCK_DGRAM, me->node > 0 ? connect : bind);
}

// If node 0 has none of the addresses, they may be those of a service or a router, which passes
// messages on to this node. Then node 0 uses all addresses of its own, if the user has chosen a
// name of the run that keeps strangers out.
int open_port(void) {
    const char *host = launch_opt.master_addr, *why;
    char port[8];
    snprintf(port, sizeof port, "%ld", launch_opt.master_port);
    struct addrinfo *list =
        wait_for_addresses("--master-addr ", host, port, launch_opt.join_timeout);
    int error = use_addresses(list);
    freeaddrinfo(list);
    if (error == EADDRNOTAVAIL && me->node == 0 && !new_id &&
        (list = find_addresses(NULL, port, &why))) {
        error = use_addresses(list);
        freeaddrinfo(list);
    }
    if (error && me->node > 0)
        fail("--master-addr %s: %s", host, strerror(error));
    if (error)
        fail("node 0 cannot use port %s of %s: %s%s", port, host, strerror(error),
             error == EADDRINUSE ? "; choose another with --master-port"
             : error == EADDRNOTAVAIL
                 ? "; --master-addr is not an address of this node: with a --run-id that nobody "
                   "guesses, node 0 listens at all its addresses"
                 : "");
    int messages = epoll_create1(EPOLL_CLOEXEC);
    if (messages < 0)
        fail("cannot wait for other nodes: %m");
    for (int i = 0; i < sockets.count; i++)
        epoll_ctl(messages, EPOLL_CTL_ADD, sockets.fds[i],
                  &(struct epoll_event){.events = EPOLLIN});
    describe_sockets(node0_at, &sockets, me->node > 0 ? getpeername : getsockname);
    return messages;
}

void send_message(void) {
    for (int i = 0; i < sockets.count && me->node > 0; i++) // node 0 takes the first that arrives
        send(sockets.fds[i], me, sizeof *me, 0);
    for (int n = 1; n < me->nnodes && me->node == 0; n++)
        if (nodes[n].address_bytes)
            sendto(nodes[n].socket, me, sizeof *me, 0, (struct sockaddr *)&nodes[n].address,
                   nodes[n].address_bytes);
}

static int same_options(const struct node_message *m) {
    return m->nnodes == me->nnodes && m->nproc == me->nproc && m->max_restarts == me->max_restarts;
}

// Node 0 sends no name to a launcher with another one. The others may learn the name from node 0 if
// it is a new one; a name that the user has chosen must be known.
static int same_run(const struct node_message *m) {
    int learns = me->node > 0 ? *m->run_id && !*me->run_id : new_id && !*m->run_id;
    return learns || (*m->run_id && !strcmp(m->run_id, me->run_id));
}

// While this launcher did not run, because of SIGSTOP or because it started many ranks, it received
// nothing. It must not count this time as silence of the other nodes.
static void forgive_silence(void) {
    static double before;
    double t = seconds(), held_up = before && t - before > 2 ? t - before : 0;
    before = t;
    for (int n = 0; n < me->nnodes; n++)
        nodes[n].heard_at += held_up;
}

// On node 0, which would wait without a word for the launcher that it refuses. Strangers may send
// many messages.
static void say_refusal(const struct node *from) {
    const struct node_message *m = &from->message;
    static double next;
    char address[64];
    if (me->order != STOP || seconds() < next)
        return;
    next = seconds() + 5;
    show_address(address, &from->address);
    if (same_options(m))
        note("the launcher of node %d at %s does not belong to this run (--run-id)", m->node,
             address);
    else
        note("the launcher of node %d at %s has other options than this one: --nnodes %d "
             "--nproc-per-node %d --max-restarts %d",
             m->node, address, m->nnodes, m->nproc, m->max_restarts);
}

// Returns 1 if the message belongs to this run. If not, node 0 answers, so that the other launcher
// gives up.
static int is_of_this_run(const struct node *from) {
    const struct node_message *m = &from->message;
    int same = same_options(m) && same_run(m);
    struct node_message answer = *me;
    memset(answer.run_id, 0, sizeof answer.run_id);
    if (!same && me->node == 0) {
        say_refusal(from);
        sendto(from->socket, &answer, sizeof answer, 0, (struct sockaddr *)&from->address,
               from->address_bytes);
    } else if (!same && !same_options(m))
        fail("node %d has other options than node 0: --nnodes %d --nproc-per-node %d "
             "--max-restarts %d",
             me->node, m->nnodes, m->nproc, m->max_restarts);
    else if (!same)
        fail("node %d does not belong to the run of node 0: start all launchers with the same "
             "--run-id, or all without; without it, each start of node 0 is a new run",
             me->node);
    return same && m->node < me->nnodes;
}

// Returns 1 if a second launcher claims the number of a node. It may replace the first launcher
// only when that one is lost; on node 0, this takes effect with the next attempt.
static int is_impostor(const struct node *from) {
    const struct node *n = &nodes[from->message.node];
    int other = n->message.pid != from->message.pid || n->address_bytes != from->address_bytes ||
                memcmp(&n->address, &from->address, from->address_bytes);
    return n->address_bytes && other &&
           (!is_lost(from->message.node) || (me->node == 0 && me->order != STOP));
}

static void receive_from(int socket) {
    struct node from = {.socket = socket};
    struct node_message *m = &from.message;
    for (;;) {
        from.address_bytes = sizeof from.address;
        ssize_t got = recvfrom(socket, m, sizeof *m, MSG_TRUNC, (struct sockaddr *)&from.address,
                               &from.address_bytes);
        if (got < 0)
            return;
        if (got != sizeof *m || m->magic != me->magic || m->run_id[sizeof m->run_id - 1] ||
            m->reason[sizeof m->reason - 1] || strchr(m->run_id, '/') || m->node < 0 ||
            (m->node == 0) == (me->node == 0))
            continue; // not from a launcher
        if (!is_of_this_run(&from) || is_impostor(&from))
            continue;
        from.heard_at = seconds();
        nodes[m->node] = from;
        if (me->node > 0)
            strcpy(me->run_id, m->run_id);
        else if (!*me->reason)
            strcpy(me->reason, m->reason);
    }
}

void receive_messages(void) {
    forgive_silence();
    for (int i = 0; i < sockets.count; i++)
        receive_from(sockets.fds[i]);
}

int find_lost_node(void) {
    int lost = 0;
    for (int n = 1; n < me->nnodes; n++)
        if (is_lost(n))
            lost = n;
    if (!lost)
        complete_at = seconds();
    return lost;
}

// Adds the names of the lost nodes to text, the first eight of them.
static void list_lost_nodes(char *text, size_t size) {
    int lost = 0;
    for (int n = 0; n < me->nnodes; n++)
        if (is_lost(n) && ++lost <= 8)
            add_text(text, size, "%snode %d", lost > 1 ? ", " : "", n);
    if (lost > 8)
        add_text(text, size, " and %d more", lost - 8);
}

double node0_silence(void) {
    return me->node > 0 ? seconds() - nodes[0].heard_at : 0;
}

double join_time_left(void) {
    double since = me->node > 0 ? nodes[0].heard_at : complete_at;
    return since + launch_opt.join_timeout - seconds();
}

void report_wait(void) {
    static double next;
    char missing[256] = "";
    int waits = node0->order == STOP && local.state != RUNNING && local.state != STOPPING;
    double t = seconds();
    if (!waits || !next)
        next = t + 5;
    if (t < next)
        return;
    next = t + 30;
    if (me->node > 0 && node0_silence() < 2) {
        note("node 0 has answered at %s; it waits for other nodes", node0_at);
        return;
    }
    if (me->node > 0)
        strcpy(missing, "node 0");
    else
        list_lost_nodes(missing, sizeof missing);
    if (*missing)
        note("waiting for %s at %s, for at most %.0f s more (--join-timeout)", missing, node0_at,
             fmax(join_time_left(), 0));
}
