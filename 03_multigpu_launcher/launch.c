// The launcher, a torchrun in C. It starts the ranks of any program on this node, and tells each
// rank its number in environment variables. When a rank fails, the launcher ends the other ranks,
// and starts all of them again while restarts remain.
#include "03_multigpu_launcher/launch_options.h"
#include "03_multigpu_launcher/local_ranks.h"
#include "03_multigpu_launcher/output.h"
#include "common/base/error.h"
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const struct option_table tables[] = {{.options = launch_option_specs}, {0}};

static int ended_by; // signal that ends the run, 0: none

// torchrun has these options, too. The loop ends at the program.
static void refuse_options_of_nodes(int argc, char **argv) {
    static const char *const names[] = {"--nnodes", "--node", "--master", "--rdzv", "--join"};
    for (int i = 1; i < argc && argv[i][0] == '-'; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (!strncmp(argv[i], names[k], strlen(names[k])))
                wrong_usage("%s: this launcher starts ranks on one node; 04_multinode/launch does "
                            "so on several",
                            argv[i]);
        i += !strchr(argv[i], '=') && strcmp(argv[i], "--tee"); // its value
    }
}

// Chooses a free port of this host for rank 0, and keeps it. The socket does not listen, so with
// SO_REUSEADDR rank 0 can bind the same port, but the system gives it to no other program.
static void keep_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    int on = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(s, (struct sockaddr *)&address, bytes) ||
        getsockname(s, (struct sockaddr *)&address, &bytes))
        fail("cannot find a free port: %m");
    launch_opt.master_port = ntohs(address.sin_port);
}

static void name_run(void) {
    static char name[64];
    snprintf(name, sizeof name, "%ld-%d", time(NULL), getpid());
    if (!*launch_opt.run_id)
        launch_opt.run_id = name;
}

static void end_run(int signal) {
    ended_by = signal;
    local.final = 1;
    kill_local_ranks_later();
}

static void wait_for_events(int signals) {
    const struct pollfd fds[] = {{.fd = signals, .events = POLLIN}};
    poll_with_outputs(fds, 1, kill_is_pending() ? 100 : -1);
    pass_signals(signals, end_run);
}

// Starts the ranks, and starts them again when all have ended after a failure. Returns -1 until the
// run has ended, and then the exit code of the launcher.
static int start_next_attempt(void) {
    int last = local.final || local.attempt == launch_opt.max_restarts;
    if (local.state == DONE)
        return 0;
    if (local.state == FAILED && last)
        return ended_by ? 128 + ended_by : 1;
    if (local.state == FAILED)
        note("starting all ranks again: restart %d of %ld", local.attempt + 1,
             launch_opt.max_restarts);
    if (local.state == FAILED || local.state == IDLE)
        start_local_ranks(local.attempt + 1);
    return -1;
}

int main(int argc, char **argv) {
    start_clean();
    refuse_options_of_nodes(argc, argv);
    parse_launch_options(tables, argc, argv);
    keep_port();
    name_run();
    int signals = open_signals();
    prepare_local_ranks();
    atexit(end_local_ranks); // also when fail() ends the program
    for (;; wait_for_events(signals)) {
        check_local_ranks();
        int code = start_next_attempt();
        if (code >= 0)
            return code;
    }
}
