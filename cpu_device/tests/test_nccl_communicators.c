// Tests of communicators: split ones, and their end.
#include "../src/internal.h"
#include "ranks.h"

// Splits.

static void expect_place(ncclComm_t comm, int n, int rank) {
    int count = -1, place = -1;
    CHECK(comm, "no communicator");
    OK(ncclCommCount(comm, &count));
    OK(ncclCommUserRank(comm, &place));
    CHECK(count == n && place == rank, "rank %d of %d, not %d of %d", place, count, rank, n);
}

static void split_four(int rank) {
    ncclComm_t comm = join(4, rank), half = NULL, reversed = NULL, some = comm, again = NULL;
    OK(ncclCommSplit(comm, rank / 2, 0, &half, NULL)); // equal keys keep the order
    expect_place(half, 2, rank % 2);
    CHECK(sum_over(half, (float)rank) == (rank < 2 ? 1 : 5), "wrong sum in half");
    OK(ncclCommSplit(comm, 7, -rank, &reversed, NULL));
    expect_place(reversed, 4, 3 - rank);
    float *x = new_floats(4, (float)rank), back[4];
    OK(ncclAllGather(x + 3 - rank, x, 1, ncclFloat, reversed, NULL));
    OK(cudaMemcpy(back, x, sizeof back, cudaMemcpyDeviceToHost));
    CHECK(back[0] == 3 && back[1] == 2 && back[2] == 1 && back[3] == 0, "%g %g %g %g", back[0],
          back[1], back[2], back[3]);
    OK(ncclCommSplit(comm, rank == 2 ? NCCL_SPLIT_NOCOLOR : 0, 0, &some, NULL));
    if (rank == 2) {
        CHECK(!some, "a communicator for none");
    } else {
        expect_place(some, 3, rank < 2 ? rank : 2);
        CHECK(sum_over(some, 1) == 3, "wrong sum in some");
    }
    CHECK(sum_over(comm, 1) == 4, "wrong sum in parent");
    OK(ncclCommSplit(half, 0, -rank, &again, NULL)); // a part of a part
    expect_place(again, 2, 1 - rank % 2);
    OK(ncclCommDestroy(comm)); // its parts live on
    OK(ncclCommDestroy(half));
    CHECK(sum_over(again, (float)rank) == (rank < 2 ? 1 : 5), "wrong sum in a part of a part");
    CHECK(sum_over(reversed, 1) == 4, "wrong sum in reversed");
    REFUSED(ncclInvalidArgument, ncclCommSplit(reversed, -2, 0, &half, NULL));
    CHECK(sum_over(reversed, 1) == 4, "wrong sum in reversed");
    OK(ncclCommDestroy(again));
    OK(ncclCommDestroy(reversed));
    if (some)
        OK(ncclCommDestroy(some));
    OK(cudaFree(x));
}

// A destroyed communicator leaves nothing.

static int mappings(void) {
    int count = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    for (int c; f && (c = getc(f)) != EOF;)
        count += c == '\n';
    if (f)
        fclose(f);
    return count;
}

// Threads may need a moment to end.
static int settles_at(int (*measure)(void), int most) {
    for (double end = clock_now() + 5; measure() > most && clock_now() < end;)
        rest();
    return measure() <= most;
}

static int threads(void) {
    return entries("/proc/self/task");
}

static int descriptors(void) {
    return entries("/proc/self/fd");
}

// Ends communicators after they have worked, or aborts them after a mistake.
static void use_briefly(int n, int rank, int fails) {
    ncclComm_t comm = join(n, rank), part = NULL;
    OK(ncclCommSplit(comm, rank % 2, rank, &part, NULL));
    CHECK(sum_over(comm, 1) == (float)n, "wrong sum");
    CHECK(sum_over(part, 1) >= 1, "wrong sum");
    if (fails) {
        float *x = new_floats(100, 1);
        OK(ncclAllReduce(x, x, 10 + (size_t)rank, ncclFloat, ncclSum, comm, NULL));
        REFUSED(cudaErrorLaunchFailure, cudaStreamSynchronize(NULL));
        barrier(n);
        OK(ncclCommAbort(part));
        OK(ncclCommAbort(comm));
        barrier(n);
        cudaGetLastError();
        OK(cudaStreamSynchronize(NULL));
        OK(cudaFree(x));
        return;
    }
    if (rank % 2)
        OK(ncclCommFinalize(comm));
    OK(ncclCommDestroy(comm));
    OK(ncclCommDestroy(part));
}

static void come_and_go(int rank) {
    enum { CYCLES = 40, N = 3 };
    size_t left_before, left, total;
    for (int i = 0; i < 4; i++) // so that whatever is made once has been made
        use_briefly(N, rank, i % 2);
    barrier(N);
    OK(cudaMemGetInfo(&left_before, &total));
    // What was made once may still be going: the least of some looks.
    int least_threads = threads(), least_descriptors = descriptors(), maps = mappings();
    for (double end = clock_now() + 0.2; clock_now() < end; rest()) {
        int now = threads(), open = descriptors();
        least_threads = now < least_threads ? now : least_threads;
        least_descriptors = open < least_descriptors ? open : least_descriptors;
    }
    for (int i = 0; i < CYCLES; i++)
        use_briefly(N, rank, i % 2);
    CHECK(settles_at(descriptors, least_descriptors), "%d descriptors, not %d", descriptors(),
          least_descriptors);
    CHECK(settles_at(threads, least_threads), "%d threads, not %d", threads(), least_threads);
    CHECK(mappings() <= maps + CYCLES / 2 || SANITIZED, "%d mappings, not %d", mappings(), maps);
    OK(cudaMemGetInfo(&left, &total));
    CHECK(left == left_before, "%zu bytes of device memory are gone", left_before - left);
    barrier(N);
}

// While the host makes a communicator, a stream waits in another one, and looks at all that there
// are.

static void *post_when_a_stream_waits(void *unused) {
    while (!strstr(ncclGetLastError(NULL), "rank 0 waits in AllReduce"))
        rest();
    post(GO);
    return unused;
}

static void make_another(int rank) {
    ncclComm_t another;
    float *x = new_floats(1, 1);
    pthread_t thread;
    if (rank == 0) {
        OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, NULL));
        OK(pthread_create(&thread, NULL, post_when_a_stream_waits, NULL));
    } else {
        await(GO, 1);
    }
    another = join(2, rank);
    if (rank == 0)
        OK(pthread_join(thread, NULL));
    else
        OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, NULL));
    GIVES(NULL, x, 1, 2);
    CHECK(sum_over(another, 1) == 2, "wrong sum");
    OK(ncclCommDestroy(another));
    OK(cudaFree(x));
}

int main(int argc, char **argv) {
    JOINED(a_communicator_is_made_while_another_one_waits, 2, make_another, NULL);
    RANKS(communicators_are_split, 4, split_four, NULL);
    RANKS(communicators_are_split, 4, split_four, "aabb");
    RANKS(destroyed_communicators_leave_nothing, 3, come_and_go, NULL);
    RANKS(destroyed_communicators_leave_nothing, 3, come_and_go, "aab");
    return run_rank_tests(argc, argv);
}
