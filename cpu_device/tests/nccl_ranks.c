#include "nccl_ranks.h"
#include "../src/internal.h"
#include <sys/resource.h>

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

static void (*after_entering)(int rank);

static void enter_and_run(int rank) {
    enter(rank_count, rank);
    after_entering(rank);
    OK(ncclCommDestroy(comm));
}

void run_joined(int n, void (*run)(int rank)) {
    after_entering = run;
    run_ranks(n, enter_and_run, 0);
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

void set_hosts(const char *hosts) {
    static char names[MOST_RANKS][8];
    for (int r = 0; r < MOST_RANKS; r++) {
        host_of_rank[r] = NULL;
        if (hosts && r < (int)strlen(hosts)) {
            snprintf(names[r], sizeof names[r], "host-%c", hosts[r]);
            host_of_rank[r] = names[r];
        }
    }
}

int reset_hosts(void **state) {
    set_hosts(NULL);
    return nothing_is_left(state);
}

void run_row(void **state) {
    const struct row *row = *state;
    set_hosts(row->hosts);
    if (row->joined)
        run_joined(row->n, row->run);
    else
        run_ranks(row->n, row->run, 0);
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
    open_rendezvous();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
}
