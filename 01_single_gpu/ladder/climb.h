// What the two files of the ladder share: ladder.c has the rungs, which are versions of a training
// run, and climb.c checks and times them.
#pragma once
#include "01_single_gpu/ladder/fused.h"
#include "common/device/device.h"
#include "common/models/model.h"
#include <pthread.h>

enum { BUFFERS = 2, MOST_THREADS = 64, MARKS = 5, RUNGS = 7 };

enum precision { FP32, TF32, BF16, PRECISIONS };

struct trainer {
    const struct rung *rung;
    cudaStream_t stream, copies;
    struct pass pass;
    struct model model;
    struct dataset host, device;         // the training set, in the memory of each
    uint32_t *host_order, *order;        // its samples in the order of the epoch
    uint32_t *picked;                    // those of one batch, for a graph
    float *parameters, *gradients;       // flat arrays, as in train.c
    float *velocity;                     // the momentum of SGD
    uint16_t *rounded;                   // the parameters in bfloat16
    float *activations[MOST_LAYERS + 1]; // [0]: the batch, in one of the buffers
    float *dy, *dx;
    uint8_t *labels;
    struct fused_product forward[MOST_LAYERS], gradient[MOST_LAYERS]; // of each layer, for rung 3
    struct stats *stats, *sums, *host_sums;
    // The buffers of batches. A worker fills one, and the stream copies moves it to the device.
    float *host_x[BUFFERS], *x[BUFFERS];
    uint8_t *host_y[BUFFERS], *y[BUFFERS];
    cudaEvent_t copied[BUFFERS], used[BUFFERS];
    pthread_t workers[MOST_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    long next, end, filled[BUFFERS], copied_steps; // steps that are taken, wanted, ready, copied
    long step;
    int waits; // 1: the host waits after each call
    enum precision precision;
    cudaGraphExec_t graph;
    cudaEvent_t *marks; // NULL: the phases are not timed
};

// A version of the training run.
struct rung {
    const char *name;
    void (*next_batch)(struct trainer *t); // brings the batch of the step to activations[0]
    int batch_calls;                       // operations that it queues
    void (*forward)(struct trainer *t), (*backward)(struct trainer *t);
    enum { NO_GRAPH, STEP_GRAPH, EPOCH_GRAPH } graph;
    void (*run)(struct trainer *t, long steps);
    int waits;                // 1: the host waits after each call
    int same_bits;            // the rung that computes exactly the same, or -1
    enum precision precision; // of products, unless --precision names another
};
extern const struct rung rungs[RUNGS];

extern struct settings { long rung, steps, threads, precision, floor; } settings;

// Returns "auto", "fp32", "tf32", "bf16", or NULL for a higher number.
const char *precision_word(int i);

// Makes the trainer ready for a run of this many steps with the rung, from the first one on.
void begin_rung(struct trainer *t, const struct rung *r, long steps);

// Returns a graph of training steps. next_batch may be NULL: then each of them computes the same
// batch.
cudaGraph_t capture(struct trainer *t, void (*next_batch)(struct trainer *t), long steps);

// Makes t->graph from the graph, and destroys the latter.
void instantiate(struct trainer *t, cudaGraph_t graph);

// Checks a rung, times it, and prints its row. before: the milliseconds of the rung before, or 0;
// gets those of this one.
void print_heading(const struct trainer *t);
void climb(struct trainer *t, const struct rung *r, double *before);
