// NCCL of the CPU device against NCCL's manual, and against common/cpu/include/nccl.h where that
// promises more. The ranks are processes, forked by each test before anything of the device is used
// (see ranks.h).
#include "../../common/cpu/device.h"
#include "ranks.h"
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

// What ranks tell each other; each test uses those that it needs.
enum { CALLED, GO, DONE, ENTERED };

static ncclUniqueId common_id(int slot, int make) {
    if (make) {
        OK(ncclGetUniqueId(&meeting->id[slot]));
        meeting->id_made[slot] = 1;
    }
    CHECK(has_come(&meeting->id_made[slot], 1), "no id %d", slot);
    return meeting->id[slot];
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

// The calling process's next communicator with the others, on the device that it has chosen.
static int next_slot;
static ncclComm_t join_from_device(int n, int rank) {
    ncclComm_t comm = NULL;
    ncclUniqueId id = common_id(next_slot++, rank == 0);
    OK(ncclCommInitRank(&comm, n, id, rank));
    CHECK(comm, "no communicator");
    expect_no_named_memory();
    return comm;
}

// The same on the device of the rank's number.
static ncclComm_t join(int n, int rank) {
    OK(cudaSetDevice(rank));
    return join_from_device(n, rank);
}

static cudaStream_t new_stream(void) {
    cudaStream_t stream = NULL;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

// The bytes at a device pointer, to be touched when no stream does.
static void *view(const void *pointer, size_t bytes) {
    void *bytes_there = cpu_view(pointer, bytes);
    CHECK(bytes_there, "%zu bytes are not all allocated", bytes);
    return bytes_there;
}

static void *device_bytes(size_t count) {
    void *pointer = NULL;
    OK(cudaMalloc(&pointer, count));
    return pointer;
}

static void set_floats(float *pointer, size_t count, float value) {
    float *there = view(pointer, count * sizeof *there);
    for (size_t i = 0; i < count; i++)
        there[i] = value;
}

static float *device_floats(size_t count, float value) {
    float *pointer = device_bytes(count * sizeof *pointer);
    set_floats(pointer, count, value);
    return pointer;
}

static void check_floats(const float *pointer, size_t count, float wanted, int line) {
    const float *there = view(pointer, count * sizeof *there);
    for (size_t i = 0; i < count; i++)
        if (there[i] != wanted)
            give_up(line, "element %zu of %zu is %.9g, not %.9g", i, count, there[i], wanted);
}
#define HOLDS(pointer, count, wanted) check_floats(pointer, count, wanted, __LINE__)

// Holds a stream up until somebody, in whatever process, posts the flag.
static void run_wait_for(void *flag) {
    has_come(&meeting->flag[*(int *)flag], 1);
}

static void hold(cudaStream_t stream, int flag) {
    OK(cpu_launch(stream, run_wait_for, &flag, sizeof flag));
}

// Lets ranks believe that they are on several hosts: one letter for each rank, or NULL.
static void set_hosts(const char *hosts) {
    static char names[MOST_RANKS][8];
    for (int r = 0; r < MOST_RANKS; r++) {
        host_of_rank[r] = NULL;
        if (hosts && r < (int)strlen(hosts)) {
            snprintf(names[r], sizeof names[r], "host-%c", hosts[r]);
            host_of_rank[r] = names[r];
        }
    }
}

static int reset_hosts(void **state) {
    set_hosts(NULL);
    return nothing_is_left(state);
}

enum collective {
    ALL_REDUCE,
    BROADCAST,
    BCAST,
    REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    SEND_RECV,
    COLLECTIVES
};
static const char *const collective_names[] = {"AllReduce", "Broadcast",     "Bcast",    "Reduce",
                                               "AllGather", "ReduceScatter", "AlltoAll", "Gather",
                                               "Scatter",   "SendRecv"};

// Any of the collectives; count is that of a rank's own share, where the manual has both. SEND_RECV
// sends round the ring of the ranks.
static ncclResult_t call(enum collective which, const void *send, void *recv, size_t count,
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
    case ALL_TO_ALL:
        return ncclAlltoAll(send, recv, count, type, comm, stream);
    case GATHER:
        return ncclGather(send, recv, count, type, root, comm, stream);
    case SCATTER:
        return ncclScatter(send, recv, count, type, root, comm, stream);
    default:
        OK(ncclCommCount(comm, &n));
        OK(ncclCommUserRank(comm, &rank));
        OK(ncclGroupStart());
        ncclResult_t sent = ncclSend(send, count, type, (rank + 1) % n, comm, stream);
        ncclResult_t received = ncclRecv(recv, count, type, (rank + n - 1) % n, comm, stream);
        ncclResult_t ended = ncclGroupEnd();
        return sent && sent != ncclInProgress           ? sent
               : received && received != ncclInProgress ? received
                                                        : ended;
    }
}

static float sum_over(ncclComm_t comm, float value) {
    float *x = device_floats(1, value);
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, NULL));
    OK(cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost));
    OK(cudaFree(x));
    return value;
}

// Every collective, type and operation against a plain loop on the host.

enum kind { SIGNED, UNSIGNED, FLOAT, DOUBLE, HALF, BFLOAT };
struct type {
    const char *name;
    ncclDataType_t type;
    size_t size;
    enum kind kind;
};
static const struct type types[] = {
    {"int8", ncclInt8, 1, SIGNED},       {"half", ncclFloat16, 2, HALF},
    {"float", ncclFloat32, 4, FLOAT},    {"uint64", ncclUint64, 8, UNSIGNED},
    {"uint8", ncclUint8, 1, UNSIGNED},   {"int32", ncclInt32, 4, SIGNED},
    {"uint32", ncclUint32, 4, UNSIGNED}, {"int64", ncclInt64, 8, SIGNED},
    {"double", ncclFloat64, 8, DOUBLE},  {"bfloat16", ncclBfloat16, 2, BFLOAT},
};
enum { TYPES = sizeof types / sizeof *types, OPS = 5 };
static const char *const op_names[] = {"sum", "prod", "max", "min", "avg"};

static uint64_t mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    return x ^ x >> 32;
}

// Values of all 16-bit floats. Infinity counts as the next power of two, as rounding sees it.
static double value_of_half[1 << 16], value_of_bfloat[1 << 16];

static void fill_tables(void) {
    for (int bits = 0; bits < 1 << 16; bits++) {
        double sign = bits >> 15 ? -1 : 1;
        int exponent = bits >> 10 & 31, fraction = bits & 1023;
        value_of_half[bits] =
            sign * ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
        exponent = bits >> 7 & 255, fraction = bits & 127;
        value_of_bfloat[bits] =
            sign * ldexp(exponent ? 128 + fraction : fraction, (exponent ? exponent : 1) - 134);
    }
}

static const double *values_of_16_bits(const struct type *t) {
    return t->kind == HALF ? value_of_half : value_of_bfloat;
}

static int is_finite_16(const struct type *t, uint64_t bits) {
    return t->kind == HALF ? (bits >> 10 & 31) != 31 : (bits >> 7 & 255) != 255;
}

// Element i of the data of a rank, as bits. Signed sums and products fit, those without sign may
// wrap; the exponents of floats vary enough for the order of a sum to show.
static uint64_t draw(const struct type *t, int op, uint64_t salt, int rank, size_t i) {
    static const uint64_t most_to_add[9] = {
        [1] = 31, [4] = (1 << 29) - 1, [8] = (UINT64_C(1) << 61) - 1};
    static const uint64_t most_to_multiply[9] = {[1] = 3, [4] = 200, [8] = 50000};
    uint64_t random = mix(mix(salt * MOST_RANKS + (uint64_t)rank) + i);
    uint64_t most = op == ncclProd ? most_to_multiply[t->size] : most_to_add[t->size];
    uint64_t all = t->size == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * t->size) - 1;
    uint64_t narrow = op == ncclProd, exponent;
    switch (t->kind) {
    case SIGNED:
        return (op == ncclMin || op == ncclMax ? random : random % (2 * most + 1) - most) & all;
    case UNSIGNED:
        return op == ncclAvg ? (random & all) / MOST_RANKS : random & all;
    case HALF:
        exponent = narrow ? 13 + random % 4 : 11 + random % 8;
        return (random >> 40 & 0x83ff) | exponent << 10;
    case BFLOAT:
        exponent = narrow ? 125 + random % 4 : 123 + random % 8;
        return (random >> 40 & 0x807f) | exponent << 7;
    case FLOAT:
        exponent = narrow ? 125 + random % 4 : 119 + random % 16;
        return (random >> 32 & 0x807fffff) | exponent << 23;
    default:
        exponent = narrow ? 1021 + random % 4 : 1007 + random % 32;
        return (random & 0x800fffffffffffff) | exponent << 52;
    }
}

static uint64_t load(const struct type *t, const void *array, size_t i) {
    uint8_t bytes_1;
    uint16_t bytes_2;
    uint32_t bytes_4;
    uint64_t bytes_8;
    const char *at = (const char *)array + i * t->size;
    switch (t->size) {
    case 1:
        return memcpy(&bytes_1, at, 1), bytes_1;
    case 2:
        return memcpy(&bytes_2, at, 2), bytes_2;
    case 4:
        return memcpy(&bytes_4, at, 4), bytes_4;
    default:
        return memcpy(&bytes_8, at, 8), bytes_8;
    }
}

static void store(const struct type *t, void *array, size_t i, uint64_t bits) {
    char *at = (char *)array + i * t->size;
    switch (t->size) {
    case 1:
        memcpy(at, &(uint8_t){(uint8_t)bits}, 1);
        break;
    case 2:
        memcpy(at, &(uint16_t){(uint16_t)bits}, 2);
        break;
    case 4:
        memcpy(at, &(uint32_t){(uint32_t)bits}, 4);
        break;
    default:
        memcpy(at, &bits, 8);
    }
}

static int64_t as_signed(const struct type *t, uint64_t bits) {
    int unused = 64 - 8 * (int)t->size;
    return (int64_t)(bits << unused) >> unused;
}

static float as_float(uint64_t bits) {
    float value;
    memcpy(&value, &(uint32_t){(uint32_t)bits}, sizeof value);
    return value;
}

static double as_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double value(const struct type *t, uint64_t bits) {
    switch (t->kind) {
    case SIGNED:
        return (double)as_signed(t, bits);
    case UNSIGNED:
        return (double)bits;
    case FLOAT:
        return (double)as_float(bits);
    case DOUBLE:
        return as_double(bits);
    default:
        return values_of_16_bits(t)[bits];
    }
}

// Whether the 16-bit float is one that exact rounds to; with some slack where exact is not quite.
static int is_rounded(const struct type *t, uint64_t bits, double exact, double slack) {
    const double *values = values_of_16_bits(t);
    uint64_t most = t->kind == HALF ? 0x7c00 : 0x7f80, magnitude = bits & 0x7fff;
    if (magnitude > most)
        return 0;
    double error = fabs(values[bits] - exact);
    double above = magnitude < most ? fabs(values[bits + 1] - exact) : INFINITY;
    double below = magnitude ? fabs(values[bits - 1] - exact) : INFINITY;
    if (magnitude == most && fabs(exact) > fabs(values[bits]))
        return (exact < 0) == (values[bits] < 0);
    if (magnitude == 0 && exact != 0 && (exact < 0) != (bits >> 15))
        return 0; // the sign of what was rounded to zero
    return error <= above + slack && error <= below + slack &&
           ((error != above && error != below) || slack > 0 || bits % 2 == 0);
}

// Whether got is the reduction of the ranks' elements, taken in the order of the ranks: exact for
// all but products and averages of floats.
static int is_reduced(const struct type *t, int op, const uint64_t *element, int n, uint64_t got,
                      double *wanted) {
    uint64_t all = t->size == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * t->size) - 1;
    if (t->kind == SIGNED || t->kind == UNSIGNED) {
        int negative = t->kind == SIGNED;
        uint64_t result = negative ? (uint64_t)as_signed(t, element[0]) : element[0];
        for (int r = 1; r < n; r++) {
            uint64_t x = negative ? (uint64_t)as_signed(t, element[r]) : element[r];
            int less = negative ? (int64_t)x < (int64_t)result : x < result;
            if (op == ncclSum || op == ncclAvg)
                result += x;
            else if (op == ncclProd)
                result *= x;
            else if (less == (op == ncclMin))
                result = x;
        }
        if (op == ncclAvg)
            result = negative ? (uint64_t)((int64_t)result / n) : result / (uint64_t)n;
        *wanted = value(t, result & all);
        return got == (result & all);
    }
    double exact = value(t, element[0]);
    float in_float = (float)exact;
    for (int r = 1; r < n; r++) {
        double x = value(t, element[r]);
        if (op == ncclSum || op == ncclAvg)
            in_float += (float)x, exact += x;
        else if (op == ncclProd)
            in_float *= (float)x, exact *= x;
        else if ((x < exact) == (op == ncclMin))
            in_float = (float)x, exact = x;
    }
    double result = t->kind == DOUBLE ? exact : (double)in_float;
    if (op == ncclAvg)
        result /= n;
    *wanted = result;
    int rounds = op == ncclProd || op == ncclAvg;
    double slack = rounds ? fabs(result) * (t->kind == DOUBLE ? 0x1p-50 : 0x1p-21) : 0;
    if (t->kind == HALF || t->kind == BFLOAT)
        return is_rounded(t, got, result, slack);
    return fabs(value(t, got) - result) <= slack;
}

enum { GUARD = 64, GUARD_BYTE = 0xc5, MANY = 4099, BIG = 300001 };

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

// Compares with the data of one rank, from its element first on.
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
    s->send = device_bytes(room);
    s->recv = device_bytes(room);
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
                        if ((!reduces && op) || (which == SEND_RECV && in_place) ||
                            (which == BCAST && !in_place))
                            continue;
                        if (counts[i] == BIG && ((reduces && op != type % OPS && !sums) ||
                                                 (reduces && in_place != (type + which) % 2)))
                            continue;
                        if (s->few &&
                            (type > 3 || (reduces && op != ncclAvg && op != (type + which) % OPS)))
                            continue;
                        if (s->few && counts[i] == BIG && (SANITIZED || s->few > 1 || type % 2))
                            continue;
                        if (SANITIZED && counts[i] == BIG && type > 3)
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
    int fewer = few || THREADS_CHECKED; // which takes long, and does not depend on the type
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

static void chaos_changes_nothing(void **state) {
    (void)state;
    const char *seeds[] = {"1", "2", "3"};
    for (int i = 0; i < 3; i++) {
        setenv("CPU_DEVICE_CHAOS", seeds[i], 1);
        sweep_ranks(2 + i, 2, 150);
    }
    unsetenv("CPU_DEVICE_CHAOS");
}

// Sums of what each rank has multiplied by a scalar of its own, which lies on the host or on the
// device. All numbers are small enough for every type.
static int scaling_ranks;

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
    enum { COUNT = 70001, ROUNDS = 2 * 2 * 3 * TYPES };
    int n = scaling_ranks, sum = 0, flag = GO + rank; // each rank holds up its own stream only
    ncclComm_t comm = join(n, rank);
    cudaStream_t stream = new_stream();
    size_t room = (size_t)n * COUNT * 8;
    char *send = device_bytes(room), *recv = device_bytes(room), *scalar = device_bytes(8);
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

static void sums_may_be_scaled(void **state) {
    (void)state;
    for (scaling_ranks = 1; scaling_ranks <= 4; scaling_ranks++)
        start_ranks(scaling_ranks, sum_scaled, 0);
    finish_ranks();
}

// Every pair of the 2^16 bit patterns with some other: the least and the largest numbers,
// infinities, NaN.
static void add_all_16_bit_patterns(int rank) {
    ncclComm_t comm = join(2, rank);
    enum { COUNT = 1 << 16 };
    uint16_t *numbers = device_bytes(COUNT * sizeof *numbers),
             *there = view(numbers, COUNT * sizeof *there);
    for (int type = 0; type < TYPES; type++) {
        const struct type *t = &types[type];
        const double *values = values_of_16_bits(t);
        if (t->kind != HALF && t->kind != BFLOAT)
            continue;
        for (uint64_t round = 0; round < 4; round++) {
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

static void sums_of_16_bit_floats_are_rounded_once(void **state) {
    (void)state;
    run_ranks(2, add_all_16_bit_patterns, 0);
}

// Numbers whose sum depends on the order: ((1e8 + 1) - 1e8) + 1 is 1, in any other order 0 or 2.
// They move round the ranks from element to element, so that each order comes up in each chunk.
static int summing_ranks;

static void sum_in_order(int rank) {
    enum { SHARE = 1021 };
    const float numbers[] = {1e8f, 1, -1e8f, 1};
    int n = summing_ranks, count = SHARE * n;
    ncclComm_t comm = join(n, rank);
    float wanted[SHARE * MOST_RANKS], got[SHARE * MOST_RANKS];
    float *send = device_floats((size_t)count, 0),
          *there = view(send, (size_t)count * sizeof *there);
    float *recv = device_floats((size_t)count, 0);
    for (int i = 0; i < count; i++) {
        wanted[i] = 0;
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

static void sums_are_taken_in_the_order_of_the_ranks(void **state) {
    (void)state;
    const int numbers[] = {2, 3, 4, MOST_RANKS};
    for (int i = 0; i < 4; i++) {
        summing_ranks = numbers[i];
        run_ranks(summing_ranks, sum_in_order, 0);
    }
}

// The manual's: Broadcast reads sendbuff on the root only, Reduce writes recvbuff there only.
static void leave_out_buffers(int rank) {
    ncclComm_t comm = join(2, rank);
    float *a = device_floats(100, (float)rank + 1), *b = device_floats(100, 0);
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

static void buffers_that_are_not_used_may_be_null(void **state) {
    (void)state;
    run_ranks(2, leave_out_buffers, 0);
}

// Asynchrony. Rank 0 calls first, and goes on although the others have not called yet.

static void call_early(int rank) {
    ncclComm_t comm = join(3, rank);
    cudaStream_t stream = new_stream();
    float *a = device_floats(3000, 1);
    for (int which = 0; which < COLLECTIVES; which++) {
        float *b = device_floats(3000, 0);
        barrier(3);
        if (rank > 0)
            await(CALLED, which + 1);
        OK(call((enum collective)which, a, b, 1000, ncclFloat, ncclSum, 1, comm, stream));
        if (rank == 0) {
            // Send and Broadcast's root may be done early, the others cannot.
            REFUSED(cudaErrorNotReady, cudaStreamQuery(stream));
            post(CALLED);
        }
        OK(cudaStreamSynchronize(stream));
        OK(cudaStreamQuery(stream));
        if (which == ALL_REDUCE)
            HOLDS(b, 1000, 3);
        if (which == ALL_GATHER)
            HOLDS(b, 3000, 1);
        OK(cudaFree(b));
    }
    OK(ncclCommDestroy(comm));
}

static void calls_return_before_the_peers_call(void **state) {
    (void)state;
    run_ranks(3, call_early, 0);
}

// Rank 0 finishes on one communicator while its stream on the other waits for rank 1.
static void use_two_communicators(int rank) {
    ncclComm_t first = join(2, rank), second = join(2, rank);
    cudaStream_t a = new_stream(), b = new_stream();
    float *x = device_floats(5000, 1), *y = device_floats(5000, 2);
    if (rank == 1)
        await(CALLED, 1);
    else
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, first, a));
    post(CALLED);
    OK(ncclAllReduce(y, y, 5000, ncclFloat, ncclSum, second, b));
    OK(cudaStreamSynchronize(b));
    HOLDS(y, 5000, 4);
    if (rank == 0) {
        REFUSED(cudaErrorNotReady, cudaStreamQuery(a));
        post(DONE);
    } else {
        await(DONE, 1);
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, first, a));
    }
    OK(cudaStreamSynchronize(a));
    HOLDS(x, 5000, 2);
    OK(ncclCommDestroy(first));
    OK(ncclCommDestroy(second));
}

static void communicators_do_not_wait_for_each_other(void **state) {
    (void)state;
    run_ranks(2, use_two_communicators, 0);
}

// The second sum is of what the first one has left, although its stream could begin at once.
static void use_two_streams(int rank) {
    ncclComm_t comm = join(2, rank);
    cudaStream_t a = new_stream(), b = new_stream();
    float *x = device_floats(5000, 1);
    for (int round = 0; round < 2; round++) {
        if (rank == round)
            hold(a, GO + round);
        // Which stream a rank takes is its own affair: only the order of the calls counts.
        cudaStream_t first = round == 1 && rank == 0 ? b : a, second = first == a ? b : a;
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, first));
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, second));
        barrier(2);
        REFUSED(cudaErrorNotReady, cudaStreamQuery(first));
        REFUSED(cudaErrorNotReady, cudaStreamQuery(second));
        barrier(2);
        if (rank == 0)
            post(GO + round);
        OK(cudaStreamSynchronize(second));
        OK(cudaStreamSynchronize(first));
        HOLDS(x, 5000, round ? 16 : 4);
    }
    OK(ncclCommDestroy(comm));
}

static void two_streams_keep_the_order_of_the_calls(void **state) {
    (void)state;
    run_ranks(2, use_two_streams, 0);
}

// Data that come late on one stream, are summed on a second, and read on a third.
static void order_by_events(int rank) {
    ncclComm_t comm = join(2, rank);
    cudaStream_t a = new_stream(), b = new_stream(), c = new_stream();
    cudaEvent_t filled, summed;
    float *x = device_floats(5000, 100), *late = device_floats(5000, (float)rank + 1), back[5000];
    OK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&summed, cudaEventDisableTiming));
    hold(a, GO);
    OK(cudaMemcpyAsync(x, late, sizeof back, cudaMemcpyDeviceToDevice, a));
    OK(cudaEventRecord(filled, a));
    OK(cudaStreamWaitEvent(b, filled, 0));
    OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, b));
    OK(cudaEventRecord(summed, b));
    OK(cudaStreamWaitEvent(c, summed, 0));
    OK(cudaMemcpyAsync(back, x, sizeof back, cudaMemcpyDeviceToHost, c));
    REFUSED(cudaErrorNotReady, cudaEventQuery(summed));
    barrier(2);
    post(GO);
    OK(cudaStreamSynchronize(c));
    OK(cudaEventQuery(summed));
    for (int i = 0; i < 5000; i++)
        CHECK(back[i] == 3, "element %d is %g", i, back[i]);
    OK(cudaEventDestroy(filled));
    OK(cudaEventDestroy(summed));
    OK(ncclCommDestroy(comm));
}

static void events_order_collectives(void **state) {
    (void)state;
    run_ranks(2, order_by_events, 0);
}

// More than a stream's queue holds, and no synchronisation.
static void call_many_times(int rank) {
    enum { TIMES = 3000, PART = 10 };
    ncclComm_t comm = join(2, rank);
    float *x = device_floats(TIMES * PART, 1);
    for (int i = 0; i < TIMES; i++)
        OK(ncclAllReduce(x + i * PART, x + i * PART, PART, ncclFloat, ncclSum, comm, NULL));
    for (int i = 0; i < 10; i++)
        OK(ncclAllReduce(x, x, TIMES * PART, ncclFloat, ncclSum, comm, NULL));
    OK(cudaStreamSynchronize(NULL));
    HOLDS(x, TIMES * PART, 2048);
    OK(ncclCommDestroy(comm));
}

static void many_calls_may_be_under_way(void **state) {
    (void)state;
    run_ranks(2, call_many_times, 0);
}

// Groups.

static int group_ranks;

static void send_in_groups(int rank) {
    int n = group_ranks;
    enum { COUNT = 70001 };
    ncclComm_t comm = join(n, rank);
    cudaStream_t stream = new_stream();
    float *mine = device_floats(COUNT, (float)rank), *all = device_floats((size_t)n * COUNT, -1);
    // To the next, from the one before; each in an order of its own.
    OK(ncclGroupStart());
    if (rank % 2)
        OK(ncclSend(mine, COUNT, ncclFloat, (rank + 1) % n, comm, stream));
    OK(ncclRecv(all, COUNT, ncclFloat, (rank + n - 1) % n, comm, stream));
    if (rank % 2 == 0)
        OK(ncclSend(mine, COUNT, ncclFloat, (rank + 1) % n, comm, stream));
    OK(ncclGroupEnd());
    OK(cudaStreamSynchronize(stream));
    HOLDS(all, COUNT, (float)((rank + n - 1) % n));
    // Everybody to everybody, oneself included, in nested groups.
    OK(ncclGroupStart());
    for (int r = 0; r < n; r++) {
        OK(ncclGroupStart());
        OK(ncclSend(mine, COUNT, ncclFloat, r, comm, stream));
        OK(ncclRecv(all + r * COUNT, COUNT, ncclFloat, r, comm, stream));
        OK(ncclGroupEnd());
    }
    OK(ncclGroupEnd());
    OK(cudaStreamSynchronize(stream));
    for (int r = 0; r < n; r++)
        HOLDS(all + r * COUNT, COUNT, (float)r);
    // To oneself alone.
    set_floats(all, COUNT, -1);
    OK(ncclGroupStart());
    OK(ncclRecv(all, COUNT, ncclFloat, rank, comm, stream));
    OK(ncclSend(mine, COUNT, ncclFloat, rank, comm, stream));
    OK(ncclGroupEnd());
    OK(cudaStreamSynchronize(stream));
    HOLDS(all, COUNT, (float)rank);
    OK(ncclCommDestroy(comm));
}

static void groups_exchange(void **state) {
    (void)state;
    for (group_ranks = 2; group_ranks <= 4; group_ranks++)
        run_ranks(group_ranks, send_in_groups, 0);
}

// Several messages from one rank to another arrive in the order in which they were sent, whatever
// else is under way, in a group or not.
static void send_messages(int rank) {
    enum { MESSAGES = 20, LONGEST = 50000 };
    ncclComm_t comm = join(2, rank);
    float *x = device_floats(MESSAGES * LONGEST, (float)-rank);
    for (int i = 0; i < MESSAGES && rank == 0; i++)
        set_floats(x + i * LONGEST, LONGEST, (float)i);
    for (int in_group = 0; in_group < 2; in_group++) {
        if (in_group)
            OK(ncclGroupStart());
        for (int i = 0; i < MESSAGES; i++) {
            size_t count = i % 4 ? (size_t)i : LONGEST - (size_t)i;
            if (rank == 0)
                OK(ncclSend(x + i * LONGEST, count, ncclFloat, 1, comm, NULL));
            else
                OK(ncclRecv(x + i * LONGEST, count, ncclFloat, 0, comm, NULL));
        }
        if (in_group)
            OK(ncclGroupEnd());
        OK(cudaStreamSynchronize(NULL));
        for (int i = 0; i < MESSAGES && rank == 1; i++) {
            int count = i % 4 ? i : LONGEST - i;
            HOLDS(x + i * LONGEST, (size_t)count, (float)i);
            HOLDS(x + i * LONGEST + count, (size_t)(LONGEST - count), -1);
            set_floats(x + i * LONGEST, LONGEST, -1);
        }
    }
    OK(ncclCommDestroy(comm));
}

static void messages_keep_their_order(void **state) {
    (void)state;
    run_ranks(2, send_messages, 0);
}

static void call_several_in_a_group(int rank) {
    enum { COUNT = 3001 };
    ncclComm_t comm = join(3, rank);
    cudaStream_t a = new_stream(), b = new_stream();
    float *sum = device_floats(COUNT, (float)rank), *most = device_floats(COUNT, (float)rank),
          *one = device_floats(COUNT, (float)rank), *all = device_floats(3 * COUNT, (float)rank),
          *part = device_floats(COUNT, 0), *sent = device_floats(COUNT, (float)rank);
    OK(ncclGroupStart());
    OK(ncclAllReduce(sum, sum, COUNT, ncclFloat, ncclSum, comm, a));
    OK(ncclReduce(most, most, COUNT, ncclFloat, ncclMax, 1, comm, a));
    OK(ncclBcast(one, COUNT, ncclFloat, 2, comm, a));
    OK(ncclGroupStart()); // the inner end launches nothing
    OK(ncclReduceScatter(all, part, COUNT, ncclFloat, ncclProd, comm, a));
    OK(ncclGroupEnd());
    OK(ncclGroupStart());
    OK(ncclGroupEnd());
    barrier(3);
    float first = -1;
    OK(cudaMemcpyAsync(&first, sum, sizeof first, cudaMemcpyDeviceToHost, a));
    OK(cudaStreamSynchronize(a));
    CHECK(first == (float)rank, "the group began before its end");
    barrier(3);
    if (rank == 0)
        OK(ncclSend(sent, COUNT, ncclFloat, 2, comm, b));
    if (rank == 2)
        OK(ncclRecv(sent, COUNT, ncclFloat, 0, comm, b));
    OK(ncclGroupEnd());
    OK(cudaStreamSynchronize(a));
    OK(cudaStreamSynchronize(b));
    HOLDS(sum, COUNT, 3);
    HOLDS(most, COUNT, rank == 1 ? 2 : (float)rank);
    HOLDS(one, COUNT, 2);
    HOLDS(part, COUNT, 0);
    HOLDS(sent, COUNT, rank == 1 ? 1 : 0);
    OK(ncclGroupStart()); // an empty one
    OK(ncclGroupEnd());
    REFUSED(ncclInvalidUsage, ncclGroupEnd());
    // A mistake in a group is told at its end as well, and nothing of the group is done.
    OK(ncclGroupStart());
    OK(ncclAllReduce(sum, sum, COUNT, ncclFloat, ncclSum, comm, a));
    REFUSED(ncclInvalidArgument, ncclBcast(one, COUNT, ncclFloat, 3, comm, a));
    REFUSED(ncclInvalidArgument, ncclGroupEnd());
    OK(cudaStreamSynchronize(a));
    HOLDS(sum, COUNT, 3);
    OK(ncclAllReduce(sum, sum, COUNT, ncclFloat, ncclSum, comm, a));
    OK(cudaStreamSynchronize(a));
    HOLDS(sum, COUNT, 9);
    OK(ncclCommDestroy(comm));
}

// A group's sends and receives may stand before, between and after its collectives, on each rank
// elsewhere.
static void mix_in_a_group(int rank) {
    ncclComm_t comm = join(2, rank);
    for (int place = 0; place < 3; place++) {
        float *x = device_floats(100, (float)rank), *y = device_floats(100, 1);
        OK(ncclGroupStart());
        for (int i = 0; i < 3; i++) {
            if (rank == 0 && i == place)
                OK(ncclSend(x, 100, ncclFloat, 1, comm, NULL));
            OK(ncclAllReduce(y, y, 100, ncclFloat, i == 1 ? ncclProd : ncclSum, comm, NULL));
            if (rank == 1 && i == 2 - place)
                OK(ncclRecv(x, 100, ncclFloat, 0, comm, NULL));
        }
        OK(ncclGroupEnd());
        OK(cudaStreamSynchronize(NULL));
        HOLDS(x, 100, 0);
        HOLDS(y, 100, 8);
    }
    OK(ncclCommDestroy(comm));
}

static void groups_hold_several_collectives(void **state) {
    (void)state;
    run_ranks(3, call_several_in_a_group, 0);
    run_ranks(2, mix_in_a_group, 0);
}

// More than any buffer between the ranks holds goes both ways, on a stream for each way: all of a
// group is under way at once, whatever the streams.
static void send_on_two_streams(int rank) {
    enum { COUNT = 3000000 };
    ncclComm_t comm = join(2, rank);
    cudaStream_t a = new_stream(), b = new_stream();
    float *sent = device_floats(COUNT, (float)rank), *received = device_floats(COUNT, -1);
    OK(ncclGroupStart());
    OK(ncclSend(sent, COUNT, ncclFloat, 1 - rank, comm, a));
    OK(ncclRecv(received, COUNT, ncclFloat, 1 - rank, comm, b));
    OK(ncclGroupEnd());
    OK(cudaStreamSynchronize(a));
    OK(cudaStreamSynchronize(b));
    HOLDS(received, COUNT, (float)(1 - rank));
    OK(ncclCommDestroy(comm));
}

static void groups_span_streams(void **state) {
    (void)state;
    run_ranks(2, send_on_two_streams, 0);
}

// One thread that drives several devices, in one process or in two of them.
static void drive_devices(const ncclComm_t *comm, int devices, int first_device, int first_rank,
                          int n) {
    enum { COUNT = 20001 };
    float *x[MOST_RANKS], *all[MOST_RANKS], *part[MOST_RANKS];
    cudaStream_t stream[MOST_RANKS];
    for (int d = 0; d < devices; d++) {
        int count, rank, device;
        OK(ncclCommCount(comm[d], &count));
        OK(ncclCommUserRank(comm[d], &rank));
        OK(ncclCommCuDevice(comm[d], &device));
        CHECK(count == n && rank == first_rank + d && device == first_device + d,
              "rank %d of %d on device %d", rank, count, device);
        OK(cudaSetDevice(device));
        stream[d] = new_stream();
        x[d] = device_floats(COUNT, (float)rank + 1);
        all[d] = device_floats((size_t)n * COUNT, 0);
        part[d] = device_floats(COUNT, 0);
    }
    for (int times = 0; times < 20; times++) {
        OK(ncclGroupStart());
        for (int d = 0; d < devices; d++) {
            OK(ncclAllGather(x[d], all[d], COUNT, ncclFloat, comm[d], stream[d]));
            OK(ncclReduceScatter(all[d], part[d], COUNT, ncclFloat, ncclSum, comm[d], stream[d]));
        }
        OK(ncclGroupEnd());
    }
    OK(ncclGroupStart());
    for (int d = 0; d < devices; d++)
        OK(ncclAllReduce(x[d], x[d], COUNT, ncclFloat, ncclSum, comm[d], stream[d]));
    OK(ncclGroupEnd());
    for (int d = 0; d < devices; d++) {
        int rank = first_rank + d;
        OK(cudaStreamSynchronize(stream[d]));
        for (int r = 0; r < n; r++)
            HOLDS(all[d] + r * COUNT, COUNT, (float)r + 1);
        HOLDS(part[d], COUNT, (float)(n * (rank + 1)));
        HOLDS(x[d], COUNT, (float)(n * (n + 1)) / 2);
        OK(cudaSetDevice(first_device + d));
        OK(cudaStreamDestroy(stream[d]));
        OK(cudaFree(x[d]));
        OK(cudaFree(all[d]));
        OK(cudaFree(part[d]));
    }
    for (int d = 0; d < devices; d++)
        OK(ncclCommDestroy(comm[d]));
}

static void drive_alone(int rank) {
    (void)rank;
    ncclComm_t comm[MOST_RANKS];
    const int devices[] = {1, 2, 3}, twice[] = {1, 1};
    OK(ncclCommInitAll(comm, 2, NULL));
    drive_devices(comm, 2, 0, 0, 2);
    OK(ncclCommInitAll(comm, 3, devices));
    drive_devices(comm, 3, 1, 0, 3);
    OK(ncclCommInitAll(comm, 1, NULL));
    drive_devices(comm, 1, 0, 0, 1);
    REFUSED(ncclInvalidUsage, ncclCommInitAll(comm, 2, twice));
    CHECK(ncclCommInitAll(comm, MOST_RANKS + 1, NULL) != ncclSuccess, "there are only %d devices",
          MOST_RANKS);
    REFUSED(ncclInvalidArgument, ncclCommInitAll(comm, 0, NULL));
}

static void drive_two_of_four(int process) {
    ncclComm_t comm[2];
    ncclUniqueId id = common_id(0, process == 0);
    OK(ncclGroupStart());
    for (int d = 0; d < 2; d++) {
        OK(cudaSetDevice(2 * process + d));
        OK(ncclCommInitRank(&comm[d], 4, id, 2 * process + d));
    }
    OK(ncclGroupEnd());
    drive_devices(comm, 2, 2 * process, 2 * process, 4);
}

static void one_thread_drives_several_devices(void **state) {
    (void)state;
    run_ranks(1, drive_alone, 0);
    run_ranks(2, drive_two_of_four, 0);
}

// A thread for each device.
static ncclUniqueId id_of_threads;

static void *drive_one(void *number) {
    int rank = *(int *)number;
    ncclComm_t comm = NULL;
    OK(cudaSetDevice(rank));
    OK(ncclCommInitRank(&comm, 3, id_of_threads, rank));
    for (int times = 0; times < 100; times++)
        CHECK(sum_over(comm, (float)rank) == 3, "wrong sum");
    OK(ncclCommDestroy(comm));
    return NULL;
}

static void start_threads(int rank) {
    (void)rank;
    pthread_t thread[3];
    int number[3] = {0, 1, 2};
    OK(ncclGetUniqueId(&id_of_threads));
    for (int i = 0; i < 3; i++)
        OK(pthread_create(&thread[i], NULL, drive_one, &number[i]));
    for (int i = 0; i < 3; i++)
        OK(pthread_join(thread[i], NULL));
}

static void each_thread_drives_a_device(void **state) {
    (void)state;
    run_ranks(1, start_threads, 0);
}

// Splits.

static void expect_place(ncclComm_t comm, int n, int rank) {
    int count = -1, place = -1, device = -1, current = -2;
    CHECK(comm, "no communicator");
    OK(ncclCommCount(comm, &count));
    OK(ncclCommUserRank(comm, &place));
    OK(ncclCommCuDevice(comm, &device));
    OK(cudaGetDevice(&current));
    CHECK(count == n && place == rank, "rank %d of %d, not %d of %d", place, count, rank, n);
    CHECK(device == current, "device %d, not %d", device, current);
}

static void split_four(int rank) {
    ncclComm_t comm = join(4, rank), half = NULL, reversed = NULL, some = comm, again = NULL;
    OK(ncclCommSplit(comm, rank / 2, 0, &half, NULL)); // equal keys keep the order
    expect_place(half, 2, rank % 2);
    CHECK(sum_over(half, (float)rank) == (rank < 2 ? 1 : 5), "wrong sum in half");
    OK(ncclCommSplit(comm, 7, -rank, &reversed, NULL));
    expect_place(reversed, 4, 3 - rank);
    float *x = device_floats(4, (float)rank), back[4];
    OK(ncclAllGather(x, x, 1, ncclFloat, reversed, NULL));
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

// As with sharded parameters on two nodes of two: shards meet in a node, sums across the nodes.
static void split_both_ways(int rank) {
    enum { SHARD = 30001 };
    ncclComm_t comm = join(4, rank), shards = NULL, replicas = NULL;
    cudaStream_t a = new_stream(), b = new_stream();
    OK(ncclCommSplit(comm, rank / 2, rank, &shards, NULL));
    OK(ncclCommSplit(comm, rank % 2, rank, &replicas, NULL));
    float *whole = device_floats(2 * SHARD, (float)rank),
          *gradient = device_floats(SHARD, (float)rank + 1);
    for (int step = 0; step < 50; step++) {
        OK(ncclAllGather(whole + rank % 2 * SHARD, whole, SHARD, ncclFloat, shards, a));
        OK(ncclAllReduce(gradient, gradient, SHARD, ncclFloat, ncclAvg, replicas, b));
    }
    OK(cudaStreamSynchronize(a));
    OK(cudaStreamSynchronize(b));
    HOLDS(whole, SHARD, (float)(rank / 2 * 2));
    HOLDS(whole + SHARD, SHARD, (float)(rank / 2 * 2 + 1));
    HOLDS(gradient, SHARD, (float)(rank % 2) + 2);
    OK(ncclCommDestroy(replicas));
    OK(ncclCommDestroy(shards));
    OK(ncclCommDestroy(comm));
}

static void communicators_are_split(void **state) {
    (void)state;
    run_ranks(4, split_four, 0);
    run_ranks(4, split_both_ways, 0);
}

// What a failing group does not start leaves nothing behind in the parent.
static void split_in_a_failing_group(int rank) {
    ncclComm_t comm = join(2, rank), part = comm;
    OK(ncclGroupStart());
    OK(ncclCommSplit(comm, 0, rank, &part, NULL));
    REFUSED(ncclInvalidArgument, ncclAllReduce(NULL, NULL, 5, ncclFloat, ncclSum, comm, NULL));
    REFUSED(ncclInvalidArgument, ncclGroupEnd());
    CHECK(!part, "a communicator of a failing group");
    OK(ncclCommSplit(comm, 0, rank, &part, NULL));
    CHECK(sum_over(part, 1) == 2 && sum_over(comm, 1) == 2, "wrong sum");
    OK(ncclCommDestroy(part));
    OK(ncclCommDestroy(comm));
}

// Neither Destroy nor Abort takes a communicator away from calls that still wait for the group's
// end.
static void destroy_in_a_group(int rank) {
    ncclComm_t comm = join(1, rank), part = NULL;
    float *x = device_floats(100, 1), *y = device_floats(100, 0);
    for (int splits = 0; splits < 2; splits++) {
        OK(ncclGroupStart());
        if (splits)
            OK(ncclCommSplit(comm, 0, 0, &part, NULL));
        else
            OK(ncclAllReduce(x, y, 100, ncclFloat, ncclSum, comm, NULL));
        REFUSED(ncclInvalidUsage, ncclCommDestroy(comm));
        REFUSED(ncclInvalidUsage, ncclCommAbort(comm));
        REFUSED(ncclInvalidUsage, ncclGroupEnd());
        OK(cudaStreamSynchronize(NULL));
        HOLDS(y, 100, 0);
        CHECK(!part, "a communicator of a failing group");
    }
    CHECK(sum_over(comm, 7) == 7, "wrong sum");
    OK(ncclCommDestroy(comm));
}

static void failing_groups_leave_nothing(void **state) {
    (void)state;
    run_ranks(2, split_in_a_failing_group, 0);
    run_ranks(1, destroy_in_a_group, 0);
}

// Non-blocking communicators.

static ncclResult_t settle(ncclComm_t comm) {
    ncclResult_t result = ncclInProgress;
    for (double end = seconds() + WAIT_SECONDS; result == ncclInProgress && seconds() < end; rest())
        OK(ncclCommGetAsyncError(comm, &result));
    return result;
}

static int is_under_way(ncclResult_t result) {
    return result == ncclSuccess || result == ncclInProgress;
}
#define UNDER_WAY(call)                                                                            \
    do {                                                                                           \
        ncclResult_t result_ = call;                                                               \
        CHECK(is_under_way(result_), "%s returned %d: %s", #call, result_,                         \
              ncclGetLastError(NULL));                                                             \
    } while (0)

static void poll_for_everything(int rank) {
    ncclComm_t comm = NULL, half = NULL;
    ncclResult_t state;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    OK(cudaSetDevice(rank));
    float *x = device_floats(2000, 1), *y = device_floats(2000, 0);
    ncclUniqueId id = common_id(0, rank == 0);
    if (rank == 0) {
        REFUSED(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config));
        OK(ncclCommGetAsyncError(comm, &state));
        CHECK(state == ncclInProgress, "state %d", state);
        REFUSED(ncclInvalidArgument, ncclAllReduce(x, x, 1000, ncclFloat, ncclSum, comm, NULL));
        post(GO);
    } else {
        await(GO, 1);
        UNDER_WAY(ncclCommInitRankConfig(&comm, 2, id, 1, &config));
    }
    OK(settle(comm));
    for (int which = 0; which < COLLECTIVES; which++) {
        set_floats(x, 2000, 1);
        ncclResult_t result =
            call((enum collective)which, x, y, 1000, ncclFloat, ncclSum, 0, comm, NULL);
        UNDER_WAY(result);
        if (result == ncclInProgress) // and was not asked about
            REFUSED(ncclInvalidArgument, ncclAllReduce(x, x, 1000, ncclFloat, ncclSum, comm, NULL));
        OK(settle(comm));
        OK(cudaStreamSynchronize(NULL));
        if (which == ALL_REDUCE)
            HOLDS(y, 1000, 2);
    }
    OK(ncclGroupStart());
    for (int i = 0; i < 3; i++)
        UNDER_WAY(ncclAllReduce(x, x, 1000, ncclFloat, ncclSum, comm, NULL));
    UNDER_WAY(ncclGroupEnd());
    OK(settle(comm));
    OK(cudaStreamSynchronize(NULL));
    HOLDS(x, 1000, 8);
    if (rank == 1)
        await(GO, 2);
    OK(ncclCommSplit(comm, 0, rank, &half, NULL)); // of the same kind as its parent
    if (rank == 0) {                               // and the other one is still to come
        CHECK(!half, "half a communicator");
        REFUSED(ncclInvalidArgument, ncclCommSplit(comm, 0, rank, &half, NULL));
        OK(ncclCommGetAsyncError(comm, &state));
        CHECK(state == ncclInProgress, "state %d", state);
        post(GO);
    }
    OK(settle(comm));
    CHECK(half, "no communicator");
    OK(settle(half));
    UNDER_WAY(ncclAllReduce(x, x, 1000, ncclFloat, ncclSum, half, NULL));
    OK(settle(half));
    OK(cudaStreamSynchronize(NULL));
    HOLDS(x, 1000, 16);
    UNDER_WAY(ncclCommFinalize(half));
    OK(settle(half));
    UNDER_WAY(ncclCommDestroy(half));
    UNDER_WAY(ncclCommFinalize(comm));
    OK(settle(comm));
    UNDER_WAY(ncclCommDestroy(comm));
}

static void give_up_joining(int rank) {
    (void)rank;
    ncclComm_t comm = NULL;
    ncclResult_t state;
    ncclUniqueId id = common_id(0, 1);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    REFUSED(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config)); // rank 1 never comes
    OK(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclInProgress, "state %d", state);
    double begun = seconds();
    OK(ncclCommAbort(comm));
    CHECK(seconds() - begun < 1, "took %g s", seconds() - begun);
    comm = join(1, 0);
    OK(ncclCommFinalize(comm)); // a blocking one may be finalised too
    OK(ncclCommDestroy(comm));
}

static void give_up_splitting(int rank) {
    ncclComm_t comm = NULL, half = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    OK(cudaSetDevice(rank));
    ncclUniqueId id = common_id(0, rank == 0);
    UNDER_WAY(ncclCommInitRankConfig(&comm, 2, id, rank, &config));
    OK(settle(comm));
    if (rank == 0)
        OK(ncclCommSplit(comm, 0, 0, &half, NULL)); // the other rank never does
    double begun = seconds();
    OK(ncclCommAbort(comm));
    CHECK(seconds() - begun < 1, "took %g s", seconds() - begun);
}

static void communicators_may_be_polled(void **state) {
    (void)state;
    run_ranks(2, give_up_splitting, 0);
    run_ranks(2, poll_for_everything, 0);
    run_ranks(1, give_up_joining, 0);
}

// A rank that is stopped, as by a debugger, is not dead: the others wait.
static void stop_for_a_while(int rank) {
    ncclComm_t comm = join(3, rank);
    cudaStream_t stream = new_stream();
    float *x = device_floats(100003, 1);
    barrier(3);
    if (rank == 1) {
        raise(SIGSTOP);
    } else {
        OK(ncclAllReduce(x, x, 100003, ncclFloat, ncclSum, comm, stream));
        for (double end = seconds() + 0.8; seconds() < end; rest()) // the stop that is to be borne
            REFUSED(cudaErrorNotReady, cudaStreamQuery(stream));
        post(DONE);
        await(DONE, 2);
        for (; cudaStreamQuery(stream) == cudaErrorNotReady; rest())
            kill(meeting->pid[1], SIGCONT);
    }
    if (rank == 1)
        OK(ncclAllReduce(x, x, 100003, ncclFloat, ncclSum, comm, stream));
    OK(cudaStreamSynchronize(stream));
    HOLDS(x, 100003, 3);
    OK(ncclCommDestroy(comm));
}

static void a_stopped_rank_is_waited_for(void **state) {
    (void)state;
    start_ranks(3, stop_for_a_while, 0);
    set_hosts("aab");
    start_ranks(3, stop_for_a_while, 0);
    finish_ranks();
}

// The death of a rank.

enum moment { BEFORE, WHILE_OTHERS_WAIT, INSIDE };
enum end { ABORT, DESTROY, JUST_EXIT };
static struct {
    enum collective which;
    int n, victim;
    enum moment moment;
    enum end end;
} death;

// The stream's error, the communicator's and the texts must tell of a failure; words is what the
// texts must hold, up to NULL.
static void expect_failure(ncclComm_t comm, cudaStream_t stream, ncclResult_t wanted,
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
#define FAILS(comm, stream, wanted, ...)                                                           \
    (here(__LINE__),                                                                               \
     expect_failure(comm, stream, wanted, (const char *const[]){__VA_ARGS__, NULL}, __LINE__))

static void kill_victim(void) {
    meeting->killed_at = seconds();
    kill(meeting->pid[death.victim], SIGKILL);
}

static void lose_a_rank(int rank) {
    enum { COUNT = 100003, TIMES = 3 };
    int n = death.n, killer = (death.victim + 1) % n;
    char name[20];
    snprintf(name, sizeof name, "rank %d", death.victim);
    ncclComm_t comm = join(n, rank);
    cudaStream_t stream = new_stream();
    float *x = device_floats((size_t)n * COUNT, 1), *y = device_floats((size_t)n * COUNT, 1);
    cudaError_t error = cudaSuccess;
    if (death.moment != INSIDE) {
        barrier(n);
        if (death.moment == BEFORE && rank == death.victim)
            raise(SIGKILL);
        if (death.moment == BEFORE) {
            meeting->killed_at = seconds();
            await_death(death.victim);
        }
        if (rank == death.victim)
            await(DONE, 1); // which does not come
        ncclResult_t result = call(death.which, x, y, COUNT, ncclFloat, ncclSum,
                                   (death.victim + 1) % n, comm, stream);
        CHECK(result == ncclSuccess || (result == ncclRemoteError && death.moment == BEFORE),
              "the call returned %d: %s", result, ncclGetLastError(comm));
        post(CALLED);
        if (death.moment == WHILE_OTHERS_WAIT && rank == killer) {
            await(CALLED, n - 1);
            kill_victim();
        }
        error = cudaStreamSynchronize(stream);
    }
    for (int times = 0; death.moment == INSIDE && !error; times++) {
        ncclResult_t result =
            call(death.which, x, y, COUNT, ncclFloat, ncclSum, death.victim, comm, stream);
        CHECK(result == ncclSuccess || result == ncclRemoteError, "the call returned %d: %s",
              result, ncclGetLastError(comm));
        if (times == TIMES && rank == killer)
            kill_victim();
        error = cudaStreamSynchronize(stream);
        if (result == ncclRemoteError)
            break;
    }
    double now = seconds();
    CHECK(error == cudaErrorLaunchFailure, "the stream's error is %d", error);
    // Far less than the 60 s of CPU_DEVICE_TIMEOUT, and enough for a loaded machine.
    CHECK(now - meeting->killed_at < 10 || SANITIZED, "told after %g s", now - meeting->killed_at);
    FAILS(comm, stream, ncclRemoteError, name);
    if (death.end == DESTROY)
        ncclCommDestroy(comm); // may say what it likes, but comes to an end
    if (death.end == ABORT)
        OK(ncclCommAbort(comm));
}

// Most of a death is waiting, so several are awaited at once.
static void start_death(enum collective which, int n, int victim, enum moment moment) {
    death.which = which;
    death.n = n;
    death.victim = victim;
    death.moment = moment;
    death.end = (enum end)((int)which % 3);
    start_ranks(n, lose_a_rank, 1u << victim);
}

static void death_in_any_collective_is_told(void **state) {
    (void)state;
    for (int which = 0; which < COLLECTIVES; which++) {
        for (int n = 2; n <= 4; n++)
            start_death((enum collective)which, n, (which + n) % n, INSIDE);
        finish_ranks();
    }
}

static void death_before_a_collective_is_told(void **state) {
    (void)state;
    for (int which = 0; which < COLLECTIVES; which++) {
        start_death((enum collective)which, 2 + which % 3, which % 2, BEFORE);
        start_death((enum collective)which, 2 + which % 3, (which + 1) % 2, WHILE_OTHERS_WAIT);
        if (which % 2 || which == COLLECTIVES - 1)
            finish_ranks();
    }
}

// A child that a rank has forked lives on, with all that it inherited; the rank is missed all the
// same.
static void leave_a_child(int rank) {
    ncclComm_t comm = join(2, rank);
    float *x = device_floats(100, 1);
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

static void death_is_told_though_a_child_lives(void **state) {
    (void)state;
    start_ranks(2, leave_a_child, 1u << 1);
    set_hosts("ab");
    start_ranks(2, leave_a_child, 1u << 1);
    finish_ranks();
}

// Rank 1 is gone as soon as it is done, with or without a farewell; the others look at their own
// results only then, and go on among themselves, longer than it takes to miss somebody.
static int leaving_ranks, says_farewell;

static void leave_early(int rank) {
    enum { COUNT = 100003 };
    int n = leaving_ranks;
    ncclComm_t comm = join(n, rank);
    cudaStream_t stream = new_stream();
    float *x = device_floats(COUNT, 1), *y = device_floats(COUNT, (float)rank);
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
    OK(cudaStreamSynchronize(stream));
    HOLDS(x, COUNT, (float)n);
    HOLDS(y, COUNT, 1);
    if (rank == 2) {
        OK(ncclRecv(x, COUNT, ncclFloat, 0, comm, stream));
        for (double end = seconds() + 1; seconds() < end;
             rest()) // the time in which to miss rank 1
            REFUSED(cudaErrorNotReady, cudaStreamQuery(stream));
        post(GO);
        OK(cudaStreamSynchronize(stream));
        HOLDS(x, COUNT, 1);
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

static void a_rank_may_leave_when_it_is_not_needed(void **state) {
    (void)state;
    for (int times = 0; times < 2; times++) {
        for (int i = 0; i < 4; i++) {
            leaving_ranks = 2 + i / 2;
            says_farewell = i % 2;
            start_ranks(leaving_ranks, leave_early, 0);
        }
        finish_ranks();
    }
}

static void a_rank_may_leave_its_host(void **state) {
    (void)state;
    for (int times = 0; times < 2; times++) {
        for (int i = 0; i < 6; i++) {
            const char *const hosts[] = {"ab", "abc", "aab"};
            leaving_ranks = (int)strlen(hosts[i / 2]);
            says_farewell = i % 2;
            set_hosts(hosts[i / 2]);
            start_ranks(leaving_ranks, leave_early, 0);
        }
        finish_ranks();
    }
}

// A rank that ends while its own collective still waits ends at once, and is missed.
static void leave_from_inside(int rank) {
    ncclComm_t comm = join(2, rank);
    float *x = device_floats(100, 1);
    barrier(2); // who made the id must not leave before all have joined
    if (rank == 0) {
        OK(ncclAllReduce(x, x, 100, ncclFloat, ncclSum, comm, NULL));
        exit(0);
    }
    await_death(0);
    OK(ncclAllGather(x, x, 50, ncclFloat, comm, NULL)); // not what rank 0 was in
    REFUSED(cudaErrorLaunchFailure, cudaStreamSynchronize(NULL));
    OK(ncclCommAbort(comm));
}

// A handler registered before the device's own runs when the device has ended already.
static ncclComm_t destroyed_at_exit;

static void destroy_at_exit(void) {
    OK(ncclCommDestroy(destroyed_at_exit));
}

static void leave_and_destroy(int rank) {
    if (rank == 0)
        atexit(destroy_at_exit);
    ncclComm_t comm = destroyed_at_exit = join(2, rank);
    float *x = device_floats(100, 1);
    barrier(2);
    if (rank == 0) {
        for (int times = 0; times < 2; times++) // neither can end
            OK(ncclAllReduce(x, x, 100, ncclFloat, ncclSum, comm, NULL));
        meeting->killed_at = seconds();
        exit(0);
    }
    await_death(0);
    CHECK(seconds() - meeting->killed_at < 5 || SANITIZED, "took %g s",
          seconds() - meeting->killed_at);
    OK(ncclCommAbort(comm));
}

static void exit_does_not_wait_for_the_peers(void **state) {
    (void)state;
    run_ranks(2, leave_from_inside, 0);
    run_ranks(2, leave_and_destroy, 0);
}

// Abort.

static void *abort_it(void *comm) {
    await(CALLED, 2);
    meeting->killed_at = seconds();
    OK(ncclCommAbort(comm));
    return NULL;
}

// Rank 2 stays away, so ranks 0 and 1 give up and go on without it.
static void abort_and_go_on(int rank) {
    ncclComm_t comm = join(3, rank);
    cudaStream_t stream = new_stream();
    pthread_t other;
    float *x = device_floats(5000, 1);
    if (rank < 2) {
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, stream));
        OK(pthread_create(&other, NULL, abort_it, comm));
        post(CALLED);
        cudaStreamSynchronize(stream); // may return anything, but soon
        OK(pthread_join(other, NULL));
        double took = seconds() - meeting->killed_at;
        CHECK(took < 1 || SANITIZED, "took %g s", took);
        cudaGetLastError();
        set_floats(x, 5000, 2);
        comm = join(2, rank);
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, stream));
        OK(cudaStreamSynchronize(stream));
        HOLDS(x, 5000, 4);
        post(DONE);
    }
    await(DONE, 2);
    OK(ncclCommAbort(comm));
}

// What blocks a host thread ends as well.
static void abort_a_split(int rank) {
    ncclComm_t comm = join(2, rank), part = NULL;
    pthread_t other;
    if (rank == 0) {
        OK(pthread_create(&other, NULL, abort_it, comm));
        post(CALLED);
        post(CALLED);
        CHECK(ncclCommSplit(comm, 0, 0, &part, NULL), "split by one of two");
        CHECK(seconds() - meeting->killed_at < 1 || SANITIZED, "took %g s",
              seconds() - meeting->killed_at);
        OK(pthread_join(other, NULL));
        post(DONE);
    }
    await(DONE, 1);
    if (rank == 1)
        OK(ncclCommAbort(comm));
}

static void abort_a_part_in_the_making(int rank) {
    ncclComm_t comm = join(2, rank), part = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (rank == 0) {
        REFUSED(ncclInProgress, ncclCommSplit(comm, 0, 0, &part, &config)); // rank 1 does not
        CHECK(part, "no communicator");
        double begun = seconds();
        OK(ncclCommAbort(part));
        CHECK(seconds() - begun < 1 || SANITIZED, "took %g s", seconds() - begun);
        post(DONE);
    }
    await(DONE, 1);
    OK(ncclCommAbort(comm));
}

// After a death nothing runs until the communicator is aborted; then the rest goes on.
static void survive(int rank) {
    ncclComm_t comm = join(3, rank);
    float *x = device_floats(5000, (float)rank), *y = device_floats(5000, 0), back = -1;
    cudaStream_t stream = new_stream(), other = new_stream();
    barrier(3);
    if (rank == 1)
        raise(SIGKILL);
    OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, stream));
    FAILS(comm, stream, ncclRemoteError, "rank 1");
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
    OK(cudaStreamSynchronize(stream));
    HOLDS(x, 5000, 2);
    OK(ncclCommDestroy(comm));
}

static void aborted_ranks_go_on_without_the_others(void **state) {
    (void)state;
    start_ranks(3, abort_and_go_on, 0);
    start_ranks(3, survive, 1u << 1);
    start_ranks(2, abort_a_split, 0);
    start_ranks(2, abort_a_part_in_the_making, 0);
    finish_ranks();
}

// Mistakes that all ranks make together, or one of them.

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
    float *x = device_floats(3000, 1), *y = device_floats(3000, 0);
    double begun = seconds();
    OK(call(c->which, x, y, c->count, c->type, c->op, c->root, comm, NULL));
    cudaError_t error = cudaStreamSynchronize(NULL);
    CHECK(error == cudaErrorLaunchFailure, "different %s gave %d", mismatch->name, error);
    CHECK(seconds() - begun < 5 || SANITIZED, "different %s told after %g s", mismatch->name,
          seconds() - begun);
    FAILS(comm, NULL, ncclInvalidUsage, mismatch->words[0], mismatch->words[1], "rank");
    barrier(n); // so that no rank is told of the end of another instead
    OK(ncclCommAbort(comm));
}

static void differences_are_told(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mismatches / sizeof *mismatches; i++) {
        mismatch = &mismatches[i];
        mismatch_ranks = mismatch->call[0].which == SEND_RECV ? 2 : 2 + (int)i % 2;
        run_ranks(mismatch_ranks, call_differently, 0);
    }
}

// To who polls, a failed call is not under way for ever.
static void poll_for_a_failure(int rank) {
    ncclComm_t comm = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    OK(cudaSetDevice(rank));
    float *x = device_floats(100, 1);
    UNDER_WAY(ncclCommInitRankConfig(&comm, 2, common_id(0, rank == 0), rank, &config));
    OK(settle(comm));
    UNDER_WAY(ncclAllReduce(x, x, 10 + (size_t)rank, ncclFloat, ncclSum, comm, NULL));
    FAILS(comm, NULL, ncclInvalidUsage, "count 10", "count 11");
    REFUSED(ncclInvalidUsage, ncclAllReduce(x, x, 10, ncclFloat, ncclSum, comm, NULL));
    REFUSED(ncclInvalidUsage, settle(comm));
    barrier(2);
    OK(ncclCommAbort(comm));
}

// Without a group a send ends when it is received, so neither rank gets to its receive.
static void send_first(int rank) {
    setenv("CPU_DEVICE_TIMEOUT", "1", 1);
    ncclComm_t comm = join(2, rank);
    float *x = device_floats(10, 1), *y = device_floats(10, 0);
    barrier(2);
    OK(ncclSend(x, 10, ncclFloat, 1 - rank, comm, NULL));
    OK(ncclRecv(y, 10, ncclFloat, 1 - rank, comm, NULL));
    FAILS(comm, NULL, ncclInvalidUsage, "waits in Send (count 10");
    HOLDS(y, 10, 0);
    barrier(2);
    OK(ncclCommAbort(comm));
}

static void failures_that_are_easily_missed_are_told(void **state) {
    (void)state;
    run_ranks(2, poll_for_a_failure, 0);
    run_ranks(2, send_first, 0);
}

// Rank 0 stays away for longer than CPU_DEVICE_TIMEOUT, doing nothing or in the wrong communicator.
static int is_elsewhere;

static void stay_away(int rank) {
    setenv("CPU_DEVICE_TIMEOUT", rank ? "1" : "20", 1);
    ncclComm_t comm = join(3, rank), elsewhere = join(3, rank);
    cudaStream_t stream = new_stream();
    float *x = device_floats(512, 1);
    char own[100];
    snprintf(own, sizeof own, "rank %d waits in AllReduce (count 512", rank);
    if (rank == 0) {
        if (is_elsewhere) // for longer than the others wait
            OK(ncclBroadcast(x, x, 100, ncclFloat, 1, elsewhere, stream));
        post(ENTERED);
        await(DONE, 2);
    } else {
        await(ENTERED, 1);
        double begun = seconds();
        OK(ncclAllReduce(x, x, 512, ncclFloat, ncclSum, comm, stream));
        REFUSED(cudaErrorLaunchFailure, cudaStreamSynchronize(stream));
        double took = seconds() - begun;
        CHECK((took > 0.5 && took < 5) || SANITIZED, "told after %g s", took);
        FAILS(comm, stream, ncclInvalidUsage, "waits in AllReduce (count 512", "rank 0",
              is_elsewhere ? "in Broadcast" : "no collective");
        post(DONE);
        await(DONE, 2);
    }
    OK(ncclCommAbort(comm));
    OK(ncclCommAbort(elsewhere));
}

static void a_rank_that_stays_away_is_told(void **state) {
    (void)state;
    for (is_elsewhere = 0; is_elsewhere < 2; is_elsewhere++)
        start_ranks(3, stay_away, 0);
    finish_ranks();
}

// Ranks that do not find together.

static void join_in_vain(int rank) {
    (void)rank;
    setenv("CPU_DEVICE_TIMEOUT", "1", 1);
    ncclComm_t comm = NULL;
    ncclUniqueId id = common_id(0, 1);
    double begun = seconds();
    ncclResult_t result = ncclCommInitRank(&comm, 2, id, 0);
    CHECK(result != ncclSuccess && result != ncclInProgress, "returned %d", result);
    CHECK(seconds() - begun < 10, "took %g s", seconds() - begun);
    CHECK(strstr(ncclGetLastError(NULL), "1"), "says %s", ncclGetLastError(NULL));
    comm = join(1, 0);
    OK(ncclCommDestroy(comm));
}

static void share_a_device(int rank) {
    ncclComm_t comm = NULL;
    OK(cudaSetDevice(1));
    REFUSED(ncclInvalidUsage, ncclCommInitRank(&comm, 3, common_id(0, rank == 0), rank));
    CHECK(strstr(ncclGetLastError(NULL), "Duplicate GPU detected"), "says %s",
          ncclGetLastError(NULL));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    UNDER_WAY(ncclCommInitRankConfig(&comm, 3, common_id(1, rank == 0), rank, &config));
    REFUSED(ncclInvalidUsage, settle(comm));
    OK(ncclCommAbort(comm));
    OK(cudaSetDevice(rank));
    next_slot = 2;
    comm = join(3, rank);
    CHECK(sum_over(comm, 1) == 3, "wrong sum");
    OK(ncclCommDestroy(comm));
}

static void see_one_device(int rank) {
    setenv("CUDA_VISIBLE_DEVICES", rank ? "2" : "1", 1);
    ncclComm_t comm = join_from_device(2, rank);
    CHECK(sum_over(comm, 1) == 2, "wrong sum");
    OK(ncclCommDestroy(comm));
}

static void two_ranks_need_two_devices(void **state) {
    (void)state;
    run_ranks(3, share_a_device, 0);
    run_ranks(2, see_one_device, 0);
}

static void a_rank_that_never_joins_is_told(void **state) {
    (void)state;
    run_ranks(1, join_in_vain, 0);
}

// The time to meet begins when the first rank comes.
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

static void late_ranks_are_waited_for(void **state) {
    (void)state;
    run_ranks(2, join_late, 0);
}

// Two that both say they are rank 0, and two that do not agree on how many there are.
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

static void ranks_that_disagree_are_told(void **state) {
    (void)state;
    for (disagree_on_size = 0; disagree_on_size < 2; disagree_on_size++)
        run_ranks(2, disagree, 0);
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
    float *x = device_floats(512, 1), *y = device_floats(1024, 1), on_host[512] = {0};
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
    float *scalar = device_floats(1, 2), *pinned = NULL; // the latter is visible to both sides
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

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    run_ranks(2, pass_wrong_arguments, 0);
}

static void ask_this_and_that(int rank) {
    (void)rank;
    int version = 0;
    void *memory = NULL, *handle = NULL;
    OK(ncclGetVersion(&version));
    CHECK(version == NCCL_VERSION_CODE, "version %d", version);
    for (int result = 0; result < ncclNumResults; result++)
        CHECK(*ncclGetErrorString((ncclResult_t)result), "no text for %d", result);
    CHECK(!strcmp(ncclGetErrorString(ncclSuccess), "no error"), "%s",
          ncclGetErrorString(ncclSuccess));
    CHECK(ncclGetErrorString((ncclResult_t)99), "no text");
    ncclComm_t comm = join(1, 0);
    OK(ncclMemAlloc(&memory, 4000));
    OK(ncclCommRegister(comm, memory, 4000, &handle));
    set_floats(memory, 1000, 5);
    OK(ncclAllReduce(memory, memory, 1000, ncclFloat, ncclSum, comm, NULL));
    OK(cudaStreamSynchronize(NULL));
    HOLDS(memory, 1000, 5);
    OK(ncclCommDeregister(comm, handle));
    OK(ncclMemFree(memory));
    CHECK(!cpu_view(memory, 1), "the memory was not freed");
    OK(ncclCommDestroy(comm));
}

static void small_calls_work(void **state) {
    (void)state;
    run_ranks(1, ask_this_and_that, 0);
}

// Ranks on several hosts.

static const char *const placements[] = {"ab", "abc", "abcd", "aabb", "abab", "abbb"};
enum { PLACEMENTS = sizeof placements / sizeof *placements };

static void every_collective_between_hosts(void **state) {
    (void)state;
    for (int i = 0; i < PLACEMENTS; i++) {
        set_hosts(placements[i]);
        sweep_ranks((int)strlen(placements[i]), 1, 150);
    }
}

static void order_and_groups_between_hosts(void **state) {
    (void)state;
    for (int i = 0; i < PLACEMENTS; i++) {
        set_hosts(placements[i]);
        group_ranks = summing_ranks = (int)strlen(placements[i]);
        run_ranks(group_ranks, sum_in_order, 0);
        run_ranks(group_ranks, send_in_groups, 0);
    }
    set_hosts("ab");
    run_ranks(2, use_two_streams, 0);
    run_ranks(2, use_two_communicators, 0);
    run_ranks(2, call_many_times, 0);
    run_ranks(2, send_messages, 0);
    run_ranks(2, mix_in_a_group, 0);
    run_ranks(2, poll_for_everything, 0);
    run_ranks(2, drive_two_of_four, 0);
    set_hosts("aabb");
    run_ranks(4, split_four, 0);
    run_ranks(4, split_both_ways, 0);
    set_hosts("aab");
    run_ranks(3, call_early, 0);
    run_ranks(3, call_several_in_a_group, 0);
}

static void failures_between_hosts(void **state) {
    (void)state;
    for (int i = 0; i < PLACEMENTS; i++) {
        int n = (int)strlen(placements[i]);
        set_hosts(placements[i]);
        start_death(ALL_REDUCE, n, i % n, INSIDE);
        start_death(BROADCAST, n, (i + 1) % n, INSIDE);
        start_death(SEND_RECV, n, (i + 2) % n, INSIDE);
        start_death(ALL_GATHER, n, 0, BEFORE);
        start_death(REDUCE_SCATTER, n, n - 1, WHILE_OTHERS_WAIT);
        mismatch = &mismatches[i];
        mismatch_ranks = n;
        start_ranks(n, call_differently, 0);
        finish_ranks();
    }
    set_hosts("abc");
    start_ranks(3, abort_and_go_on, 0);
    start_ranks(3, survive, 1u << 1);
    set_hosts("aab");
    for (is_elsewhere = 0; is_elsewhere < 2; is_elsewhere++)
        start_ranks(3, stay_away, 0);
    finish_ranks();
}

static void use_device_0(int rank) {
    ncclComm_t comm = join_from_device(2, rank);
    CHECK(sum_over(comm, 1) == 2, "wrong sum");
    OK(ncclCommDestroy(comm));
}

static void two_hosts_have_a_device_0_each(void **state) {
    (void)state;
    set_hosts("ab");
    run_ranks(2, use_device_0, 0);
}

static char agreed[40];

static void meet_as_agreed(int rank) {
    int n = 3;
    setenv("NCCL_COMM_ID", agreed, 1);
    OK(cudaSetDevice(rank));
    for (int times = 0; times < 3; times++) { // the port can be taken again at once
        ncclUniqueId id;
        ncclComm_t comm = NULL;
        OK(ncclGetUniqueId(&id));
        meeting->id[rank] = id;
        barrier(n);
        CHECK(!memcmp(&meeting->id[0], &id, sizeof id), "another id than rank 0");
        OK(ncclCommInitRank(&comm, n, id, rank));
        CHECK(sum_over(comm, (float)rank) == 3, "wrong sum");
        OK(ncclCommDestroy(comm));
        barrier(n);
    }
}

static void agree_on_a_free_port(void) { // of those that the kernel does not hand out
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 10000 + getpid() * 16 % 22000;
    do
        address.sin_port = htons((uint16_t)++port);
    while (bind(s, (struct sockaddr *)&address, sizeof address) && port < 32700);
    close(s);
    snprintf(agreed, sizeof agreed, "127.0.0.1:%d", port);
}

static void ranks_meet_where_comm_id_says(void **state) {
    (void)state;
    agree_on_a_free_port();
    run_ranks(3, meet_as_agreed, 0);
    set_hosts("abb");
    agree_on_a_free_port();
    run_ranks(3, meet_as_agreed, 0);
}

// Without barriers: nobody may find the meeting of the communicator before.
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

static void ranks_meet_again_at_once(void **state) {
    (void)state;
    agree_on_a_free_port();
    run_ranks(3, meet_in_a_row, 0);
}

static void ask_for_a_missing_interface(int rank) {
    (void)rank;
    ncclUniqueId id;
    setenv("NCCL_SOCKET_IFNAME", "nosuchinterface", 1);
    ncclResult_t result = ncclGetUniqueId(&id);
    CHECK(result != ncclSuccess, "an id without an address");
    CHECK(strstr(ncclGetLastError(NULL), "nosuchinterface"), "says %s", ncclGetLastError(NULL));
}

static void a_missing_interface_is_told(void **state) {
    (void)state;
    run_ranks(1, ask_for_a_missing_interface, 0);
}

// Nothing is left of a communicator that is gone.

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
    for (double end = seconds() + 5; measure() > most && seconds() < end;)
        rest();
    return measure() <= most;
}

static int threads(void) {
    return entries("/proc/self/task");
}

static int descriptors(void) {
    return entries("/proc/self/fd");
}

static void use_briefly(int n, int rank) {
    ncclComm_t comm = join(n, rank), part = NULL;
    OK(ncclCommSplit(comm, rank % 2, rank, &part, NULL));
    CHECK(sum_over(comm, 1) == (float)n, "wrong sum");
    CHECK(sum_over(part, 1) >= 1, "wrong sum");
    if (rank % 2)
        OK(ncclCommFinalize(comm));
    OK(ncclCommDestroy(comm));
    OK(ncclCommDestroy(part));
}

static void come_and_go(int rank) {
    enum { CYCLES = 50, N = 3 };
    size_t left_before, left, total;
    for (int i = 0; i < 3; i++) // so that whatever is made once has been made
        use_briefly(N, rank);
    barrier(N);
    OK(cudaMemGetInfo(&left_before, &total));
    // What was made once may still be going: the least of some looks.
    int least_threads = threads(), least_descriptors = descriptors(), maps = mappings();
    for (double end = seconds() + 0.2; seconds() < end; rest()) {
        int now = threads(), open = descriptors();
        least_threads = now < least_threads ? now : least_threads;
        least_descriptors = open < least_descriptors ? open : least_descriptors;
    }
    for (int i = 0; i < CYCLES; i++)
        use_briefly(N, rank);
    CHECK(settles_at(descriptors, least_descriptors), "%d descriptors, not %d", descriptors(),
          least_descriptors);
    CHECK(settles_at(threads, least_threads), "%d threads, not %d", threads(), least_threads);
    CHECK(mappings() <= maps + CYCLES / 2 || SANITIZED, "%d mappings, not %d", mappings(), maps);
    OK(cudaMemGetInfo(&left, &total));
    CHECK(left == left_before, "%zu bytes of device memory are gone", left_before - left);
    barrier(N);
}

// Those that are aborted, after a failure or not, go as well.
static void come_and_fail(int rank) {
    enum { CYCLES = 20, N = 2 };
    float *x = device_floats(100, 1);
    int least_threads = 0, least_descriptors = 0;
    for (int i = 0; i < CYCLES; i++) {
        ncclComm_t comm = join(N, rank);
        OK(cudaSetDevice(0));
        OK(cudaSetDevice(rank));
        if (i % 2) {
            OK(ncclAllReduce(x, x, 10 + (size_t)rank, ncclFloat, ncclSum, comm, NULL));
            REFUSED(cudaErrorLaunchFailure, cudaStreamSynchronize(NULL));
        }
        barrier(N);
        OK(ncclCommAbort(comm));
        barrier(N);
        cudaGetLastError();
        OK(cudaStreamSynchronize(NULL));
        if (i == 3)
            least_threads = threads(), least_descriptors = descriptors();
    }
    CHECK(settles_at(descriptors, least_descriptors), "%d descriptors, not %d", descriptors(),
          least_descriptors);
    CHECK(settles_at(threads, least_threads), "%d threads, not %d", threads(), least_threads);
}

static void nothing_of_a_communicator_is_left(void **state) {
    (void)state;
    run_ranks(3, come_and_go, 0);
    set_hosts("aab");
    run_ranks(3, come_and_go, 0);
    set_hosts(NULL);
    run_ranks(2, come_and_fail, 0);
    set_hosts("ab");
    run_ranks(2, come_and_fail, 0);
}

// More than 2^31 bytes.

static uint8_t large_pattern(size_t i, int rank) { // the same for whole blocks of 1 MB
    return (uint8_t)((i >> 20) * 7 + (size_t)rank * 31 + 1);
}

static void fill_large(uint8_t *there, size_t from, size_t to, int rank) {
    for (size_t i = from, end; i < to; i = end) {
        end = ((i >> 20) + 1) << 20;
        end = end < to ? end : to;
        memset(there + i, large_pattern(i, rank), end - i);
    }
}

static void check_large(const uint8_t *there, size_t count, int sums) {
    for (size_t i = 0, end; i < count; i = end) {
        end = ((i >> 20) + 1) << 20;
        end = end < count ? end : count;
        uint8_t wanted = (uint8_t)(large_pattern(i, 0) + (sums ? large_pattern(i, 1) : 0));
        CHECK(there[i] == wanted && there[end - 1] == wanted &&
                  !memcmp(there + i, there + i + 1, end - 1 - i),
              "%s: the megabyte at %zu is wrong", sums ? "AllReduce" : "AllGather", i);
    }
}

static void move_large(int rank) {
    setenv("CPU_DEVICE_MEMORY", "5G", 1);
    ncclComm_t comm = join(2, rank);
    const size_t count = ((size_t)1 << 31) + 3, half = ((size_t)1 << 30) + 2;
    uint8_t *x = device_bytes(2 * half + GUARD), *there = view(x, 2 * half + GUARD);
    fill_large(there, 0, count, rank);
    OK(ncclAllReduce(x, x, count, ncclUint8, ncclSum, comm, NULL));
    OK(cudaStreamSynchronize(NULL));
    check_large(there, count, 1);
    CHECK(there[count] == 0xff, "wrote beyond the end");
    memset(there, 0, 2 * half);
    fill_large(there, (size_t)rank * half, (size_t)(rank + 1) * half, 0);
    OK(ncclAllGather(x + (size_t)rank * half, x, half, ncclUint8, comm, NULL));
    OK(cudaStreamSynchronize(NULL));
    check_large(there, 2 * half, 0);
    CHECK(there[2 * half] == 0xff, "wrote beyond the end");
    OK(ncclCommDestroy(comm));
}

static long available_megabytes(void) {
    long kilobytes = 0;
    char line[200];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %ld", &kilobytes) == 1)
            break;
    if (f)
        fclose(f);
    return kilobytes / 1024;
}

static void more_than_2_31_bytes(void **state) {
    (void)state;
    if (SANITIZED || available_megabytes() < 12000) {
        print_message("ok # SKIP more_than_2_31_bytes: %s\n",
                      SANITIZED ? "not under a sanitizer" : "needs 12 GB");
        return; // cmocka's skip() says "not ok", which tests/run.sh counts as a failure
    }
    run_ranks(2, move_large, 0);
}

// For tests/e2e/nccl.bats: ranks that sum until they are killed, and say their numbers once they
// do.
static int endless_ranks;

static void sum_for_ever(int rank) {
    ncclComm_t comm = join(endless_ranks, rank);
    for (long times = 0;; times++) {
        CHECK(sum_over(comm, 1) == (float)endless_ranks, "wrong sum");
        if (times == 10)
            printf("%d\n", getpid()), fflush(stdout);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, look_around, reset_hosts)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(every_case_on_1_rank),
        TEST(every_case_on_2_ranks),
        TEST(every_case_on_3_ranks),
        TEST(every_case_on_4_ranks),
        TEST(chaos_changes_nothing),
        TEST(sums_of_16_bit_floats_are_rounded_once),
        TEST(sums_may_be_scaled),
        TEST(sums_are_taken_in_the_order_of_the_ranks),
        TEST(buffers_that_are_not_used_may_be_null),
        TEST(calls_return_before_the_peers_call),
        TEST(communicators_do_not_wait_for_each_other),
        TEST(two_streams_keep_the_order_of_the_calls),
        TEST(events_order_collectives),
        TEST(many_calls_may_be_under_way),
        TEST(groups_exchange),
        TEST(messages_keep_their_order),
        TEST(groups_hold_several_collectives),
        TEST(groups_span_streams),
        TEST(one_thread_drives_several_devices),
        TEST(each_thread_drives_a_device),
        TEST(communicators_are_split),
        TEST(failing_groups_leave_nothing),
        TEST(communicators_may_be_polled),
        TEST(a_stopped_rank_is_waited_for),
        TEST(death_in_any_collective_is_told),
        TEST(death_before_a_collective_is_told),
        TEST(death_is_told_though_a_child_lives),
        TEST(a_rank_may_leave_when_it_is_not_needed),
        TEST(a_rank_may_leave_its_host),
        TEST(exit_does_not_wait_for_the_peers),
        TEST(aborted_ranks_go_on_without_the_others),
        TEST(differences_are_told),
        TEST(failures_that_are_easily_missed_are_told),
        TEST(a_rank_that_stays_away_is_told),
        TEST(two_ranks_need_two_devices),
        TEST(a_rank_that_never_joins_is_told),
        TEST(late_ranks_are_waited_for),
        TEST(ranks_that_disagree_are_told),
        TEST(wrong_arguments_are_refused),
        TEST(small_calls_work),
        TEST(every_collective_between_hosts),
        TEST(order_and_groups_between_hosts),
        TEST(failures_between_hosts),
        TEST(two_hosts_have_a_device_0_each),
        TEST(ranks_meet_where_comm_id_says),
        TEST(ranks_meet_again_at_once),
        TEST(a_missing_interface_is_told),
        TEST(nothing_of_a_communicator_is_left),
        TEST(more_than_2_31_bytes),
    };
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); // several ranks die on purpose
    const char *ours[] = {"CPU_DEVICE_MEMORY",    "CPU_DEVICE_CHAOS", "CPU_DEVICE_TIMEOUT",
                          "CUDA_VISIBLE_DEVICES", "NCCL_COMM_ID",     "NCCL_HOSTID"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        unsetenv(ours[i]);
    setenv("CPU_DEVICES", "8", 1);
    setenv("CPU_DEVICE_TIMEOUT", SANITIZED ? "90" : "30",
           1); // says more than being killed for hanging
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("OMP_NUM_THREADS", "2", 0);
    open_meetings();
    fill_tables();
    if (argc > 2 && !strcmp(argv[1], "forever")) {
        endless_ranks = atoi(argv[2]);
        set_hosts(argv[3]);
        run_ranks(endless_ranks, sum_for_ever, 0);
        return 1;
    }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]); // a pattern, such as 'death*'
    return cmocka_run_group_tests(tests, NULL, NULL);
}
