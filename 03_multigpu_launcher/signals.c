#include "03_multigpu_launcher/signals.h"
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static sigset_t blocked_before;
static void (*sigchld_before)(int);

void allow_children(void) {
    sigchld_before = signal(SIGCHLD, SIG_DFL);
}

int open_signals(void) {
    const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t signals, blocked;
    struct sigaction action;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (int i = 0; i < 5; i++)
        if (!sigaction(passed_on[i], NULL, &action) &&
            action.sa_handler != SIG_IGN) // nohup ignores SIGHUP, for example
            sigaddset(&signals, passed_on[i]);
    blocked = signals;
    sigaddset(&blocked, SIGPIPE); // the reader of the launcher's output may end
    sigprocmask(SIG_BLOCK, &blocked, &blocked_before);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

int read_signal(int signals) {
    struct signalfd_siginfo info;
    return read(signals, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

void restore_signals(void) {
    signal(SIGCHLD, sigchld_before);
    sigprocmask(SIG_SETMASK, &blocked_before, NULL);
}
