// Tests of ranks that stop, die, leave or abort: the others notice it soon, and can continue.
#include "ranks.h"
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>

// Returns the state of a process or thread, such as 'S' if it sleeps, or 0 if it has just ended.
static char state_of(int id) {
    char path[40], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", id);
    FILE *stat = fopen(path, "r");
    if (stat && fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
        state = 0;
    if (stat)
        fclose(stat);
    return state;
}

// A stopped rank, for example in a debugger, is not dead, so the others wait.
static void stop_for_a_while(int rank) {
    float *x = new_floats(100003, 1);
    barrier(3);
    if (rank == 1) {
        raise(SIGSTOP);
    } else {
        OK(ncclAllReduce(x, x, 100003, ncclFloat, ncclSum, comm, stream));
        for (double end = clock_now() + 0.8; clock_now() < end;
             rest()) // the stop that is to be borne
            REFUSED(cudaErrorNotReady, cudaStreamQuery(stream));
        post(DONE);
        await(DONE, 2);
        for (; cudaStreamQuery(stream) == cudaErrorNotReady; rest())
            kill(rendezvous->pid[1], SIGCONT);
    }
    if (rank == 1)
        OK(ncclAllReduce(x, x, 100003, ncclFloat, ncclSum, comm, stream));
    GIVES(stream, x, 100003, 3);
}

static void await_a_long_wait(void) {
    while (!strstr(ncclGetLastError(NULL), "waits in"))
        rest();
}

// Rank 1 stops rank 0, which waits for it, for longer than rank 0 would wait. Meanwhile, rank 1
// does what rank 0 waits for, and goes on to the next communicator. Rank 0 must notice first that
// it need not wait any more.
static void stop_while_the_other_goes_on(int rank) {
    enum { SECONDS = 3 };
    setenv("CPU_DEVICE_CHECK", "1", 1);
    setenv("CPU_DEVICE_TIMEOUT", rank ? "60" : "3", 1);
    ncclComm_t first = join(2, rank), second = join(2, rank);
    cudaStream_t stream = new_stream();
    float *x = new_floats(10, 1);
    double stopped = 0;
    if (rank == 1) {
        await(CALLED, 1);
        stopped = clock_now();
        kill(rendezvous->pid[0], SIGSTOP);
        while (state_of(rendezvous->pid[0]) != 'T')
            rest();
    }
    OK(ncclAllReduce(x, x, 10, ncclFloat, ncclSum, first, stream));
    OK(ncclAllReduce(x, x, 10, ncclFloat, ncclSum, second, stream));
    await_a_long_wait();
    post(CALLED);
    if (rank == 1) {
        while (clock_now() < stopped + SECONDS + 1)
            rest();
        kill(rendezvous->pid[0], SIGCONT);
    }
    GIVES(stream, x, 10, 4);
    OK(ncclCommDestroy(first));
    OK(ncclCommDestroy(second));
}

// The death of a rank.

enum moment { BEFORE, WHILE_OTHERS_WAIT, INSIDE };
enum end { ABORT, DESTROY, JUST_EXIT };
static struct {
    enum collective which;
    int victim;
    enum moment moment;
    enum end end;
} death;

static void kill_victim(void) {
    rendezvous->killed_at = clock_now();
    kill(rendezvous->pid[death.victim], SIGKILL);
}

static void lose_a_rank(int rank) {
    enum { COUNT = 100003, TIMES = 3 };
    int n = rank_count, killer = (death.victim + 1) % n, inside = death.moment == INSIDE;
    char name[20];
    snprintf(name, sizeof name, "rank %d", death.victim);
    enter(n, rank);
    float *x = new_floats((size_t)n * COUNT, 1), *y = new_floats((size_t)n * COUNT, 1);
    if (!inside)
        barrier(n);
    if (death.moment == BEFORE && rank == death.victim)
        raise(SIGKILL);
    if (death.moment == BEFORE) {
        rendezvous->killed_at = clock_now();
        await_death(death.victim);
    }
    if (rank == death.victim && !inside)
        await(DONE, 1); // which does not come
    cudaError_t error = cudaSuccess;
    ncclResult_t result = ncclSuccess;
    for (int times = 0; !error && !result && (inside || !times); times++) {
        result = call(death.which, x, y, COUNT, ncclFloat, ncclSum, inside ? death.victim : killer,
                      comm, stream);
        CHECK(result == ncclSuccess ||
                  (result == ncclRemoteError && death.moment != WHILE_OTHERS_WAIT),
              "the call returned %d: %s", result, ncclGetLastError(comm));
        post(CALLED);
        if (death.moment == WHILE_OTHERS_WAIT && rank == killer) {
            await(CALLED, n - 1);
            kill_victim();
        }
        if (inside && rank == killer && times == TIMES)
            kill_victim();
        error = cudaStreamSynchronize(stream);
    }
    double now = clock_now();
    CHECK(error == cudaErrorLaunchFailure, "the stream's error is %d", error);
    // Far less than the 30 s of CPU_DEVICE_TIMEOUT, and enough for a loaded machine.
    CHECK(now - rendezvous->killed_at < 10 || SANITIZED, "told after %g s",
          now - rendezvous->killed_at);
    FAILS(comm, stream, ncclRemoteError, name);
    if (death.end == DESTROY)
        ncclCommDestroy(comm); // may say what it likes, but comes to an end
    if (death.end == ABORT)
        OK(ncclCommAbort(comm));
}

// Tests of deaths mostly wait, so several run at once.
static void start_death(enum collective which, int n, int victim, enum moment moment) {
    death.which = which;
    death.victim = victim;
    death.moment = moment;
    death.end = (enum end)((int)which % 3);
    start_ranks(n, lose_a_rank, 1u << victim);
}

TEST(death_in_any_collective_is_reported) {
    for (int which = 0; which < COLLECTIVES; which++) {
        int n = 2 + which % 3;
        start_death((enum collective)which, n, which % n, INSIDE);
        if (which % 2)
            start_death((enum collective)which, n, which % 2, BEFORE);
        else
            start_death((enum collective)which, n, (which + 1) % 2, WHILE_OTHERS_WAIT);
        if (which % 4 == 3 || which == COLLECTIVES - 1)
            finish_ranks();
    }
}

// With many other processes on the cores, a yield takes as long as their turns.
static int is_busy;

int sched_yield(void) {
    return is_busy ? usleep(100000) : (int)syscall(SYS_sched_yield);
}

TEST(death_is_reported_on_a_busy_machine) {
    is_busy = 1;
    start_death(ALL_REDUCE, 2, 1, WHILE_OTHERS_WAIT);
    finish_ranks();
    is_busy = 0;
}

// A forked child of a rank lives on with the inherited files. The other ranks still notice the
// death of the rank.
static void leave_a_child(int rank) {
    ncclComm_t comm = join(2, rank);
    float *x = new_floats(100, 1);
    barrier(2);
    if (rank == 1) {
        pid_t child = fork();
        CHECK(child >= 0, "no child");
        if (child > 0)
            raise(SIGKILL);
        close(life[1][1]);
        await_death(0);
        _exit(0);
    }
    await_death(1);
    ncclResult_t result = ncclAllReduce(x, x, 100, ncclFloat, ncclSum, comm, NULL);
    CHECK(result == ncclSuccess || result == ncclRemoteError, "the call returned %d", result);
    FAILS(comm, NULL, ncclRemoteError, "rank 1");
    OK(ncclCommAbort(comm));
}

TEST(death_is_reported_while_a_child_lives) {
    start_ranks(2, leave_a_child, 1u << 1);
    set_hosts("ab");
    start_ranks(2, leave_a_child, 1u << 1);
    finish_ranks();
}

// Rank 1 ends after its last call, with or without ncclCommDestroy. Then the others check their
// results, and continue without rank 1 for longer than it takes to notice a death.
static int says_farewell;

static void leave_early(int rank) {
    enum { COUNT = 100003 };
    int n = rank_count;
    enter(n, rank);
    float *x = new_floats(COUNT, 1), *y = new_floats(COUNT, (float)rank);
    for (int times = 0; times < 3; times++)
        OK(ncclAllReduce(x, x, COUNT, ncclFloat, ncclMax, comm, stream));
    OK(ncclAllReduce(x, x, COUNT, ncclFloat, ncclSum, comm, stream));
    OK(ncclBcast(y, COUNT, ncclFloat, 1, comm, stream));
    if (rank == 1) {
        OK(cudaStreamSynchronize(stream));
        if (says_farewell)
            OK(ncclCommDestroy(comm));
        exit(0);
    }
    await_death(1);
    GIVES(stream, x, COUNT, (float)n);
    HOLDS(y, COUNT, 1);
    if (rank == 2) {
        OK(ncclRecv(x, COUNT, ncclFloat, 0, comm, stream));
        for (double end = clock_now() + 1; clock_now() < end;
             rest()) // the time in which to miss rank 1
            REFUSED(cudaErrorNotReady, cudaStreamQuery(stream));
        post(GO);
        GIVES(stream, x, COUNT, 1);
    } else if (n > 2) {
        await(GO, 1);
        OK(ncclSend(y, COUNT, ncclFloat, 2, comm, stream));
        OK(cudaStreamSynchronize(stream));
    }
    ncclResult_t state;
    OK(ncclCommGetAsyncError(comm, &state));
    OK(state);
    OK(ncclCommDestroy(comm));
}

static void start_leaving(const char *hosts) {
    for (says_farewell = 0; says_farewell < 2; says_farewell++) {
        set_hosts(hosts);
        start_ranks((int)strlen(hosts), leave_early, 0);
    }
}

TEST(a_rank_that_is_no_longer_needed_may_leave) {
    start_leaving("aa");
    start_leaving("ab");
    start_leaving("aab");
    finish_ranks();
}

// A rank that exits during its own collective ends at once, and the others notice it.
static void leave_from_inside(int rank) {
    ncclComm_t comm = join(2, rank);
    float *x = new_floats(100, 1);
    barrier(2); // who made the id must not leave before all have joined
    if (rank == 0) {
        OK(ncclAllReduce(x, x, 100, ncclFloat, ncclSum, comm, NULL));
        exit(0);
    }
    await_death(0);
    OK(ncclAllGather(x + 50, x, 50, ncclFloat, comm, NULL)); // not what rank 0 was in
    REFUSED(cudaErrorLaunchFailure, cudaStreamSynchronize(NULL));
    OK(ncclCommAbort(comm));
}

// This exit handler is registered before the device's, so it runs after the device has ended.
static ncclComm_t destroyed_at_exit;

static void destroy_at_exit(void) {
    OK(ncclCommDestroy(destroyed_at_exit));
}

static void leave_and_destroy(int rank) {
    if (rank == 0)
        atexit(destroy_at_exit);
    ncclComm_t comm = destroyed_at_exit = join(2, rank);
    float *x = new_floats(100, 1);
    barrier(2);
    if (rank == 0) {
        for (int times = 0; times < 2; times++) // neither can end
            OK(ncclAllReduce(x, x, 100, ncclFloat, ncclSum, comm, NULL));
        rendezvous->killed_at = clock_now();
        exit(0);
    }
    await_death(0);
    CHECK(clock_now() - rendezvous->killed_at < 5 || SANITIZED, "took %g s",
          clock_now() - rendezvous->killed_at);
    OK(ncclCommAbort(comm));
}

// Abort.

static void *abort_comm(void *comm) {
    OK(ncclCommAbort(comm));
    return NULL;
}

static void *abort_it(void *comm) {
    await(CALLED, 2);
    rendezvous->killed_at = clock_now();
    return abort_comm(comm);
}

// Rank 2 makes no call, so ranks 0 and 1 give up and continue without it.
static void abort_and_go_on(int rank) {
    enter(3, rank);
    pthread_t other;
    float *x = new_floats(5000, 1);
    if (rank < 2) {
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, stream));
        OK(pthread_create(&other, NULL, abort_it, comm));
        post(CALLED);
        cudaStreamSynchronize(stream); // may return anything, but soon
        OK(pthread_join(other, NULL));
        double took = clock_now() - rendezvous->killed_at;
        CHECK(took < 5 || SANITIZED, "took %g s", took); // else it would wait for rank 2
        cudaGetLastError();
        set_floats(x, 5000, 2);
        comm = join(2, rank);
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, stream));
        GIVES(stream, x, 5000, 4);
        post(DONE);
    }
    await(DONE, 2);
    OK(ncclCommAbort(comm));
}

// Waits until all other threads of this process sleep. Each of them is then inside a call that
// waits.
static void await_others_sleep(void) {
    char own[16];
    snprintf(own, sizeof own, "%ld", syscall(SYS_gettid));
    for (int times = 0; times < 20; usleep(1000)) {
        DIR *threads = opendir("/proc/self/task");
        times++;
        for (struct dirent *thread; (thread = readdir(threads));)
            if (*thread->d_name != '.' && strcmp(thread->d_name, own) &&
                state_of(atoi(thread->d_name)) != 'S')
                times = 0;
        closedir(threads);
    }
}

static void *abort_main_call(void *comm) {
    await(CALLED, 1);
    await_others_sleep();
    post(CALLED);
    return abort_it(comm);
}

// Calls that block a host thread also end: rank 1 does not make this one.
static void abort_a_call(int rank, void (*call)(ncclComm_t comm)) {
    ncclComm_t comm = join(2, rank);
    pthread_t other;
    if (rank == 0) {
        OK(pthread_create(&other, NULL, abort_main_call, comm));
        post(CALLED);
        call(comm);
        CHECK(clock_now() - rendezvous->killed_at < 1 || SANITIZED, "took %g s",
              clock_now() - rendezvous->killed_at);
        OK(pthread_join(other, NULL));
        post(DONE);
    }
    await(DONE, 1);
    if (rank == 1)
        OK(ncclCommAbort(comm));
}

static void split_alone(ncclComm_t comm) {
    ncclComm_t part = NULL;
    CHECK(ncclCommSplit(comm, 0, 0, &part, NULL), "split by one of two");
}

static void abort_a_split(int rank) {
    abort_a_call(rank, split_alone);
}

static void connect_alone(ncclComm_t comm) {
    REFUSED(ncclInternalError, ncclSend(new_floats(100, 1), 100, ncclFloat, 1, comm, NULL));
}

static void abort_a_connection(int rank) {
    setenv("CPU_DEVICE_CHAOS", "1", 1);
    abort_a_call(rank, connect_alone);
}

static void die_before_a_connection(int rank) {
    setenv("CPU_DEVICE_CHAOS", "1", 1);
    ncclComm_t comm = join(2, rank);
    float *x = new_floats(100, 1);
    barrier(2);
    if (rank == 1)
        raise(SIGKILL);
    REFUSED(ncclRemoteError, ncclRecv(x, 100, ncclFloat, 1, comm, NULL));
    FAILS(comm, NULL, ncclRemoteError, "rank 1", "the connection for Recv");
    OK(ncclCommAbort(comm));
}

// Rank 0 lends its data to rank 1, and aborts before rank 1 has read them. Then its stream changes
// them, while the abort waits for another call. Rank 1 must not take what it finds for data.
static void abort_and_change(int rank) {
    enum { COUNT = 100000 };
    enter(2, rank);
    float *x = new_floats(COUNT, 1);
    cudaEvent_t begun, changed;
    pthread_t other;
    OK(cudaEventCreate(&begun));
    OK(cudaEventCreate(&changed));
    if (rank == 0) {
        OK(cudaEventRecord(begun, stream));
        OK(ncclSend(x, COUNT, ncclFloat, 1, comm, stream));
        OK(cudaMemsetAsync(x, 0, COUNT * sizeof *x, stream));
        OK(cudaEventRecord(changed, stream));
        hold(stream, GO);
        OK(ncclSend(x, 1, ncclFloat, 1, comm, stream));
        OK(cudaEventSynchronize(begun));
        await_others_sleep();
        OK(pthread_create(&other, NULL, abort_comm, comm));
        OK(cudaEventSynchronize(changed));
        post(DONE);
        await(CALLED, 1);
        post(GO);
        OK(pthread_join(other, NULL));
    } else {
        await(DONE, 1);
        OK(ncclRecv(x, COUNT, ncclFloat, 0, comm, stream));
        FAILS(comm, stream, ncclRemoteError, "rank 0 has aborted");
        OK(ncclCommAbort(comm));
        post(CALLED);
    }
}

// After a death, no work runs until the program aborts the communicator. Then the rest continues.
static void survive(int rank) {
    ncclComm_t comm = join(3, rank);
    float *x = new_floats(5000, (float)rank), *y = new_floats(5000, 0), back = -1;
    cudaStream_t stream = new_stream(), other = new_stream();
    cudaEvent_t before, after;
    OK(cudaEventCreate(&before));
    OK(cudaEventCreate(&after));
    OK(ncclAllReduce(y, y, 5000, ncclFloat, ncclSum, comm, stream));
    OK(cudaEventRecord(before, stream));
    OK(cudaStreamSynchronize(stream));
    barrier(3);
    if (rank == 1)
        raise(SIGKILL);
    OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, stream));
    OK(cudaEventRecord(after, stream));
    FAILS(comm, stream, ncclRemoteError, "rank 1");
    OK(cudaEventQuery(before)); // a program can find out which call failed first
    OK(cudaEventSynchronize(before));
    REFUSED(cudaErrorLaunchFailure, cudaEventQuery(after));
    cudaMemsetAsync(y, 1, 4, other);
    REFUSED(cudaErrorLaunchFailure, cudaStreamSynchronize(other));
    REFUSED(cudaErrorLaunchFailure, cudaDeviceSynchronize());
    REFUSED(cudaErrorLaunchFailure, cudaMemcpy(&back, y, sizeof back, cudaMemcpyDeviceToHost));
    CHECK(back == -1, "the copy was made");
    HOLDS(y, 5000, 0);
    OK(ncclCommAbort(comm));
    cudaGetLastError();
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(&back, y, sizeof back, cudaMemcpyDeviceToHost));
    CHECK(back == 0, "the fill was made");
    set_floats(x, 5000, (float)rank);
    comm = join_from_device(2, rank / 2);
    OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, stream));
    GIVES(stream, x, 5000, 2);
    OK(ncclCommDestroy(comm));
}

TEST(ranks_continue_after_an_abort) {
    start_ranks(3, abort_and_go_on, 0);
    start_ranks(3, survive, 1u << 1);
    start_ranks(2, abort_a_split, 0);
    start_ranks(2, abort_a_connection, 0);
    start_ranks(2, die_before_a_connection, 1u << 1);
    start_ranks(2, abort_and_change, 0);
    finish_ranks();
}

// The network ends a connection, and both ranks live on.
static void cut_the_connection(int rank) {
    ncclComm_t comm = join(2, rank);
    float *x = new_floats(10, 1);
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    barrier(2);
    for (int file = 3, protocol; rank == 1 && file < 100; file++)
        if (!getsockopt(file, SOL_SOCKET, SO_PROTOCOL, &protocol, &(socklen_t){sizeof protocol}) &&
            protocol == IPPROTO_TCP)
            OK(syscall(SYS_connect, file, &none, sizeof none)); // which resets it
    barrier(2);
    OK(ncclAllReduce(x, x, 10, ncclFloat, ncclSum, comm, NULL));
    FAILS(comm, NULL, ncclRemoteError, "the connection to rank", "has broken while rank",
          rank ? "" : "Connection reset by peer");
    barrier(2);
    OK(ncclCommAbort(comm));
}

TEST(deaths_on_other_hosts_are_reported) {
    for (int i = 0; i < PLACEMENTS; i += 2) {
        int n = (int)strlen(placements[i]);
        set_hosts(placements[i]);
        start_death(ALL_REDUCE, n, i % n, INSIDE);
        start_death(SEND_RECV, n, (i + 2) % n, INSIDE);
        start_death(ALL_GATHER, n, 0, BEFORE);
        start_death(REDUCE_SCATTER, n, n - 1, WHILE_OTHERS_WAIT);
        finish_ranks();
    }
    set_hosts("abc");
    start_ranks(3, abort_and_go_on, 0);
    start_ranks(3, survive, 1u << 1);
    finish_ranks();
}

int main(int argc, char **argv) {
    JOINED(ranks_wait_for_a_stopped_rank, 3, stop_for_a_while, NULL);
    JOINED(ranks_wait_for_a_stopped_rank, 3, stop_for_a_while, "aab");
    RANKS(ranks_wait_for_a_stopped_rank, 2, stop_while_the_other_goes_on, NULL);
    RANKS(broken_connection_is_no_death, 2, cut_the_connection, "ab");
    RANKS(exit_does_not_wait_for_the_peers, 2, leave_from_inside, NULL);
    RANKS(exit_does_not_wait_for_the_peers, 2, leave_and_destroy, NULL);
    return run_rank_tests(argc, argv);
}
