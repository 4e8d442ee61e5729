// Tests of the model of a GPU: times computed by hand for a model with round numbers, and the
// message for each mistake in a variable or a file. test_published.c compares it with measurements.
#include "../src/comm.h"
#include "../src/gpu_rates.h"
#include "again.h"
#include "one_transfer.h"
#include "test.h"

static const double MIB = 1048576;
static int all[CPU_MAX_DEVICES]; // devices 0, 1, ...
static char folder[256];

static const char ROUND[] =
    "capacity 1\nlaunch_call 1\nproduct_call 1\nevent_call 1\ncollective_call 1\ngraph_node 1\n"
    "wake 1\nlatency 1\ngap 1\ngraph_gap 0.5\nmemory 1000\nfp32 10\ntf32 20\nbf16 40\nmma 30\n"
    "instructions 10\nthreads 100\nwait 2\nkernel 2\nproduct 4\npcie 10\n"
    "pageable 5\nlink 100\npair 50\nlink_latency 10\nnetwork 10\nnetwork_latency 50\n";

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
    static const char *const names[] = {
        "CPU_DEVICE_MODEL", "CPU_DEVICE_TOPOLOGY", "CPU_DEVICE_SLOW", "CPU_DEVICE_LOST",
        "NCCL_ALGO",        "CPU_DEVICE_COMPUTE",  "NCCL_IB_DISABLE"};
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
    return cpu_model_seconds(&(struct cpu_cost){.kind = kind, .bytes = bytes, .tile_flops = flops},
                             device);
}

TEST(operations_take_their_formulas) {
    with_round("nvls 0", "CPU_DEVICE_SLOW=3:1.5", NULL);
    near(cost(CPU_KERNEL, 1e6, 0, 0), 1 + 2 + 1);
    struct cpu_cost divides = {.kind = CPU_KERNEL, .bytes = 1e6, .instructions = 1e8};
    near(cpu_model_seconds(&divides, 0), 1 + 2 + 10); // its instructions take longer than its bytes
    struct cpu_cost waits = {.kind = CPU_KERNEL, .bytes = 1e6, .threads = 1e4, .waits = 5};
    near(cpu_model_seconds(&waits, 0), 1 + 2 + 10); // the GPU could hold 10 times the threads
    waits.threads = 3e5;                            // three times what it can hold
    near(cpu_model_seconds(&waits, 0), 1 + 2 + 30);
    struct cpu_cost captured = {.kind = CPU_KERNEL, .bytes = 1e6, .in_graph = 1};
    near(cpu_model_seconds(&captured, 0), 0.5 + 2 + 1);
    near(cost(CPU_COPY_TO_DEVICE, 1e6, 0, 0), 1 + 100);
    near(cost(CPU_COPY_TO_HOST, 2e6, 0, 0), 1 + 200);
    near(cost(CPU_COPY_PAGEABLE, 1e6, 0, 0), 1 + 200);
    near(cost(CPU_COPY_ON_DEVICE, 1e6, 0, 0), 1 + 2);
    near(cost(CPU_PRODUCT_FP32, 1e6, 1e9, 0), 1 + 4 + 100);
    near(cost(CPU_PRODUCT_TF32, 1e6, 1e9, 0), 1 + 4 + 50);
    near(cost(CPU_PRODUCT_BF16, 1e6, 1e9, 0), 1 + 4 + 25);
    near(cost(CPU_PRODUCT_FP32, 1e9, 1e9, 0), 1 + 4 + 1000); // its bytes take longer
    near(cost(CPU_NO_COST, 1e6, 1e9, 0), 0);
    near(cost(CPU_COLLECTIVE, 1e6, 1e9, 0), 0);
    near(cost(CPU_KERNEL, 1e6, 0, 3), 1.5 * 4);
    near(cost(CPU_COPY_TO_HOST, 1e6, 0, 3), 1.5 * 101);
    near(cost(CPU_PRODUCT_FP32, 1e6, 1e9, 3), 1.5 * 105);
    near(cpu_model_collective(CALL_ALL_REDUCE, 1e6, all, 1), 3); // a copy on the device
    near(cpu_model_collective(CALL_ALL_GATHER, 1e6, all + 3, 1), 1.5 * 3);
    near(one_transfer(1e6, 2, 2), 3);
}

static double collective(int kind, double bytes, int ranks) {
    return cpu_model_collective(kind, bytes, all, ranks);
}

// A chunk of 1 MB over 100 GB/s takes 10 us, and 6.5 us more because it is short.
TEST(collectives_in_a_node_take_their_formulas) {
    with_round("nvls 0", NULL, NULL);
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 6 * 10 + 6 * 16.5);
    near(collective(CALL_ALL_REDUCE, 4e3, 4), 8.8 + 6 * 3 + 6e3 / 38e3); // LL: 38 GB/s
    near(collective(CALL_ALL_REDUCE, 40e6, 4), 8.4 + 60 + 6 * (100 + 0.65 * 23));
    near(collective(CALL_ALL_GATHER, 4e6, 4), 8.4 + 3 * 10 + 3 * 16.5);
    near(collective(CALL_REDUCE_SCATTER, 4e6, 4), 8.4 + 3 * 10 + 3 * 16.5);
    near(collective(CALL_BROADCAST, 4e6, 4), 8.4 + 3 * 10 + 4 * 16.5);
    near(collective(CALL_REDUCE, 4e6, 4), 8.4 + 3 * 10 + 4 * 16.5);
    near(one_transfer(2e6, 0, 1), 8.4 + 10 + 40); // over few channels: 50 GB/s
    near(cpu_model_transfer(CPU_PROTOCOLS - 1, 2e6, 0, 1).link, 2 * 16.5);
    near(one_transfer(68e6, 0, 1), 8.4 + 10 + 1360);
    near(one_transfer(100e6, 0, 1), 8.4 + 10 + 1360);
    near(one_transfer(200e6, 0, 1), 8.4 + 10 + 2000 + 0.65 * 23);
    near(one_transfer(1e3, 0, 1), 8.8 + 3 + 1e3 / 38e3);
    with_round("nvls 90", NULL, NULL);
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 25 + 5 * 16.5 / 0.9);
    with_round("nvls 90", "NCCL_ALGO=ring", NULL);
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 6 * 10 + 6 * 16.5);
    with_round("nvls 90", "NCCL_ALGO=Tree", NULL);
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 6 * 10 + 8 * 16.5 / 0.92);
}

TEST(the_topology_decides_on_the_links) {
    static const int one_per_node[] = {0, 2, 4, 6}, three[] = {0, 1, 2};
    with_round("nvls 90", "CPU_DEVICE_TOPOLOGY=2x2", NULL);
    assert_int_equal(cpu_model_devices(), 4);
    assert_int_equal(cpu_model_node(1), 0);
    assert_int_equal(cpu_model_node(2), 1);
    // Each rank exchanges half of the sums of its node through its own interface, with 10 GB/s.
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 25 + 2 * 75 + 2 * 165);
    // A tree with LL, which reaches 2.4 GB/s.
    near(collective(CALL_ALL_REDUCE, 4e3, 4), 8.8 + 2 * 3 + 2 * 18 + 8e3 / (0.92 * 2.4e3));
    near(collective(CALL_ALL_GATHER, 4e6, 4), 8.4 + 2 * 10 + 50 + 3 * 16.5 * 5);
    near(collective(CALL_ALL_REDUCE, 2e6, 2), 8.4 + 2 * 10 + 2 * 16.5); // in one node: no NVLS gain
    // Node 1 has one rank, so one interface.
    near(cpu_model_collective(CALL_ALL_REDUCE, 3e6, three, 3), 8.4 + 2 * 10 + 2 * 50 + 4 * 165);
    near(one_transfer(1e6, 1, 2), 8.4 + 50 + 3 + 165 / 0.8);
    near(one_transfer(2e6, 2, 3), 8.4 + 10 + 40);
    with_round("nvls 90", "CPU_DEVICE_TOPOLOGY=2x2", "NCCL_IB_DISABLE=1");
    near(one_transfer(1e6, 1, 2), 8.4 + 50 + 3 + 1650 / (0.8 * 1.5)); // TCP has 1.5 GB/s
    near(one_transfer(2e6, 2, 3), 8.4 + 10 + 40);
    with_round("nvls 90", "CPU_DEVICE_TOPOLOGY=2x2", "NCCL_IB_DISABLE=0");
    near(one_transfer(1e6, 1, 2), 8.4 + 50 + 3 + 165 / 0.8);
    with_round("nvls 90", "CPU_DEVICE_TOPOLOGY=2x2", "NCCL_ALGO=Ring");
    // Two of six steps go through the network, where two interfaces make 20 GB/s.
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 4 * 10 + 2 * 50 + 6 * 16.5 * 5);
    with_round("nvls 90", "CPU_DEVICE_TOPOLOGY=4x2", "NCCL_ALGO=NVLSTree");
    near(collective(CALL_ALL_REDUCE, 8e6, 8), 25 + 2 * 2 * 75 + 2 * (400 + 0.65 * 230));
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

TEST(slow_links_delay_those_that_use_them) {
    with_round("nvls 0", "CPU_DEVICE_SLOW=2-3:4,1:2", NULL);
    near(cost(CPU_KERNEL, 1e6, 0, 1), 8);
    near(cost(CPU_KERNEL, 1e6, 0, 2), 4);
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 6 * 10 + 6 * 16.5 * 4);
    near(collective(CALL_ALL_REDUCE, 3e6, 3), 8.4 + 4 * 10 + 4 * 16.5);
    near(one_transfer(2e6, 3, 2), 8.4 + 10 + 4 * 40);
    with_round("nvls 90", "CPU_DEVICE_SLOW=3-2:4", "NCCL_ALGO=NVLS");
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 25 + 5 * 16.5 * 4 / 0.9);
    with_round("nvls 0", "CPU_DEVICE_SLOW=n1:2", "CPU_DEVICE_TOPOLOGY=2x2");
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 4 * 10 + 2 * 50 + 6 * 16.5 * 10);
    near(collective(CALL_ALL_REDUCE, 2e6, 2), 8.4 + 2 * 10 + 2 * 16.5);
    near(one_transfer(1e6, 0, 3), 8.4 + 50 + 3 + 2 * 165 / 0.8);
    with_round("nvls 0", "CPU_DEVICE_SLOW=1-2:4", "CPU_DEVICE_TOPOLOGY=2x2");
    near(collective(CALL_ALL_REDUCE, 4e6, 4), 8.4 + 4 * 10 + 2 * 50 + 6 * 16.5 * 20);
}

TEST(lost_devices_have_a_time) {
    with_round("nvls 0", "CPU_DEVICE_LOST=3:0.5,0:.25", NULL);
    assert_true(cpu_model_lost(3) == 0.5 && cpu_model_lost(0) == 0.25);
    assert_true(isinf(cpu_model_lost(1)));
    with_round("nvls 0", NULL, NULL);
    assert_true(isinf(cpu_model_lost(3)));
}

TEST(trees_win_over_rings_for_short_messages_between_nodes) {
    for (double mib = 1.0 / 64; mib <= 16384; mib *= 4) {
        double bytes = mib * MIB;
        WITH("CPU_DEVICE_MODEL=h100", "CPU_DEVICE_TOPOLOGY=8x8", "NCCL_ALGO=Ring");
        double ring = collective(CALL_ALL_REDUCE, bytes, 64),
               node = collective(CALL_ALL_REDUCE, bytes, 8);
        WITH("CPU_DEVICE_MODEL=h100", "CPU_DEVICE_TOPOLOGY=8x8", "NCCL_ALGO=Tree");
        double tree = collective(CALL_ALL_REDUCE, bytes, 64);
        assert_true(node < collective(CALL_ALL_REDUCE, bytes, 8));
        WITH("CPU_DEVICE_MODEL=h100", "CPU_DEVICE_TOPOLOGY=8x8");
        double fastest = collective(CALL_ALL_REDUCE, bytes, 64);
        WITH("CPU_DEVICE_MODEL=h100", "CPU_DEVICE_TOPOLOGY=8x8", "NCCL_ALGO=NVLSTree");
        assert_true(fastest == fmin(fmin(ring, tree), collective(CALL_ALL_REDUCE, bytes, 64)));
        assert_int_equal(tree < ring, mib <= 256);
    }
}

TEST(the_file_h100_is_the_model_h100) {
    struct cpu_model built_in, read;
    cpu_model_read("h100", &built_in);
    cpu_model_read("h100.model", &read);
    assert_string_equal(read.name, "h100");
    assert_memory_equal(&read, &built_in, sizeof read);
    WITH("CPU_DEVICE_MODEL=./h100.model");
    assert_memory_equal(cpu_model, &built_in, sizeof read);
    assert_true(cpu_model->memory == 2970e9 && cpu_model->capacity == 79.6 * 1024 * MIB);
}

// cpu_model_init must end another process with one line that holds the words.
static void refused(const char *setting, const char *model, const char *words) {
    char variables[450], text[600];
    set_variables((const char *[]){NULL});
    snprintf(variables, sizeof variables, "'%s' %s", setting, model ? model : "");
    int status = run_again(variables, "init", text, sizeof text);
    if (status != 1 || strncmp(text, "error: ", 7) || strcspn(text, "\n") + 1 != strlen(text) ||
        !strstr(text, words))
        fail_msg("%s: %d, not a line with \"%s\": %s", setting, status, words, text);
}

#define H100 "CPU_DEVICE_MODEL=h100"

TEST(mistakes_in_variables_are_explained) {
    static const struct {
        const char *variable, *model, *words, *values[20];
    } mistakes[] = {
        {"CPU_DEVICE_TOPOLOGY", NULL, "CPU_DEVICE_TOPOLOGY needs a model", {"2x8"}},
        {"CPU_DEVICE_SLOW", NULL, "CPU_DEVICE_SLOW needs a model", {"0:2"}},
        {"CPU_DEVICE_LOST", NULL, "CPU_DEVICE_LOST needs a model", {"0:2"}},
        {"CPU_DEVICE_COMPUTE", NULL, "CPU_DEVICE_COMPUTE=0 needs a model", {"0"}},
        {"CPU_DEVICE_COMPUTE", H100, "CPU_DEVICE_COMPUTE=no: want 1 or 0", {"no"}},
        {"CPU_DEVICE_MODEL", NULL, ": want a100, h100, h200, b200, l4, or a file", {"h10"}},
        {"CPU_DEVICE_MODEL", NULL, ": cannot open the file", {"no/file", "no.model"}},
        {"CPU_DEVICE_TOPOLOGY",
         H100,
         ": want nodes x GPUs per node, such as 2x8, with at most 64 GPUs",
         {"", "8", "0x8", "2x", "2x8x", "9x8", "-2x8", "2*8", "2x 8", "2x+8"}},
        {"NCCL_ALGO", H100, ": the model knows Ring, Tree, NVLS, NVLSTree", {"Ring,Trees", ""}},
        {"CPU_DEVICE_SLOW",
         H100,
         ": want 3:1.5 (device 3 takes 1.5 times as long)",
         {"", "3", "3:", "3:0", "3:-1", "3:x", "64:2", "3:2,", "3-3:2", "3-64:2", "3-:2", "n1:2",
          "n:2", "3:inf", "x:2", "3:2;4:2", "3:1e999", "3: 2", "3:0x2"}},
        {"CPU_DEVICE_LOST",
         H100,
         ": want a device and seconds, such as 3:0.5",
         {"", "3", "3:", "3:x", "64:1", "3:1,", "n0:1", "2-3:1"}},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        for (const char *const *value = mistakes[i].values; *value; value++) {
            char setting[100];
            snprintf(setting, sizeof setting, "%s=%s", mistakes[i].variable, *value);
            refused(setting, mistakes[i].model, mistakes[i].words);
        }
}

TEST(mistakes_in_files_are_explained) {
    static const struct {
        const char *line, *words; // the line follows the round numbers
    } mistakes[] = {
        {"", ": the line \"nvls NUMBER\" is missing (in GB/s)"},
        {"nvls", ":28: want a name and one number"},
        {"# \n\nnvls 1 2", ":30: want a name and one number"},
        {"nvsl 1", ":28: nvsl is not the name of a rate"},
        {"link 1", ":28: link appears twice"},
        {"nvls 1GB", ":28: nvls 1GB: want a number above 0"},
        {"nvls nan", ":28: nvls nan: want a number above 0"},
        {"nvls -1", ":28: nvls -1: want a number above 0"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        char setting[400];
        snprintf(setting, sizeof setting, "CPU_DEVICE_MODEL=%s",
                 write_model("wrong.model", ROUND, mistakes[i].line));
        refused(setting, NULL, mistakes[i].words);
    }
}

TEST(without_a_model_the_device_computes) {
    char text[100];
    set_variables((const char *[]){NULL});
    assert_int_equal(run_again("", "init", text, sizeof text), 0);
    WITH(H100, "CPU_DEVICE_COMPUTE=1");
    assert_true(cpu_model && cpu_computes);
    WITH(H100, "CPU_DEVICE_COMPUTE=0");
    assert_true(cpu_model && !cpu_computes);
}

static int make_folder(void **state) {
    const char *place = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/model.XXXXXX", place ? place : "/tmp");
    for (int i = 0; i < CPU_MAX_DEVICES; i++)
        all[i] = i;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    static const char *const files[] = {"round.model", "wrong.model"};
    for (int i = 0; i < 2; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(int argc, char **argv) {
    if (argc > 1) { // a test runs the program again
        cpu_model_init();
        return cpu_model || !cpu_computes || cpu_model_devices() || !isinf(cpu_model_lost(0));
    }
    return run_all_tests((struct around){make_folder, remove_folder});
}
