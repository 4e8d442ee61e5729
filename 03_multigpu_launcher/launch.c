// The launcher, a torchrun in C. It starts the ranks of any program on this node, and tells each
// rank its number in environment variables. When a rank fails, the launcher ends the other ranks,
// and starts all of them again while restarts remain. On several nodes, one launcher runs on each
// node, and the launcher of node 0 decides for all (nodes.h).
#include "03_multigpu_launcher/count_ranks.h"
#include "03_multigpu_launcher/launch_options.h"
#include "03_multigpu_launcher/local_ranks.h"
#include "03_multigpu_launcher/nodes.h"
#include "03_multigpu_launcher/output.h"
#include "03_multigpu_launcher/signals.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ended_by; // signal that ends the run, 0: none

// Names the launcher that got a signal, on the nodes that got none.
static void say_why_run_ends(void) {
    static int said;
    int failed = node0->order != START && node0->code;
    if (failed && *node0->reason && !ended_by && !said++)
        note("%s", node0->reason);
}

static void set_reason(int signal) {
    char host[64] = "?";
    gethostname(host, sizeof host - 1);
    snprintf(me->reason, sizeof me->reason, "node %d on %s ends the run: its launcher got %s",
             me->node, host,
             signal == SIGTERM  ? "SIGTERM"
             : signal == SIGINT ? "SIGINT"
                                : "SIGHUP");
}

// Follows the order of node 0. The launcher of node 0 follows its own order in the same way.
static void obey(void) {
    double silence = node0_silence();
    if (node0->magic) { // a message of node 0 has arrived: repeat the order, as an answer
        me->order = node0->order;
        me->order_attempt = node0->order_attempt;
    }
    say_why_run_ends();
    // The message with the order to stop may be lost. Then the next attempt shows it.
    if (me->state == RUNNING &&
        (silence > LOST || node0->order_attempt + (node0->order != START) > me->attempt))
        stop_local_ranks();
    if (local_ranks_left() > 0)
        return;
    if (silence > 1 && ended_by)
        exit(128 + ended_by);
    if (silence > (me->attempt < me->max_restarts ? launch_opt.join_timeout : LOST))
        fail("node 0 has not answered at %s, port %ld, for %.0f s (--join-timeout)",
             launch_opt.master_addr, launch_opt.master_port, silence);
    if (node0->order != START || node0->order_attempt <= me->attempt || me->final)
        return;
    me->attempt = node0->order_attempt;
    start_local_ranks();
}

// Passes signals on to the ranks. SIGTERM, SIGINT and SIGHUP also end the run.
static void handle_signals(int signals) {
    for (int signal; (signal = read_signal(signals));) {
        if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) {
            me->final = 1;
            ended_by = signal;
            set_reason(signal);
            send_message(); // first, so that other nodes know why their ranks fail
            kill_local_ranks_later();
        }
        if (signal != SIGCHLD)
            signal_local_ranks(signal);
    }
}

static void wait_for_events(int signals) {
    const struct pollfd fds[] = {{.fd = signals, .events = POLLIN},
                                 {.fd = nodes_socket, .events = POLLIN}};
    poll_with_outputs(fds, 2, me->nnodes > 1 || kill_is_pending() ? 100 : -1);
    handle_signals(signals);
}

// exit() calls it, also when fail() ends the program.
static void leave(void) {
    alarm(0); // fail() limits exit to 10 s, but a slow screen may take longer
    if (node0->order != END)
        me->final = 1, me->order = END;
    me->state = GONE;
    send_message();
    end_local_ranks();
    signal(SIGPIPE, SIG_IGN);
    restore_signals(); // so that a signal can end the wait for the screens
    if (!ended_by)
        empty_screens();
}

// A pipe must not get the number of stdin, stdout or stderr if these are closed.
static void open_standard_descriptors(void) {
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd < 3)
        ;
    close(fd);
}

int main(int argc, char **argv) {
    open_standard_descriptors();
    parse_launch_options(argc, argv);
    allow_children();
    int nproc = count_ranks(launch_opt.nproc), signals = open_signals();
    join_nodes(launch_opt.node_rank, launch_opt.nnodes, nproc, launch_opt.max_restarts,
               launch_opt.run_id);
    open_port(launch_opt.master_addr, &launch_opt.master_port);
    prepare_local_ranks(argv);
    atexit(leave);
    struct message last = {0};
    for (double sent_at = 0;; wait_for_events(signals)) {
        receive_messages();
        check_local_ranks();
        if (me->node == 0)
            decide(launch_opt.join_timeout);
        obey();
        report_wait(launch_opt.master_addr, launch_opt.master_port, launch_opt.join_timeout);
        if (seconds() - sent_at > 0.5 || memcmp(me, &last, sizeof last)) {
            send_message();
            last = *me;
            sent_at = seconds();
        }
        if (local_ranks_left() == 0 && is_over())
            return node0->code == 0 && me->state == DONE ? 0 : ended_by ? 128 + ended_by : 1;
    }
}
