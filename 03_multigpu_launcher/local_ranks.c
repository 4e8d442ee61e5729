#include "03_multigpu_launcher/local_ranks.h"
#include "03_multigpu_launcher/launch_options.h"
#include "03_multigpu_launcher/output.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/say.h"
#include "common/base/signals.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

struct local_ranks local = {.attempt = -1};

static pid_t launcher;
static sigset_t blocked_before;
static void (*sigchld_before)(int);
static pid_t *pids;    // of the ranks, 0: the rank has ended
static int left;       // number of ranks that have not ended
static double kill_at; // time of SIGKILL, 0: none
static double note_at; // time to say that ranks have not ended yet, 0: none

void start_clean(void) {
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd < 3)
        ;
    close(fd);
    sigchld_before = signal(SIGCHLD, SIG_DFL);
}

int open_signals(void) {
    sigset_t signals, blocked;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGUSR2);
    add_stop_signals(&signals);
    blocked = signals;
    sigaddset(&blocked, SIGPIPE); // the reader of the launcher's output may end
    sigprocmask(SIG_BLOCK, &blocked, &blocked_before);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

// Handles all signals again as the parent of the launcher wanted.
static void restore_signals(void) {
    signal(SIGCHLD, sigchld_before);
    sigprocmask(SIG_SETMASK, &blocked_before, NULL);
}

static int rank_of(int local_rank) {
    return launch_opt.node_rank * launch_opt.nproc + local_rank;
}

static void set_number(const char *name, long number) {
    char text[24];
    snprintf(text, sizeof text, "%ld", number);
    setenv(name, text, 1);
}

// Sets the variables of torchrun for a rank.
static void tell_rank(int local_rank) {
    int rank = rank_of(local_rank), world = launch_opt.nnodes * launch_opt.nproc;
    set_number("RANK", rank);
    set_number("LOCAL_RANK", local_rank);
    set_number("WORLD_SIZE", world);
    set_number("LOCAL_WORLD_SIZE", launch_opt.nproc);
    set_number("GROUP_RANK", launch_opt.node_rank);
    set_number("GROUP_WORLD_SIZE", launch_opt.nnodes);
    set_number("ROLE_RANK", rank);
    set_number("ROLE_WORLD_SIZE", world);
    setenv("ROLE_NAME", "default", 1);
    setenv("MASTER_ADDR", launch_opt.master_addr, 1);
    set_number("MASTER_PORT", launch_opt.master_port);
    set_number("TORCHELASTIC_RESTART_COUNT", local.attempt);
    set_number("TORCHELASTIC_MAX_RESTARTS", launch_opt.max_restarts);
    setenv("TORCHELASTIC_RUN_ID", launch_opt.run_id, 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "False", 1); // only rank 0 listens at the port
}

// In the child: becomes the program, which writes to output. If exec fails, sends errno through the
// pipe failed.
__attribute__((noreturn)) static void become_program(int i, const int output[2], int failed) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // when the launcher ends in any way
    if (getppid() != launcher)
        _exit(1);
    setpgid(0, 0); // a process group of its own, so that signals reach its children, too
    restore_signals();
    tell_rank(i);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    for (int k = 0; k < 2; k++)
        if (output[k] >= 0)
            dup2(output[k], k + 1);
    execvp(*launch_opt.program, launch_opt.program);
    int error = errno;
    _exit(write(failed, &error, sizeof error) < 0);
}

static void start_rank(int i, const char *log_folder) {
    int output[2], failed[2], error, step;
    open_outputs(i, rank_of(i), log_folder, launch_opt.tee, output);
    pid_t pid = pipe2(failed, O_CLOEXEC) ? -1 : fork();
    if (pid < 0)
        fail("cannot start rank %d: %m", rank_of(i));
    if (pid == 0)
        become_program(i, output, failed[1]);
    pids[i] = pid;
    close(output[0]);
    close(output[1]);
    close(failed[1]);
    // The child has the other end of this pipe, and exec closes it.
    if (read(failed[0], &error, sizeof error) == sizeof error) {
        const char *program = *launch_opt.program;
        if (error == ENOENT && sscanf(program, "%2d_", &step) == 1)
            fail("cannot run %s: it is not built: make step%d builds it", program, step);
        fail("cannot run %s: %s%s", program, strerror(error),
             strchr(program, '/') ? "" : " in PATH; a program of this folder begins with ./");
    }
    close(failed[0]);
}

// Prints one line for all ranks, so that users can look at a rank or kill it.
static void say_pids(void) {
    char text[40 * 8] = "";
    for (int i = 0; i < launch_opt.nproc && i < 8; i++)
        add_text(text, sizeof text, "%srank %d is pid %d", i ? ", " : "", rank_of(i), pids[i]);
    note("%s%s on %s", text, launch_opt.nproc > 8 ? ", and so on" : "", host_name());
}

void start_local_ranks(int attempt) {
    char folder[4096];
    local.attempt = attempt;
    local.state = RUNNING;
    snprintf(folder, sizeof folder, "%s/%s/attempt_%d",
             launch_opt.log_dir ? launch_opt.log_dir : "", launch_opt.run_id, local.attempt);
    kill_at = note_at = 0;
    for (; left < launch_opt.nproc; left++)
        start_rank(left, launch_opt.log_dir ? folder : NULL);
    say_pids();
}

int local_ranks_left(void) {
    return left;
}

static void signal_local_ranks(int signal) {
    for (int i = 0; i < launch_opt.nproc; i++)
        if (pids[i])
            kill(-pids[i], signal);
}

void pass_signals(int signals, void (*end_run)(int signal)) {
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) {
            enum request request = count_request();
            if (request == SECOND_REQUEST)
                exit(128 + signal);
            if (request != FIRST_REQUEST)
                continue;
            end_run(signal);
        }
        if (signal != SIGCHLD)
            signal_local_ranks(signal);
    }
}

static void set_kill_time(void) {
    kill_at = seconds() + launch_opt.shutdown_timeout;
    note_at = seconds() + 2;
}

void kill_local_ranks_later(void) {
    if (!kill_at)
        set_kill_time();
}

int kill_is_pending(void) {
    return kill_at > 0;
}

void stop_local_ranks(void) {
    local.state = STOPPING;
    signal_local_ranks(SIGTERM);
    for (int i = 0; i < launch_opt.nproc;
         i++) { // a rank that SIGSTOP has stopped cannot handle SIGTERM
        siginfo_t info = {0};
        if (pids[i] && !waitid(P_PID, pids[i], &info, WSTOPPED | WNOHANG | WNOWAIT) &&
            info.si_pid) {
            note("rank %d (pid %d) is stopped, so SIGKILL ends it", rank_of(i), pids[i]);
            kill(-pids[i], SIGKILL);
        }
    }
    set_kill_time();
}

// A rank may need some time, for example to save a snapshot.
static void say_wait(void) {
    int i = 0;
    while (i < launch_opt.nproc && !pids[i])
        i++;
    note_at = 0;
    if (i < launch_opt.nproc)
        note("rank %d (pid %d) %s not ended 2 s after the signal; SIGKILL follows in %.0f s "
             "(--shutdown-timeout)",
             rank_of(i), pids[i], left > 1 ? "and others have" : "has", kill_at - seconds());
}

struct failure {
    int i;
    pid_t pid;
    int status; // as waitpid returns it
};

static void report_failure(struct failure f) {
    char how[64];
    if (WIFSIGNALED(f.status))
        snprintf(how, sizeof how, "signal %d, %s", WTERMSIG(f.status),
                 strsignal(WTERMSIG(f.status)));
    else
        snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(f.status));
    note("rank %d (pid %d on %s) failed first, in attempt %d: %s", rank_of(f.i), f.pid, host_name(),
         local.attempt, how);
    show_last_lines(f.i);
}

// Options of the launcher that stand behind the program went to the program.
static void name_misplaced_options(void) {
    for (char **word = launch_opt.program + 1; *word; word++)
        if (is_option(*word))
            note("%s got %s; options of the launcher come before the program", *launch_opt.program,
                 *word);
}

// A signal that tells the ranks to stop ends one that has no handler for it yet, which is no
// failure. A wrong option stays wrong in each attempt; by convention, exit code 2 means wrong
// usage.
static void see_if_final(int status) {
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    int told = signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGUSR1;
    int wrong = WIFEXITED(status) && WEXITSTATUS(status) == 2;
    if (told)
        note("the signal tells the ranks to stop, so they do not start again");
    else if (wrong && local.attempt < launch_opt.max_restarts)
        note("exit code 2 means wrong usage, which no restart cures: the run ends");
    if (wrong)
        name_misplaced_options();
    local.final = told || wrong;
}

// Handles the ranks that have ended. The first rank that fails ends the others, because no
// collective can complete without it. If several have failed since the last call, a rank that a
// signal killed is reported: the others exit with a code as soon as they notice that it is gone.
static void reap(void) {
    siginfo_t info = {0};
    struct failure failed = {0};
    for (; !waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid; info.si_pid = 0) {
        int i = 0, status;
        pid_t pid = info.si_pid;
        while (i < launch_opt.nproc && pids[i] != pid)
            i++;
        if (i < launch_opt.nproc) {
            kill(-pid, SIGKILL); // its children; no other process gets this pid before waitpid
            pids[i] = 0;
            left--;
        }
        waitpid(pid, &status, 0);
        if (i == launch_opt.nproc) // a child of the program that has become this launcher
            continue;
        end_outputs(i);
        if (status && (!failed.pid || (WIFSIGNALED(status) && !WIFSIGNALED(failed.status))))
            failed = (struct failure){i, pid, status};
    }
    if (failed.pid && local.state == RUNNING) {
        if (!local.final) {
            report_failure(failed);
            see_if_final(failed.status);
        }
        stop_local_ranks(); // local.state becomes STOPPING
    }
}

void check_local_ranks(void) {
    reap();
    int overdue = kill_at && seconds() > kill_at;
    if (left == 0 && (local.state == RUNNING || local.state == STOPPING))
        local.state = local.state == RUNNING ? DONE : FAILED;
    if (note_at && seconds() > note_at)
        say_wait();
    if (overdue)
        signal_local_ranks(SIGKILL);
}

void prepare_local_ranks(void) {
    launcher = getpid();
    if (!(pids = calloc(launch_opt.nproc, sizeof *pids)))
        fail("out of memory for %d ranks", launch_opt.nproc);
    prepare_outputs(launch_opt.nproc);
    if (launch_opt.nproc > 1 && !getenv("OMP_NUM_THREADS") && !setenv("OMP_NUM_THREADS", "1", 1) &&
        launch_opt.node_rank == 0)
        note("OMP_NUM_THREADS=1 for each rank, as it was not set");
}

void end_local_ranks(void) {
    signal_local_ranks(SIGKILL);
    for (int i = 0; i < launch_opt.nproc; i++)
        if (pids[i])
            waitpid(pids[i], NULL, 0);
}
