// Runs a command repeatedly, and kills it at a later system call each time, until the command runs
// to its end. It starts with the first system call at which the command has a child. Before each
// kill, it waits until the child processes are idle, so it also finds a window of a microsecond. It
// prints the number of kills, and fails if a process of the command lives 5 s longer than the
// command.
#include <err.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

// Adds the pid and its descendants to the sum, and counts those that are neither asleep nor dead.
static int count_busy(int pid, long *sum) {
    char path[64], state = 'R';
    int busy = 0, child;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1)
        busy = state == 'R' || state == 'D';
    if (file)
        fclose(file);
    *sum = *sum * 31 + pid;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    if (!(file = fopen(path, "r")))
        return busy;
    while (fscanf(file, "%d", &child) == 1)
        busy += count_busy(child, sum);
    fclose(file);
    return busy;
}

// Waits until nothing has happened for a while. Waiting too briefly makes the test weaker, but
// never makes it fail.
static void wait_for_rest(int pid) {
    long last = 0;
    for (int quiet = 0, waits = 0; quiet < 3 && waits < 2000; waits++) {
        long sum = 0;
        int busy = count_busy(pid, &sum);
        quiet = !busy && sum == last ? quiet + 1 : 0;
        last = sum;
        usleep(1000);
    }
}

// Is it killed at its nth stop, or does it end before?
static int run(char **command, int n) {
    char path[64], at[16] = "";
    int alive[2], status, stops = 0;
    long sum;
    if (pipe(alive))
        err(2, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        close(alive[0]);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(77);
        raise(SIGSTOP);
        execvp(*command, command);
        err(2, "%s", *command);
    }
    close(alive[1]);
    waitpid(pid, &status, 0);
    if (!WIFSTOPPED(status))
        exit(77);
    ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    for (long signal = 0; stops < n; signal = WSTOPSIG(status) & 0x80 ? 0 : WSTOPSIG(status)) {
        ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(signal == SIGTRAP ? 0 : signal));
        waitpid(pid, &status, 0);
        if (!WIFSTOPPED(status))
            break;
        sum = 0;
        count_busy(pid, &sum);
        if (WSTOPSIG(status) == (SIGTRAP | 0x80) && (stops || sum != pid))
            stops++;
    }
    if (WIFSTOPPED(status)) {
        wait_for_rest(pid);
        snprintf(path, sizeof path, "/proc/%d/syscall", pid);
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%15s", at) == 1)
            fclose(file);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    } else if (status)
        errx(1, "ended with status %#x", status);
    struct pollfd p = {.fd = alive[0], .events = POLLIN};
    if (poll(&p, 1, 5000) != 1)
        errx(1, "a process outlives the kill at stop %d, system call %s", n, at);
    close(alive[0]);
    return WIFSTOPPED(status);
}

int main(int argc, char **argv) {
    int n = 1;
    if (argc < 2)
        errx(2, "no command");
    while (run(argv + 1, n))
        n++;
    printf("%d\n", n - 1);
}
