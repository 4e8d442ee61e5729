#include "03_multigpu_launcher/guard.h"
#include "common/base/error.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t guard;
static int alive; // the launcher's end of a pipe to the guard; it closes when the launcher ends

void rendezvous_path(char path[PATH_MAX], const char *run) {
    const char *parent = getenv("TMPDIR");
    int begin = snprintf(path, PATH_MAX, "%s/", parent && *parent ? parent : "/tmp");
    snprintf(path + begin, PATH_MAX - begin, "ranks-%d%s", geteuid(), run);
    for (char *slash = path + begin; (slash = strchr(slash, '/'));)
        *slash = '_';
}

// Replaces the command line that ps and pgrep show, because the guard would look like a second
// launcher there. The text overwrites the arguments of the program.
static void set_command_line(char **argv, const char *text) {
    char **last = argv;
    while (last[1])
        last++;
    size_t size = *last + strlen(*last) + 1 - *argv;
    strncpy(*argv, text, size - 1);
}

__attribute__((noreturn)) static void watch_launcher(int pipe, const pid_t *pids, int ranks,
                                                     const char *rendezvous) {
    char none;
    if (read(pipe, &none, 1) == 0) // returns when the other end of the pipe closes
        for (int i = 0; i < ranks; i++)
            if (pids[i])
                kill(-pids[i], SIGKILL); // the process group of the rank
    int folder = open(rendezvous, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    unlinkat(folder, "id", 0);
    unlinkat(folder, "new", 0);
    rmdir(rendezvous);
    _exit(0);
}

pid_t *start_guard(int ranks, const char *rendezvous, char **argv) {
    int ends[2];
    sigset_t all;
    pid_t *pids =
        mmap(NULL, ranks * sizeof *pids, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    guard = pids == MAP_FAILED || pipe2(ends, O_CLOEXEC) ? -1 : fork();
    if (guard < 0)
        fail("cannot start the guard: %m");
    if (guard == 0) {
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        prctl(PR_SET_NAME, "rank-guard");
        set_command_line(argv, "rank-guard");
        close(ends[1]);
        watch_launcher(ends[0], pids, ranks, rendezvous);
    }
    setpgid(guard, guard); // so that a signal to the launcher's process group spares it
    close(ends[0]);
    alive = ends[1];
    return pids;
}

void end_guard(void) {
    close(alive);
    waitpid(guard, NULL, 0);
}
