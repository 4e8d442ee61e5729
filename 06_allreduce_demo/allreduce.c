// Step 6: how ncclAllReduce works. Part 1 adds the vectors of all ranks with ncclAllReduce. Part 2
// adds them with sends and receives, and counts the bytes. Part 3 times the collectives for many
// sizes, in a table like that of nccl-tests. The program checks every element of every result. You
// can read it at any time after step 2.
#include "02_multigpu_fork/nccl_check.h"
#include "06_allreduce_demo/start.h"
#include "common/base/error.h"
#include "common/base/minmax.h"
#include "common/base/options.h"
#include "common/device/device.h"
#include "common/device/spans.h"
#include "common/kernels/kernels.h"
#include "common/training/report.h"
#include <errno.h>
#include <math.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    const char *min_bytes, *max_bytes, *csv;
    long nproc, join_timeout, count, op, factor, warmup, iters, check_only;
    size_t smallest, largest; // min_bytes and max_bytes as numbers
} opt;

static const char *operation_name(int i);

static const struct option_spec options[] = {
    {"nproc", OPTION_INT, &opt.nproc, "gpu", 1, 1000, "number of ranks, or: gpu, for one per GPU"},
    {"join-timeout", OPTION_INT, &opt.join_timeout, "60", 1, 1e6,
     "seconds to wait for a rank that a launcher starts"},
    {"count", OPTION_INT, &opt.count, "1000003", 1, 1e9, "floats of parts 1 and 2"},
    {"op", OPTION_CHOICE, &opt.op, "allreduce", 0, 0, "operation of part 3", operation_name},
    {"min-bytes", OPTION_TEXT, &opt.min_bytes, "8", 0, 0,
     "first size in the table, such as 1K, 64M, 1G"},
    {"max-bytes", OPTION_TEXT, &opt.max_bytes, "16M", 0, 0, "last size in the table"},
    {"factor", OPTION_INT, &opt.factor, "2", 2, 1e6, "ratio of one size to the one before"},
    {"warmup", OPTION_INT, &opt.warmup, "5", 0, 1e6, "calls before the clock starts"},
    {"iters", OPTION_INT, &opt.iters, "20", 1, 1e6, "calls that are timed"},
    {"check-only", OPTION_FLAG, &opt.check_only, NULL, 0, 0,
     "check all operations up to 64K, without times"},
    {"csv", OPTION_TEXT | OPTION_OUTPUT, &opt.csv, "/dev/null", 0, 0, "file for the table"},
    {0},
};

static const struct option_table tables[] = {{.options = options}, {0}};

struct world {
    int rank, size;
    ncclComm_t comm;
    cudaStream_t stream;
    float *in, *out;       // vectors on the device
    float *incoming;       // on the device: received from another rank, and not yet added
    float *host;           // on the host; as long as each of the three
    double *numbers, *all; // one number of each rank, on the device and on the host
    size_t sent;           // bytes that this rank has passed to ncclSend
    double wrong;          // elements and byte counts that were wrong so far, on all ranks
};

// Returns the sum of one number from each rank, and sets w->all to these numbers. No rank returns
// before all ranks have called it. (cudaMemcpy waits for streams from cudaStreamCreate.) A device
// that computes nothing moves no numbers: those of the other ranks are then unknown (NAN), and the
// sum is the one of equal numbers.
static double sum_over_ranks(struct world *w, double mine) {
    double *slot = w->numbers + w->rank, sum = 0;
    CUDA_CHECK(cudaMemcpy(slot, &mine, sizeof mine, cudaMemcpyHostToDevice));
    NCCL_CHECK(ncclAllGather(slot, w->numbers, 1, ncclDouble, w->comm, w->stream));
    CUDA_CHECK(cudaMemcpy(w->all, w->numbers, w->size * sizeof mine, cudaMemcpyDeviceToHost));
    for (int rank = 0; rank < w->size; rank++) {
        if (!device_computes())
            w->all[rank] = rank == w->rank ? mine : NAN;
        sum += w->all[rank];
    }
    return device_computes() ? sum : w->size * mine;
}

// Returns the sum of the wrong elements that the ranks have found, or NAN if nothing was computed.
static double count_wrong(struct world *w, double mine) {
    double wrong = sum_over_ranks(w, device_computes() ? mine : NAN);
    w->wrong += wrong;
    return wrong;
}

// Prints a number in this format, and an unknown one as -, with the same width.
static void say_number(const char *format, double number) {
    if (isnan(number))
        say("%*s", atoi(format + 1), "-");
    else
        say(format, number);
}

// Part 1: the usual example of an all-reduce.
static void sum_rank_numbers(struct world *w, size_t count) {
    double before[w->size], want = w->size * (w->size - 1) / 2, wrong = 0;
    for (size_t i = 0; i < count; i++)
        w->host[i] = w->rank;
    sum_over_ranks(w, w->host[0]);
    memcpy(before, w->all, sizeof before);
    CUDA_CHECK(cudaMemcpy(w->in, w->host, count * sizeof(float), cudaMemcpyHostToDevice));
    NCCL_CHECK(ncclAllReduce(w->in, w->out, count, ncclFloat, ncclSum, w->comm, w->stream));
    CUDA_CHECK(cudaMemcpy(w->host, w->out, count * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++)
        wrong += w->host[i] != want;
    wrong = count_wrong(w, wrong);
    say("1. ncclAllReduce: %zu floats on each of %d rank%s, all of them the rank's number\n", count,
        w->size, PLURAL(w->size));
    sum_over_ranks(w, device_computes() ? w->host[0] : NAN);
    for (int rank = 0; rank < w->size; rank++) {
        say("   rank %d: before ", rank);
        say_number("%g", before[rank]);
        say(", after ");
        say_number("%g", w->all[rank]);
        say("\n");
    }
    say("   wanted: %d * %d / 2 = %g everywhere, #wrong ", w->size, w->size - 1, want);
    say_number("%.0f", wrong);
    say("\n");
}

// The operations have the same parameters. in and out are on the device, and may be the same array.
// count: number of floats in the shorter array.
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

// Sends in to the next rank, and receives out from the previous rank. The group runs both at the
// same time. Without the group, all ranks would send first, and wait forever for a receiver.
static void send_receive(struct world *w, float *in, float *out, size_t count) {
    NCCL_CHECK(ncclGroupStart());
    send(w, (w->rank + 1) % w->size, in, count);
    NCCL_CHECK(
        ncclRecv(out, count, ncclFloat, (w->rank + w->size - 1) % w->size, w->comm, w->stream));
    NCCL_CHECK(ncclGroupEnd());
}

// The simplest algorithm: rank 0 adds the vectors of all ranks, and then sends the sum to each
// rank.
static void gather_broadcast(struct world *w, float *in, float *out, size_t count) {
    if (w->rank > 0) {
        send(w, 0, in, count);
        NCCL_CHECK(ncclRecv(out, count, ncclFloat, 0, w->comm, w->stream));
        return;
    }
    if (in != out)
        CUDA_CHECK(
            cudaMemcpyAsync(out, in, count * sizeof *in, cudaMemcpyDeviceToDevice, w->stream));
    for (int peer = 1; peer < w->size; peer++) {
        NCCL_CHECK(ncclRecv(w->incoming, count, ncclFloat, peer, w->comm, w->stream));
        add_to(out, w->incoming, count, w->stream);
    }
    NCCL_CHECK(ncclGroupStart());
    for (int peer = 1; peer < w->size; peer++)
        send(w, peer, out, count);
    NCCL_CHECK(ncclGroupEnd());
}

// Divides the vector into n equal chunks. The last chunk may end after the vector, where the
// arrays have unused room. In each round, every rank sends one chunk to the next rank: first chunk
// number rank, and then always the chunk that it has just received. In the first n-1 rounds, a rank
// adds what it receives to its own chunk, and ends up with one chunk of the sum (a reduce-scatter).
// In the other n-1 rounds, it overwrites its own chunk (an all-gather).
static void ring(struct world *w, float *in, float *out, size_t count) {
    int n = w->size;
    size_t chunk = (count + n - 1) / n;
    if (in != out)
        CUDA_CHECK(
            cudaMemcpyAsync(out, in, count * sizeof *in, cudaMemcpyDeviceToDevice, w->stream));
    for (int round = 0; round < 2 * (n - 1); round++) {
        float *to_send = out + chunk * ((w->rank - round + 2 * n) % n);
        float *to_receive = out + chunk * ((w->rank - round - 1 + 2 * n) % n);
        int adding = round < n - 1;
        send_receive(w, to_send, adding ? w->incoming : to_receive, chunk);
        if (adding)
            add_to(to_receive, w->incoming, chunk, w->stream);
    }
}

// The same two halves with NCCL.
static void scatter_gather(struct world *w, float *in, float *out, size_t count) {
    size_t chunk = (count + w->size - 1) / w->size;
    reduce_scatter(w, in, out + chunk * w->rank, chunk);
    all_gather(w, out + chunk * w->rank, out, chunk);
    w->sent += 2 * (w->size - 1) * chunk * sizeof *in; // computed, because NCCL does not report it
}

static const struct operation {
    const char *name, *redop;
    int root, many_in, many_out; // many_in, many_out 1: the array has count floats for each rank
    int trips; // A trip around a ring of n ranks sends (n-1)/n of the data. 0: no ring, all data
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

static const char *operation_name(int i) {
    return i < OPERATIONS ? operations[i].name : i == OPERATIONS ? "all" : NULL;
}

// Returns element i of the input of a rank. The elements are whole numbers, and their sum over up
// to 1000 ranks is exact in any order, so the check allows no difference. They differ between ranks
// and positions, so the check finds values in wrong places.
static float element(int rank, size_t i) {
    return i % 1009 + rank * (i % 13 + 1);
}

// Returns the correct element i of this rank's output: a sum over the ranks, or an element of one
// rank.
static float expected(const struct world *w, const struct operation *o, size_t count, size_t i) {
    int n = w->size;
    size_t k = o->many_in ? w->rank * count + i : i; // its index in the input
    if (!strcmp(o->redop, "sum"))
        return n * (k % 1009) + n * (n - 1) / 2 * (k % 13 + 1);
    if (o->many_out)
        return element(i / count, i % count);
    return element(o->root == 0 ? 0 : (w->rank + n - 1) % n, i);
}

// Runs the operation once. Returns the number of wrong elements on all ranks.
static double check(struct world *w, const struct operation *o, float *in, float *out,
                    size_t count) {
    size_t in_count = o->many_in ? count * w->size : count,
           out_count = o->many_out ? count * w->size : count;
    double wrong = 0;
    for (size_t i = 0; i < in_count; i++)
        w->host[i] = element(w->rank, i);
    // These bytes are NaN. An element that the operation does not write keeps it and counts as
    // wrong.
    CUDA_CHECK(cudaMemset(out, 0xff, out_count * sizeof *out));
    CUDA_CHECK(cudaMemcpy(in, w->host, in_count * sizeof *in, cudaMemcpyHostToDevice));
    w->sent = 0;
    o->run(w, in, out, count);
    CUDA_CHECK(cudaMemcpy(w->host, out, out_count * sizeof *out, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < out_count; i++)
        wrong += w->host[i] != expected(w, o, count, i);
    return count_wrong(w, wrong);
}

// Returns the seconds per call, as a mean over the ranks, like nccl-tests. With --check-only: NaN.
static double mean_time(struct world *w, const struct operation *o, float *in, float *out,
                        size_t count) {
    if (opt.check_only)
        return NAN;
    for (long i = 0; i < opt.warmup; i++)
        o->run(w, in, out, count);
    sum_over_ranks(w, 0); // all ranks start at the same time
    double start = device_seconds(w->stream);
    for (long i = 0; i < opt.iters; i++)
        o->run(w, in, out, count);
    double elapsed = device_seconds(w->stream) - start;
    return sum_over_ranks(w, elapsed / opt.iters) / w->size;
}

// Part 2: the all-reduce by hand, with the bytes that the ranks have sent, counted and computed.
static void compare_by_hand(struct world *w, size_t count) {
    size_t n = w->size, chunk = (count + n - 1) / n;
    say("\n2. The same by hand: S = %zu bytes on each of %zu rank%s%s\n%16s%7s%s%13s%13s%13s%13s\n",
        count * sizeof(float), n, PLURAL(n), device_is_modelled() ? ", modelled times" : "", "",
        "#wrong", opt.check_only ? "" : "  time(us)", "rank 0 sent", "formula", "rank 1 sent",
        "formula");
    for (const struct operation *o = operations; o < operations + ALL_REDUCES; o++) {
        double wrong = check(w, o, w->in, w->out, count), sent = w->sent, off = 0;
        say("   %-13s", o->name);
        say_number("%7.0f", wrong);
        if (!opt.check_only)
            say("%10.1f", 1e6 * mean_time(w, o, w->in, w->in, count)); // in place: no copy before
        sum_over_ranks(w, sent);
        // NCCL does not report what it sends.
        for (size_t rank = 0; rank < n && o->run != all_reduce; rank++) {
            size_t star = rank == 0 ? (n - 1) * count : count, round = 2 * (n - 1) * chunk;
            size_t formula = (o->run == gather_broadcast ? star : round) * sizeof(float);
            if (rank < 2) {
                say_number("%13.0f", w->all[rank]);
                say("%13zu", formula);
            }
            off += !isnan(w->all[rank]) && w->all[rank] != formula;
        }
        say("%s\n", off ? "  differs from the formula" : "");
        w->wrong += off;
    }
}

// Prints one line of part 3, and writes two lines into the CSV file. size: bytes of the longer
// array.
static void measure(struct world *w, const struct operation *o, size_t size, FILE *csv) {
    size_t pieces = o->many_in || o->many_out ? w->size : 1, count = size / sizeof(float) / pieces;
    double n = w->size, bus = o->trips ? o->trips * (n - 1) / n : 1;
    if (count == 0)
        return; // less than a float for each rank
    size = count * pieces * sizeof(float);
    say("%-13s%11zu%11zu  float%6s%5d", o->name, size, count, o->redop, o->root);
    // In place, the shorter array is this rank's part of the longer one. (sendrecv cannot run in
    // place, because it would overwrite the data that it sends.)
    for (int in_place = 0; in_place < (o->run == send_receive ? 1 : 2); in_place++) {
        float *in = in_place ? w->out + o->many_out * w->rank * count : w->in;
        float *out = w->out + in_place * o->many_in * w->rank * count;
        double wrong = check(w, o, in, out, count), time = mean_time(w, o, in, out, count);
        double algbw = size / time / 1e9, busbw = algbw * bus;
        if (!opt.check_only)
            say("%11.2f%7.2f%7.2f", 1e6 * time, algbw, busbw);
        say_number("%7.0f", wrong);
        fprintf(csv, "%s,%zu,%zu,%s,%.3f,%.4f,%.4f,", o->name, size, count, in_place ? "in" : "out",
                1e6 * time, algbw, busbw);
        fprintf(csv, device_computes() ? "%.0f\n" : "\n", wrong);
    }
    say("\n");
}

// Part 3.
static void print_table(struct world *w) {
    FILE *csv = fopen(w->rank == 0 ? opt.csv : "/dev/null", "w");
    if (!csv)
        fail("--csv %s: %s", opt.csv, strerror(errno));
    int modelled = device_is_modelled();
    fprintf(csv, "op,size,count,place,%s,algbw,busbw,wrong\n", modelled ? "modelled_us" : "us");
    const char *head = opt.check_only ? " #wrong" : "   time(us)  algbw  busbw #wrong";
    say("\n3. Over sizes, out of place and in place: mean of %ld calls after %ld; GB/s%s\n",
        opt.iters, opt.warmup, modelled ? "; modelled times" : "");
    say("%-13s%11s%11s%7s%6s%5s%s%s\n", "op", "size(B)", "count", "type", "redop", "root", head,
        head);
    for (const struct operation *o = operations; o < operations + OPERATIONS; o++)
        if (opt.check_only || opt.op == OPERATIONS || opt.op == o - operations)
            for (size_t size = opt.smallest; size <= opt.largest; size *= opt.factor)
                measure(w, o, size, csv);
    if (ferror(csv) || fclose(csv))
        fail("cannot write the --csv file: %s", strerror(errno));
}

static size_t parse_size(const char *name, const char *text) {
    char *end;
    double number = strtod(text, &end);
    int unit = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    double size = ldexp(number, unit);
    if (end == text || end[unit > 0] || !(size >= sizeof(float) && size <= 1e12))
        wrong_usage("--%s %s: want bytes from 4 to 1e12, such as 8, 1K, 64M or 1G", name, text);
    return size;
}

static void check_options(void) {
    opt.smallest = parse_size("min-bytes", opt.min_bytes);
    opt.largest = parse_size("max-bytes", opt.max_bytes);
    if (opt.smallest > opt.largest)
        wrong_usage("--min-bytes %s is more than --max-bytes %s", opt.min_bytes, opt.max_bytes);
    if (opt.check_only)
        opt.largest = min_size(opt.largest, max_size(65536, opt.smallest));
}

int main(int argc, char **argv) {
    static struct world w;
    options_parse(tables, "Shows what ncclAllReduce does, and times it.", argc, argv);
    check_options();
    become_rank(opt.nproc, opt.join_timeout, &w.rank, &w.size, &w.comm);
    // From here on, all ranks run.
    CUDA_CHECK(cudaStreamCreate(&w.stream));
    size_t padding = w.size * sizeof(float);
    size_t bytes = max_size(opt.count * sizeof(float), opt.largest) + padding;
    DEVICE_ALLOC(w.in, "vectors", bytes);
    DEVICE_ALLOC(w.out, "vectors", bytes);
    DEVICE_ALLOC(w.incoming, "vectors", bytes);
    DEVICE_ALLOC(w.numbers, "numbers", w.size * sizeof *w.numbers);
    CUDA_CHECK(cudaMallocHost((void **)&w.host, bytes));
    CUDA_CHECK(cudaMallocHost((void **)&w.all, w.size * sizeof *w.all));
    print_device();
    spans_open(0, 0);
    sum_rank_numbers(&w, opt.count);
    compare_by_hand(&w, opt.count);
    print_table(&w);
    spans_report(0);
    NCCL_CHECK(ncclCommDestroy(w.comm));
    if (w.wrong > 0 && w.rank == 0) // rank 0 knows the sum of all ranks
        fail("%.0f elements or byte counts are wrong", w.wrong);
    return 0;
}
