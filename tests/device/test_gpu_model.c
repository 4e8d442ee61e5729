// Tests of the model of a GPU: times computed by hand for a model with round numbers, published
// measurements, and the message for each mistake in a variable or a file.
#include "cpu_device/comm.h"
#include "cpu_device/gpu_rates.h"
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const double MIB = 1048576;
static int all[CPU_MAX_DEVICES]; // devices 0, 1, ...
static char folder[256];

static const char ROUND[] =
    "capacity 1\nlaunch_call 1\nevent_call 1\ncollective_call 1\nwake 1\nlatency 1\n"
    "gap 1\nmemory 1000\nfp32 10\ntf32 20\nbf16 40\nproduct 4\npcie 10\n"
    "link 100\nlink_latency 10\nnetwork 10\nnetwork_latency 50\n";

static const char *write_model(const char *name, const char *text, const char *more) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s%s", text, more);
    assert_int_equal(fclose(file), 0);
    return path;
}

// Sets these variables, such as "CPU_DEVICE_SLOW=3:2", and removes the others.
static void set_variables(const char *const *settings) {
    static const char *const names[] = {"CPU_DEVICE_MODEL", "CPU_DEVICE_TOPOLOGY",
                                        "CPU_DEVICE_SLOW",  "CPU_DEVICE_LOST",
                                        "NCCL_ALGO",        "CPU_DEVICE_COMPUTE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    for (; *settings; settings++) {
        char name[64];
        size_t length = strcspn(*settings, "=");
        snprintf(name, sizeof name, "%.*s", (int)length, *settings);
        assert_int_equal(setenv(name, *settings + length + 1, 1), 0);
    }
}

#define WITH(...) (set_variables((const char *[]){__VA_ARGS__, NULL}), cpu_model_init())

// Models with round numbers; the switch of the first one cannot sum.
static void with_round(const char *nvls, const char *one, const char *two) {
    char model[400];
    snprintf(model, sizeof model, "CPU_DEVICE_MODEL=%s", write_model("round.model", ROUND, nvls));
    WITH(model, one, two);
}

static void near(double seconds, double microseconds) {
    if (fabs(seconds * 1e6 - microseconds) > 1e-3)
        fail_msg("%.4f us instead of %.4f us", seconds * 1e6, microseconds);
}

static double cost(enum cpu_cost_kind kind, double bytes, double flops, int device) {
    return cpu_model_seconds(&(struct cpu_cost){.kind = kind, .bytes = bytes, .flops = flops},
                             device);
}

static void operations_take_their_formulas(void **state) {
    (void)state;
    with_round("nvls 0", "CPU_DEVICE_SLOW=3:1.5", NULL);
    near(cost(CPU_KERNEL, 1e6, 0, 0), 1 + 1);
    near(cost(CPU_COPY_TO_DEVICE, 1e6, 0, 0), 1 + 100);
    near(cost(CPU_COPY_TO_HOST, 2e6, 0, 0), 1 + 200);
    near(cost(CPU_COPY_ON_DEVICE, 1e6, 0, 0), 1 + 2);
    near(cost(CPU_PRODUCT_FP32, 1e6, 1e9, 0), 1 + 4 + 100);
    near(cost(CPU_PRODUCT_TF32, 1e6, 1e9, 0), 1 + 4 + 50);
    near(cost(CPU_PRODUCT_BF16, 1e6, 1e9, 0), 1 + 4 + 25);
    near(cost(CPU_PRODUCT_FP32, 1e9, 1e9, 0), 1 + 4 + 1000); // its bytes take longer
    near(cost(CPU_NO_COST, 1e6, 1e9, 0), 0);
    near(cost(CPU_COLLECTIVE, 1e6, 1e9, 0), 0);
    near(cost(CPU_KERNEL, 1e6, 0, 3), 1.5 * 2);
    near(cost(CPU_COPY_TO_HOST, 1e6, 0, 3), 1.5 * 101);
    near(cost(CPU_PRODUCT_FP32, 1e6, 1e9, 3), 1.5 * 105);
    near(cpu_model_collective(CALL_ALL_REDUCE, 1e6, all, 1), 3); // a copy on the device
    near(cpu_model_collective(CALL_ALL_GATHER, 1e6, all + 3, 1), 1.5 * 3);
    near(cpu_model_transfer(1e6, 2, 2), 3);
}

static double collective(int kind, double bytes, int ranks) {
    return cpu_model_collective(kind, bytes, all, ranks);
}

// A chunk of 1 MB over 100 GB/s takes 10 us, and 6.5 us more because it is short.
static void collectives_in_a_node_take_their_formulas(void **state) {
    (void)state;
    with_round("nvls 0", NULL, NULL);
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 6 * 10 + 6 * 16.5);
    near(collective(CALL_ALL_REDUCE, 4e3, 4), 6.6 + 6 * 1.8 + 6e3 / 38e3); // LL: 38 GB/s
    near(collective(CALL_ALL_REDUCE, 40e6, 4), 8.4 + 60 + 6 * (100 + 0.65 * 23));
    near(collective(CALL_ALL_GATHER, 4e6, 4), 8.4 + 3 * 10 + 3 * 16.5);
    near(collective(CALL_REDUCE_SCATTER, 4e6, 4), 8.4 + 3 * 10 + 3 * 16.5);
    near(collective(CALL_BROADCAST, 4e6, 4), 8.4 + 3 * 10 + 4 * 16.5);
    near(collective(CALL_REDUCE, 4e6, 4), 8.4 + 3 * 10 + 4 * 16.5);
    near(collective(CALL_ALL_TO_ALL, 4e6, 4), 8.4 + 10 + 3 * 16.5);
    near(collective(CALL_GATHER, 4e6, 4), 8.4 + 10 + 3 * 16.5);
    near(collective(CALL_SCATTER, 4e6, 4), 8.4 + 10 + 3 * 16.5);
    near(cpu_model_transfer(2e6, 0, 1), 8.4 + 10 + 2 * 16.5);
    near(cpu_model_transfer(1e3, 0, 1), 6.6 + 1.8 + 1e3 / 38e3);
    with_round("nvls 90", NULL, NULL);
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 25 + 5 * 16.5 / 0.9);
    with_round("nvls 90", "NCCL_ALGO=ring", NULL);
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 6 * 10 + 6 * 16.5);
    with_round("nvls 90", "NCCL_ALGO=Tree", NULL);
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 6 * 10 + 8 * 16.5 / 0.92);
}

static void the_topology_decides_on_the_links(void **state) {
    (void)state;
    static const int one_per_node[] = {0, 2, 4, 6}, three[] = {0, 1, 2};
    with_round("nvls 90", "CPU_DEVICE_TOPOLOGY=2x2", NULL);
    assert_int_equal(cpu_model_devices(), 4);
    assert_int_equal(cpu_model_node(1), 0);
    assert_int_equal(cpu_model_node(2), 1);
    // Two of six steps go through the network, where two interfaces make 20 GB/s; no NVLS.
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 4 * 10 + 2 * 50 + 6 * 16.5 * 5);
    // A tree with LL, which reaches 2 GB/s.
    near(collective(CALL_ALL_REDUCE, 4e3, 4), 6.6 + 2 * 1.8 + 2 * 18 + 8e3 / (0.92 * 2e3));
    near(collective(CALL_ALL_GATHER, 4e6, 4), 8.4 + 2 * 10 + 50 + 3 * 16.5 * 5);
    near(collective(CALL_ALL_REDUCE, 2e6, 2), 8.4 + 2 * 10 + 2 * 16.5); // in one node: no NVLS gain
    // Node 1 has one rank, so one interface.
    near(cpu_model_collective(CALL_ALL_REDUCE, 3e6, three, 3), 8.4 + 2 * 10 + 2 * 50 + 4 * 165);
    near(collective(CALL_ALL_TO_ALL, 4e6, 4), 8.4 + 50 + 2 * 165);
    near(cpu_model_transfer(1e6, 1, 2), 8.4 + 50 + 165);
    near(cpu_model_transfer(2e6, 2, 3), 8.4 + 10 + 2 * 16.5);
    with_round("nvls 90", "CPU_DEVICE_TOPOLOGY=4x2", "NCCL_ALGO=Tree");
    near(cpu_model_collective(CALL_ALL_REDUCE, 4e6, one_per_node, 4),
         8.4 + 2 * 2 * 50 + 8 * 165 / 0.92);
    near(collective(CALL_ALL_REDUCE, 8e6, 8), 8.4 + 2 * 10 + 4 * 50 + 16 * 16.5 * 5 / 0.92);
    with_round("nvls 90", "CPU_DEVICE_TOPOLOGY=4x2", "NCCL_ALGO=NVLS"); // a ring
    near(cpu_model_collective(CALL_ALL_REDUCE, 4e6, one_per_node, 4), 8.4 + 6 * 50 + 6 * 165);
    with_round("nvls 0", NULL, NULL);
    assert_int_equal(cpu_model_devices(), 0);
    assert_int_equal(cpu_model_node(63), 0);
}

static void slow_links_delay_those_that_use_them(void **state) {
    (void)state;
    with_round("nvls 0", "CPU_DEVICE_SLOW=2-3:4,1:2", NULL);
    near(cost(CPU_KERNEL, 1e6, 0, 1), 4);
    near(cost(CPU_KERNEL, 1e6, 0, 2), 2);
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 6 * 10 + 6 * 16.5 * 4);
    near(collective(CALL_ALL_REDUCE, 3e6, 3), 8.4 + 4 * 10 + 4 * 16.5);
    near(collective(CALL_ALL_TO_ALL, 4e6, 4), 8.4 + 10 + 4 * 16.5); // one of three chunks
    near(cpu_model_transfer(2e6, 3, 2), 8.4 + 10 + 2 * 16.5 * 4);
    with_round("nvls 90", "CPU_DEVICE_SLOW=3-2:4", "NCCL_ALGO=NVLS");
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 25 + 5 * 16.5 * 4 / 0.9);
    with_round("nvls 0", "CPU_DEVICE_SLOW=n1:2", "CPU_DEVICE_TOPOLOGY=2x2");
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 4 * 10 + 2 * 50 + 6 * 16.5 * 10);
    near(collective(CALL_ALL_REDUCE, 2e6, 2), 8.4 + 2 * 10 + 2 * 16.5);
    near(cpu_model_transfer(1e6, 0, 3), 8.4 + 50 + 2 * 165);
    with_round("nvls 0", "CPU_DEVICE_SLOW=1-2:4", "CPU_DEVICE_TOPOLOGY=2x2");
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 4 * 10 + 2 * 50 + 6 * 16.5 * 20);
}

static void lost_devices_have_a_time(void **state) {
    (void)state;
    with_round("nvls 0", "CPU_DEVICE_LOST=3:0.5,0:.25", NULL);
    assert_true(cpu_model_lost(3) == 0.5 && cpu_model_lost(0) == 0.25);
    assert_true(isinf(cpu_model_lost(1)));
    with_round("nvls 0", NULL, NULL);
    assert_true(isinf(cpu_model_lost(3)));
}

// A table of all-reduces: MiB, and GB/s of bus bandwidth, which is 2 (n - 1) / n x bytes / seconds.
struct published {
    const char *model, *topology, *algorithm;
    int ranks;
    double extra; // seconds of each call that the source adds and the model counts for the host
    struct {
        double mib, gb_s;
    } points[24];
};

static const struct published tables[] = {
    // nccl-tests with NCCL 2.30.7: network/benchmarks/README.md of stas00/ml-engineering, 0cc3de5.
    {"h200", NULL, NULL, 8, 0, {{0.03125, 3.20}, {0.0625, 6.26}, {0.125, 12.40}, {0.25, 24.63},
                                {0.5, 48.30},    {1, 72.45},     {2, 91.48},     {4, 139.97},
                                {8, 182.03},     {16, 242.45},   {32, 298.44},   {64, 369.82},
                                {128, 411.21},   {256, 442.27},  {512, 455.82},  {1024, 464.00},
                                {2048, 468.31},  {4096, 473.10}, {8192, 475.16}, {16384, 480.70}}},
    // The same GPUs with NCCL 2.27.7 through PyTorch, one call at a time on an idle GPU, which adds
    // 20 to 30 us of the host (README.md there): results/all-reduce-8xH200.md, c53741b.
    {"h200",
     NULL,
     NULL,
     8,
     20e-6,
     {{1, 39.93},
      {2, 64.53},
      {4, 107.16},
      {8, 155.53},
      {16, 219.89},
      {32, 275.84},
      {64, 346.51},
      {128, 401.93},
      {256, 436.15},
      {512, 450.29},
      {1024, 463.58},
      {4096, 473.10},
      {16384, 482.26}}},
    // The same without NVLS and on 4 nodes (network/README.md there; 369.06: its to-do list).
    {"h200", NULL, "^NVLS", 8, 0, {{16384, 367.61}}},
    {"h200", "4x8", NULL, 32, 0, {{16384, 369.06}}},
    // 5 ranks gain 1.14 times by NVLS, and 4 gain nothing (its to-do list).
    {"h200", NULL, NULL, 5, 0, {{16384, 1.14 * 367.61}}},
    {"h200", NULL, NULL, 4, 0, {{16384, 367.61}}},
    // Azure_Results of Azure/AI-benchmarking-guide: H100, H200 and A100 (3bb66ca), in place.
    {"h100",
     NULL,
     NULL,
     8,
     0,
     {{2, 81.93},
      {4, 128.73},
      {8, 172.13},
      {16, 234.45},
      {32, 295.53},
      {64, 361.78},
      {128, 400.61},
      {256, 423.38},
      {512, 438.46},
      {1024, 466.35},
      {8192, 478.87}}},
    {"h200",
     NULL,
     NULL,
     8,
     0,
     {{2, 88.78},
      {4, 138.44},
      {8, 181.94},
      {16, 240.41},
      {32, 300.91},
      {64, 368.11},
      {128, 412.45},
      {256, 432.24},
      {512, 442.72},
      {1024, 467.58},
      {8192, 479.98}}},
    {"a100",
     NULL,
     NULL,
     8,
     0,
     {{4, 71.43},
      {8, 89.99},
      {16, 109.22},
      {32, 132.77},
      {64, 166.63},
      {128, 174.18},
      {256, 213.87},
      {512, 221.58},
      {1024, 228.10},
      {8192, 231.58}}},
    // B200, on one and on four nodes: README.md of stas00/ml-engineering as above.
    {"b200", NULL, NULL, 8, 0, {{4096, 740.64}, {16384, 838.97}}},
    {"b200",
     "4x8",
     NULL,
     32,
     0,
     {{32, 142.90},
      {64, 197.77},
      {128, 260.50},
      {256, 283.23},
      {512, 309.91},
      {1024, 365.99},
      {4096, 374.66},
      {16384, 376.71}}},
};

// Fails if the modelled bandwidth divided by the published one is not between the two.
static void compare(const struct published *p, double least, double most) {
    char model[64], topology[64], algorithm[64];
    snprintf(model, sizeof model, "CPU_DEVICE_MODEL=%s", p->model);
    snprintf(topology, sizeof topology, "CPU_DEVICE_TOPOLOGY=%s",
             p->topology ? p->topology : "1x8");
    snprintf(algorithm, sizeof algorithm, "NCCL_ALGO=%s",
             p->algorithm ? p->algorithm : "Ring,Tree,NVLS");
    WITH(model, topology, algorithm);
    for (int i = 0; p->points[i].mib > 0; i++) {
        double bytes = p->points[i].mib * MIB;
        double seconds = collective(CALL_ALL_REDUCE, bytes, p->ranks) + p->extra;
        double gb_s = 2 * (p->ranks - 1.0) / p->ranks * bytes / seconds / 1e9;
        double ratio = gb_s / p->points[i].gb_s;
        if (!(ratio > least && ratio < most))
            fail_msg("%s, %d ranks, %g MiB: %.2f GB/s instead of %.2f", p->model, p->ranks,
                     p->points[i].mib, gb_s, p->points[i].gb_s);
    }
}

static void all_reduces_take_as_long_as_published(void **state) {
    (void)state;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        compare(&tables[t], 0.8, 1.2);
}

// Programs that measure short messages add their own time, so published tables differ by more than
// twice. The model is never slower than they are by more than a fifth, and at most 3.2 times as
// fast.
static void short_all_reduces_are_at_most_so_much_faster(void **state) {
    (void)state;
    static const struct published shorter[] = {
        // Azure_Results, README.md of stas00/ml-engineering and its network/README.md, as above.
        {"h100", NULL, NULL, 8, 0, {{0.03125, 1.71}, {0.25, 10.86}, {0.5, 21.35}, {1, 43.70}}},
        {"h200", NULL, NULL, 8, 0, {{0.03125, 1.84}, {0.25, 14.75}, {0.5, 29.38}, {1, 52.96}}},
        {"a100", NULL, NULL, 8, 0, {{0.03125, 1.37}, {0.25, 10.11}, {1, 36.22}, {2, 53.54}}},
        {"b200", NULL, NULL, 8, 0, {{0.03125, 1.20}, {0.25, 9.54}, {1, 36.06}, {16, 254.96}}},
        {"b200",
         "4x8",
         NULL,
         32,
         0,
         {{0.03125, 0.65}, {0.25, 4.06}, {1, 12.47}, {4, 31.63}, {8, 50.61}, {16, 71.80}}},
    };
    for (size_t t = 0; t < sizeof shorter / sizeof *shorter; t++)
        compare(&shorter[t], 0.8, 3.2);
}

// Products of square float16 matrices on an A100 (Azure_Results, as above), whose rate is bf16's.
static void products_take_as_long_as_published(void **state) {
    (void)state;
    static const double published[][2] = {
        {1024, 119.4}, {2048, 221.8}, {4096, 228.0}, {8192, 253.7}, {16384, 256.5}};
    WITH("CPU_DEVICE_MODEL=a100");
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        double n = published[i][0], flops = 2 * n * n * n;
        double tflop_s = flops / cost(CPU_PRODUCT_BF16, 6 * n * n, flops, 0) / 1e12;
        if (fabs(tflop_s / published[i][1] - 1) > 0.2)
            fail_msg("%g: %.1f TFLOP/s instead of %.1f", n, tflop_s, published[i][1]);
    }
}

static void trees_win_over_rings_for_short_messages_between_nodes(void **state) {
    (void)state;
    for (double mib = 1.0 / 64; mib <= 16384; mib *= 4) {
        double bytes = mib * MIB;
        WITH("CPU_DEVICE_MODEL=h100", "CPU_DEVICE_TOPOLOGY=8x8", "NCCL_ALGO=Ring");
        double ring = collective(CALL_ALL_REDUCE, bytes, 64),
               node = collective(CALL_ALL_REDUCE, bytes, 8);
        WITH("CPU_DEVICE_MODEL=h100", "CPU_DEVICE_TOPOLOGY=8x8", "NCCL_ALGO=Tree");
        double tree = collective(CALL_ALL_REDUCE, bytes, 64);
        assert_true(node < collective(CALL_ALL_REDUCE, bytes, 8));
        WITH("CPU_DEVICE_MODEL=h100", "CPU_DEVICE_TOPOLOGY=8x8");
        assert_true(collective(CALL_ALL_REDUCE, bytes, 64) == fmin(ring, tree));
        assert_int_equal(tree < ring, mib <= 256);
    }
}

static void the_file_h100_is_the_model_h100(void **state) {
    (void)state;
    struct cpu_model built_in, read;
    cpu_model_read("h100", &built_in);
    cpu_model_read("cpu_device/h100.model", &read);
    assert_string_equal(read.name, "h100");
    assert_memory_equal(&read, &built_in, sizeof read);
    WITH("CPU_DEVICE_MODEL=./cpu_device/h100.model");
    assert_memory_equal(cpu_model, &built_in, sizeof read);
    assert_true(cpu_model->memory == 2970e9 && cpu_model->capacity == 79.6 * 1024 * MIB);
}

static void the_readme_shows_the_rates(void **state) {
    (void)state;
    static char text[1 << 16];
    FILE *file = fopen("cpu_device/README.md", "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    for (int r = 0; r < CPU_RATES; r++) {
        char row[200];
        int n = snprintf(row, sizeof row, "\n| `%s` | %s |", cpu_rates[r].key, cpu_rates[r].unit);
        for (int m = 0; m < CPU_MODELS; m++)
            n += snprintf(row + n, sizeof row - (size_t)n, " %g |", cpu_rates[r].values[m]);
        if (!strstr(text, row))
            fail_msg("cpu_device/README.md lacks this line:%s", row);
    }
}

// Runs cpu_model_init in a child, and compares its message.
static void refused(const char *message, const char *one, const char *two) {
    int ends[2], status;
    char text[600] = "";
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        set_variables((const char *[]){one, two, NULL});
        cpu_model_init();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)n;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_string_equal(text, message);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

#define H100 "CPU_DEVICE_MODEL=h100"

static void mistakes_in_variables_are_explained(void **state) {
    (void)state;
    refused("error: CPU_DEVICE_MODEL=h10: want a100, h100, h200, b200, l4, or a file such as "
            "cpu_device/h100.model\n",
            "CPU_DEVICE_MODEL=h10", NULL);
    static const char *const needing[] = {"CPU_DEVICE_TOPOLOGY=2x8", "CPU_DEVICE_SLOW=0:2",
                                          "CPU_DEVICE_LOST=0:2", "CPU_DEVICE_COMPUTE=0"};
    static const char *const names[] = {"CPU_DEVICE_TOPOLOGY", "CPU_DEVICE_SLOW", "CPU_DEVICE_LOST",
                                        "CPU_DEVICE_COMPUTE=0"};
    for (int i = 0; i < 4; i++) {
        char message[200];
        snprintf(message, sizeof message,
                 "error: %s needs a model: set CPU_DEVICE_MODEL, such as h100\n", names[i]);
        refused(message, needing[i], NULL);
    }
    refused("error: CPU_DEVICE_COMPUTE=no: want 1 or 0\n", "CPU_DEVICE_COMPUTE=no", H100);
    static const char *const topologies[] = {"", "8", "0x8", "2x", "2x8x", "9x8", "-2x8", "2*8"};
    for (size_t i = 0; i < sizeof topologies / sizeof *topologies; i++) {
        char setting[100], message[200];
        snprintf(setting, sizeof setting, "CPU_DEVICE_TOPOLOGY=%s", topologies[i]);
        snprintf(message, sizeof message,
                 "error: %s: want nodes x GPUs per node, such as 2x8, with at most 64 GPUs\n",
                 setting);
        refused(message, setting, H100);
    }
    refused(
        "error: NCCL_ALGO=Ring,Trees: the model knows Ring, Tree, NVLS, several with commas, or "
        "all but some, such as ^NVLS\n",
        "NCCL_ALGO=Ring,Trees", H100);
    refused("error: NCCL_ALGO=: the model knows Ring, Tree, NVLS, several with commas, or all but "
            "some, such as ^NVLS\n",
            "NCCL_ALGO=", H100);
}

static void mistakes_in_faults_are_explained(void **state) {
    (void)state;
    static const char *const slow[] = {"",     "3",     "3:",    "3:0",     "3:-1",   "3:x",
                                       "64:2", "3:2,",  "3-3:2", "3-64:2",  "3-:2",   "n1:2",
                                       "n:2",  "3:inf", "x:2",   "3:2;4:2", "3:1e999"};
    static const char *const lost[] = {"", "3", "3:", "3:x", "64:1", "3:1,", "n0:1", "2-3:1"};
    char setting[100], message[300];
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        snprintf(setting, sizeof setting, "CPU_DEVICE_SLOW=%s", slow[i]);
        snprintf(message, sizeof message,
                 "error: %s: want 3:1.5 (device 3 takes 1.5 times as long), 2-3:4 (the link of "
                 "devices 2 and 3) or n1:2 (the network of node 1)\n",
                 setting);
        refused(message, setting, H100);
    }
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        snprintf(setting, sizeof setting, "CPU_DEVICE_LOST=%s", lost[i]);
        snprintf(message, sizeof message, "error: %s: want a device and seconds, such as 3:0.5\n",
                 setting);
        refused(message, setting, H100);
    }
}

// A file with this line behind the round numbers is refused with this message.
static void refused_line(const char *line, const char *message) {
    char setting[400], whole[700];
    const char *path = write_model("wrong.model", ROUND, line);
    snprintf(setting, sizeof setting, "CPU_DEVICE_MODEL=%s", path);
    snprintf(whole, sizeof whole, "error: %s:%s\n", path, message);
    refused(whole, setting, NULL);
}

static void mistakes_in_files_are_explained(void **state) {
    (void)state;
    refused("error: CPU_DEVICE_MODEL=no/file: cannot open the file: No such file or directory\n",
            "CPU_DEVICE_MODEL=no/file", NULL);
    refused("error: CPU_DEVICE_MODEL=no.model: cannot open the file: No such file or directory\n",
            "CPU_DEVICE_MODEL=no.model", NULL);
    refused_line("", " the line \"nvls NUMBER\" is missing (in GB/s); see cpu_device/h100.model");
    refused_line("nvls", "18: want a name and one number, such as \"memory 2970\"");
    refused_line("# \n\nnvls 1 2", "20: want a name and one number, such as \"memory 2970\"");
    refused_line("nvsl 1", "18: nvsl is not the name of a rate; see cpu_device/h100.model");
    refused_line("link 1", "18: link appears twice; remove one line");
    refused_line("nvls 1GB", "18: nvls 1GB: want a number above 0");
    refused_line("nvls nan", "18: nvls nan: want a number above 0");
    refused_line("nvls -1", "18: nvls -1: want a number above 0");
    char zero[400], message[500];
    const char *path = write_model("zero.model", "memory 0\n", ROUND);
    snprintf(zero, sizeof zero, "CPU_DEVICE_MODEL=%s", path);
    snprintf(message, sizeof message, "error: %s:1: memory 0: want a number above 0\n", path);
    refused(message, zero, NULL);
}

static void without_a_model_the_device_computes(void **state) {
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        cpu_model = NULL;
        set_variables((const char *[]){NULL});
        cpu_model_init();
        _exit(cpu_model || !cpu_computes || cpu_model_devices() || !isinf(cpu_model_lost(0)));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    WITH(H100, "CPU_DEVICE_COMPUTE=1");
    assert_true(cpu_model && cpu_computes);
    WITH(H100, "CPU_DEVICE_COMPUTE=0");
    assert_true(cpu_model && !cpu_computes);
}

static int make_folder(void **state) {
    (void)state;
    const char *place = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/model.XXXXXX", place ? place : "/tmp");
    for (int i = 0; i < CPU_MAX_DEVICES; i++)
        all[i] = i;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const files[] = {"round.model", "wrong.model", "zero.model"};
    for (int i = 0; i < 3; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_take_their_formulas),
        cmocka_unit_test(collectives_in_a_node_take_their_formulas),
        cmocka_unit_test(the_topology_decides_on_the_links),
        cmocka_unit_test(slow_links_delay_those_that_use_them),
        cmocka_unit_test(lost_devices_have_a_time),
        cmocka_unit_test(all_reduces_take_as_long_as_published),
        cmocka_unit_test(short_all_reduces_are_at_most_so_much_faster),
        cmocka_unit_test(products_take_as_long_as_published),
        cmocka_unit_test(trees_win_over_rings_for_short_messages_between_nodes),
        cmocka_unit_test(the_file_h100_is_the_model_h100),
        cmocka_unit_test(the_readme_shows_the_rates),
        cmocka_unit_test(mistakes_in_variables_are_explained),
        cmocka_unit_test(mistakes_in_faults_are_explained),
        cmocka_unit_test(mistakes_in_files_are_explained),
        cmocka_unit_test(without_a_model_the_device_computes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
