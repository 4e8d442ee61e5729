// The model of a GPU: how long operations would take on it and between several of them
// (CPU_DEVICE_MODEL). The streams (stream.c) and the collectives (collectives.c) add these times up
// to the modelled clock. All functions are plain formulas, so a program that makes the same calls
// gets the same modelled times on every machine. README.md of this folder says what the model
// leaves out. gpu_model.c reads the environment and holds the costs of one device, gpu_rates.c the
// models and the reader of their files, gpu_collectives.c the costs of collectives.
#pragma once
#include <stddef.h>

// ../h100.model explains the members after the name. Here, all times are in seconds, and all rates
// in bytes or operations per second.
struct cpu_model {
    char name[32];
    double capacity;
    double launch_call, product_call, event_call, collective_call, graph_node, wake;
    double latency, gap, graph_gap, memory, fp32, tf32, bf16, mma, instructions, threads, wait;
    double kernel, product, pcie, pageable;
    double link, pair, link_latency, network, network_latency, nvls;
};

// The model, or NULL. cpu_model_init sets it from the environment. If a variable has a wrong value,
// it prints one line about the mistake and ends the program.
extern const struct cpu_model *cpu_model;
void cpu_model_init(void);

// Ends the program in the same way if CPU_DEVICE_SLOW or CPU_DEVICE_LOST names a device that does
// not exist.
void cpu_model_check_faults(int devices);

// Returns nodes x GPUs of CPU_DEVICE_TOPOLOGY, or 0 without it. This is the default of CPU_DEVICES.
int cpu_model_devices(void);

// Returns the node of a device (its number before CUDA_VISIBLE_DEVICES).
int cpu_model_node(int device);

// 0 with CPU_DEVICE_COMPUTE=0: kernels, products, copies and reductions do nothing, and only the
// modelled clock runs.
extern int cpu_computes;

enum cpu_cost_kind {
    CPU_KERNEL,       // bytes that it reads and writes, instructions and waits of its threads
    CPU_PRODUCT_FP32, // flops, those of whole tiles, and bytes of the three matrices
    CPU_PRODUCT_TF32,
    CPU_PRODUCT_BF16,
    CPU_COPY_TO_DEVICE, // bytes: what it copies
    CPU_COPY_TO_HOST,
    CPU_COPY_PAGEABLE, // in either direction
    CPU_COPY_ON_DEVICE,
    CPU_COLLECTIVE, // cpu_model_collective has its time
    CPU_NO_COST     // events and waits
};

// What an operation needs.
struct cpu_cost {
    enum cpu_cost_kind kind;
    const char *name; // a literal, such as "sgd_step"
    double bytes, flops, tile_flops, instructions;
    double threads, waits; // of a kernel: how many threads it has, and how often each waits
    unsigned long long comm,
        number;   // of a collective: its communicator, and its number there; else 0
    int in_graph; // 1: it was captured
};

// Returns the seconds of an operation on this device (its number before CUDA_VISIBLE_DEVICES), from
// the end of the operation before it on a busy stream or in a graph, or from its start on an idle
// stream.
double cpu_model_seconds(const struct cpu_cost *cost, int device);

// Returns the seconds from the arrival of the last rank to the end of a collective on all ranks.
// devices[ranks]: the numbers of the ranks' devices, which decide on their nodes
// (CPU_DEVICE_TOPOLOGY). kind: call_kind of comm.h. bytes: of the longest buffer of any rank. The
// algorithm is the fastest one, or NCCL_ALGO.
double cpu_model_collective(int kind, double bytes, const int *devices, int ranks);

// What a send from one device to another takes with one of NCCL's protocols. All sends of a group
// share the link of a device (or, to another node, its network interface), and so do all receives.
struct cpu_transfer {
    double latency; // seconds, however many bytes
    double link;    // seconds for which it uses the links of both devices
    double path;    // seconds for which its bytes are under way, if nothing else uses the links
};
enum { CPU_PROTOCOLS = 2 };
struct cpu_transfer cpu_model_transfer(int protocol, double bytes, int from, int to);

// Returns the modelled time at which this device fails (CPU_DEVICE_LOST), or INFINITY.
double cpu_model_lost(int device);
