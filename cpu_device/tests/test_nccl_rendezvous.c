// Tests of how ranks meet: by the id, over the network, and the errors if they do not.
#include "ranks.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static void join_in_vain(int rank) {
    setenv("CPU_DEVICE_TIMEOUT", "1", 1);
    ncclComm_t comm = NULL;
    ncclUniqueId id = common_id(0, 1);
    double begun = clock_now();
    ncclResult_t result = ncclCommInitRank(&comm, 2, id, 0);
    CHECK(result != ncclSuccess, "returned %d", result);
    CHECK(clock_now() - begun < 10, "took %g s", clock_now() - begun);
    CHECK(strstr(ncclGetLastError(NULL), "1"), "says %s", ncclGetLastError(NULL));
    comm = join(1, 0);
    OK(ncclCommDestroy(comm));
}

static void share_a_device(int rank) {
    ncclComm_t comm = NULL;
    OK(cudaSetDevice(1));
    REFUSED(ncclInvalidUsage, ncclCommInitRank(&comm, 3, common_id(0, rank == 0), rank));
    const char *text = ncclGetLastError(NULL);
    CHECK(strstr(text, "Duplicate GPU detected") &&
              strstr(text, "Set NCCL_MULTI_RANK_GPU_ENABLE=1"),
          "says %s", text);
    OK(cudaSetDevice(rank));
    next_slot = 1;
    comm = join(3, rank);
    CHECK(sum_over(comm, 1) == 3, "wrong sum");
    OK(ncclCommDestroy(comm));
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1); // since NCCL 2.30
    OK(cudaSetDevice(1));
    OK(ncclCommInitRank(&comm, 3, common_id(2, rank == 0), rank));
    CHECK(sum_over(comm, 1) == 3, "wrong sum");
    OK(ncclCommDestroy(comm));
}

// The time limit of the rendezvous starts when the first rank connects.
static void join_late(int rank) {
    if (rank == 0)
        setenv("CPU_DEVICE_TIMEOUT", "1", 1);
    common_id(0, rank == 0);
    sleep(2); // longer than that
    barrier(2);
    ncclComm_t comm = NULL;
    OK(cudaSetDevice(rank));
    OK(ncclCommInitRank(&comm, 2, common_id(0, 0), rank));
    CHECK(sum_over(comm, 1) == 2, "wrong sum");
    OK(ncclCommDestroy(comm));
}

// Two ranks that both claim to be rank 0, or that have different numbers of ranks.
static int disagree_on_size;

static void disagree(int rank) {
    ncclComm_t comm = NULL;
    ncclUniqueId id = common_id(0, rank == 0);
    OK(cudaSetDevice(rank));
    ncclResult_t result = disagree_on_size ? ncclCommInitRank(&comm, 2 + rank, id, rank)
                                           : ncclCommInitRank(&comm, 2, id, 0);
    CHECK(result == ncclInvalidUsage && !comm, "returned %d", result);
    const char *words = disagree_on_size ? "3" : "rank 0";
    CHECK(strstr(ncclGetLastError(NULL), words), "says %s", ncclGetLastError(NULL));
    barrier(2); // who made the id tells the other
}

TEST(ranks_with_different_arguments_are_reported) {
    for (disagree_on_size = 0; disagree_on_size < 2; disagree_on_size++)
        run_ranks(2, disagree, 0);
}

static void use_device_0(int rank) {
    ncclComm_t comm = join_from_device(2, rank);
    CHECK(sum_over(comm, 1) == 2, "wrong sum");
    OK(ncclCommDestroy(comm));
}

static char agreed[40];

static void agree_on_a_free_port(void) { // of those that the kernel does not hand out
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 10000 + getpid() * 16 % 22000;
    do
        address.sin_port = htons((uint16_t)++port);
    while (bind(s, (struct sockaddr *)&address, sizeof address) && port < 32700);
    close(s);
    snprintf(agreed, sizeof agreed, "127.0.0.1:%d", port);
}

// The ranks agree on an address. There are no barriers here: no rank may find the rendezvous of the
// previous communicator.
static void meet_in_a_row(int rank) {
    enum { TIMES = 30 };
    ncclComm_t comm[TIMES];
    setenv("NCCL_COMM_ID", agreed, 1);
    OK(cudaSetDevice(rank));
    for (int i = 0; i < TIMES; i++) {
        ncclUniqueId id;
        OK(ncclGetUniqueId(&id));
        OK(ncclCommInitRank(&comm[i], 3, id, rank));
    }
    for (int i = 0; i < TIMES; i++) {
        CHECK(sum_over(comm[i], (float)rank) == 3, "wrong sum");
        OK(ncclCommDestroy(comm[i]));
    }
}

TEST(ranks_meet_at_nccl_comm_id) {
    agree_on_a_free_port();
    run_ranks(3, meet_in_a_row, 0);
    set_hosts("abb");
    agree_on_a_free_port();
    run_ranks(3, meet_in_a_row, 0);
}

static int knock(void) { // connects to the root, which may not listen yet
    struct sockaddr_in root = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t)atoi(strchr(agreed, ':') + 1))};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(s, (struct sockaddr *)&root, sizeof root) && !rendezvous->flag[1])
        rest();
    return s;
}

// Holds more connections than the root can keep, and sends nothing. The root must close the oldest
// one: the newest one may be a rank that has not sent its number yet.
static void flood(void) {
    enum { HELD = 400 };
    int sockets[HELD];
    struct timeval limit = {.tv_sec = 20};
    for (int i = 0; i < HELD; i++)
        sockets[i] = knock();
    setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    CHECK(recv(sockets[0], &(char){0}, 1, 0) == 0, "the oldest connection stays");
    post(0);
    await(1, 2);
}

// Rank 2 is no rank of the communicator. Rank 1 joins during its flood.
static void join_in_a_flood(int rank) {
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    if (rank == 2) {
        flood();
        return;
    }
    if (rank == 1)
        await(0, 1);
    setenv("NCCL_COMM_ID", agreed, 1);
    OK(cudaSetDevice(rank));
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 2, id, rank));
    post(1);
    CHECK(sum_over(comm, 1) == 2, "wrong sum");
    OK(ncclCommDestroy(comm));
}

TEST(strangers_do_not_delay_the_rendezvous) {
    agree_on_a_free_port();
    run_ranks(3, join_in_a_flood, 0);
}

static void call_nobody(int rank) {
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    setenv("CPU_DEVICE_TIMEOUT", "1", 1);
    setenv("NCCL_COMM_ID", agreed, 1);
    OK(ncclGetUniqueId(&id));
    REFUSED(ncclSystemError, ncclCommInitRank(&comm, 2, id, 1));
    char text[100];
    snprintf(text, sizeof text, "rank 1 gets no answer at %s within 1 s", agreed);
    CHECK(strstr(ncclGetLastError(NULL), text), "says %s", ncclGetLastError(NULL));
}

TEST(an_address_without_a_rank_is_reported) {
    agree_on_a_free_port();
    run_ranks(1, call_nobody, 0);
}

static void ask_for_a_missing_interface(int rank) {
    ncclUniqueId id;
    setenv("NCCL_SOCKET_IFNAME", "nosuchinterface", 1);
    ncclResult_t result = ncclGetUniqueId(&id);
    CHECK(result != ncclSuccess, "an id without an address");
    CHECK(strstr(ncclGetLastError(NULL), "nosuchinterface"), "says %s", ncclGetLastError(NULL));
}

int main(int argc, char **argv) {
    RANKS(two_ranks_need_two_devices, 3, share_a_device, NULL);
    RANKS(a_missing_rank_is_reported, 1, join_in_vain, NULL);
    RANKS(ranks_wait_for_late_ranks, 2, join_late, NULL);
    RANKS(two_hosts_can_each_use_device_0, 2, use_device_0, "ab");
    RANKS(a_missing_interface_is_reported, 1, ask_for_a_missing_interface, NULL);
    return run_rank_tests(argc, argv);
}
