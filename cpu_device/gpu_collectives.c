// The times of collectives, from the model that NCCL's own tuner uses to choose an algorithm: a
// latency for each step, and bytes over the rate of the slowest link (src/graph/tuning.cc of
// NVIDIA/nccl, v2.28). S is the longer buffer of a rank, n the number of ranks, c = S / n.
//
//   all-reduce, ring            2 (n - 1) steps; a link carries 2 (n - 1) chunks c
//   all-reduce, tree            up and down: S twice, as 2 n chunks c; few steps between nodes
//   all-reduce, NVLS            the switch of the node sums; a link carries (n + 1) chunks c
//   all-gather, reduce-scatter  ring: n - 1 steps, n - 1 chunks c
//   broadcast, reduce           chain: n - 1 steps, n chunks c one after the other
//   all-to-all, gather, scatter one step; a link carries the n - 1 chunks c for other ranks
//
// NVLS: a rank reads the sum of its own chunk from the switch, which takes that chunk of every rank
// (n chunks leave the memory of each rank), and multicasts the sum (one more chunk).
#include "cpu_device/comm.h"
#include "cpu_device/gpu_rates.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum algorithm { RING, TREE, NVLS, ALGORITHMS };
static const char *const algorithm_names[ALGORITHMS] = {"Ring", "Tree", "NVLS"};
static int allowed[ALGORITHMS];

// NCCL moves data by one of several protocols. With Simple, a rank sends a whole chunk and then a
// flag, which tells the receiver that the chunk is complete. With LL, it sends a flag with every 4
// bytes. The receiver can then use each part at once, but the flags take half of the link. The
// values are those of tuning.cc, where LL reaches 141 of 371 GB/s on Hopper and 39 of 384 GB/s
// between nodes. The protocol LL128, whose values are between those of the other two, is left out.
static const struct protocol {
    double base;                      // seconds of any collective
    double link_steps, network_steps; // the latency of a step, as a share of that of Simple
    double link_share, network_share; // of the rate
    double ramp;                      // see seconds_of_chunks
} protocols[] = {{6.6e-6, 0.18, 0.36, 0.38, 0.1, 0}, {8.4e-6, 1, 1, 1, 1, 0.65}};
enum { PROTOCOLS = sizeof protocols / sizeof *protocols };

static const double TREE_SHARE = 0.92; // of the rate, in tuning.cc
static const double NVLS_BASE = 25e-6; // in tuning.cc
static const double RAMP_BYTES = 2.3e6;

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
            cpu_model_fail(
                "NCCL_ALGO=%s: the model knows Ring, Tree, NVLS, several with commas, or "
                "all but some, such as ^NVLS",
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

// Chunks of medium size do not reach the rate of a link. The first 2.3 MB of each chunk are slower:
// 0.65 and 2.3 MB fit the published tables in tests/device/test_gpu_model.c. NCCL's tuner has
// tables for this effect (treeCorrectionFactor).
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

// A ring or chain that goes around the ranks so many times; it enters each node once per round.
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

static double nvls(const struct layout *l, double bytes) {
    return l->nodes > 1 || cpu_model->nvls == 0
               ? INFINITY
               : NVLS_BASE + seconds_of_chunks(l->ranks + 1, bytes,
                                               cpu_model->nvls / l->link_factor,
                                               protocols[PROTOCOLS - 1].ramp);
}

// Each rank sends to all others at once: over its links to those of its node, and over its network
// interface to those of other nodes. A slow link delays only its own chunk.
static double direct(const struct layout *l, const struct protocol *p, double bytes) {
    int inside = l->most - 1, outside = l->ranks - l->fewest;
    double link = cpu_model->link * p->link_share;
    double network = l->interface * p->network_share;
    double seconds = fmax(seconds_of_chunks(inside, bytes, link, p->ramp),
                          inside ? seconds_of_chunks(l->link_factor, bytes, link, p->ramp) : 0);
    if (outside)
        seconds = fmax(seconds, seconds_of_chunks(outside, bytes, network, p->ramp));
    return latency(p, !outside, !!outside) + seconds;
}

static double all_reduce(const struct layout *l, double bytes) {
    double best = INFINITY;
    if (allowed[NVLS])
        best = nvls(l, bytes);
    for (int p = 0; p < PROTOCOLS; p++) {
        // Where the switch cannot sum, NCCL_ALGO=NVLS is a ring.
        if (allowed[RING] || (!allowed[TREE] && isinf(nvls(l, bytes))))
            best = fmin(best, ring(l, &protocols[p], 2, 2 * (l->ranks - 1), bytes));
        if (allowed[TREE])
            best = fmin(best, tree(l, &protocols[p], bytes));
    }
    return best;
}

static double other(int kind, const struct layout *l, const struct protocol *p, double bytes) {
    switch (kind) {
    case CALL_ALL_GATHER:
    case CALL_REDUCE_SCATTER:
        return ring(l, p, 1, l->ranks - 1, bytes);
    case CALL_BROADCAST:
    case CALL_REDUCE:
        return ring(l, p, 1, l->ranks, bytes);
    default:
        return direct(l, p, bytes);
    }
}

double cpu_model_collective(int kind, double bytes, const int *devices, int ranks) {
    if (ranks == 1) {
        struct cpu_cost copy = {.kind = CPU_COPY_ON_DEVICE, .bytes = bytes};
        return cpu_model_seconds(&copy, *devices);
    }
    struct layout l = layout_of(devices, ranks);
    if (kind == CALL_ALL_REDUCE)
        return all_reduce(&l, bytes / ranks);
    double best = INFINITY;
    for (int p = 0; p < PROTOCOLS; p++)
        best = fmin(best, other(kind, &l, &protocols[p], bytes / ranks));
    return best;
}

double cpu_model_transfer(double bytes, int from, int to) {
    const int devices[] = {from, to};
    if (from == to)
        return cpu_model_collective(CALL_ALL_TO_ALL, bytes, devices, 1);
    struct layout l = layout_of(devices, 2);
    double best = INFINITY;
    for (int p = 0; p < PROTOCOLS; p++)
        best = fmin(best, ring(&l, &protocols[p], 1, 1, bytes));
    return best;
}
