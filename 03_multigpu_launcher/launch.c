// The launcher, a torchrun in C. It starts the ranks of any program on this node, and tells each
// rank its number in environment variables. When a rank fails, the launcher ends the other ranks,
// and starts all of them again while restarts remain. On several nodes, one launcher runs on each
// node, and the launcher of node 0 decides for all (states.c).
#include "03_multigpu_launcher/count_ranks.h"
#include "03_multigpu_launcher/launch_options.h"
#include "03_multigpu_launcher/local_ranks.h"
#include "03_multigpu_launcher/nodes.h"
#include "03_multigpu_launcher/output.h"
#include "03_multigpu_launcher/signals.h"
#include "03_multigpu_launcher/states.h"
#include "common/base/clock.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Passes signals on to the ranks. SIGTERM, SIGINT and SIGHUP also end the run.
static void handle_signals(int signals) {
    for (int signal; (signal = read_signal(signals));) {
        if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP)
            end_run(signal);
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
    handle(LAUNCHER_ENDS);
    send_message();
    end_local_ranks();
    signal(SIGPIPE, SIG_IGN);
    // A signal may end the wait for the screens. Without a wait, it must not end the launcher: srun
    // may throw away output of a job when a signal has ended one of its tasks.
    if (!ended_by_signal() && screens_hold_text()) {
        restore_signals();
        empty_screens();
    }
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
    join_nodes(count_ranks(launch_opt.nproc));
    open_port(); // may take long; until then, a signal ends the launcher as it ends other programs
    int signals = open_signals();
    prepare_local_ranks(argv);
    atexit(leave);
    struct message last = {0};
    for (double sent_at = 0;; wait_for_events(signals)) {
        receive_messages();
        check_local_ranks();
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
