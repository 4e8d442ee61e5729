// Compares the model of a GPU with published measurements. The factor of a point is the published
// time divided by the modelled one, so a factor above 1 says that the model is too fast.
// README.md must show the median factor, the least and the largest one for each collective,
// number of nodes and length of messages.
#include "../src/comm.h"
#include "../src/gpu_rates.h"
#include "one_transfer.h"
#include "test.h"

enum { SIZES = 10, MOST_POINTS = 120 };
static const double LEAST_MEDIAN = 0.7, MOST_MEDIAN = 1.6;

// Times of nccl-tests, out of place if nothing else is said. A size is that of the longest buffer
// of a rank. In CALL_SEND, every rank sends to the next one and receives from the one before
// (sendrecv_perf).
// clang-format off
static const struct published {
    int kind;
    const char *model, *topology, *algorithm;
    int ranks;
    double extra; // microseconds that the source adds to each call: the model counts the host
    struct {
        double kib, us;
    } points[SIZES];
} tables[] = {
    // stas00/ml-engineering, network/benchmarks/README.md (0cc3de5): nccl-tests, NCCL 2.30.
    {CALL_ALL_REDUCE, "h200", "1x8", NULL, 8, 0,
     {{32, 17.92}, {256, 18.626}, {1024, 25.328}, {4096, 52.44}, {16384, 121.1}, {65536, 317.56},
     {262144, 1062.2}, {1048576, 4049.7}, {16777216, 62544}}},
    {CALL_ALL_REDUCE, "h200", "4x8", NULL, 32, 0, {{16777216, 90191}}},
    // The same book, through PyTorch, one call at a time, which adds at least 20 us of the host.
    {CALL_ALL_REDUCE, "h200", "1x8", NULL, 8, 20,
     {{1024, 45.956}, {4096, 68.496}, {16384, 133.52}, {65536, 338.92}, {262144, 1077.1},
     {1048576, 4053.3}, {16777216, 62341}}},
    {CALL_ALL_REDUCE, "b200", "1x8", NULL, 8, 20,
     {{32, 47.787}, {256, 48.087}, {1024, 50.888}, {16384, 115.16}, {4194304, 10148},
     {16777216, 35835}}},
    {CALL_ALL_REDUCE, "b200", "4x8", NULL, 32, 20,
     {{32, 97.674}, {256, 125.1}, {1024, 162.92}, {4096, 256.92}, {16384, 452.73}, {65536, 657.45},
     {262144, 1836.3}, {1048576, 5684.2}, {4194304, 22211}, {16777216, 88360}}},
    // The same book, network/README.md: without NVLS.
    {CALL_ALL_REDUCE, "h200", "1x8", "^NVLS", 8, 0, {{16777216, 81784}}},
    // Azure/AI-benchmarking-guide, Azure_Results (3bb66ca), in place.
    {CALL_ALL_REDUCE, "h100", "1x8", NULL, 8, 0,
     {{32, 33.535}, {256, 42.242}, {1024, 41.991}, {4096, 57.019}, {16384, 125.23},
     {65536, 324.62}, {262144, 1109.6}, {1048576, 4029.3}, {8388608, 31391}}},
    {CALL_ALL_REDUCE, "h200", "1x8", NULL, 8, 0,
     {{32, 31.165}, {256, 31.102}, {1024, 34.649}, {4096, 53.02}, {16384, 122.13}, {65536, 319.04},
     {262144, 1086.8}, {1048576, 4018.7}, {8388608, 31319}}},
    {CALL_ALL_REDUCE, "a100", "1x8", NULL, 8, 0,
     {{32, 41.857}, {256, 45.376}, {1024, 50.663}, {4096, 102.76}, {16384, 268.82}, {65536, 704.8},
     {262144, 2196.5}, {1048576, 8237.8}, {8388608, 64912}}},
    // "B200 / Vultr POC, cluster test summary" of 18 May 2026: two HGX B200 with 8 x 400 Gbit/s.
    {CALL_ALL_REDUCE, "b200", "1x8", NULL, 8, 0,
     {{1, 25.47}, {32, 27.41}, {256, 29.22}, {1024, 30.1}, {4096, 56.17}, {16384, 106.99},
     {65536, 277.18}, {262144, 712.6}, {1048576, 2601.8}, {16777216, 35668}}},
    {CALL_ALL_REDUCE, "b200", "2x8", NULL, 16, 0,
     {{1, 37.54}, {32, 43.57}, {256, 65.66}, {1024, 93.41}, {4096, 111.68}, {16384, 190.47},
     {65536, 346.14}, {262144, 927.12}, {1048576, 3016.6}, {16777216, 44871}}},
    {CALL_ALL_GATHER, "b200", "1x8", NULL, 8, 0,
     {{1, 16.42}, {32, 17.93}, {256, 19.21}, {1024, 19.69}, {4096, 29.96}, {16384, 49.04},
     {65536, 139.13}, {262144, 393.96}, {1048576, 1486.1}, {16777216, 22357}}},
    {CALL_ALL_GATHER, "b200", "2x8", NULL, 16, 0,
     {{1, 34.44}, {32, 37.08}, {256, 75.85}, {1024, 77.59}, {4096, 139.74}, {16384, 202.24},
     {65536, 491.04}, {262144, 1018.7}, {1048576, 3360.5}, {16777216, 52287}}},
    {CALL_REDUCE_SCATTER, "b200", "1x8", NULL, 8, 0,
     {{1, 16.4}, {32, 17.67}, {256, 19.31}, {1024, 19.7}, {4096, 34.26}, {16384, 52.3},
     {65536, 138.64}, {262144, 388.79}, {1048576, 1451.7}, {16777216, 21630}}},
    {CALL_REDUCE_SCATTER, "b200", "2x8", NULL, 16, 0,
     {{1, 34.78}, {32, 37.9}, {256, 79.74}, {1024, 82.63}, {4096, 140.51}, {16384, 202.84},
     {65536, 490.4}, {262144, 1013.1}, {1048576, 3340.3}, {16777216, 52956}}},
    {CALL_SEND, "b200", "1x8", NULL, 8, 0,
     {{1, 9.45}, {32, 11.76}, {256, 22.26}, {1024, 27.92}, {4096, 62.37}, {16384, 212.62},
     {65536, 793.11}, {262144, 809.77}, {1048576, 1668.5}, {16777216, 25904}}},
    {CALL_SEND, "b200", "2x8", NULL, 16, 0,
     {{1, 15.25}, {32, 20.61}, {256, 35.68}, {1024, 68.03}, {4096, 221.66}, {16384, 853},
     {65536, 3458.7}, {262144, 13652}, {1048576, 54705}, {16777216, 875218}}},
    // The two HGX B200 again, after tuning ("v2").
    {CALL_SEND, "b200", "2x8", NULL, 16, 0,
     {{1, 14.57}, {32, 20.7}, {256, 35.97}, {1024, 48.39}, {4096, 129.77}, {16384, 484.38},
     {65536, 1892.6}, {262144, 7498.9}, {1048576, 29981}, {16777216, 479242}}},
    // Two A4 of Google Cloud, in a guide to NCCL tests on GKE.
    {CALL_ALL_REDUCE, "b200", "1x8", NULL, 8, 0,
     {{8192, 80.32}, {16384, 110.5}, {65536, 280}, {262144, 714.7}, {1048576, 2576.7},
     {16777216, 35561}}},
    {CALL_ALL_REDUCE, "b200", "2x8", NULL, 16, 0,
     {{8192, 158.8}, {16384, 193.2}, {65536, 483.3}, {262144, 1114.8}, {1048576, 3328.7},
     {16777216, 47062}}},
    // GoogleCloudPlatform/cluster-toolkit, examples/gke-a4/README.md: two A4.
    {CALL_ALL_GATHER, "b200", "2x8", NULL, 16, 0,
     {{1, 39.23}, {32, 39.6}, {256, 46.8}, {1024, 81.56}, {4096, 95.18}, {16384, 132.9},
     {65536, 285.6}, {262144, 792.9}, {1048576, 2809.4}, {8388608, 21986}}},
    // NVIDIA/nccl-tests, issue 309: HGX H100 with 8 x 400 Gbit/s, NCCL 2.26.
    {CALL_ALL_REDUCE, "h100", "2x8", NULL, 16, 0,
     {{1, 29.75}, {32, 34.1}, {256, 48.67}, {1024, 71.93}, {4096, 94.38}, {16384, 185.4},
     {65536, 466.1}, {262144, 1282.8}, {1048576, 4484.9}, {16777216, 68652}}},
    {CALL_ALL_REDUCE, "h100", "4x8", NULL, 32, 0,
     {{1, 39.79}, {32, 49.13}, {256, 67.82}, {1024, 82.17}, {4096, 151.1}, {16384, 259.6},
     {65536, 579.1}, {262144, 1768}, {1048576, 5808.8}, {16777216, 90986}}},
    // Example output in a guide to MPI jobs with Run:ai, on two nodes.
    {CALL_ALL_REDUCE, "h200", "2x8", NULL, 16, 0,
     {{1048576, 4508}, {4194304, 17054}, {16777216, 67369}}},
    // skypilot-org/skypilot, examples/gcp_gpu_direct_tcpx/README.md: two A3 Ultra, NCCL 2.26.
    {CALL_ALL_GATHER, "h200", "2x8", NULL, 16, 0,
     {{1, 28.7}, {32, 32.81}, {256, 39.47}, {1024, 54.7}, {4096, 77.41}, {16384, 117.6},
     {65536, 277.8}, {262144, 876.1}, {1048576, 3126.8}, {8388608, 24739}}},
    // li-plus/playground, cuda/nccl.md.
    {CALL_SEND, "a100", "1x8", NULL, 8, 0,
     {{131072, 1211.2}, {262144, 1423.3}, {524288, 2785.4}, {1048576, 5503.4}}},
    // Hugging Face, The Smol Training Playbook: 364.93 GB/s between two H100.
    {CALL_SEND, "h100", "1x2", NULL, 2, 0, {{8388608, 23539}}},
};
// clang-format on

static const double regimes[] = {0, 1024, 131072, INFINITY}; // KiB: short, middle, long messages

// Between nodes, the clusters of B200 differ: one takes twice as long as another one for a send.
static const struct group {
    const char *name;
    char nodes;
    int b200;
} groups[] = {
    {"1", '1', 0}, {"2", '2', 0}, {"2 (B200)", '2', 1}, {"4", '4', 0}, {"4 (B200)", '4', 1}};

// An all-gather and a reduce-scatter have the same formula.
static const struct {
    const char *name;
    int kinds[2];
} collectives[] = {{"all-reduce", {CALL_ALL_REDUCE, CALL_ALL_REDUCE}},
                   {"all-gather, reduce-scatter", {CALL_ALL_GATHER, CALL_REDUCE_SCATTER}},
                   {"send and receive", {CALL_SEND, CALL_SEND}}};

static void choose(const char *model, const char *topology, const char *algorithm) {
    assert_int_equal(setenv("CPU_DEVICE_MODEL", model, 1), 0);
    assert_int_equal(setenv("CPU_DEVICE_TOPOLOGY", topology, 1), 0);
    unsetenv("NCCL_ALGO");
    if (algorithm)
        assert_int_equal(setenv("NCCL_ALGO", algorithm, 1), 0);
    cpu_model_init();
}

static double modelled_us(const struct published *t, double bytes) {
    int devices[CPU_MAX_DEVICES];
    double slowest = 0;
    for (int i = 0; i < t->ranks; i++)
        devices[i] = i;
    if (t->kind != CALL_SEND)
        return cpu_model_collective(t->kind, bytes, devices, t->ranks) * 1e6;
    for (int i = 0; i < t->ranks; i++)
        slowest = fmax(slowest, one_transfer(bytes, i, (i + 1) % t->ranks));
    return slowest * 1e6;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// Collects the factors of the points of a collective for sizes (KiB) in [from, below).
static int collect(const int kinds[2], const struct group *g, double from, double below,
                   double *factors) {
    int count = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const struct published *t = &tables[i];
        if ((t->kind != kinds[0] && t->kind != kinds[1]) || *t->topology != g->nodes ||
            (g->nodes != '1' && g->b200 != !strcmp(t->model, "b200")))
            continue;
        choose(t->model, t->topology, t->algorithm);
        for (int p = 0; p < SIZES && t->points[p].kib > 0; p++) {
            double kib = t->points[p].kib;
            if (kib < from || kib >= below)
                continue;
            assert_true(count < MOST_POINTS);
            factors[count++] = t->points[p].us / (modelled_us(t, kib * 1024) + t->extra);
        }
    }
    return count;
}

static const char *read_text(const char *path) {
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

// Adds a cell of the table of README.md to the row.
static void add_cell(char *row, size_t size, const int kinds[2], const struct group *g,
                     const double *regime) {
    double factors[MOST_POINTS];
    int n = collect(kinds, g, regime[0], regime[1], factors);
    size_t used = strlen(row);
    if (n == 0) {
        snprintf(row + used, size - used, " |"); // nothing is published
        return;
    }
    qsort(factors, (size_t)n, sizeof *factors, by_size);
    double median = (factors[n / 2] + factors[(n - 1) / 2]) / 2;
    snprintf(row + used, size - used, " %.2f (%.2f to %.2f) |", median, factors[0], factors[n - 1]);
    if (!(median > LEAST_MEDIAN && median < MOST_MEDIAN))
        fail_msg("the last median is wrong: %s", row);
}

TEST(collectives_take_as_long_as_published) {
    const char *text = read_text("README.md");
    int missing = 0;
    for (size_t c = 0; c < sizeof collectives / sizeof *collectives; c++)
        for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
            char row[200];
            snprintf(row, sizeof row, "| %s | %s |", collectives[c].name, groups[g].name);
            for (int r = 0; r < 3; r++)
                add_cell(row, sizeof row, collectives[c].kinds, &groups[g], &regimes[r]);
            if (!strstr(row, "| | | |") && !strstr(text, row))
                missing += fprintf(stderr, "README.md lacks this line: %s\n", row);
        }
    assert_int_equal(missing, 0);
}

// Square products, in TFLOP/s: A100 with float16, whose rate is bf16's (Azure_Results, as above);
// H100 and L4 in zzc0721/torch-performance-test-data, issues 79 and 120.
TEST(products_take_as_long_as_published) {
    static const struct {
        const char *model;
        enum cpu_cost_kind kind;
        double bytes; // of an element
        double rates[5];
    } published[] = {
        {"a100", CPU_PRODUCT_BF16, 2, {119.4, 221.8, 228.0, 253.7, 256.5}},
        {"h100", CPU_PRODUCT_FP32, 4, {37.39, 49.58, 51.88, 51.81}},
        {"h100", CPU_PRODUCT_TF32, 4, {119.60, 334.99, 402.15, 372.05}},
        {"h100", CPU_PRODUCT_BF16, 2, {176.62, 676.59, 788.72, 797.51}},
        {"l4", CPU_PRODUCT_FP32, 4, {12.87, 15.38, 12.53, 10.66}},
        {"l4", CPU_PRODUCT_TF32, 4, {14.21, 31.88, 24.00, 25.69}},
        {"l4", CPU_PRODUCT_BF16, 2, {54.42, 70.89, 54.91, 59.40}},
    };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        for (int s = 0; s < 5 && published[i].rates[s] > 0; s++) {
            double n = 1024 << s, flops = 2 * n * n * n;
            choose(published[i].model, "1x8", NULL);
            double seconds =
                cpu_model_seconds(&(struct cpu_cost){.kind = published[i].kind,
                                                     .bytes = 3 * published[i].bytes * n * n,
                                                     .tile_flops = flops},
                                  0);
            double factor = flops / seconds / 1e12 / published[i].rates[s];
            // Products of 1024 rows, which use a part of the GPU, are up to 1.64 times too fast.
            if (!(factor > 0.78 && factor < (s == 0 ? 1.7 : 1.25)))
                fail_msg("%s, kind %d, %g rows: the rate is %.2f times the published one",
                         published[i].model, (int)published[i].kind, n, factor);
        }
}

// FlashAttention-2 in bfloat16 without a mask on an H100, with 16,384 tokens: figures 5 and 6 of
// FlashAttention-3 (https://arxiv.org/abs/2407.08608). Its kernels multiply with mma.sync. The
// instructions for each score are those of their inner loops, compiled by nvcc 13.0 for sm_90
// (flash-attention 0251105, cutlass 7107b05).
TEST(attention_takes_as_long_as_published) {
    static const struct {
        const char *name;
        double instructions, flops, rate; // for each score, and TFLOP/s
    } published[] = {
        {"forward, heads of 64", 8.9, 4 * 64, 324},
        {"forward, heads of 128", 14.2, 4 * 128, 370},
        {"backward, heads of 64", 17.1, 10 * 64, 291},
        {"backward, heads of 128", 27.3, 10 * 128, 322},
    };
    const char *text = read_text("README.md");
    choose("h100", "1x8", NULL);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        double scores = 1e12;
        cpu_executes(scores * published[i].instructions);
        cpu_multiplies(scores * published[i].flops, 0);
        struct cpu_cost cost = cpu_take_cost();
        cost.kind = CPU_KERNEL;
        double rate = scores * published[i].flops / cpu_model_seconds(&cost, 0) / 1e12;
        char row[100];
        snprintf(row, sizeof row, "| %s | %.1f | %.0f | %.0f |", published[i].name,
                 published[i].instructions, published[i].rate, rate);
        if (!strstr(text, row) || !(fabs(rate / published[i].rate - 1) < 0.2))
            fail_msg("README.md lacks this line, or the rate is wrong: %s", row);
    }
}

int main(void) {
    return run_all_tests((struct around){NULL});
}
