// This launcher extends that of step 3: it starts ranks on several nodes. One launcher runs on each
// node, and tells node 0 the state of its ranks again and again. The launcher of node 0 decides
// when all of them start their ranks, stop them, or end.
#include "03_multigpu_launcher/launch_options.h"
#include "03_multigpu_launcher/local_ranks.h"
#include "03_multigpu_launcher/output.h"
#include "04_multinode/nodes.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_table tables[] = {
    {"options of the launcher of step 3", launch_option_specs},
    {"options for several nodes", node_option_specs},
    {0},
};

static int ended_by;   // signal that ends the run, 0: none
static double ends_at; // time at which it ends, although ranks of other nodes still run

static void end_run(int signal) {
    ended_by = signal;
    ends_at = seconds() + launch_opt.shutdown_timeout;
    local.final = 1;
    snprintf(me->reason, sizeof me->reason, "node %d on %s ends the run: its launcher got %s",
             me->node, host_name(),
             signal == SIGTERM  ? "SIGTERM"
             : signal == SIGINT ? "SIGINT"
                                : "SIGHUP");
    send_message(); // first, so that other nodes know why their ranks fail
    kill_local_ranks_later();
}

static void wait_for_events(int signals, int messages) {
    const struct pollfd fds[] = {{.fd = signals, .events = POLLIN},
                                 {.fd = messages, .events = POLLIN}};
    poll_with_outputs(fds, 2, me->nnodes > 1 || kill_is_pending() ? 100 : -1);
    pass_signals(signals, end_run);
}

// exit() calls it, also when fail() ends the program. Without this launcher, a run that has not
// ended cannot continue, so the other nodes learn this.
static void leave(void) {
    me->ranks = local;
    me->gone = 1;
    if (node0->order != END) {
        me->ranks.state = FAILED;
        me->ranks.final = 1;
        me->order = END;
    }
    send_message();
    end_local_ranks();
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
        const struct node_message *m = message_of(n);
        // A new launcher of node 0 learns the number of the attempt from the other nodes.
        if (me->order == STOP && m->magic && m->ranks.attempt > me->order_attempt)
            me->order_attempt = m->ranks.attempt;
        int current = m->ranks.attempt == me->order_attempt;
        enum state state = m->ranks.state;
        if (!is_lost(n))
            t.busy += state == RUNNING || state == STOPPING;
        t.done += state == DONE && current;
        t.failed += (state == STOPPING || state == FAILED) && current;
        t.final += m->ranks.final && state != DONE && state != RUNNING;
    }
    return t;
}

// A node that does not know the order to stop may still start the ranks of this attempt.
static int all_know_order(void) {
    for (int n = 1; n < me->nnodes; n++) {
        const struct node_message *m = message_of(n);
        if (!is_lost(n) && (m->order != STOP || m->order_attempt != me->order_attempt))
            return 0;
    }
    return 1;
}

// All ranks have stopped. They start again, or the run ends.
static void order_next_attempt(const struct tally *t) {
    int last = t->final || me->order_attempt == me->max_restarts;
    if (t->missing && !last) {
        if (join_time_left() > 0)
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
                 message_of(t.missing)->gone ? "has ended" : "is silent");
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

// On node 0: orders what follows from the states of all nodes. On all nodes, also on node 0:
// follows the order.
static void follow_order(void) {
    double silence = node0_silence();
    me->ranks = local;
    if (me->node == 0)
        decide();
    else if (node0->magic) { // a message of node 0 has arrived: repeat the order, as an answer
        me->order = node0->order;
        me->order_attempt = node0->order_attempt;
    }
    say_why_run_ends();
    // The message with the order to stop may be lost. Then the next attempt shows it.
    int stop = silence > LOST || node0->order_attempt + (node0->order != START) > local.attempt;
    if (stop && local.state == RUNNING)
        stop_local_ranks();
    if (local_ranks_left() > 0)
        return;
    if (silence > 1 && ended_by)
        exit(128 + ended_by);
    if (silence > (local.attempt < me->max_restarts ? launch_opt.join_timeout : LOST))
        fail("node 0 has not answered at %s, for %.0f s (--join-timeout)", node0_at, silence);
    int start = node0->order == START && node0->order_attempt > local.attempt && !local.final;
    if (start && local.state != RUNNING && local.state != STOPPING)
        start_local_ranks(node0->order_attempt);
}

// Returns -1 until the run has ended for this launcher, and then its exit code. Node 0 waits until
// every node that is not lost knows that the run has ended.
static int exit_code(void) {
    for (int n = 1; n < me->nnodes && me->node == 0; n++)
        if (!is_lost(n))
            return -1;
    if (local_ranks_left() > 0 || node0->order != END)
        return -1;
    return node0->code == 0 && local.state == DONE ? 0 : ended_by ? 128 + ended_by : 1;
}

int main(int argc, char **argv) {
    start_clean();
    parse_launch_options(tables, argc, argv);
    join_nodes();
    // This may take long. Until then, a signal ends the launcher as it ends other programs.
    int messages = open_port();
    int signals = open_signals();
    prepare_local_ranks();
    atexit(leave);
    struct node_message last = {0};
    for (double sent_at = 0;; wait_for_events(signals, messages)) {
        receive_messages();
        if (*node0->reason)
            local.final = 1; // a rank that fails has a reason that the user knows
        check_local_ranks();
        if (ended_by && local.state == DONE && seconds() > ends_at)
            local.state = FAILED; // ranks of other nodes still run
        follow_order();
        report_wait();
        if (seconds() - sent_at > 0.5 || memcmp(me, &last, sizeof last)) {
            send_message();
            last = *me;
            sent_at = seconds();
        }
        int code = exit_code();
        if (code >= 0)
            return code;
    }
}
