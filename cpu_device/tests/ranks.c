#include "ranks.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>

// What was started at once.
static struct job {
    int n, left;
    unsigned victims;
    struct rendezvous *rendezvous;
    pid_t pid[MOST_RANKS];
    int alive[MOST_RANKS]; // a pipe that only the rank can write to: it ends when the rank does
} jobs[MOST_JOBS];
static int running_jobs;

struct rendezvous *rendezvous;
int my_rank, rank_count;
int life[MOST_RANKS][2];
const char *host_of_rank[MOST_RANKS];

double clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double patience(double seconds) {
    double load = 0;
    getloadavg(&load, 1);
    return seconds * (1 + load / (double)sysconf(_SC_NPROCESSORS_ONLN));
}

void give_up(int line, const char *format, ...) {
    char text[4000];
    int n = snprintf(text, sizeof text, "rank %d, line %d: ", my_rank, line);
    va_list arguments;
    va_start(arguments, format);
    n += vsnprintf(text + n, sizeof text - 1 - (size_t)n, format, arguments);
    va_end(arguments);
    if (n > (int)sizeof text - 2)
        n = sizeof text - 2;
    text[n++] = '\n';
    _exit(write(STDERR_FILENO, text, (size_t)n) == n ? 1 : 2);
}

void here(int line) {
    rendezvous->line[my_rank] = line;
}

void expect(int wanted, int got, const char *call, int line) {
    if (got != wanted)
        give_up(line, "%s returned %d, not %d; last error: %s", call, got, wanted,
                ncclGetLastError(NULL));
}

void rest(void) {
    nanosleep(&(struct timespec){0, 500000}, NULL);
}

int has_come(atomic_int *number, int least) {
    for (double end = clock_now() + patience(WAIT_SECONDS); *number < least; rest())
        if (clock_now() > end)
            return 0;
    return 1;
}

void post(int flag) {
    rendezvous->flag[flag]++;
}

void await_at(int flag, int times, int line) {
    here(line);
    if (!has_come(&rendezvous->flag[flag], times))
        give_up(line, "flag %d was posted %d times, not %d", flag, rendezvous->flag[flag], times);
}

void barrier_at(int n, int line) {
    here(line);
    if (!has_come(&rendezvous->barrier, (rendezvous->barrier++ / n + 1) * n))
        give_up(line, "the others did not come to the barrier");
}

void await_death_at(int rank, int line) {
    here(line);
    int ms = (int)(patience(WAIT_SECONDS) * 1000);
    if (poll(&(struct pollfd){life[rank][0], POLLIN, 0}, 1, ms) != 1)
        give_up(line, "rank %d lives on", rank);
}

__attribute__((noreturn)) static void be_rank(int n, int rank, void (*run)(int)) {
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                          SIGSYS}; // of which cmocka makes failed tests
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        signal(faults[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int other = 0; other < n; other++)
        if (other != rank)
            close(life[other][1]);
    my_rank = rank;
    rank_count = n;
    rendezvous->pid[rank] = getpid();
    if (host_of_rank[rank])
        setenv("NCCL_HOSTID", host_of_rank[rank], 1);
    run(rank);
    exit(0);
}

void start_ranks(int n, void (*run)(int rank), unsigned victims) {
    assert_true(running_jobs < MOST_JOBS && n <= MOST_RANKS);
    struct job *j = &jobs[running_jobs++];
    *j = (struct job){.n = n, .left = n, .victims = victims, .rendezvous = j->rendezvous};
    memset(j->rendezvous, 0, sizeof *j->rendezvous);
    fflush(NULL);
    for (int rank = 0; rank < n; rank++)
        assert_int_equal(pipe2(life[rank], O_CLOEXEC), 0);
    rendezvous = j->rendezvous;
    for (int rank = 0; rank < n; rank++) {
        j->alive[rank] = life[rank][0];
        j->pid[rank] = fork();
        if (j->pid[rank] == 0)
            be_rank(n, rank, run);
        assert_true(j->pid[rank] > 0);
    }
    for (int rank = 0; rank < n; rank++)
        close(life[rank][1]);
    rendezvous = jobs->rendezvous;
}

// Judges a rank that has ended, or ends it; returns whether all is well.
static int finish_rank(struct job *j, int rank, int late, char *report, size_t bytes) {
    int status;
    if (late)
        kill(j->pid[rank], SIGKILL);
    assert_int_equal(waitpid(j->pid[rank], &status, 0), j->pid[rank]);
    close(j->alive[rank]);
    j->alive[rank] = -1;
    j->left--;
    int killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    int right = j->victims & 1u << rank ? killed : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (right && !late)
        return 1;
    size_t used = strlen(report);
    snprintf(report + used, bytes - used, "; rank %d of %d %s, wait status %#x, after line %d",
             rank, j->n, late ? "was killed as it took too long" : "ended badly", (unsigned)status,
             j->rendezvous->line[rank]);
    return 0;
}

void finish_ranks(void) {
    char report[1000] = "";
    int count = running_jobs;
    running_jobs = 0;
    for (double end = clock_now() + patience(LIMIT_SECONDS);;) {
        struct pollfd alive[MOST_JOBS * MOST_RANKS];
        nfds_t n = 0;
        for (struct job *j = jobs; j < jobs + count; j++)
            for (int rank = 0; rank < j->n; rank++)
                alive[n++] = (struct pollfd){j->alive[rank], POLLIN, 0};
        double now = clock_now();
        int late = poll(alive, n, now < end ? (int)((end - now) * 1000) + 1 : 0) == 0, left = 0;
        n = 0;
        for (struct job *j = jobs; j < jobs + count; j++) {
            for (int rank = 0; rank < j->n; rank++, n++)
                if (alive[n].fd >= 0 && (late || alive[n].revents) &&
                    !finish_rank(j, rank, late, report, sizeof report) && end > clock_now() + 5)
                    end = clock_now() + 5; // the others will not get far without it
            left += j->left;
        }
        if (!left)
            break;
    }
    if (*report)
        fail_msg("%s", report + 2);
}

void run_ranks(int n, void (*run)(int rank), unsigned victims) {
    start_ranks(n, run, victims);
    finish_ranks();
}

int entries(const char *folder) {
    int count = 0;
    DIR *d = opendir(folder);
    while (d && readdir(d))
        count++;
    if (d)
        closedir(d);
    return count;
}

static int descriptors_before;

int look_around(void **state) {
    descriptors_before = entries("/proc/self/fd");
    return 0;
}

int nothing_is_left(void **state) {
    int descriptors = entries("/proc/self/fd");
    if (descriptors != descriptors_before)
        print_error("%d file descriptors, not %d\n", descriptors, descriptors_before);
    int child = waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD;
    if (child)
        print_error("a child is left\n");
    return descriptors != descriptors_before || child ? -1 : 0;
}

void open_rendezvous(void) {
    size_t bytes = MOST_JOBS * sizeof *rendezvous;
    rendezvous = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rendezvous == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    for (int i = 0; i < MOST_JOBS; i++)
        jobs[i].rendezvous = rendezvous + i;
}
