// Starts the ranks of a program, ours or not, and tells each in its environment who it is:
// torchrun, in C. When a rank fails it ends the others, and starts all again while restarts remain.
// For several nodes it is started once on each (nodes.c). What ranks write goes through pipes
// (output.c).
#include "03_multigpu_launcher/count_ranks.h"
#include "03_multigpu_launcher/nodes.h"
#include "03_multigpu_launcher/output.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/options.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    const char *nproc, *master_addr, *run_id, *log_dir;
    long nnodes, node_rank, master_port, standalone, max_restarts, tee;
    double shutdown_timeout, join_timeout;
    char **program;
} opt;

static const struct option_spec options[] = {
    {"nproc-per-node", OPTION_TEXT, &opt.nproc, "1", 0, 0,
     "ranks on this node, or: gpu, cpu or auto"},
    {"nnodes", OPTION_INT, &opt.nnodes, "1", 1, 10000, "number of nodes"},
    {"node-rank", OPTION_INT, &opt.node_rank, "0", 0, 9999, "number of this node, from 0"},
    {"master-addr", OPTION_TEXT, &opt.master_addr, "127.0.0.1", 0, 0, "address of node 0"},
    {"master-port", OPTION_INT, &opt.master_port, "0", 0, 65535,
     "port of node 0, 0: a free one, or 29500"},
    {"standalone", OPTION_FLAG, &opt.standalone, NULL, 0, 0, "one node and a free port"},
    {"max-restarts", OPTION_INT, &opt.max_restarts, "0", 0, 1e6, "how often all ranks may restart"},
    {"run-id", OPTION_TEXT, &opt.run_id, "", 0, 0, "name of the run, empty: a new one"},
    {"log-dir", OPTION_TEXT, &opt.log_dir, NULL, 0, 0, "folder for the output of each rank"},
    {"tee", OPTION_FLAG, &opt.tee, NULL, 0, 0, "print all output, with [rank] before each line"},
    {"shutdown-timeout", OPTION_REAL, &opt.shutdown_timeout, "30", 0, 1e6,
     "seconds from SIGTERM to SIGKILL"},
    {"join-timeout", OPTION_REAL, &opt.join_timeout, "300", 0, 1e6,
     "seconds to wait for other nodes"},
    {"program [arguments]", OPTION_REST, &opt.program, NULL, 0, 0, "to run"},
    {0},
};

static const struct option_table tables[] = {{.options = options}, {0}};

static pid_t *pids;            // of the ranks here, 0: ended; the guard sees them too
static int left;               // how many have not ended
static struct output *outputs; // stdout and stderr of each
static double kill_at;         // when SIGKILL follows SIGTERM, 0: never
static double wait_note_at;    // when it is said that it will, 0: never
static int ended_by;           // signal that is to end the run, 0: none
static pid_t guard;
static int alive; // pipe to the guard, who waits for its end
static sigset_t mask_before;
static void (*sigchld_before)(int);

static void signal_ranks(int signal) {
    for (int i = 0; i < me->nproc; i++)
        if (pids[i])
            kill(-pids[i], signal); // with its children: a rank leads a process group of its own
}

// Whoever looks for the launcher or its ranks by their command lines must not find the guard, which
// is a copy of the launcher. It fits into the place of the arguments.
static void set_command_line(char **argv, const char *text) {
    char **last = argv;
    while (last[1])
        last++;
    size_t size = *last + strlen(*last) + 1 - *argv;
    strncpy(*argv, text, size - 1);
}

// Ends what is left when the launcher is gone, however that came about.
static void start_guard(char **argv) {
    int ends[2];
    pids = mmap(NULL, me->nproc * sizeof *pids, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    guard = pids == MAP_FAILED || pipe2(ends, O_CLOEXEC) ? -1 : fork();
    if (guard < 0)
        fail("cannot start: %m");
    if (guard == 0) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        prctl(PR_SET_NAME, "rank-guard");
        set_command_line(argv, "rank-guard");
        close(ends[1]);
        if (read(ends[0], ends, 1) == 0)
            signal_ranks(SIGKILL);
        _exit(0);
    }
    setpgid(guard, guard); // a kill of the launcher's process group leaves it alone
    close(ends[0]);
    alive = ends[1];
}

static void set_number(const char *name, long number) {
    char text[24];
    snprintf(text, sizeof text, "%ld", number);
    setenv(name, text, 1);
}

static void tell_rank(int local_rank) {
    int rank = me->node * me->nproc + local_rank, world = me->nnodes * me->nproc;
    set_number("RANK", rank);
    set_number("LOCAL_RANK", local_rank);
    set_number("WORLD_SIZE", world);
    set_number("LOCAL_WORLD_SIZE", me->nproc);
    set_number("GROUP_RANK", me->node);
    set_number("GROUP_WORLD_SIZE", me->nnodes);
    set_number("ROLE_RANK", rank);
    set_number("ROLE_WORLD_SIZE", world);
    setenv("ROLE_NAME", "default", 1);
    setenv("MASTER_ADDR", opt.master_addr, 1);
    set_number("MASTER_PORT", opt.master_port);
    set_number("TORCHELASTIC_RESTART_COUNT", me->attempt);
    set_number("TORCHELASTIC_MAX_RESTARTS", me->max_restarts);
    setenv("TORCHELASTIC_RUN_ID", me->run_id, 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "False", 1); // nobody but rank 0 listens at the port
}

// Makes the pipes for stdout and stderr of a rank. stdout goes its own way if nobody wants it; the
// last lines of stderr are always wanted.
static void open_outputs(int i, int pipes[2][2]) {
    int rank = me->node * me->nproc + i;
    for (int k = 0; k < 2; k++) {
        struct output *o = &outputs[2 * i + k];
        if ((k == 1 || opt.log_dir || opt.tee) && pipe2(pipes[k], O_CLOEXEC))
            fail("cannot start rank %d: %m", rank);
        o->pipe = pipes[k][0];
        o->file = opt.log_dir ? open_log(opt.log_dir, me->run_id, me->attempt, rank,
                                         k ? "stderr" : "stdout")
                              : -1;
        o->screen = opt.log_dir && !opt.tee ? NULL : &screens[k];
        o->rank = opt.tee ? rank : -1;
        o->used = o->shown = o->ended = 0;
    }
}

// In the child: becomes the program. If that fails, writes errno to the pipe started.
__attribute__((noreturn)) static void become_program(int i, int pipes[2][2], int started) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // for when the guard is killed too
    if (getppid() != me->pid)
        _exit(1);
    setpgid(0, 0);
    pids[i] = getpid(); // the guard must know before there are children
    signal(SIGCHLD, sigchld_before);
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
    tell_rank(i);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    for (int k = 0; k < 2; k++)
        if (pipes[k][1] >= 0)
            dup2(pipes[k][1], k + 1);
    execvp(*opt.program, opt.program);
    int error = errno;
    _exit(write(started, &error, sizeof error) < 0);
}

static void start_rank(int i) {
    int pipes[2][2] = {{-1, -1}, {-1, -1}}, started[2], error;
    open_outputs(i, pipes);
    pid_t pid = pipe2(started, O_CLOEXEC) ? -1 : fork();
    if (pid < 0)
        fail("cannot start rank %d: %m", me->node * me->nproc + i);
    if (pid == 0)
        become_program(i, pipes, started[1]);
    pids[i] = pid;
    close(pipes[0][1]);
    close(pipes[1][1]);
    close(started[1]); // now only the child has it, until its exec
    if (read(started[0], &error, sizeof error) == sizeof error)
        fail("cannot run %s: %s", *opt.program, strerror(error));
    close(started[0]);
}

// So that somebody can look at one, or end it. A line for all, as there may be many.
static void say_pids(void) {
    char host[64] = "?", text[40 * 8] = "";
    gethostname(host, sizeof host - 1);
    for (int i = 0, used = 0; i < me->nproc && i < 8; i++)
        used += sprintf(text + used, "%srank %d is pid %d", i ? ", " : "", me->node * me->nproc + i,
                        pids[i]);
    note("%s%s on %s", text, me->nproc > 8 ? ", and so on" : "", host);
}

static void prepare_kill(void) {
    kill_at = seconds() + opt.shutdown_timeout;
    wait_note_at = seconds() + 2;
}

// SIGTERM lets ranks clean up. One that is stopped, as by SIGSTOP, does not hear it.
static void stop_ranks(void) {
    me->state = STOPPING;
    signal_ranks(SIGTERM);
    for (int i = 0; i < me->nproc; i++) {
        siginfo_t info = {0};
        if (pids[i] && !waitid(P_PID, pids[i], &info, WSTOPPED | WNOHANG | WNOWAIT) &&
            info.si_pid) {
            note("rank %d (pid %d) is stopped, so it ends by SIGKILL", me->node * me->nproc + i,
                 pids[i]);
            kill(-pids[i], SIGKILL);
        }
    }
    prepare_kill();
}

// Ranks may have good reasons to take their time, such as a snapshot that they save.
static void say_wait(void) {
    int i = 0;
    while (i < me->nproc && !pids[i])
        i++;
    wait_note_at = 0;
    if (i < me->nproc)
        note("rank %d (pid %d)%s has not ended 2 s after SIGTERM; SIGKILL follows in %.0f s "
             "(--shutdown-timeout)",
             me->node * me->nproc + i, pids[i], left > 1 ? ", as others," : "",
             kill_at - seconds());
}

// How a rank failed, and the last lines of its stderr, if only a file has them.
static void report_failure(int local_rank, pid_t pid, int status) {
    char host[64] = "?", how[64];
    gethostname(host, sizeof host - 1);
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(status));
    note("rank %d (pid %d on %s) failed first, in attempt %d: %s",
         me->node * me->nproc + local_rank, pid, host, me->attempt, how);
    if (outputs[2 * local_rank + 1].used && !outputs[2 * local_rank + 1].screen) {
        note("the last that it wrote to stderr:");
        show_last_lines(&outputs[2 * local_rank + 1]);
    }
}

// Takes note of the processes that have ended. The first rank that fails ends the others.
static void reap(void) {
    siginfo_t info = {0};
    while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
        int i = 0, status;
        pid_t pid = info.si_pid;
        while (i < me->nproc && pids[i] != pid)
            i++;
        if (i < me->nproc) {
            kill(-pid, SIGKILL); // its children; until waitpid nobody else can have the number
            pids[i] = 0;
            left--;
        }
        waitpid(pid, &status, 0);
        info.si_pid = 0;
        if (i == me->nproc)
            continue;
        end_output(&outputs[2 * i]);
        end_output(&outputs[2 * i + 1]);
        if (status && me->state == RUNNING) {
            if (!ended_by)
                report_failure(i, pid, status);
            stop_ranks();
        }
    }
    int unread = 0; // on their way to a screen that somebody reads slowly
    for (int i = 0; i < 2 * me->nproc; i++)
        unread += outputs[i].pipe >= 0;
    if (left > 0 || (unread && !(kill_at && seconds() > kill_at)) ||
        (me->state != RUNNING && me->state != STOPPING))
        return;
    me->state = me->state == RUNNING ? DONE : FAILED;
    for (int i = 0; i < 2 * me->nproc; i++)
        if (outputs[i].pipe >= 0)
            close_output(&outputs[i]);
}

// What node 0 has ordered.
static void obey(void) {
    double quiet = boss_silence();
    if (boss->magic) { // so that node 0 sees what has been heard
        me->order = boss->order;
        me->order_attempt = boss->order_attempt;
    }
    // An order to stop may have been missed, and the next attempt be what is heard of first.
    if (me->state == RUNNING &&
        (quiet > LOST || boss->order_attempt + (boss->order != START) > me->attempt))
        stop_ranks();
    if (left > 0)
        return;
    if (quiet > 1 && ended_by)
        exit(128 + ended_by);
    if (quiet > (me->attempt < me->max_restarts ? opt.join_timeout : LOST))
        fail("node 0 has not answered at %s, port %ld, for %.0f s (--join-timeout)",
             opt.master_addr, opt.master_port, quiet);
    if (boss->order != START || boss->order_attempt <= me->attempt || me->final)
        return;
    me->attempt = boss->order_attempt;
    me->state = RUNNING;
    kill_at = wait_note_at = 0;
    for (; left < me->nproc; left++)
        start_rank(left);
    say_pids();
}

static int open_signals(void) {
    const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t signals, blocked;
    struct sigaction action;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (int i = 0; i < 5; i++)
        if (!sigaction(passed_on[i], NULL, &action) &&
            action.sa_handler != SIG_IGN) // as under nohup
            sigaddset(&signals, passed_on[i]);
    blocked = signals;
    sigaddset(&blocked, SIGPIPE); // the screen may go away
    sigprocmask(SIG_BLOCK, &blocked, &mask_before);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void handle_signals(int signals) {
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info) {
        int signal = info.ssi_signo;
        if (signal != SIGCHLD)
            signal_ranks(signal);
        if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) {
            me->final = 1;
            ended_by = signal;
            if (!kill_at)
                prepare_kill();
        }
    }
}

// Waits until something happens, or it is time to say something, and sees to it.
static void wait_for_events(int signals) {
    int count = 2 * me->nproc;
    struct pollfd fds[4 + count];
    fds[0] = (struct pollfd){.fd = signals, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = nodes_socket, .events = POLLIN};
    for (int k = 0; k < 2; k++)
        fds[2 + k] = (struct pollfd){.fd = screens[k].used ? screens[k].fd : -1, .events = POLLOUT};
    for (int i = 0; i < count; i++)
        fds[4 + i] = (struct pollfd){.fd = can_read_output(&outputs[i]) ? outputs[i].pipe : -1,
                                     .events = POLLIN};
    if (poll(fds, 4 + count, me->nnodes > 1 || kill_at ? 100 : -1) > 0) {
        flush_screen(&screens[0]);
        flush_screen(&screens[1]);
        for (int i = 0; i < count; i++)
            if ((fds[4 + i].revents || outputs[i].ended) && can_read_output(&outputs[i]))
                read_output(&outputs[i]);
        handle_signals(signals);
    }
    reap();
    if (wait_note_at && seconds() > wait_note_at)
        say_wait();
    if (kill_at && seconds() > kill_at) {
        signal_ranks(SIGKILL);
        if (ended_by && me->state == DONE)
            me->state =
                FAILED; // ranks of other nodes have not ended, and it is not waited for them
    }
}

// On every way out but being killed, fail() included.
static void leave(void) {
    alarm(0); // fail() lets exit take 10 s, but a slow screen may take longer
    if (boss->order != END)
        me->final = 1, me->order = END;
    me->state = GONE;
    send_message();
    close(alive);
    waitpid(guard, NULL, 0);
    for (int i = 0; i < me->nproc; i++)
        if (pids[i])
            waitpid(pids[i], NULL, 0);
    sigaddset(&mask_before, SIGPIPE);
    sigprocmask(SIG_SETMASK, &mask_before,
                NULL); // who does not want to wait for the screens can end this
    if (!ended_by)
        empty_screens();
}

static void check_usage(void) {
    if (!opt.program || !*opt.program)
        wrong_usage("no program to run");
    if (opt.node_rank >= opt.nnodes)
        wrong_usage("--node-rank %ld: with --nnodes %ld the last is %ld", opt.node_rank, opt.nnodes,
                    opt.nnodes - 1);
    if (opt.standalone && (opt.nnodes > 1 || opt.master_port))
        wrong_usage(
            "--standalone means one node and a free port, not --nnodes %ld --master-port %ld",
            opt.nnodes, opt.master_port);
    if (strchr(opt.run_id, '/') || opt.run_id[0] == '.' || strlen(opt.run_id) > 63)
        wrong_usage("--run-id %s: want at most 63 letters, no / and no . in front, as a folder "
                    "gets this name",
                    opt.run_id);
    if (opt.nnodes > 1 && opt.master_port == 0)
        opt.master_port = 29500; // as of torchrun
}

int main(int argc, char **argv) {
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd < 3)
        ; // so that no pipe gets the number of a closed stdout
    close(fd);
    options_parse(
        tables,
        "Starts the ranks of a program and sets the variables that tell each rank its place.", argc,
        argv);
    check_usage();
    sigchld_before = signal(SIGCHLD, SIG_DFL); // where it is ignored, children cannot be waited for
    int nproc = count_ranks(opt.nproc), signals = open_signals();
    join_nodes(opt.node_rank, opt.nnodes, nproc, opt.max_restarts, opt.run_id);
    open_port(opt.master_addr, &opt.master_port);
    if (!(outputs = calloc(2 * me->nproc, sizeof *outputs)))
        fail("cannot start: %m");
    start_guard(argv);
    atexit(leave);
    open_screens();
    if (me->nproc > 1 && !getenv("OMP_NUM_THREADS") && !setenv("OMP_NUM_THREADS", "1", 1) &&
        me->node == 0)
        note("OMP_NUM_THREADS=1 for each rank, as it was not set");
    struct message last = {0};
    for (double said = 0;; wait_for_events(signals)) {
        receive_messages();
        if (me->node == 0)
            decide(opt.join_timeout);
        obey();
        report_wait(opt.master_addr, opt.master_port, opt.join_timeout);
        if (seconds() - said > 0.5 || memcmp(me, &last, sizeof last)) {
            send_message();
            last = *me;
            said = seconds();
        }
        if (left == 0 && is_over())
            return boss->code == 0 && me->state == DONE ? 0 : ended_by ? 128 + ended_by : 1;
    }
}
