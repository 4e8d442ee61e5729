#include "ranks.h"
#include "../src/internal.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

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
static const char *hosts; // of set_hosts

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
    if (hosts && rank < (int)strlen(hosts))
        setenv("NCCL_HOSTID", (char[]){hosts[rank], 0}, 1);
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
    set_hosts(NULL);
    return descriptors != descriptors_before || child ? -1 : 0;
}

const char *const placements[] = {"ab", "abc", "abcd", "aabb", "abab", "abbb"};

const char *const collective_names[] = {"AllReduce", "Broadcast",     "Bcast",   "Reduce",
                                        "AllGather", "ReduceScatter", "SendRecv"};

ncclUniqueId common_id(int slot, int make) {
    if (make) {
        OK(ncclGetUniqueId(&rendezvous->id[slot]));
        rendezvous->id_made[slot] = 1;
    }
    CHECK(has_come(&rendezvous->id_made[slot], 1), "no id %d", slot);
    return rendezvous->id[slot];
}

// Memory with a name would stay behind when the ranks are killed.
static void expect_no_named_memory(void) {
    char line[1000];
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f))
        CHECK(!strstr(line, "/dev/shm") && !strstr(line, "SYSV"),
              "shares memory that has a name: %s", line);
    if (f)
        fclose(f);
}

int next_slot;

ncclComm_t join_from_device(int n, int rank) {
    ncclComm_t comm = NULL;
    ncclUniqueId id = common_id(next_slot++, rank == 0);
    OK(ncclCommInitRank(&comm, n, id, rank));
    CHECK(comm, "no communicator");
    expect_no_named_memory();
    return comm;
}

ncclComm_t join(int n, int rank) {
    OK(cudaSetDevice(rank));
    return join_from_device(n, rank);
}

cudaStream_t new_stream(void) {
    cudaStream_t stream = NULL;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

ncclComm_t comm;
cudaStream_t stream;

void enter(int n, int rank) {
    comm = join(n, rank);
    stream = new_stream();
}

static void (*run_before)(int n, int rank), (*run_then)(int rank);

static void run_both(int rank) {
    if (run_before)
        run_before(rank_count, rank);
    run_then(rank);
    if (run_before && comm)
        OK(ncclCommDestroy(comm));
}

void run_after(void (*before)(int n, int rank), int n, void (*run)(int rank)) {
    run_before = before;
    run_then = run;
    run_ranks(n, run_both, 0);
}

void *view(const void *pointer, size_t bytes) {
    void *bytes_there = cpu_view(pointer, bytes);
    CHECK(bytes_there, "%zu bytes are not all allocated", bytes);
    return bytes_there;
}

void *new_bytes(size_t count) {
    void *pointer = NULL;
    OK(cudaMalloc(&pointer, count));
    return pointer;
}

void set_floats(float *pointer, size_t count, float value) {
    float *there = view(pointer, count * sizeof *there);
    for (size_t i = 0; i < count; i++)
        there[i] = value;
}

float *new_floats(size_t count, float value) {
    float *pointer = new_bytes(count * sizeof *pointer);
    set_floats(pointer, count, value);
    return pointer;
}

void check_floats(const float *pointer, size_t count, float wanted, int line) {
    const float *there = view(pointer, count * sizeof *there);
    for (size_t i = 0; i < count; i++)
        if (there[i] != wanted)
            give_up(line, "element %zu of %zu is %.9g, not %.9g", i, count, there[i], wanted);
}

static void run_wait_for(void *flag) {
    has_come(&rendezvous->flag[*(int *)flag], 1);
}

void hold(cudaStream_t stream, int flag) {
    OK(cpu_launch(stream, run_wait_for, &flag, sizeof flag));
}

void set_hosts(const char *letters) {
    hosts = letters;
}

void run_row(void **state) {
    const struct row *row = *state;
    set_hosts(row->hosts);
    run_after(row->before, row->n, row->run);
}

ncclResult_t call(enum collective which, const void *send, void *recv, size_t count,
                  ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                  cudaStream_t stream) {
    int n, rank;
    switch (which) {
    case ALL_REDUCE:
        return ncclAllReduce(send, recv, count, type, op, comm, stream);
    case BROADCAST:
        return ncclBroadcast(send, recv, count, type, root, comm, stream);
    case BCAST:
        return ncclBcast(recv, count, type, root, comm, stream);
    case REDUCE:
        return ncclReduce(send, recv, count, type, op, root, comm, stream);
    case ALL_GATHER:
        return ncclAllGather(send, recv, count, type, comm, stream);
    case REDUCE_SCATTER:
        return ncclReduceScatter(send, recv, count, type, op, comm, stream);
    default:
        OK(ncclCommCount(comm, &n));
        OK(ncclCommUserRank(comm, &rank));
        OK(ncclGroupStart());
        ncclResult_t sent = ncclSend(send, count, type, (rank + 1) % n, comm, stream);
        ncclResult_t received = ncclRecv(recv, count, type, (rank + n - 1) % n, comm, stream);
        ncclResult_t ended = ncclGroupEnd();
        return sent ? sent : received ? received : ended;
    }
}

float sum_over(ncclComm_t comm, float value) {
    float *x = new_floats(1, value);
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, NULL));
    OK(cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost));
    OK(cudaFree(x));
    return value;
}

void expect_failure(ncclComm_t comm, cudaStream_t stream, ncclResult_t wanted,
                    const char *const *words, int line) {
    ncclResult_t state = ncclSuccess;
    for (int times = 0; times < 2; times++) // the error stays
        expect(cudaErrorLaunchFailure, cudaStreamSynchronize(stream), "cudaStreamSynchronize",
               line);
    expect(0, ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", line);
    const char *text = ncclGetLastError(comm), *same = cudaGetErrorString(cudaErrorLaunchFailure);
    if (state != wanted)
        give_up(line, "the communicator's state is %d, not %d; %s", state, wanted, text);
    for (; *words; words++)
        if (!strstr(text, *words) || !strstr(same, *words))
            give_up(line, "not a word of %s: %s (CUDA: %s)", *words, text, same);
}

void set_up_ranks(int argc, char **argv) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); // several ranks die on purpose
    const char *ours[] = {"CPU_DEVICE_MEMORY",    "CPU_DEVICE_CHAOS", "CPU_DEVICE_TIMEOUT",
                          "CUDA_VISIBLE_DEVICES", "NCCL_COMM_ID",     "NCCL_HOSTID"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        unsetenv(ours[i]);
    setenv("CPU_DEVICES", "8", 1);
    // An error of the device says more than being killed for hanging.
    setenv("CPU_DEVICE_TIMEOUT", SANITIZED ? "90" : "30", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("OMP_NUM_THREADS", "2", 0);
    size_t bytes = MOST_JOBS * sizeof *rendezvous;
    rendezvous = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rendezvous == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    for (int i = 0; i < MOST_JOBS; i++)
        jobs[i].rendezvous = rendezvous + i;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
}
