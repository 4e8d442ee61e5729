// Tests of mistakes of one rank or of all ranks: each must be reported with its reason.
#include "kernels.h"
#include "ranks.h"

struct wrong_call {
    enum collective which;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
};
#define USUAL(which)                                                                               \
    { which, 512, ncclFloat, ncclSum, 0 }
static const struct mismatch {
    struct wrong_call call[2]; // of the last rank, and of the others
    const char *words[2];      // in which they differ
} mismatches[] = {
    {{USUAL(ALL_REDUCE), {ALL_REDUCE, 513, ncclFloat, ncclSum, 0}}, {"count 512", "count 513"}},
    {{USUAL(ALL_REDUCE), {ALL_REDUCE, 512, ncclInt32, ncclSum, 0}}, {"float", "int32"}},
    {{USUAL(ALL_REDUCE), {ALL_REDUCE, 512, ncclFloat, ncclMax, 0}}, {"sum", "max"}},
    {{USUAL(BROADCAST), {BROADCAST, 512, ncclFloat, ncclSum, 1}}, {"root 0", "root 1"}},
    {{USUAL(REDUCE), {REDUCE, 512, ncclFloat, ncclSum, 1}}, {"root 0", "root 1"}},
    {{USUAL(ALL_REDUCE), USUAL(BCAST)}, {"AllReduce", "Broadcast"}},
    {{USUAL(ALL_GATHER), {ALL_GATHER, 7, ncclFloat, ncclSum, 0}}, {"count 512", "count 7"}},
    {{{REDUCE_SCATTER, 0, ncclFloat, ncclSum, 0}, {REDUCE_SCATTER, 77, ncclFloat, ncclSum, 0}},
     {"count 0", "count 77"}},
    {{USUAL(SEND_RECV), {SEND_RECV, 600, ncclFloat, ncclSum, 0}}, {"count 512", "count 600"}},
    {{USUAL(SEND_RECV), {SEND_RECV, 512, ncclInt32, ncclSum, 0}}, {"float", "int32"}},
};
static const struct mismatch *mismatch;

static void call_differently(int rank) {
    int n = rank_count;
    const struct wrong_call *c = &mismatch->call[rank < n - 1];
    ncclComm_t comm = join(n, rank);
    float *x = new_floats(3000, 1), *y = new_floats(3000, 0);
    double begun = clock_now();
    OK(call(c->which, x, y, c->count, c->type, c->op, c->root, comm, NULL));
    cudaError_t error = cudaStreamSynchronize(NULL);
    CHECK(error == cudaErrorLaunchFailure, "%s and %s gave %d", mismatch->words[0],
          mismatch->words[1], error);
    CHECK(clock_now() - begun < 5 || SANITIZED, "%s and %s told after %g s", mismatch->words[0],
          mismatch->words[1], clock_now() - begun);
    FAILS(comm, NULL, ncclInvalidUsage, mismatch->words[0], mismatch->words[1], "rank");
    barrier(n); // so that no rank is told of the end of another instead
    OK(ncclCommAbort(comm));
}

TEST(different_calls_are_reported) {
    for (size_t i = 0; i < sizeof mismatches / sizeof *mismatches; i++) {
        mismatch = &mismatches[i];
        run_ranks(mismatch->call[0].which == SEND_RECV ? 2 : 2 + (int)i % 2, call_differently, 0);
    }
}

// Without a group, a send ends when it is received, so neither rank reaches its receive.
static void send_first(int rank) {
    setenv("CPU_DEVICE_TIMEOUT", "1", 1);
    ncclComm_t comm = join(2, rank);
    float *x = new_floats(10, 1), *y = new_floats(10, 0);
    barrier(2);
    OK(ncclSend(x, 10, ncclFloat, 1 - rank, comm, NULL));
    OK(ncclRecv(y, 10, ncclFloat, 1 - rank, comm, NULL));
    FAILS(comm, NULL, ncclInvalidUsage, "waits in Send (count 10");
    HOLDS(y, 10, 0);
    barrier(2);
    OK(ncclCommAbort(comm));
}

// Rank 0 makes no call, or a call in the wrong communicator, for longer than CPU_DEVICE_TIMEOUT.
static int is_elsewhere;

static void stay_away(int rank) {
    setenv("CPU_DEVICE_TIMEOUT", rank ? SANITIZED ? "10" : "2" : "60", 1);
    ncclComm_t comm = join(3, rank), elsewhere = join(3, rank);
    cudaStream_t stream = new_stream();
    float *x = new_floats(512, 1);
    char own[100];
    snprintf(own, sizeof own, "rank %d waits in AllReduce (count 512", rank);
    if (rank == 0) {
        if (is_elsewhere) // for longer than the others wait
            OK(ncclBroadcast(x, x, 100, ncclFloat, 1, elsewhere, stream));
        post(ENTERED);
        await(DONE, 2);
    } else {
        await(ENTERED, 1);
        double begun = clock_now();
        OK(ncclAllReduce(x, x, 512, ncclFloat, ncclSum, comm, stream));
        REFUSED(cudaErrorLaunchFailure, cudaStreamSynchronize(stream));
        double took = clock_now() - begun;
        CHECK((took > 1 && took < 6) || SANITIZED, "told after %g s", took);
        FAILS(comm, stream, ncclInvalidUsage, "waits in AllReduce (count 512", "rank 0",
              is_elsewhere ? "in Broadcast" : "no collective");
        post(DONE);
        await(DONE, 2);
    }
    OK(ncclCommAbort(comm));
    OK(ncclCommAbort(elsewhere));
}

TEST(a_rank_that_makes_no_call_is_reported) {
    for (is_elsewhere = 0; is_elsewhere < 2; is_elsewhere++)
        start_ranks(3, stay_away, 0);
    finish_ranks();
}

// Ranks 3 and 1 are ranks 0 and 1 of a split of a split, and disagree about the root. Ranks 2 and 0
// are the same of another one, and rank 0 makes no call.
static void differ_in_a_split(int rank) {
    setenv("CPU_DEVICE_TIMEOUT", rank ? SANITIZED ? "10" : "2" : "60", 1);
    ncclComm_t comm = join(4, rank), part, reversed;
    float *x = new_floats(512, 1);
    OK(ncclCommSplit(comm, rank % 2, rank, &part, NULL));
    OK(ncclCommSplit(part, 0, -rank, &reversed, NULL));
    if (rank == 0)
        await(DONE, 1);
    else
        OK(ncclBroadcast(x, x, 512, ncclFloat, rank == 1, reversed, NULL));
    if (rank == 2) {
        FAILS(reversed, NULL, ncclInvalidUsage,
              "rank 2 waits in Broadcast (count 512, float, root 2)",
              "; rank 0 is in no collective");
        post(DONE);
    } else if (rank) {
        FAILS(reversed, NULL, ncclInvalidUsage,
              "rank 1 called Broadcast (count 512, float, root 1)",
              "rank 3 called Broadcast (count 512, float, root 3)");
    }
    OK(ncclCommAbort(reversed));
    OK(ncclCommAbort(part));
    OK(ncclCommAbort(comm));
}

// Rank 0 sends x, from which rank 1 computes what it sends back. If rank 0 merges its two transfers
// into one group, x waits for the connection of the second one. But the host of rank 1 does not
// come to its send: it loads a kernel, and for that it waits for its stream, which waits for x.
static int merges;

static void wait_for_connections(int rank) {
    setenv("CPU_DEVICE_CHAOS", "1", 1);
    setenv("CPU_DEVICE_TIMEOUT", SANITIZED ? "10" : "3", 1);
    enter(2, rank);
    float *x = new_floats(10, 1), *y = new_floats(20, 0);
    // The direction from rank 0 to rank 1 is connected.
    OK(rank == 0 ? ncclSend(x, 10, ncclFloat, 1, comm, stream)
                 : ncclRecv(y, 10, ncclFloat, 0, comm, stream));
    ncclResult_t result;
    if (rank == 0) {
        barrier(2); // both ranks begin to wait at about the same time
        OK(ncclGroupStart());
        OK(ncclSend(x, 10, ncclFloat, 1, comm, stream));
        if (!merges) {
            OK(ncclGroupEnd());
            OK(ncclGroupStart());
        }
        OK(ncclRecv(y, 20, ncclFloat, 1, comm, stream));
        result = ncclGroupEnd();
    } else {
        OK(ncclRecv(y, 10, ncclFloat, 0, comm, stream));
        barrier(2);
        launch_nothing(stream);
        result = ncclSend(y, 20, ncclFloat, 0, comm, stream);
    }
    if (merges) {
        CHECK(result == ncclInvalidUsage, "returned %d: %s", result, ncclGetLastError(comm));
        FAILS(comm, stream, ncclInvalidUsage, "rank 0", "Recv (count 10, float, from rank 0)",
              "the connection for Recv (count 20, float, from rank 1)");
    } else {
        OK(result);
        GIVES(stream, y, 10, 1);
    }
    barrier(2);
    OK(ncclCommAbort(comm));
}

TEST(transfers_that_wait_for_each_others_connection_are_reported) {
    for (merges = 0; merges < 2; merges++)
        start_ranks(2, wait_for_connections, 0);
    merges = 0;
    set_hosts("ab");
    start_ranks(2, wait_for_connections, 0);
    finish_ranks();
}

TEST(mistakes_on_other_hosts_are_reported) {
    for (int i = 0; i < PLACEMENTS; i++) {
        set_hosts(placements[i]);
        mismatch = &mismatches[i];
        start_ranks((int)strlen(placements[i]), call_differently, 0);
    }
    finish_ranks();
    set_hosts("aab");
    for (is_elsewhere = 0; is_elsewhere < 2; is_elsewhere++)
        start_ranks(3, stay_away, 0);
    finish_ranks();
}

int main(int argc, char **argv) {
    RANKS(messages_name_the_ranks_of_the_first_communicator, 4, differ_in_a_split, NULL);
    RANKS(failures_after_the_call_are_reported, 2, send_first, NULL);
    return run_rank_tests(argc, argv);
}
