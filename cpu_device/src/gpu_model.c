#include "gpu_rates.h"
#include "internal.h"

const struct cpu_model *cpu_model;
int cpu_computes = 1;

static struct cpu_model chosen;
static int nodes, devices_per_node; // 0 without CPU_DEVICE_TOPOLOGY: all devices are in one node
// With NCCL_IB_DISABLE=1: 8 GPUs of a node share an Ethernet card of 100 Gbit/s, as those of L4 do.
static const double ETHERNET = 1.5e9;
// How many times as slow they are (CPU_DEVICE_SLOW).
static double slow_device[CPU_MAX_DEVICES], slow_network[CPU_MAX_DEVICES];
static double slow_links[CPU_MAX_DEVICES][CPU_MAX_DEVICES];
static double lost_at[CPU_MAX_DEVICES];

// sscanf accepts more than these characters, such as spaces.
static int consists_of(const char *text, const char *characters) {
    return !text[strspn(text, characters)];
}

static void read_topology(void) {
    const char *text = getenv("CPU_DEVICE_TOPOLOGY");
    int first = 0, second = 0, end = 0;
    nodes = devices_per_node = 0;
    if (!text)
        return;
    sscanf(text, "%3dx%3d%n", &first, &second, &end);
    if (!consists_of(text, "0123456789x") || first < 1 || second < 1 || text[end] ||
        first * second > CPU_MAX_DEVICES)
        cpu_fail("CPU_DEVICE_TOPOLOGY=%s: want nodes x GPUs per node, such as 2x8, with at "
                 "most %d GPUs",
                 text, CPU_MAX_DEVICES);
    nodes = first;
    devices_per_node = second;
}

int cpu_model_devices(void) {
    return nodes * devices_per_node;
}

int cpu_model_node(int device) {
    return nodes ? device / devices_per_node : 0;
}

static int is_device(int n) {
    return n >= 0 && n < CPU_MAX_DEVICES;
}

// Moves past an entry of this length, which ends with the value, and the comma after it. Returns 0
// if the value or the end is wrong.
static int ends(const char **text, int length, double value) {
    const char *end = *text + length;
    *text = *end ? end + 1 : end;
    return value >= 0 && isfinite(value) && (!*end || (*end == ',' && end[1]));
}

// Reads one of DEVICE:FACTOR, DEVICE-DEVICE:FACTOR and nNODE:FACTOR. Returns 0 if it is none.
static int read_slow(const char **text) {
    int a, b, length;
    double factor, *one = NULL, *other = NULL;
    if (sscanf(*text, "n%3d:%lf%n", &a, &factor, &length) == 2 && a >= 0 &&
        a < (nodes ? nodes : 1)) {
        one = other = &slow_network[a];
    } else if (sscanf(*text, "%3d-%3d:%lf%n", &a, &b, &factor, &length) == 3 && is_device(a) &&
               is_device(b) && a != b) {
        one = &slow_links[a][b];
        other = &slow_links[b][a];
    } else if (sscanf(*text, "%3d:%lf%n", &a, &factor, &length) == 2 && is_device(a)) {
        one = other = &slow_device[a];
    }
    if (!one || !ends(text, length, factor) || factor == 0)
        return 0;
    *one = *other = factor;
    return 1;
}

static void read_faults(void) {
    const char *slow = getenv("CPU_DEVICE_SLOW"), *lost = getenv("CPU_DEVICE_LOST");
    for (int i = 0; i < CPU_MAX_DEVICES; i++) {
        slow_device[i] = slow_network[i] = 1;
        lost_at[i] = INFINITY;
        for (int j = 0; j < CPU_MAX_DEVICES; j++)
            slow_links[i][j] = 1;
    }
    for (const char *p = slow; p && (*p || p == slow);)
        if (!consists_of(slow, "0123456789.e:,-n") || !read_slow(&p))
            cpu_fail("CPU_DEVICE_SLOW=%s: want 3:1.5 (device 3 takes 1.5 times as long), 2-3:4 "
                     "(the link of devices 2 and 3) or n1:2 (the network of node 1)",
                     slow);
    for (const char *p = lost; p && (*p || p == lost);) {
        double seconds;
        int device, length;
        if (!consists_of(lost, "0123456789.e:,") ||
            sscanf(p, "%3d:%lf%n", &device, &seconds, &length) != 2 || !is_device(device) ||
            !ends(&p, length, seconds))
            cpu_fail("CPU_DEVICE_LOST=%s: want a device and seconds, such as 3:0.5", lost);
        lost_at[device] = seconds;
    }
}

int cpu_device_computes(void) {
    const char *compute = getenv("CPU_DEVICE_COMPUTE");
    return !compute || strcmp(compute, "0") != 0;
}

void cpu_model_init(void) {
    static const char *const needing[] = {"CPU_DEVICE_TOPOLOGY", "CPU_DEVICE_SLOW",
                                          "CPU_DEVICE_LOST"};
    const char *name = getenv("CPU_DEVICE_MODEL"), *compute = getenv("CPU_DEVICE_COMPUTE");
    if (compute && strcmp(compute, "0") != 0 && strcmp(compute, "1") != 0)
        cpu_fail("CPU_DEVICE_COMPUTE=%s: want 1 or 0", compute);
    cpu_computes = cpu_device_computes();
    if (!name && !cpu_computes)
        cpu_fail("CPU_DEVICE_COMPUTE=0 needs a model: set CPU_DEVICE_MODEL, such as h100");
    for (size_t i = 0; !name && i < sizeof needing / sizeof *needing; i++)
        if (getenv(needing[i]))
            cpu_fail("%s needs a model: set CPU_DEVICE_MODEL, such as h100", needing[i]);
    if (!name)
        return;
    cpu_model_read(name, &chosen);
    const char *without_ib = getenv("NCCL_IB_DISABLE");
    if (without_ib && strcmp(without_ib, "1") == 0)
        chosen.network = fmin(chosen.network, ETHERNET);
    read_topology();
    read_faults();
    cpu_model_choose_algorithms();
    cpu_model = &chosen;
}

void cpu_model_check_faults(int devices) {
    for (int i = devices; cpu_model && i < CPU_MAX_DEVICES; i++) {
        int is_slow = slow_device[i] != 1;
        for (int j = 0; j < CPU_MAX_DEVICES; j++)
            is_slow |= slow_links[i][j] != 1;
        if (is_slow || lost_at[i] < INFINITY)
            cpu_fail("%s: there is no device %d, because the last of %d is device %d: name "
                     "another one, or set CPU_DEVICES",
                     is_slow ? "CPU_DEVICE_SLOW" : "CPU_DEVICE_LOST", i, devices, devices - 1);
    }
}

double cpu_model_slow_link(int a, int b) {
    return slow_links[a][b];
}

double cpu_model_slow_network(int node) {
    return slow_network[node];
}

double cpu_model_lost(int device) {
    return cpu_model ? lost_at[device] : INFINITY;
}

// The roofline model (Williams, Waterman, Patterson, 2009): a kernel takes as long as its bytes or
// its instructions, whichever is longer. A kernel whose threads wait for memory may take longer,
// because the GPU holds only so many threads at a time (Little's law). Kernels and products also
// have a fixed time, for the first loads and the last results, so the efficiency grows with the
// size: a product whose operations take as long as that fixed time reaches half the rate. A copy on
// the device reads and writes each byte.
double cpu_model_seconds(const struct cpu_cost *cost, int device) {
    const struct cpu_model *m = cpu_model;
    double rate = 0, seconds = 0;
    switch (cost->kind) {
    case CPU_PRODUCT_FP32:
    case CPU_PRODUCT_TF32:
    case CPU_PRODUCT_BF16:
        rate = cost->kind == CPU_PRODUCT_FP32   ? m->fp32
               : cost->kind == CPU_PRODUCT_TF32 ? m->tf32
                                                : m->bf16;
        seconds = m->product + fmax(cost->tile_flops / rate, cost->bytes / m->memory);
        break;
    case CPU_COPY_TO_DEVICE:
    case CPU_COPY_TO_HOST:
        seconds = cost->bytes / m->pcie;
        break;
    case CPU_COPY_PAGEABLE:
        seconds = cost->bytes / m->pageable;
        break;
    case CPU_COPY_ON_DEVICE:
        seconds = 2 * cost->bytes / m->memory;
        break;
    case CPU_KERNEL:
        seconds = fmax(1, cost->threads / m->threads) * cost->waits * m->wait;
        seconds = fmax(seconds, cost->instructions / m->instructions);
        seconds = m->kernel + fmax(seconds, cost->bytes / m->memory);
        break;
    case CPU_COLLECTIVE:
    case CPU_NO_COST:
        return 0;
    }
    return ((cost->in_graph ? m->graph_gap : m->gap) + seconds) * slow_device[device];
}
