#include "03_multigpu_launcher/states.h"
#include "03_multigpu_launcher/launch_options.h"
#include "03_multigpu_launcher/local_ranks.h"
#include "03_multigpu_launcher/nodes.h"
#include "03_multigpu_launcher/output.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ended_by; // signal that ends the run, 0: none

static void start_attempt(void) {
    me->attempt = node0->order_attempt;
    start_local_ranks();
}

// Without this launcher, a run that has not ended cannot continue. The other nodes learn this.
static void leave_run(void) {
    if (node0->order != END)
        me->final = 1, me->order = END;
}

enum { ANY = -1 };

// In a state that has no row for an event, the event changes nothing.
static const struct {
    int from; // a state, or ANY
    enum event event;
    enum state to;
    void (*action)(void);
} transitions[] = {
    {IDLE, START_ORDERED, RUNNING, start_attempt},
    {RUNNING, RANK_FAILED, STOPPING, stop_local_ranks},
    {RUNNING, STOP_ORDERED, STOPPING, stop_local_ranks},
    {STOPPING, RANKS_ENDED, FAILED, close_outputs},
    {FAILED, START_ORDERED, RUNNING, start_attempt},
    {RUNNING, RANKS_ENDED, DONE, close_outputs},
    {DONE, START_ORDERED, RUNNING, start_attempt}, // ranks of another node have failed
    {DONE, TIME_OVER, FAILED, NULL},               // they still run
    {ANY, LAUNCHER_ENDS, GONE, leave_run},
};

void handle(enum event event) {
    for (size_t i = 0; i < sizeof transitions / sizeof *transitions; i++) {
        int from = transitions[i].from;
        if (transitions[i].event != event || (from != me->state && from != ANY))
            continue;
        me->state = transitions[i].to;
        if (transitions[i].action)
            transitions[i].action();
        return;
    }
}

// How many nodes are in which state.
struct tally {
    int busy;         // their ranks run
    int done, failed; // their ranks have ended in this attempt: all with 0, or not
    int final;        // they allow no restart
    int missing;      // not a count: the number of a lost node, 0: none (node 0 is this one)
};

static struct tally count_nodes(void) {
    struct tally t = {.missing = find_lost_node()};
    for (int n = 0; n < me->nnodes; n++) {
        const struct message *m = message_of(n);
        // A new launcher of node 0 learns the number of the attempt from the other nodes.
        if (me->order == STOP && m->magic && m->attempt > me->order_attempt)
            me->order_attempt = m->attempt;
        int current = m->attempt == me->order_attempt;
        if (!is_lost(n))
            t.busy += m->state == RUNNING || m->state == STOPPING;
        t.done += m->state == DONE && current;
        t.failed += (m->state == STOPPING || m->state == FAILED) && current;
        t.final += m->final && m->state != DONE && m->state != RUNNING;
    }
    return t;
}

// A node that does not know the order to stop may still start the ranks of this attempt.
static int all_know_order(void) {
    for (int n = 1; n < me->nnodes; n++) {
        const struct message *m = message_of(n);
        if (!is_lost(n) && (m->order != STOP || m->order_attempt != me->order_attempt))
            return 0;
    }
    return 1;
}

// All ranks have stopped. They start again, or the run ends.
static void order_next_attempt(const struct tally *t) {
    int last = t->final || me->order_attempt == me->max_restarts;
    if (t->missing && !last) {
        if (seconds() - complete_at < launch_opt.join_timeout)
            return;
        note("node %d of %d has not joined at %s, within %g s (--join-timeout)", t->missing,
             me->nnodes, node0_at, launch_opt.join_timeout);
    }
    me->order = t->missing || last ? END : START;
    if (me->order == START && ++me->order_attempt > 0)
        note("starting all ranks again: restart %d of %d", me->order_attempt, me->max_restarts);
}

// The order of node 0 is STOP at first. Each attempt begins with START; it ends with END if all
// ranks succeed, and otherwise with STOP, after which order_next_attempt follows.
static void decide(void) {
    struct tally t = count_nodes();
    if (me->order == START && t.done == me->nnodes) {
        me->order = END;
        me->code = 0;
    } else if (me->order == START && (t.failed || t.final || t.missing)) {
        me->order = STOP;
        if (t.missing)
            note("node %d is lost: its launcher %s", t.missing,
                 message_of(t.missing)->state == GONE ? "has ended" : "is silent");
    }
    if (me->order == STOP && !t.busy && all_know_order())
        order_next_attempt(&t);
}

// Names the launcher that got a signal, on the nodes that got none.
static void say_why_run_ends(void) {
    static int said;
    int failed = node0->order != START && node0->code;
    if (failed && *node0->reason && !ended_by && !said++)
        note("%s", node0->reason);
}

void follow_order(void) {
    double silence = node0_silence();
    if (me->node == 0)
        decide();
    else if (node0->magic) { // a message of node 0 has arrived: repeat the order, as an answer
        me->order = node0->order;
        me->order_attempt = node0->order_attempt;
    }
    say_why_run_ends();
    // The message with the order to stop may be lost. Then the next attempt shows it.
    if (silence > LOST || node0->order_attempt + (node0->order != START) > me->attempt)
        handle(STOP_ORDERED);
    if (local_ranks_left() > 0)
        return;
    if (silence > 1 && ended_by)
        exit(128 + ended_by);
    if (silence > (me->attempt < me->max_restarts ? launch_opt.join_timeout : LOST))
        fail("node 0 has not answered at %s, for %.0f s (--join-timeout)", node0_at, silence);
    if (node0->order == START && node0->order_attempt > me->attempt && !me->final)
        handle(START_ORDERED);
}

void end_run(int signal) {
    char host[64] = "?";
    gethostname(host, sizeof host - 1);
    ended_by = signal;
    me->final = 1;
    snprintf(me->reason, sizeof me->reason, "node %d on %s ends the run: its launcher got %s",
             me->node, host,
             signal == SIGTERM  ? "SIGTERM"
             : signal == SIGINT ? "SIGINT"
                                : "SIGHUP");
    send_message(); // first, so that other nodes know why their ranks fail
    kill_local_ranks_later();
}

int ended_by_signal(void) {
    return ended_by > 0;
}

// Node 0 waits until every node that is not lost knows that the run has ended.
int exit_code(void) {
    for (int n = 1; n < me->nnodes && me->node == 0; n++)
        if (!is_lost(n))
            return -1;
    if (local_ranks_left() > 0 || node0->order != END)
        return -1;
    return node0->code == 0 && me->state == DONE ? 0 : ended_by ? 128 + ended_by : 1;
}
