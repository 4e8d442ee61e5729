// The times of collectives, from the model that NCCL's own tuner uses to choose an algorithm: a
// latency for each step, and bytes over the rate of the slowest link (src/graph/tuning.cc of
// NVIDIA/nccl, v2.28). S is the longest buffer of a rank, n the number of ranks, c = S / n.
//
//   all-reduce, ring            2 (n - 1) steps; a link carries 2 (n - 1) chunks c
//   all-reduce, tree            up and down: S twice, as 2 n chunks c; few steps between nodes
//   all-reduce, NVLS            the switch of the node sums; a link carries (n + 1) chunks c
//   all-gather, reduce-scatter  ring: n - 1 steps, n - 1 chunks c
//   broadcast, reduce           chain: n - 1 steps, n chunks c one after the other
//
// NVLS: a rank reads the sum of its own chunk from the switch, which takes that chunk of every rank
// (n chunks leave the memory of each rank), and multicasts the sum (one more chunk). Between nodes,
// each rank exchanges its chunk of the node's sum with those of the other nodes along two trees.
//
// The constants without another source fit the published tables of tests/test_published.c.
#include "comm.h"
#include "gpu_rates.h"
#include <strings.h>

enum algorithm { RING, TREE, NVLS, NVLS_TREE, ALGORITHMS }; // NVLS_TREE: NVLS between nodes
static const char *const algorithm_names[ALGORITHMS] = {"Ring", "Tree", "NVLS", "NVLSTree"};
static int allowed[ALGORITHMS];

// NCCL moves data by one of several protocols. With Simple, a rank sends a whole chunk and then a
// flag, which tells the receiver that the chunk is complete. With LL, it sends a flag with every 4
// bytes. The receiver can then use each part at once, but the flags take half of the link. The
// shares of the links are those of tuning.cc, where LL reaches 141 of 371 GB/s on Hopper. The
// protocol LL128, whose values are between those of the other two, is left out.
static const struct protocol {
    double base;                      // seconds of any collective
    double link_steps, network_steps; // the latency of a step, as a share of that of Simple
    double link_share, network_share; // of the rate
    double ramp;                      // see seconds_of_chunks
} protocols[CPU_PROTOCOLS] = {{8.8e-6, 0.3, 0.36, 0.38, 0.12, 0}, {8.4e-6, 1, 1, 1, 1, 0.65}};
enum { SIMPLE = CPU_PROTOCOLS - 1 };

static const double TREE_SHARE = 0.92; // of the rate, in tuning.cc
static const double NVLS_BASE = 25e-6; // in tuning.cc
static const double NVLS_STEP = 1.5;   // the latency of a step between nodes, relative to a ring
static const double RAMP_BYTES = 2.3e6;
static const double NVLS_RAMP_RATE = 187e9; // the rate of the ramp of NVLS, at most

// Sends between nodes: their share of the network's rate, and the time that the network interface
// needs for each message.
static const double SEND_SHARE = 0.8, SEND_MESSAGE = 3e-6;
// NCCL moves this many bytes of a message inside a node over few channels, which together reach the
// rate pair, and the rest over more.
static const double PAIR_BYTES = 68e6;

// A communicator: its nodes, and the ranks on its smallest and its largest node.
struct layout {
    int ranks, nodes, fewest, most;
    double link_factor, network_factor; // how many times as slow the slowest pair of ranks is
    double network, interface;          // rates of the slowest node, and of its slowest interface
};

// Reads a list such as "Tree", "Ring,Tree" or "^NVLS" (all but NVLS).
void cpu_model_choose_algorithms(void) {
    const char *list = getenv("NCCL_ALGO"), *p = list;
    int but = list && *list == '^';
    for (int a = 0; a < ALGORITHMS; a++)
        allowed[a] = !list || but;
    if (!list)
        return;
    p += but;
    do {
        size_t length = strcspn(p, ",");
        int a = 0;
        while (a < ALGORITHMS && (strlen(algorithm_names[a]) != length ||
                                  strncasecmp(p, algorithm_names[a], length) != 0))
            a++;
        if (a == ALGORITHMS)
            cpu_fail(
                "NCCL_ALGO=%s: the model knows Ring, Tree, NVLS, NVLSTree, several with commas, "
                "or all but some, such as ^NVLS",
                list);
        allowed[a] = !but;
        p += length + (p[length] == ',');
    } while (*p);
}

// Sets the two factors.
static void find_slow_pairs(struct layout *l, const int *devices) {
    l->link_factor = l->network_factor = 1;
    for (int a = 0; a < l->ranks; a++)
        for (int b = 0; b < a; b++) {
            int same_node = cpu_model_node(devices[a]) == cpu_model_node(devices[b]);
            double *factor = same_node ? &l->link_factor : &l->network_factor;
            *factor = fmax(*factor, cpu_model_slow_link(devices[a], devices[b]));
        }
}

static struct layout layout_of(const int *devices, int ranks) {
    int on_node[CPU_MAX_DEVICES] = {0};
    struct layout l = {ranks, .fewest = ranks, .network = INFINITY, .interface = INFINITY};
    find_slow_pairs(&l, devices);
    for (int r = 0; r < ranks; r++)
        on_node[cpu_model_node(devices[r])]++;
    for (int node = 0; node < CPU_MAX_DEVICES; node++) {
        if (!on_node[node])
            continue;
        double rate = cpu_model->network / cpu_model_slow_network(node) / l.network_factor;
        l.nodes++;
        l.fewest = on_node[node] < l.fewest ? on_node[node] : l.fewest;
        l.most = on_node[node] > l.most ? on_node[node] : l.most;
        l.network = fmin(l.network, on_node[node] * rate);
        l.interface = fmin(l.interface, rate);
    }
    return l;
}

// Chunks of medium size do not reach the rate of a link: the first 2.3 MB of each chunk are slower.
// NCCL's tuner has tables for this effect (treeCorrectionFactor).
static double seconds_of_chunks(double chunks, double bytes, double rate, double ramp) {
    return chunks * (bytes + ramp * fmin(bytes, RAMP_BYTES)) / rate;
}

// NCCL builds one ring (or tree) per network interface, so all interfaces of a node work at the
// same time: between nodes, the rate is their sum, unless the links inside the nodes are slower.
static double slowest(const struct layout *l, const struct protocol *p) {
    double link = l->most > 1 ? cpu_model->link / l->link_factor * p->link_share : INFINITY;
    return l->nodes > 1 ? fmin(link, l->network * p->network_share) : link;
}

static double latency(const struct protocol *p, double link_steps, double network_steps) {
    return p->base + link_steps * p->link_steps * cpu_model->link_latency +
           network_steps * p->network_steps * cpu_model->network_latency;
}

// A ring or chain that goes around the ranks in this number of rounds; it enters each node once per
// round.
static double ring(const struct layout *l, const struct protocol *p, int rounds, int chunks,
                   double bytes) {
    int network_steps = rounds * (l->nodes - 1), steps = rounds * (l->ranks - 1);
    return latency(p, steps - network_steps, network_steps) +
           seconds_of_chunks(chunks, bytes, slowest(l, p), p->ramp);
}

// A chain inside each node, and a binary tree over the nodes.
static double tree(const struct layout *l, const struct protocol *p, double bytes) {
    int depth = (int)log2(l->nodes);
    return latency(p, 2 * (l->most - 1), 2 * depth) +
           seconds_of_chunks(2 * l->ranks, bytes, TREE_SHARE * slowest(l, p), p->ramp);
}

// Inside a node, a link carries (most + 1) chunks of a rank, which is S / most. Between two nodes,
// each chunk crosses the network once. In the two trees of more nodes it does so twice, because
// each node has two children in one tree and none in the other.
static double nvls(const struct layout *l, double bytes) {
    if (cpu_model->nvls == 0 || l->most == 1 || l->fewest < l->most)
        return INFINITY;
    double chunk = bytes * l->ranks / l->most, ramp = fmin(chunk, RAMP_BYTES), outside = 0;
    double rate = cpu_model->nvls * (l->nodes > 1 ? TREE_SHARE : 1);
    double ramp_rate = fmin(rate / (1 + protocols[SIMPLE].ramp), NVLS_RAMP_RATE);
    double inside = (l->most + 1) * l->link_factor * (ramp / ramp_rate + (chunk - ramp) / rate);
    if (l->nodes > 1)
        outside = seconds_of_chunks(l->nodes > 2 ? 2 : 1, chunk, l->network / l->most,
                                    protocols[SIMPLE].ramp);
    return NVLS_BASE + 2 * (int)log2(l->nodes) * NVLS_STEP * cpu_model->network_latency +
           fmax(inside, outside);
}

// The time for which a message uses a rank's link, or, to another node, its network interface. All
// messages of a rank in one direction share them.
static double link_seconds(const struct layout *l, const struct protocol *p, double bytes,
                           int outside) {
    if (!outside)
        return seconds_of_chunks(1, bytes, cpu_model->link * p->link_share, p->ramp);
    return SEND_MESSAGE +
           seconds_of_chunks(1, bytes, SEND_SHARE * l->interface * p->network_share, p->ramp);
}

// The time that a message needs if it has the link for itself. A slow link delays only its own
// message.
static double path_seconds(const struct layout *l, const struct protocol *p, double bytes,
                           int outside) {
    double link = link_seconds(l, p, bytes, outside);
    return outside ? link : l->link_factor * fmax(link, fmin(bytes, PAIR_BYTES) / cpu_model->pair);
}

static double all_reduce(const struct layout *l, double bytes) {
    double best = allowed[l->nodes > 1 ? NVLS_TREE : NVLS] ? nvls(l, bytes) : INFINITY;
    int nothing_else = isinf(best) && !allowed[TREE]; // then NCCL takes a ring
    for (int p = 0; p < CPU_PROTOCOLS; p++) {
        if (allowed[RING] || nothing_else)
            best = fmin(best, ring(l, &protocols[p], 2, 2 * (l->ranks - 1), bytes));
        if (allowed[TREE])
            best = fmin(best, tree(l, &protocols[p], bytes));
    }
    return best;
}

double cpu_model_collective(int kind, double bytes, const int *devices, int ranks) {
    if (ranks == 1) {
        struct cpu_cost copy = {.kind = CPU_COPY_ON_DEVICE, .bytes = bytes};
        return cpu_model_seconds(&copy, *devices);
    }
    struct layout l = layout_of(devices, ranks);
    if (kind == CALL_ALL_REDUCE)
        return all_reduce(&l, bytes / ranks);
    int chunks = kind == CALL_BROADCAST || kind == CALL_REDUCE ? ranks : ranks - 1;
    double best = INFINITY;
    for (int p = 0; p < CPU_PROTOCOLS; p++)
        best = fmin(best, ring(&l, &protocols[p], 1, chunks, bytes / ranks));
    return best;
}

struct cpu_transfer cpu_model_transfer(int protocol, double bytes, int from, int to) {
    const int devices[] = {from, to};
    const struct protocol *p = &protocols[protocol];
    if (from == to)
        return (struct cpu_transfer){.path = cpu_model_collective(CALL_SEND, bytes, devices, 1)};
    struct layout l = layout_of(devices, 2);
    int outside = l.nodes > 1;
    return (struct cpu_transfer){latency(p, !outside, outside), link_seconds(&l, p, bytes, outside),
                                 path_seconds(&l, p, bytes, outside)};
}
