// Tests of mistakes of one rank or of all ranks: each must be reported with its reason.
#include "tests/device/nccl_ranks.h"

struct wrong_call {
    enum collective which;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
};
static const struct mismatch {
    const char *name;
    struct wrong_call call[2]; // of the last rank, and of the others
    const char *words[2];      // in which they differ
} mismatches[] = {
    {"counts",
     {{ALL_REDUCE, 512, ncclFloat, ncclSum, 0}, {ALL_REDUCE, 513, ncclFloat, ncclSum, 0}},
     {"count 512", "count 513"}},
    {"types",
     {{ALL_REDUCE, 512, ncclFloat, ncclSum, 0}, {ALL_REDUCE, 512, ncclInt32, ncclSum, 0}},
     {"float", "int32"}},
    {"ops",
     {{ALL_REDUCE, 512, ncclFloat, ncclSum, 0}, {ALL_REDUCE, 512, ncclFloat, ncclMax, 0}},
     {"sum", "max"}},
    {"roots",
     {{BROADCAST, 512, ncclFloat, ncclSum, 0}, {BROADCAST, 512, ncclFloat, ncclSum, 1}},
     {"root 0", "root 1"}},
    {"roots of Reduce",
     {{REDUCE, 512, ncclFloat, ncclSum, 0}, {REDUCE, 512, ncclFloat, ncclSum, 1}},
     {"root 0", "root 1"}},
    {"collectives",
     {{ALL_REDUCE, 512, ncclFloat, ncclSum, 0}, {BCAST, 512, ncclFloat, ncclSum, 0}},
     {"AllReduce", "Broadcast"}},
    {"gathered counts",
     {{ALL_GATHER, 512, ncclFloat, ncclSum, 0}, {ALL_GATHER, 7, ncclFloat, ncclSum, 0}},
     {"count 512", "count 7"}},
    {"scattered counts",
     {{REDUCE_SCATTER, 0, ncclFloat, ncclSum, 0}, {REDUCE_SCATTER, 77, ncclFloat, ncclSum, 0}},
     {"count 0", "count 77"}},
    {"exchanged counts",
     {{ALL_TO_ALL, 512, ncclFloat, ncclSum, 0}, {ALL_TO_ALL, 511, ncclFloat, ncclSum, 0}},
     {"count 512", "count 511"}},
    {"roots of Gather",
     {{GATHER, 512, ncclFloat, ncclSum, 0}, {GATHER, 512, ncclFloat, ncclSum, 1}},
     {"Gather (count 512, float, root 0)", "root 1"}},
    {"types of Scatter",
     {{SCATTER, 512, ncclFloat, ncclSum, 0}, {SCATTER, 512, ncclInt32, ncclSum, 0}},
     {"float", "int32"}},
    {"ways to gather",
     {{GATHER, 512, ncclFloat, ncclSum, 0}, {SCATTER, 512, ncclFloat, ncclSum, 0}},
     {"Gather", "Scatter"}},
    {"sent counts",
     {{SEND_RECV, 512, ncclFloat, ncclSum, 0}, {SEND_RECV, 600, ncclFloat, ncclSum, 0}},
     {"count 512", "count 600"}},
    {"sent types",
     {{SEND_RECV, 512, ncclFloat, ncclSum, 0}, {SEND_RECV, 512, ncclInt32, ncclSum, 0}},
     {"float", "int32"}},
};
static const struct mismatch *mismatch;
static int mismatch_ranks;

static void call_differently(int rank) {
    int n = mismatch_ranks;
    const struct wrong_call *c = &mismatch->call[rank < n - 1];
    ncclComm_t comm = join(n, rank);
    float *x = new_floats(3000, 1), *y = new_floats(3000, 0);
    double begun = clock_now();
    OK(call(c->which, x, y, c->count, c->type, c->op, c->root, comm, NULL));
    cudaError_t error = cudaStreamSynchronize(NULL);
    CHECK(error == cudaErrorLaunchFailure, "different %s gave %d", mismatch->name, error);
    CHECK(clock_now() - begun < 5 || SANITIZED, "different %s told after %g s", mismatch->name,
          clock_now() - begun);
    FAILS(comm, NULL, ncclInvalidUsage, mismatch->words[0], mismatch->words[1], "rank");
    barrier(n); // so that no rank is told of the end of another instead
    OK(ncclCommAbort(comm));
}

static void different_calls_are_reported(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mismatches / sizeof *mismatches; i++) {
        mismatch = &mismatches[i];
        mismatch_ranks = mismatch->call[0].which == SEND_RECV ? 2 : 2 + (int)i % 2;
        run_ranks(mismatch_ranks, call_differently, 0);
    }
}

// A program that polls must see a failed call end.
static void poll_for_a_failure(int rank) {
    ncclComm_t comm = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    OK(cudaSetDevice(rank));
    float *x = new_floats(100, 1);
    UNDER_WAY(ncclCommInitRankConfig(&comm, 2, common_id(0, rank == 0), rank, &config));
    OK(settle(comm));
    UNDER_WAY(ncclAllReduce(x, x, 10 + (size_t)rank, ncclFloat, ncclSum, comm, NULL));
    FAILS(comm, NULL, ncclInvalidUsage, "count 10", "count 11");
    REFUSED(ncclInvalidUsage, ncclAllReduce(x, x, 10, ncclFloat, ncclSum, comm, NULL));
    REFUSED(ncclInvalidUsage, settle(comm));
    barrier(2);
    OK(ncclCommAbort(comm));
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

static void a_rank_that_makes_no_call_is_reported(void **state) {
    (void)state;
    for (is_elsewhere = 0; is_elsewhere < 2; is_elsewhere++)
        start_ranks(3, stay_away, 0);
    finish_ranks();
}

// Arguments.

static void refuse(ncclResult_t result, const char *name, const char *argument, const char *call,
                   int line) {
    const char *text = ncclGetLastError(NULL);
    if (result != ncclInvalidArgument)
        give_up(line, "%s returned %d; %s", call, result, text);
    if (!strstr(text, name) || !strstr(text, argument))
        give_up(line, "%s: not a word of %s and %s: %s", call, name, argument, text);
}
#define WRONG(name, argument, call) (here(__LINE__), refuse(call, name, argument, #call, __LINE__))

static void pass_wrong_arguments(int rank) {
    ncclComm_t comm = join(2, rank), none = NULL;
    float *x = new_floats(512, 1), *y = new_floats(1024, 1), on_host[512] = {0};
    const ncclDataType_t no_type = (ncclDataType_t)42;
    const ncclRedOp_t no_op = (ncclRedOp_t)5;
    const ncclDataType_t f = ncclFloat;
    // Each call with one wrong argument after the other.
    WRONG("AllReduce", "comm", ncclAllReduce(x, x, 512, f, ncclSum, NULL, NULL));
    WRONG("Broadcast", "comm", ncclBroadcast(x, x, 512, f, 0, NULL, NULL));
    WRONG("B", "comm", ncclBcast(x, 512, f, 0, NULL, NULL));
    WRONG("Reduce", "comm", ncclReduce(x, x, 512, f, ncclSum, 0, NULL, NULL));
    WRONG("AllGather", "comm", ncclAllGather(x, y, 512, f, NULL, NULL));
    WRONG("ReduceScatter", "comm", ncclReduceScatter(y, x, 512, f, ncclSum, NULL, NULL));
    WRONG("AlltoAll", "comm", ncclAlltoAll(x, y, 256, f, NULL, NULL));
    WRONG("Gather", "comm", ncclGather(x, y, 512, f, 0, NULL, NULL));
    WRONG("Scatter", "comm", ncclScatter(y, x, 512, f, 0, NULL, NULL));
    WRONG("Send", "comm", ncclSend(x, 512, f, 0, NULL, NULL));
    WRONG("Recv", "comm", ncclRecv(x, 512, f, 0, NULL, NULL));
    WRONG("AllReduce", "sendbuff", ncclAllReduce(NULL, x, 512, f, ncclSum, comm, NULL));
    WRONG("AllReduce", "recvbuff", ncclAllReduce(x, NULL, 512, f, ncclSum, comm, NULL));
    WRONG("AllGather", "sendbuff", ncclAllGather(NULL, y, 512, f, comm, NULL));
    WRONG("AllGather", "recvbuff", ncclAllGather(x, NULL, 512, f, comm, NULL));
    WRONG("ReduceScatter", "sendbuff", ncclReduceScatter(NULL, x, 512, f, ncclSum, comm, NULL));
    WRONG("ReduceScatter", "recvbuff", ncclReduceScatter(y, NULL, 512, f, ncclSum, comm, NULL));
    WRONG("Broadcast", "sendbuff", ncclBroadcast(NULL, x, 512, f, rank, comm, NULL));
    WRONG("Broadcast", "recvbuff", ncclBroadcast(x, NULL, 512, f, rank, comm, NULL));
    WRONG("B", "buff", ncclBcast(NULL, 512, f, 0, comm, NULL));
    WRONG("Reduce", "sendbuff", ncclReduce(NULL, x, 512, f, ncclSum, rank, comm, NULL));
    WRONG("Reduce", "recvbuff", ncclReduce(x, NULL, 512, f, ncclSum, rank, comm, NULL));
    WRONG("AlltoAll", "sendbuff", ncclAlltoAll(NULL, y, 256, f, comm, NULL));
    WRONG("AlltoAll", "recvbuff", ncclAlltoAll(x, NULL, 256, f, comm, NULL));
    WRONG("Gather", "sendbuff", ncclGather(NULL, y, 512, f, rank, comm, NULL));
    WRONG("Gather", "recvbuff", ncclGather(x, NULL, 512, f, rank, comm, NULL));
    WRONG("Scatter", "sendbuff", ncclScatter(NULL, x, 512, f, rank, comm, NULL));
    WRONG("Scatter", "recvbuff", ncclScatter(y, NULL, 512, f, rank, comm, NULL));
    WRONG("Send", "sendbuff", ncclSend(NULL, 512, f, 0, comm, NULL));
    WRONG("Recv", "recvbuff", ncclRecv(NULL, 512, f, 0, comm, NULL));
    // Memory of the host, and more than was allocated.
    WRONG("AllReduce", "sendbuff", ncclAllReduce(on_host, x, 512, f, ncclSum, comm, NULL));
    WRONG("AllReduce", "recvbuff", ncclAllReduce(x, on_host, 512, f, ncclSum, comm, NULL));
    WRONG("B", "buff", ncclBcast(on_host, 512, f, 0, comm, NULL));
    WRONG("Recv", "recvbuff", ncclRecv(on_host, 512, f, 0, comm, NULL));
    WRONG("AllReduce", "buff", ncclAllReduce(x, x, 513, f, ncclSum, comm, NULL));
    WRONG("AllReduce", "sendbuff", ncclAllReduce(x, y, 513, f, ncclSum, comm, NULL));
    WRONG("AllReduce", "recvbuff", ncclAllReduce(y, x, 513, f, ncclSum, comm, NULL));
    WRONG("AllReduce", "recvbuff", ncclAllReduce(x, y + 513, 512, f, ncclSum, comm, NULL));
    WRONG("AllReduce", "buff", ncclAllReduce(x, x, (size_t)-1, f, ncclSum, comm, NULL));
    WRONG("AllReduce", "buff", ncclAllReduce(x, x, (size_t)1 << 62, f, ncclSum, comm, NULL));
    WRONG("AllGather", "sendbuff", ncclAllGather(x, y, 512, ncclDouble, comm, NULL));
    WRONG("AllGather", "recvbuff", ncclAllGather(y, x, 512, f, comm, NULL));
    WRONG("AllGather", "buff",
          ncclAllGather(x, y, ((size_t)1 << 62) + 1, f, comm, NULL)); // 4 or 8 bytes
    WRONG("AllGather", "buff", ncclAllGather(x, y, 600, f, comm, NULL));
    WRONG("ReduceScatter", "sendbuff", ncclReduceScatter(x, y, 512, f, ncclSum, comm, NULL));
    WRONG("AlltoAll", "sendbuff", ncclAlltoAll(x, y, 257, f, comm, NULL));
    WRONG("AlltoAll", "recvbuff", ncclAlltoAll(y, x, 257, f, comm, NULL));
    WRONG("Gather", "recvbuff", ncclGather(x, x, 512, f, rank, comm, NULL));
    WRONG("Scatter", "sendbuff", ncclScatter(x, x, 512, f, rank, comm, NULL));
    WRONG("Send", "sendbuff", ncclSend(x, 513, f, 0, comm, NULL));
    WRONG("Broadcast", "recvbuff", ncclBroadcast(y, x, 513, f, 0, comm, NULL));
    for (int root = -1; root <= 2; root += 3) {
        WRONG("Broadcast", "root", ncclBroadcast(x, x, 512, f, root, comm, NULL));
        WRONG("B", "root", ncclBcast(x, 512, f, root, comm, NULL));
        WRONG("Reduce", "root", ncclReduce(x, x, 512, f, ncclSum, root, comm, NULL));
        WRONG("Gather", "root", ncclGather(x, y, 512, f, root, comm, NULL));
        WRONG("Scatter", "root", ncclScatter(y, x, 512, f, root, comm, NULL));
        WRONG("Send", "peer", ncclSend(x, 512, f, root, comm, NULL));
        WRONG("Recv", "peer", ncclRecv(x, 512, f, root, comm, NULL));
    }
    WRONG("AllReduce", "type", ncclAllReduce(x, x, 1, no_type, ncclSum, comm, NULL));
    WRONG("AllReduce", "op", ncclAllReduce(x, x, 512, f, no_op, comm, NULL));
    WRONG("AllReduce", "op", ncclAllReduce(x, x, 512, f, (ncclRedOp_t)-1, comm, NULL));
    WRONG("Reduce", "op", ncclReduce(x, x, 512, f, no_op, 0, comm, NULL));
    WRONG("ReduceScatter", "op", ncclReduceScatter(y, x, 512, f, no_op, comm, NULL));
    WRONG("ReduceScatter", "type",
          ncclReduceScatter(y, x, 1, (ncclDataType_t)-1, ncclSum, comm, NULL));
    WRONG("Broadcast", "type", ncclBroadcast(x, x, 1, no_type, 0, comm, NULL));
    WRONG("AllGather", "type", ncclAllGather(x, y, 1, no_type, comm, NULL));
    WRONG("Send", "type", ncclSend(x, 1, no_type, 0, comm, NULL));
    WRONG("Recv", "type", ncclRecv(x, 1, no_type, 0, comm, NULL));
    // Operations and windows.
    ncclRedOp_t twice, of_another;
    ncclWindow_t window, other_window;
    ncclComm_t another = NULL;
    float two = 2;
    OK(ncclCommSplit(comm, rank, 0, &another, NULL));
    OK(ncclRedOpCreatePreMulSum(&of_another, &two, f, ncclScalarHostImmediate, another));
    OK(ncclRedOpCreatePreMulSum(&twice, &two, f, ncclScalarHostImmediate, comm));
    WRONG("PreMulSum", "comm", ncclRedOpCreatePreMulSum(&twice, &two, f, 1, NULL));
    WRONG("PreMulSum", "op", ncclRedOpCreatePreMulSum(NULL, &two, f, 1, comm));
    WRONG("PreMulSum", "scalar", ncclRedOpCreatePreMulSum(&twice, NULL, f, 1, comm));
    WRONG("PreMulSum", "scalar", ncclRedOpCreatePreMulSum(&twice, &two, f, 0, comm));
    WRONG("PreMulSum", "scalar", ncclRedOpCreatePreMulSum(&twice, x, f, 1, comm));
    WRONG("PreMulSum", "residence", ncclRedOpCreatePreMulSum(&twice, &two, f, 2, comm));
    WRONG("PreMulSum", "type", ncclRedOpCreatePreMulSum(&twice, &two, no_type, 1, comm));
    WRONG("AllReduce", "datatype", ncclAllReduce(x, x, 256, ncclDouble, twice, comm, NULL));
    WRONG("AllReduce", "operation", ncclAllReduce(x, x, 512, f, of_another, comm, NULL));
    WRONG("OpDestroy", "op", ncclRedOpDestroy(of_another, comm));
    WRONG("OpDestroy", "op", ncclRedOpDestroy(ncclSum, comm));
    WRONG("OpDestroy", "comm", ncclRedOpDestroy(twice, NULL));
    OK(ncclRedOpDestroy(twice, comm));
    WRONG("OpDestroy", "op", ncclRedOpDestroy(twice, comm));
    WRONG("AllReduce", "operation", ncclAllReduce(x, x, 512, f, twice, comm, NULL));
    float *scalar = new_floats(1, 2), *pinned = NULL; // the latter is visible to both sides
    OK(cudaMallocHost((void **)&pinned, sizeof *pinned));
    for (int residence = 0; residence < 2; residence++)
        OK(ncclRedOpCreatePreMulSum(&twice, pinned, f, (ncclScalarResidence_t)residence, comm));
    OK(cudaFreeHost(pinned));
    OK(ncclRedOpCreatePreMulSum(&twice, scalar, f, ncclScalarDevice, comm)); // comm frees it
    OK(cudaFree(scalar));
    WRONG("AllReduce", "scalar", ncclAllReduce(x, x, 512, f, twice, comm, NULL));
    OK(ncclCommWindowRegister(comm, x, 2048, &window, NCCL_WIN_COLL_SYMMETRIC));
    OK(ncclCommWindowRegister(another, x, 2048, &other_window, NCCL_WIN_DEFAULT));
    WRONG("Register", "comm", ncclCommWindowRegister(NULL, x, 2048, &window, 0));
    WRONG("Register", "buff", ncclCommWindowRegister(comm, on_host, 2048, &window, 0));
    WRONG("Register", "buff", ncclCommWindowRegister(comm, x, 2049, &window, 0));
    WRONG("Register", "multiple of 4096", ncclCommWindowRegister(comm, x + 1, 4, &window, 0));
    WRONG("Register", "win", ncclCommWindowRegister(comm, x, 2048, NULL, 0));
    WRONG("Register", "winFlags", ncclCommWindowRegister(comm, x, 2048, &window, 2));
    WRONG("Deregister", "win", ncclCommWindowDeregister(comm, other_window));
    WRONG("Deregister", "win", ncclCommWindowDeregister(comm, NULL));
    OK(ncclCommWindowDeregister(comm, window));
    OK(ncclCommDestroy(another)); // with what it has left
    // Communicators.
    ncclUniqueId id, garbage;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER, zeros;
    memset(&garbage, 0x5a, sizeof garbage);
    memset(&zeros, 0, sizeof zeros);
    int n;
    OK(ncclGetUniqueId(&id));
    WRONG("UniqueId", "", ncclGetUniqueId(NULL));
    WRONG("InitRank", "nranks", ncclCommInitRank(&none, 0, id, 0));
    WRONG("InitRank", "nranks", ncclCommInitRank(&none, -1, id, 0));
    WRONG("InitRank", "rank", ncclCommInitRank(&none, 2, id, 2));
    WRONG("InitRank", "rank", ncclCommInitRank(&none, 2, id, -1));
    WRONG("InitRank", "comm", ncclCommInitRank(NULL, 1, id, 0));
    WRONG("UniqueId", "", ncclCommInitRank(&none, 1, garbage, 0));
    WRONG("InitRank", "config", ncclCommInitRankConfig(&none, 1, id, 0, &zeros));
    config.blocking = 2;
    WRONG("InitRank", "blocking", ncclCommInitRankConfig(&none, 1, id, 0, &config));
    WRONG("Count", "", ncclCommCount(NULL, &n));
    WRONG("Count", "", ncclCommCount(comm, NULL));
    WRONG("CuDevice", "", ncclCommCuDevice(NULL, &n));
    WRONG("UserRank", "", ncclCommUserRank(NULL, &n));
    WRONG("AsyncError", "", ncclCommGetAsyncError(NULL, &(ncclResult_t){0}));
    WRONG("Split", "", ncclCommSplit(NULL, 0, 0, &none, NULL));
    WRONG("Finalize", "", ncclCommFinalize(NULL));
    OK(ncclCommDestroy(NULL)); // as free
    CHECK(!none, "a communicator came of it");
    // Nothing of all that has happened.
    OK(cudaDeviceSynchronize());
    HOLDS(x, 512, 1);
    HOLDS(y, 1024, 1);
    OK(ncclAllReduce(x, x, 512, f, ncclSum, comm, NULL));
    OK(cudaStreamSynchronize(NULL));
    HOLDS(x, 512, 2);
    ncclResult_t state;
    OK(ncclCommGetAsyncError(comm, &state));
    OK(state);
    OK(ncclCommDestroy(comm));
}

static void mistakes_on_other_hosts_are_reported(void **state) {
    (void)state;
    for (int i = 0; i < PLACEMENTS; i++) {
        set_hosts(placements[i]);
        mismatch = &mismatches[i];
        mismatch_ranks = (int)strlen(placements[i]);
        start_ranks(mismatch_ranks, call_differently, 0);
    }
    finish_ranks();
    set_hosts("aab");
    for (is_elsewhere = 0; is_elsewhere < 2; is_elsewhere++)
        start_ranks(3, stay_away, 0);
    finish_ranks();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(different_calls_are_reported),
        RANKS(failures_after_the_call_are_reported, 2, poll_for_a_failure, NULL),
        RANKS(failures_after_the_call_are_reported, 2, send_first, NULL),
        TEST(a_rank_that_makes_no_call_is_reported),
        RANKS(wrong_arguments_are_refused, 2, pass_wrong_arguments, NULL),
        TEST(mistakes_on_other_hosts_are_reported),
    };
    set_up_ranks(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
