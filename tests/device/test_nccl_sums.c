// Tests of NCCL's sums: scaling, rounding, and the order of the ranks.
#include "tests/device/nccl_numbers.h"

// Each rank multiplies its data by its own scalar, which is in host or device memory. All numbers
// are small enough for every type.
static uint64_t small_number(const struct type *t, int number) {
    const double wide = number;
    const float narrow = (float)number;
    uint64_t bits = (uint64_t)number;
    if (t->kind == FLOAT)
        memcpy(&bits, &narrow, sizeof narrow);
    if (t->kind == DOUBLE)
        memcpy(&bits, &wide, sizeof wide);
    for (uint64_t i = 0; (t->kind == HALF || t->kind == BFLOAT) && i < 0x8000; i++)
        if (values_of_16_bits(t)[i] == wide)
            bits = i;
    return bits;
}

static void sum_scaled(int rank) {
    enum { COUNT = SANITIZED ? 20001 : 70001, ROUNDS = 2 * 2 * 3 * TYPES };
    int n = rank_count, sum = 0, flag = GO + rank; // each rank holds up its own stream only
    ncclComm_t comm = join(n, rank);
    cudaStream_t stream = new_stream();
    size_t room = (size_t)n * COUNT * 8;
    char *send = new_bytes(room), *recv = new_bytes(room), *scalar = new_bytes(8);
    for (int r = 0; r < n; r++)
        sum += (r + 1) * (r + 2);
    for (int round = 0; round < ROUNDS; round++) {
        const struct type *t = &types[round % TYPES];
        int on_device = round / TYPES % 2, in_place = round / TYPES / 2 % 2,
            which = round / TYPES / 4;
        size_t count = round % 3 ? COUNT : 7, shares = which == 2 ? (size_t)n : 1;
        size_t own = which == 2 ? (size_t)rank * count : 0;
        char *to = in_place ? send + own * t->size : recv;
        char *send_view = view(send, room), *to_view = view(to, count * t->size);
        uint64_t factor = small_number(t, rank + 2), numbers[2];
        ncclRedOp_t op;
        for (int k = 0; k < 2; k++)
            numbers[k] = small_number(t, (rank + 1) * (k + 1));
        for (size_t i = 0; i < count * shares; i++)
            store(t, send_view, i, numbers[i % 2]);
        store(t, view(scalar, 8), 0, 0);
        meeting->flag[flag] = 0;
        OK(ncclRedOpCreatePreMulSum(&op, on_device ? (void *)scalar : &factor, t->type,
                                    on_device ? ncclScalarDevice : ncclScalarHostImmediate, comm));
        CHECK(op >= ncclNumOps, "operation %d is a built-in one", op);
        hold(stream, flag);
        if (which == 0)
            OK(ncclAllReduce(send, to, count, t->type, op, comm, stream));
        else if (which == 1)
            OK(ncclReduce(send, to, count, t->type, op, 0, comm, stream));
        else
            OK(ncclReduceScatter(send, to, count, t->type, op, comm, stream));
        OK(ncclRedOpDestroy(op, comm));
        store(t, view(scalar, 8), 0, factor); // is read when the call runs, that of the host was
        factor = 0;
        post(flag);
        OK(cudaStreamSynchronize(stream));
        for (int k = 0; k < 2; k++)
            numbers[k] = small_number(t, sum * (k + 1));
        for (size_t i = 0; i < count && (which != 1 || rank == 0); i++) {
            uint64_t got = load(t, to_view, i);
            CHECK(got == numbers[(own + i) % 2], "round %d, %s: element %zu is %.9g", round,
                  t->name, i, value(t, got));
        }
    }
    OK(ncclCommDestroy(comm));
}

// Pairs each of the 2^16 bit patterns with another one: small and large numbers, infinities, NaN.
static void add_all_16_bit_patterns(int rank) {
    ncclComm_t comm = join(2, rank);
    enum { COUNT = 1 << 16 };
    uint16_t *numbers = new_bytes(COUNT * sizeof *numbers),
             *there = view(numbers, COUNT * sizeof *there);
    for (int type = 0; type < TYPES; type++) {
        const struct type *t = &types[type];
        const double *values = values_of_16_bits(t);
        if (t->kind != HALF && t->kind != BFLOAT)
            continue;
        for (uint64_t round = 0; round < (SANITIZED ? 2 : 4); round++) {
            uint16_t pattern[2][COUNT];
            for (int i = 0; i < COUNT; i++) {
                uint64_t random = mix(round * COUNT + (uint64_t)i);
                pattern[0][i] = (uint16_t)i;
                // Near the first in size, or anything.
                pattern[1][i] = (uint16_t)(round % 2 ? random : (uint64_t)i + random % 1024 - 512);
            }
            memcpy(there, pattern[rank], sizeof pattern[rank]);
            OK(ncclAllReduce(numbers, numbers, COUNT, t->type, ncclSum, comm, NULL));
            OK(cudaStreamSynchronize(NULL));
            for (int i = 0; i < COUNT; i++) {
                uint64_t a = pattern[0][i], b = pattern[1][i], got = there[i];
                int finite_a = is_finite_16(t, a), finite_b = is_finite_16(t, b);
                uint64_t infinity = t->kind == HALF ? 0x7c00 : 0x7f80;
                int nan = (a & 0x7fff) > infinity || (b & 0x7fff) > infinity ||
                          (!finite_a && !finite_b && a != b);
                int right = nan ? (got & 0x7fff) > infinity
                            : finite_a && finite_b
                                ? is_rounded(t, got, (float)values[a] + (float)values[b], 0)
                                : got == (finite_a ? b : a);
                CHECK(right, "%s: %#llx + %#llx gave %#llx", t->name, (unsigned long long)a,
                      (unsigned long long)b, (unsigned long long)got);
            }
        }
    }
    OK(cudaFree(numbers));
    OK(ncclCommDestroy(comm));
}

// The sum of these numbers depends on the order: ((1e8 + 1) - 1e8) + 1 is 1, and in any other order
// 0 or 2. They rotate over the ranks from element to element, so each order appears in each chunk.
static void sum_in_order(int rank) {
    enum { SHARE = 1021 };
    const float numbers[] = {1e8f, 1, -1e8f, 1};
    int n = rank_count, count = SHARE * n;
    ncclComm_t comm = join(n, rank);
    float wanted[SHARE * MOST_RANKS] = {0}, got[SHARE * MOST_RANKS];
    float *send = new_floats((size_t)count, 0), *there = view(send, (size_t)count * sizeof *there);
    float *recv = new_floats((size_t)count, 0);
    for (int i = 0; i < count; i++) {
        for (int r = 0; r < n; r++) {
            float x = numbers[(r + i) % 4] * (1 + 0.001f * (float)(i % 100));
            if (r == rank)
                there[i] = x;
            wanted[i] = r ? wanted[i] + x : x;
        }
    }
    size_t bytes = (size_t)count * sizeof *got;
    OK(ncclAllReduce(send, recv, (size_t)count, ncclFloat, ncclSum, comm, NULL));
    OK(cudaMemcpy(got, recv, bytes, cudaMemcpyDeviceToHost));
    CHECK(!memcmp(got, wanted, bytes), "AllReduce adds in another order");
    memcpy(meeting->result[rank], got, bytes);
    for (int root = 0; root < n; root++) {
        OK(cudaMemset(recv, 0, bytes));
        OK(ncclReduce(send, recv, (size_t)count, ncclFloat, ncclSum, root, comm, NULL));
        OK(cudaMemcpy(got, recv, bytes, cudaMemcpyDeviceToHost));
        CHECK(rank != root || !memcmp(got, wanted, bytes), "Reduce adds in another order");
    }
    OK(ncclReduceScatter(send, recv, SHARE, ncclFloat, ncclSum, comm, NULL));
    OK(cudaMemcpy(got, recv, bytes / (size_t)n, cudaMemcpyDeviceToHost));
    CHECK(!memcmp(got, wanted + SHARE * rank, bytes / (size_t)n),
          "ReduceScatter adds in another order");
    barrier(n);
    for (int r = 0; r < n; r++)
        CHECK(!memcmp(meeting->result[r], meeting->result[rank], bytes), "rank %d got another sum",
              r);
    OK(ncclCommDestroy(comm));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        RANKS(sums_of_16_bit_floats_are_rounded_once, 2, add_all_16_bit_patterns, NULL),
        RANKS(sums_can_be_scaled, 1, sum_scaled, NULL),
        RANKS(sums_can_be_scaled, 2, sum_scaled, NULL),
        RANKS(sums_can_be_scaled, 3, sum_scaled, NULL),
        RANKS(sums_can_be_scaled, 4, sum_scaled, NULL),
        RANKS(sums_follow_the_order_of_the_ranks, 2, sum_in_order, NULL),
        RANKS(sums_follow_the_order_of_the_ranks, 3, sum_in_order, NULL),
        RANKS(sums_follow_the_order_of_the_ranks, 4, sum_in_order, NULL),
        RANKS(sums_follow_the_order_of_the_ranks, MOST_RANKS, sum_in_order, NULL),
        RANKS(sums_between_hosts, 2, sum_in_order, "ab"),
        RANKS(sums_between_hosts, 3, sum_in_order, "abc"),
        RANKS(sums_between_hosts, 4, sum_in_order, "abcd"),
        RANKS(sums_between_hosts, 4, sum_in_order, "aabb"),
        RANKS(sums_between_hosts, 4, sum_in_order, "abab"),
        RANKS(sums_between_hosts, 4, sum_in_order, "abbb"),
    };
    set_up_ranks(argc, argv);
    fill_tables();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
