// Tests of every collective of NCCL with every type and operation, against a plain loop on the
// host.
#include "tests/device/nccl_numbers.h"

enum {
    GUARD = 64,
    GUARD_BYTE = 0xc5,
    MANY = SANITIZED ? 1031 : 4099,
    BIG = SANITIZED ? 100001 : 180001
};

struct sweep {
    int n, few; // few leaves most types out
    int rank;
    ncclComm_t comm;
    cudaStream_t stream;
    char *send, *recv; // on the device, each with room for n shares of BIG elements between guards
    uint64_t cases;
};

struct one_case {
    enum collective which;
    const struct type *t;
    int op, root;
    size_t count;
    int in_place;
};

static int is_filled(const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if ((uint8_t)bytes[i] != GUARD_BYTE)
            return 0;
    return 1;
}

static void fill(const struct sweep *s, const struct one_case *c, char *array, int rank,
                 size_t count) {
    for (size_t i = 0; i < count; i++)
        store(c->t, array, i, draw(c->t, c->op, s->cases, rank, i));
}

// Compares with the data of one rank, starting at element first.
static void check_copy_from(const struct sweep *s, const struct one_case *c, const char *array,
                            int rank, size_t first, size_t count, const char *what,
                            const char *name) {
    for (size_t i = 0; i < count; i++) {
        uint64_t got = load(c->t, array, i), wanted = draw(c->t, c->op, s->cases, rank, first + i);
        CHECK(got == wanted,
              "%s: element %zu of %s is %.17g (%#llx), not %.17g (%#llx) from rank %d", name, i,
              what, value(c->t, got), (unsigned long long)got, value(c->t, wanted),
              (unsigned long long)wanted, rank);
    }
}

static void check_copy(const struct sweep *s, const struct one_case *c, const char *array, int rank,
                       size_t count, const char *what, const char *name) {
    check_copy_from(s, c, array, rank, 0, count, what, name);
}

static void check_reduced(const struct sweep *s, const struct one_case *c, const char *array,
                          size_t first, const char *name) {
    for (size_t i = 0; i < c->count; i++) {
        uint64_t element[MOST_RANKS], got = load(c->t, array, i);
        double wanted;
        for (int r = 0; r < s->n; r++)
            element[r] = draw(c->t, c->op, s->cases, r, first + i);
        CHECK(is_reduced(c->t, c->op, element, s->n, got, &wanted),
              "%s: element %zu is %.17g (%#llx), not %.17g, from %.17g, %.17g, ...", name, i,
              value(c->t, got), (unsigned long long)got, wanted, value(c->t, element[0]),
              value(c->t, element[s->n > 1]));
    }
}

static void run_case(struct sweep *s, const struct one_case *c) {
    size_t n = (size_t)s->n, rank = (size_t)s->rank, size = c->t->size, share = c->count * size;
    size_t sent = c->which == REDUCE_SCATTER || c->which == ALL_TO_ALL || c->which == SCATTER
                      ? n * c->count
                      : c->count;
    size_t received = c->which == ALL_GATHER || c->which == ALL_TO_ALL || c->which == GATHER
                          ? n * c->count
                          : c->count;
    size_t whole = (sent > received ? sent : received) * size;
    size_t shift = GUARD + s->cases % 3 * size; // not always aligned to more than an element
    char name[200];
    snprintf(name, sizeof name, "case %llu: %s %s %s, count %zu, %d ranks, root %d, %s",
             (unsigned long long)s->cases, collective_names[c->which], c->t->name, op_names[c->op],
             c->count, s->n, c->root, c->in_place ? "in place" : "out of place");

    char *send = s->send + shift, *recv = s->recv + shift;
    if (c->in_place && c->which == REDUCE_SCATTER)
        send = recv, recv += rank * share;
    else if (c->in_place && c->which == SCATTER && s->rank == c->root)
        send = recv, recv += rank * share;
    else if (c->in_place && c->which != SCATTER && (c->which != GATHER || s->rank == c->root))
        send = c->which == ALL_GATHER || c->which == GATHER ? recv + rank * share : recv;
    char *base = s->recv + shift - GUARD;
    char *recv_view = view(base, whole + 2 * GUARD);
    memset(recv_view, GUARD_BYTE, whole + 2 * GUARD);
    char *send_view = view(send, sent * size), *result = recv_view + (recv - base);
    fill(s, c, send_view, s->rank, sent);

    OK(call(c->which, send, recv, c->count, c->t->type, (ncclRedOp_t)c->op, c->root, s->comm,
            s->stream));
    OK(cudaStreamSynchronize(s->stream));

    // Of these, only the root works in place.
    int in_place =
        c->in_place && ((c->which != GATHER && c->which != SCATTER) || s->rank == c->root);
    size_t end = in_place ? whole : received * size;
    CHECK(is_filled(recv_view, GUARD), "%s: wrote before recvbuff", name);
    CHECK(is_filled(recv_view + GUARD + end, whole + GUARD - end), "%s: wrote beyond recvbuff",
          name);
    if (!in_place)
        check_copy(s, c, send_view, s->rank, sent, "sendbuff", name);
    switch (c->which) {
    case ALL_REDUCE:
        check_reduced(s, c, result, 0, name);
        break;
    case REDUCE:
        if (s->rank == c->root)
            check_reduced(s, c, result, 0, name);
        else if (c->in_place)
            check_copy(s, c, result, s->rank, c->count, "recvbuff", name);
        else
            CHECK(is_filled(result, share), "%s: wrote to a rank that is not the root", name);
        break;
    case REDUCE_SCATTER:
        check_reduced(s, c, result, rank * c->count, name);
        break;
    case ALL_GATHER:
        for (size_t r = 0; r < n; r++)
            check_copy(s, c, result + r * share, (int)r, c->count, "recvbuff", name);
        break;
    case ALL_TO_ALL:
        for (size_t r = 0; r < n; r++)
            check_copy_from(s, c, result + r * share, (int)r, rank * c->count, c->count, "recvbuff",
                            name);
        break;
    case GATHER:
        for (size_t r = 0; r < n && s->rank == c->root; r++)
            check_copy(s, c, result + r * share, (int)r, c->count, "recvbuff", name);
        CHECK(s->rank == c->root || is_filled(result, n * share),
              "%s: wrote to a rank that is not the root", name);
        break;
    case SCATTER:
        check_copy_from(s, c, result, c->root, rank * c->count, c->count, "recvbuff", name);
        break;
    case SEND_RECV:
        check_copy(s, c, result, (s->rank + s->n - 1) % s->n, c->count, "recvbuff", name);
        break;
    default:
        check_copy(s, c, result, c->root, c->count, "recvbuff", name);
    }
    s->cases++;
}

static struct sweep sweep; // what the parent has asked for

static void run_sweep(int rank) {
    struct sweep *s = &sweep;
    const size_t counts[] = {0, 1, 7, MANY, BIG};
    cudaStream_t streams[2] = {NULL, NULL};
    s->rank = rank;
    s->comm = join(s->n, rank);
    streams[1] = new_stream();
    size_t room = (size_t)s->n * BIG * 8 + 4 * GUARD;
    s->send = new_bytes(room);
    s->recv = new_bytes(room);
    for (int which = 0; which < COLLECTIVES; which++)
        for (int type = 0; type < TYPES; type++)
            for (int op = 0; op < OPS; op++)
                for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                    for (int in_place = 0; in_place < 2; in_place++) {
                        int reduces =
                            which == ALL_REDUCE || which == REDUCE || which == REDUCE_SCATTER;
                        int sums = op == ncclSum && types[type].kind >= FLOAT;
                        struct one_case c = {
                            (enum collective)which,           &types[type], op,
                            (int)(s->cases % (uint64_t)s->n), counts[i],    in_place};
                        // What would only show the same again; what is big takes most of the time.
                        if ((!reduces && op) ||
                            ((which == SEND_RECV || which == ALL_TO_ALL) && in_place) ||
                            (which == BCAST && !in_place))
                            continue;
                        if (counts[i] == BIG && ((reduces && op != type % OPS && !sums) ||
                                                 (reduces && in_place != (type + which) % 2)))
                            continue;
                        if (s->few &&
                            (type > 3 || (reduces && op != ncclAvg && op != (type + which) % OPS)))
                            continue;
                        if (s->few && counts[i] == BIG &&
                            (s->few > 1 || (SANITIZED ? THREADS_CHECKED || type != 2 : type % 2)))
                            continue;
                        s->stream = streams[s->cases % 2];
                        run_case(s, &c);
                    }
    if (rank == 0)
        meeting->cases = (long)s->cases;
    OK(ncclCommDestroy(s->comm));
    OK(cudaFree(s->send));
    OK(cudaFree(s->recv));
}

static void sweep_ranks(int n, int few, long least_cases) {
    int fewer = few || SANITIZED;
    sweep = (struct sweep){.n = n, .few = few > fewer ? few : fewer};
    run_ranks(n, run_sweep, 0);
    if (meeting->cases < least_cases && few == fewer)
        fail_msg("%ld cases only", (long)meeting->cases);
}

static void every_case_on_1_rank(void **state) {
    (void)state;
    sweep_ranks(1, 0, 1300);
}

static void every_case_on_2_ranks(void **state) {
    (void)state;
    sweep_ranks(2, 0, 1300);
}

static void every_case_on_3_ranks(void **state) {
    (void)state;
    sweep_ranks(3, 0, 1300);
}

static void every_case_on_4_ranks(void **state) {
    (void)state;
    sweep_ranks(4, 0, 1300);
}

static void random_delays_change_nothing(void **state) {
    (void)state;
    const char *seeds[] = {"1", "2", "3"};
    for (int i = 0; i < 3; i++) {
        setenv("CPU_DEVICE_CHAOS", seeds[i], 1);
        sweep_ranks(2 + i, 2, 150);
    }
    unsetenv("CPU_DEVICE_CHAOS");
}

static void every_collective_between_hosts(void **state) {
    (void)state;
    for (int i = 0; i < PLACEMENTS; i++) {
        set_hosts(placements[i]);
        sweep_ranks((int)strlen(placements[i]), 1, 150);
    }
}

// As in the manual, only the root's sendbuff of Broadcast and the root's recvbuff of Reduce are
// used.
static void leave_out_buffers(int rank) {
    ncclComm_t comm = join(2, rank);
    float *a = new_floats(100, (float)rank + 1), *b = new_floats(100, 0);
    for (int root = 0; root < 2; root++) {
        OK(ncclBroadcast(rank == root ? a : NULL, b, 100, ncclFloat, root, comm, NULL));
        OK(cudaStreamSynchronize(NULL));
        HOLDS(b, 100, (float)root + 1);
        OK(ncclReduce(a, rank == root ? b : NULL, 100, ncclFloat, ncclSum, root, comm, NULL));
        OK(cudaStreamSynchronize(NULL));
        HOLDS(b, 100, rank == root ? 3 : (float)root + 1);
        OK(ncclGather(a, rank == root ? b : NULL, 50, ncclFloat, root, comm, NULL));
        OK(ncclScatter(rank == root ? b : NULL, a, 50, ncclFloat, root, comm, NULL));
        OK(cudaStreamSynchronize(NULL));
        HOLDS(a, 100, (float)rank + 1);
    }
    for (int which = 0; which < COLLECTIVES; which++)
        OK(call((enum collective)which, NULL, NULL, 0, ncclFloat, ncclSum, 0, comm, NULL));
    OK(cudaStreamSynchronize(NULL));
    OK(ncclCommDestroy(comm));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(every_case_on_1_rank),
        TEST(every_case_on_2_ranks),
        TEST(every_case_on_3_ranks),
        TEST(every_case_on_4_ranks),
        TEST(every_collective_between_hosts),
        TEST(random_delays_change_nothing),
        RANKS(unused_buffers_may_be_null, 2, leave_out_buffers, NULL),
    };
    set_up_ranks(argc, argv);
    fill_tables();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
