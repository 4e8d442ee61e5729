// Step 6: what is inside ncclAllReduce. Part one sums over the ranks with it, part two does the same by hand
// and counts the bytes, part three times it and its relatives over sizes, in the table of nccl-tests. Every
// element of every result is checked. Readable any time after step 2.
#include "../common/error.h"
#include "../common/kernels.h"
#include "../common/options.h"
#include "../common/report.h"
#include <errno.h>
#include <math.h>
#include <nccl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NCCL_CHECK(call)                                                                                     \
    do {                                                                                                     \
        ncclResult_t r_ = (call);                                                                            \
        if (r_ != ncclSuccess)                                                                               \
            fail("%s:%d: %s: %s (%s)", __FILE__, __LINE__, #call, ncclGetErrorString(r_),                    \
                 ncclGetLastError(NULL));                                                                    \
    } while (0)

static struct {
    const char *nproc, *op, *min_bytes, *max_bytes, *csv;
    long count, factor, warmup, iters, check_only;
} opt;

static const struct option_spec options[] = {
    {"nproc", OPTION_TEXT, &opt.nproc, "gpu", 0, 0, "number of ranks to start, or: gpu, one for each"},
    {"count", OPTION_INT, &opt.count, "1000003", 1, 1e9, "floats of parts one and two"},
    {"op", OPTION_TEXT, &opt.op, "allreduce", 0, 0, "of part three, such as allgather, or: all"},
    {"min-bytes", OPTION_TEXT, &opt.min_bytes, "8", 0, 0, "first size of part three, such as 8, 1K, 64M, 1G"},
    {"max-bytes", OPTION_TEXT, &opt.max_bytes, "16M", 0, 0, "its last size"},
    {"factor", OPTION_INT, &opt.factor, "2", 2, 1e6, "from one size to the next"},
    {"warmup", OPTION_INT, &opt.warmup, "5", 0, 1e6, "calls before the clock starts"},
    {"iters", OPTION_INT, &opt.iters, "20", 1, 1e6, "calls that are timed"},
    {"check-only", OPTION_INT, &opt.check_only, "0", 0, 1, "1: all operations to 64K, and no times"},
    {"csv", OPTION_TEXT, &opt.csv, NULL, 0, 0, "file for the table of part three"},
};

struct world {
    int rank, size;
    ncclComm_t comm;
    cudaStream_t stream;
    float *in, *out, *incoming; // on the device; incoming: what another rank sent, before it is added
    float *host;                // as long as each of those
    double *numbers, *all;      // one from each rank, on the device and on the host
    size_t sent;                // bytes that this rank gave to ncclSend
    double wrong;               // elements and byte counts of all ranks so far
};

// Returns the sum of one number from each rank, and has the numbers themselves in w->all. Also a barrier:
// nobody leaves before all have come. (cudaMemcpy waits for the stream, as it was made by cudaStreamCreate.)
static double sum_over_ranks(struct world *w, double mine) {
    double *slot = w->numbers + w->rank, sum = 0;
    CUDA_CHECK(cudaMemcpy(slot, &mine, sizeof mine, cudaMemcpyHostToDevice));
    NCCL_CHECK(ncclAllGather(slot, w->numbers, 1, ncclDouble, w->comm, w->stream));
    CUDA_CHECK(cudaMemcpy(w->all, w->numbers, w->size * sizeof mine, cudaMemcpyDeviceToHost));
    for (int rank = 0; rank < w->size; rank++)
        sum += w->all[rank];
    return sum;
}

// Part one, and all that most examples of an all-reduce do.
static void sum_rank_numbers(struct world *w, size_t count) {
    double want = w->size * (w->size - 1) / 2, wrong = 0;
    for (size_t i = 0; i < count; i++)
        w->host[i] = w->rank;
    CUDA_CHECK(cudaMemcpy(w->in, w->host, count * sizeof(float), cudaMemcpyHostToDevice));
    NCCL_CHECK(ncclAllReduce(w->in, w->out, count, ncclFloat, ncclSum, w->comm, w->stream));
    CUDA_CHECK(cudaMemcpy(w->host, w->out, count * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++)
        wrong += w->host[i] != want;
    printf("1. ncclAllReduce of %zu floats on each rank, all equal to the rank's number\n", count);
    sum_over_ranks(w, w->host[0]);
    for (int rank = 0; rank < w->size; rank++)
        printf("   rank %d: %d before, %g after\n", rank, rank, w->all[rank]);
    wrong = sum_over_ranks(w, wrong);
    printf("   expected %d * %d / 2 = %g everywhere: %.0f wrong\n", w->size, w->size - 1, want, wrong);
    w->wrong += wrong;
}

// The operations, all in one form: from in to out, both on the device, which may be the same. count is the
// number of floats in the shorter one.
static void all_reduce(struct world *w, float *in, float *out, size_t count) {
    NCCL_CHECK(ncclAllReduce(in, out, count, ncclFloat, ncclSum, w->comm, w->stream));
}

static void all_gather(struct world *w, float *in, float *out, size_t count) {
    NCCL_CHECK(ncclAllGather(in, out, count, ncclFloat, w->comm, w->stream));
}

static void reduce_scatter(struct world *w, float *in, float *out, size_t count) {
    NCCL_CHECK(ncclReduceScatter(in, out, count, ncclFloat, ncclSum, w->comm, w->stream));
}

static void broadcast(struct world *w, float *in, float *out, size_t count) {
    NCCL_CHECK(ncclBroadcast(in, out, count, ncclFloat, 0, w->comm, w->stream));
}

static void send(struct world *w, int peer, const float *from, size_t count) {
    NCCL_CHECK(ncclSend(from, count, ncclFloat, peer, w->comm, w->stream));
    w->sent += count * sizeof *from;
}

// To the next rank and from the previous one. In a group both happen at once; without it, all ranks would
// wait for somebody to receive.
static void send_receive(struct world *w, float *in, float *out, size_t count) {
    NCCL_CHECK(ncclGroupStart());
    send(w, (w->rank + 1) % w->size, in, count);
    NCCL_CHECK(ncclRecv(out, count, ncclFloat, (w->rank + w->size - 1) % w->size, w->comm, w->stream));
    NCCL_CHECK(ncclGroupEnd());
}

// sum += incoming. No kernel of the course has that name, but a descent at rate -1 without momentum is it;
// what is added serves as its own velocity.
static void add_incoming(struct world *w, float *sum, size_t count) {
    sgd_step(sum, w->incoming, w->incoming, count, -1, 0, w->stream);
}

// Everybody's first idea: rank 0 adds up what the others send, then sends the sum to each of them.
static void gather_broadcast(struct world *w, float *in, float *out, size_t count) {
    if (w->rank > 0) {
        send(w, 0, in, count);
        NCCL_CHECK(ncclRecv(out, count, ncclFloat, 0, w->comm, w->stream));
        return;
    }
    if (in != out)
        CUDA_CHECK(cudaMemcpyAsync(out, in, count * sizeof *in, cudaMemcpyDeviceToDevice, w->stream));
    for (int peer = 1; peer < w->size; peer++) {
        NCCL_CHECK(ncclRecv(w->incoming, count, ncclFloat, peer, w->comm, w->stream));
        add_incoming(w, out, count);
    }
    NCCL_CHECK(ncclGroupStart());
    for (int peer = 1; peer < w->size; peer++)
        send(w, peer, out, count);
    NCCL_CHECK(ncclGroupEnd());
}

// A vector is cut into as many equal chunks as there are ranks; the last may go on behind the vector's end,
// where all arrays have room, and where nobody looks.
static size_t chunk_size(const struct world *w, size_t count) {
    return (count + w->size - 1) / w->size;
}

// In every step each rank gives one chunk to the next rank: first its own, then always what it has just
// taken. In n-1 steps what comes in is added to what is there, until every rank has one chunk of the sum
// (that is a reduce-scatter); in n-1 more it replaces what is there (an all-gather).
static void ring(struct world *w, float *in, float *out, size_t count) {
    int n = w->size;
    size_t chunk = chunk_size(w, count);
    if (in != out)
        CUDA_CHECK(cudaMemcpyAsync(out, in, count * sizeof *in, cudaMemcpyDeviceToDevice, w->stream));
    for (int step = 0; step < 2 * (n - 1); step++) {
        float *give = out + chunk * ((w->rank - step + 2 * n) % n);
        float *take = out + chunk * ((w->rank - step - 1 + 2 * n) % n);
        int adding = step < n - 1;
        send_receive(w, give, adding ? w->incoming : take, chunk);
        if (adding)
            add_incoming(w, take, chunk);
    }
}

// The same two halves by NCCL.
static void scatter_gather(struct world *w, float *in, float *out, size_t count) {
    size_t chunk = chunk_size(w, count);
    float *mine = out + chunk * w->rank;
    reduce_scatter(w, in, mine, chunk);
    all_gather(w, mine, out, chunk);
    w->sent += 2 * (w->size - 1) * chunk * sizeof *in; // by the formula, as NCCL does not tell
}

static const struct operation {
    const char *name, *redop;
    int root, many_in, many_out; // many: count floats for each rank
    int trips;                   // of the data round a ring; 0: it does not go round
    void (*run)(struct world *w, float *in, float *out, size_t count);
} operations[] = {
    {"allreduce", "sum", -1, 0, 0, 2, all_reduce},
    {"gather+bcast", "sum", -1, 0, 0, 2, gather_broadcast},
    {"ring", "sum", -1, 0, 0, 2, ring},
    {"rs+ag", "sum", -1, 0, 0, 2, scatter_gather},
    {"allgather", "none", -1, 0, 1, 1, all_gather},
    {"reducescatter", "sum", -1, 1, 0, 1, reduce_scatter},
    {"broadcast", "none", 0, 0, 0, 0, broadcast},
    {"sendrecv", "none", -1, 0, 0, 0, send_receive},
};
enum { OPERATIONS = sizeof operations / sizeof *operations, ALL_REDUCES = 4 };

// Element i of a rank's in. Whole numbers, so that every order of summation gives the same float (up to 1000
// ranks), and no two ranks and few near-by places have the same, so that whatever is mixed up is wrong.
static float element(int rank, size_t i) {
    return i % 1009 + rank * (i % 13 + 1);
}

// What must be element i of this rank's out: the sum over ranks of one place, or somebody's element.
static float expected(const struct world *w, const struct operation *o, size_t count, size_t i) {
    int n = w->size;
    size_t place = o->many_in ? w->rank * count + i : i;
    if (!strcmp(o->redop, "sum"))
        return n * (place % 1009) + n * (n - 1) / 2 * (place % 13 + 1);
    if (o->many_out)
        return element(i / count, i % count);
    return element(o->root == 0 ? 0 : (w->rank + n - 1) % n, i);
}

// Runs the operation once, returns how many elements are wrong on all ranks, and leaves in w->sent the bytes
// that this rank sent.
static double check(struct world *w, const struct operation *o, float *in, float *out, size_t count) {
    size_t in_count = o->many_in ? count * w->size : count, out_count = o->many_out ? count * w->size : count;
    double wrong = 0;
    for (size_t i = 0; i < in_count; i++)
        w->host[i] = element(w->rank, i);
    CUDA_CHECK(cudaMemset(out, 0xff, out_count * sizeof *out)); // NaN: what is not written is wrong
    CUDA_CHECK(cudaMemcpy(in, w->host, in_count * sizeof *in, cudaMemcpyHostToDevice));
    w->sent = 0;
    o->run(w, in, out, count);
    CUDA_CHECK(cudaMemcpy(w->host, out, out_count * sizeof *out, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < out_count; i++)
        wrong += w->host[i] != expected(w, o, count, i);
    wrong = sum_over_ranks(w, wrong);
    w->wrong += wrong;
    return wrong;
}

// Seconds per call, the mean over the ranks (as in nccl-tests); NaN where no times are wanted.
static double mean_time(struct world *w, const struct operation *o, float *in, float *out, size_t count) {
    double start = 0;
    if (opt.check_only)
        return NAN;
    for (long i = -opt.warmup; i < opt.iters; i++) {
        if (i == 0) {
            sum_over_ranks(w, 0); // all start together
            start = seconds();
        }
        o->run(w, in, out, count);
    }
    CUDA_CHECK(cudaStreamSynchronize(w->stream));
    return sum_over_ranks(w, (seconds() - start) / opt.iters) / w->size;
}

// Part two: the all-reduce by hand, and what the ranks sent beside what the formulas say.
static void compare_by_hand(struct world *w, size_t count) {
    size_t n = w->size, size = count * sizeof(float), round_ring = 2 * (n - 1) * chunk_size(w, count) * sizeof(float);
    printf("\n2. The same by hand: S = %zu bytes on each of %zu ranks\n%-15s %12s %12s %12s %12s %9s %6s\n", size, n, "",
           "rank 0 sent", "formula", "others sent", "formula", "time(us)", "#wrong");
    for (const struct operation *o = operations; o < operations + ALL_REDUCES; o++) {
        int star = o->run == gather_broadcast;
        size_t formula[2] = {star ? (n - 1) * size : round_ring, star ? size : round_ring};
        double wrong = check(w, o, w->in, w->out, count), off = 0;
        sum_over_ranks(w, w->sent);
        printf("   %-12s", o->name);
        for (size_t rank = 0; rank < n; rank++) {
            off += w->all[rank] != formula[rank > 0] && o->run != all_reduce;
            if (rank < 2 && o->run == all_reduce)
                printf(" %12s %12s", "-", "-"); // NCCL does not tell
            else if (rank < 2)
                printf(" %12.0f %12zu", w->all[rank], formula[rank]);
        }
        double time = mean_time(w, o, w->in, w->in, count);
        printf(opt.check_only ? " %9s" : " %9.1f", ...);
    }
}
