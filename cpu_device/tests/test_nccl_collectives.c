// Tests of every collective of NCCL. Each rank computes the data of all ranks, and compares all
// bytes around its result with those that cpu_reduce gives for the data in the order of the ranks.
// test_reduce.c tests the arithmetic itself, with every type and operation.
#include "numbers.h"
#include "ranks.h"
#include <sys/resource.h>

enum { GUARD = 64, GUARD_BYTE = 0xc5 };
// The last one is that of 8-byte numbers only: 1.2 MB, which are more messages than the shortest
// ring between two ranks holds. test_nccl_large.c has sums of many large chunks.
static const size_t counts[] = {0, 1, 7, 1031, 150001};
enum { COUNTS = sizeof counts / sizeof *counts, LARGEST = 4 };

struct sweep {
    int n, rank;
    ncclComm_t comm;
    cudaStream_t streams[2];
    char *send, *recv;      // on the device, each with room for n shares between guards
    char *data[MOST_RANKS]; // what each rank sends
    char *expected;         // all bytes around recvbuff
    uint64_t cases;
};

struct one_case {
    enum collective which;
    ncclDataType_t type;
    int op, root, in_place;
    size_t count;
};

static int reduces(enum collective which) {
    return which == ALL_REDUCE || which == REDUCE || which == REDUCE_SCATTER;
}

static void prepare_data(struct sweep *s, const struct one_case *c, size_t elements) {
    for (int r = 0; r < s->n; r++)
        random_numbers(c->type, s->data[r], elements, s->cases * MOST_RANKS + (uint64_t)r);
}

// Writes what the rank receives.
static void expect_result(const struct sweep *s, const struct one_case *c, char *to) {
    size_t share = c->count * cpu_type_size(c->type), own = (size_t)s->rank * share;
    const void *in[MOST_RANKS];
    switch (c->which) {
    case ALL_REDUCE:
    case REDUCE:
    case REDUCE_SCATTER:
        for (int r = 0; r < s->n; r++)
            in[r] = s->data[r] + (c->which == REDUCE_SCATTER ? own : 0);
        if (c->which != REDUCE || s->rank == c->root)
            cpu_reduce(c->type, (ncclRedOp_t)c->op, to, in, s->n, c->count);
        break;
    case ALL_GATHER:
        for (int r = 0; r < s->n; r++)
            memcpy(to + (size_t)r * share, s->data[r], share);
        break;
    case SEND_RECV:
        memcpy(to, s->data[(s->rank + s->n - 1) % s->n], share);
        break;
    default:
        memcpy(to, s->data[c->root], share);
    }
}

static void run_case(struct sweep *s, const struct one_case *c) {
    size_t size = cpu_type_size(c->type), share = c->count * size, all = (size_t)s->n * share;
    size_t sent = c->which == REDUCE_SCATTER ? all : share;
    // Buffers are not always aligned to more than an element.
    size_t before = GUARD + s->cases % 3 * size, bytes = before + all + GUARD;
    char *send = s->send + before, *recv = s->recv + before;
    if (c->in_place && c->which == ALL_GATHER)
        send = recv + (size_t)s->rank * share;
    else if (c->in_place)
        send = recv;
    if (c->in_place && c->which == REDUCE_SCATTER)
        recv += (size_t)s->rank * share;
    char name[200];
    snprintf(name, sizeof name, "case %llu: %s, type %d, op %d, count %zu, %d ranks, root %d, %s",
             (unsigned long long)s->cases, collective_names[c->which], c->type, c->op, c->count,
             s->n, c->root, c->in_place ? "in place" : "out of place");

    prepare_data(s, c, sent / size);
    memset(s->expected, GUARD_BYTE, bytes);
    memset(view(s->recv, bytes), GUARD_BYTE, bytes);
    memcpy(view(send, sent), s->data[s->rank], sent);
    if (c->in_place)
        memcpy(s->expected + (send - s->recv), s->data[s->rank], sent);
    expect_result(s, c, s->expected + (recv - s->recv));

    cudaStream_t stream = s->streams[s->cases % 2];
    OK(call(c->which, send, recv, c->count, c->type, (ncclRedOp_t)c->op, c->root, s->comm, stream));
    OK(cudaStreamSynchronize(stream));

    const char *got = view(s->recv, bytes);
    for (size_t i = 0; i < bytes && memcmp(got, s->expected, bytes); i++)
        CHECK(got[i] == s->expected[i], "%s: byte %td of recvbuff is %#x, not %#x", name,
              s->recv + i - recv, (uint8_t)got[i], (uint8_t)s->expected[i]);
    CHECK(c->in_place || !memcmp(view(send, sent), s->data[s->rank], sent), "%s: changed sendbuff",
          name);
    s->cases++;
}

// Each collective with each count, in place and not, and some of the types and operations.
static void run_every_collective(int rank) {
    struct sweep sweep = {.n = rank_count, .rank = rank}, *s = &sweep;
    size_t room = (size_t)s->n * counts[LARGEST] * 8 + 4 * GUARD;
    s->comm = join(s->n, rank);
    s->streams[1] = new_stream();
    s->send = new_bytes(room);
    s->recv = new_bytes(room);
    s->expected = malloc(room);
    for (int r = 0; r < s->n; r++)
        s->data[r] = malloc(room);
    for (int which = 0; which < COLLECTIVES; which++)
        for (int i = 0; i < 2 * COUNTS; i++) {
            int in_place = i % 2, count = i / 2;
            if ((in_place && which == SEND_RECV) || (!in_place && which == BCAST) ||
                (count == LARGEST && s->n > 4))
                continue;
            for (int k = 0; k < (count == LARGEST || SANITIZED ? 1 : 4); k++) {
                int number = (int)s->cases;
                run_case(s, &(struct one_case){.which = (enum collective)which,
                                               .type = count == LARGEST ? ncclFloat64
                                                                        : types[number * 4 % TYPES],
                                               .op = reduces(which) ? number % ncclNumOps : ncclSum,
                                               .root = number % s->n,
                                               .in_place = in_place,
                                               .count = counts[count]});
            }
        }
    for (int type = 0; type < TYPES && !SANITIZED; type++)
        for (int op = 0; op < ncclNumOps; op++)
            run_case(s, &(struct one_case){ALL_REDUCE, types[type], op, 0, 0, 1031});
    OK(ncclCommDestroy(s->comm));
}

// A limit on the size of files forbids rank 1 the file through which its peers could read its
// memory. So messages to the peers hold copies, and only those to rank 1 do not.
static void run_with_copies(int rank) {
    struct rlimit limit = {1 << 30, 1 << 30};
    if (rank == 1)
        OK(setrlimit(RLIMIT_FSIZE, &limit));
    run_every_collective(rank);
}

TEST(random_delays_change_nothing) {
    setenv("CPU_DEVICE_CHAOS", "1", 1);
    run_ranks(3, run_every_collective, 0);
    unsetenv("CPU_DEVICE_CHAOS");
}

// As in the manual, only the root's sendbuff of Broadcast and the root's recvbuff of Reduce are
// used.
static void leave_out_buffers(int rank) {
    float *a = new_floats(100, (float)rank + 1), *b = new_floats(100, 0);
    for (int root = 0; root < 2; root++) {
        OK(ncclBroadcast(rank == root ? a : NULL, b, 100, ncclFloat, root, comm, NULL));
        GIVES(NULL, b, 100, (float)root + 1);
        OK(ncclReduce(a, rank == root ? b : NULL, 100, ncclFloat, ncclSum, root, comm, NULL));
        GIVES(NULL, b, 100, rank == root ? 3 : (float)root + 1);
    }
    for (int which = 0; which < COLLECTIVES; which++)
        OK(call((enum collective)which, NULL, NULL, 0, ncclFloat, ncclSum, 0, comm, NULL));
    OK(cudaStreamSynchronize(NULL));
}

int main(int argc, char **argv) {
    if (!SANITIZED) { // the other numbers of ranks take the same paths
        RANKS(every_collective, 1, run_every_collective, NULL);
        RANKS(every_collective, 2, run_every_collective, NULL);
        RANKS(every_collective, 4, run_every_collective, NULL);
        RANKS(every_collective_between_hosts, 2, run_every_collective, "ab");
        RANKS(every_collective_between_hosts, 3, run_every_collective, "abc");
        RANKS(every_collective_between_hosts, 4, run_every_collective, "abab");
    }
    RANKS(every_collective, 3, run_every_collective, NULL);
    RANKS(every_collective, MOST_RANKS, run_every_collective, NULL);
    RANKS(every_collective_between_hosts, 4, run_every_collective, "aabb");
    RANKS(every_collective_between_hosts, 4, run_every_collective, "abbb");
    RANKS(every_collective_with_copies, 3, run_with_copies, NULL);
    JOINED(unused_buffers_may_be_null, 2, leave_out_buffers, NULL);
    return run_rank_tests(argc, argv);
}
