// Checks and times the rungs of the ladder.
#include "01_single_gpu/ladder/climb.h"
#include "common/base/say.h"
#include "common/kernels/kernels.h"
#include "common/layers/layers.h"
#include "common/training/training_options.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKED = 10 }; // training steps

// By how much a loss may differ from that of rung 0, in relation to it.
static const double tolerances[PRECISIONS] = {1e-5, 1e-3, 1e-2};

struct result {
    double ms, loss; // of a training step
    float *parameters;
};

static struct result run(struct trainer *t, const struct rung *r, long steps) {
    struct result result;
    size_t bytes = t->model.parameters * sizeof(float);
    begin_rung(t, r, steps);
    double start = device_seconds(t->stream);
    r->run(t, steps);
    result.ms = 1e3 * (device_seconds(t->stream) - start) / steps;
    sum_stats(t->stats, t->sums, t->stream);
    CUDA_CHECK(
        cudaMemcpyAsync(t->host_sums, t->sums, sizeof *t->sums, cudaMemcpyDeviceToHost, t->stream));
    CUDA_CHECK(cudaStreamSynchronize(t->stream));
    result.loss = t->host_sums->loss / t->host_sums->samples;
    result.parameters = malloc(bytes);
    if (!result.parameters)
        fail("no memory for the parameters");
    CUDA_CHECK(cudaMemcpy(result.parameters, t->parameters, bytes, cudaMemcpyDeviceToHost));
    if (t->graph)
        CUDA_CHECK(cudaGraphExecDestroy(t->graph));
    t->graph = NULL;
    return result;
}

// Trains some steps with the rung and with rung 0. Writes how their losses differ.
static void check(struct trainer *t, const struct rung *r, char *text, size_t size) {
    long steps = settings.steps < CHECKED ? settings.steps : CHECKED;
    struct result first = run(t, rungs, steps), same = {0};
    if (r->same_bits >= 0)
        same = run(t, &rungs[r->same_bits], steps);
    struct result mine = run(t, r, steps);
    double difference = fabs(mine.loss - first.loss) / fabs(first.loss);
    if (!device_computes())
        snprintf(text, size, "not computed");
    else if (!(difference <= tolerances[t->precision]))
        fail("rung %td trains another model: after %ld steps, its mean loss is %.9g, and that of "
             "rung 0 is %.9g",
             r - rungs, steps, mine.loss, first.loss);
    else if (same.parameters &&
             memcmp(same.parameters, mine.parameters, t->model.parameters * sizeof(float)))
        fail("rung %td: after %ld steps, its parameters differ from those of rung %d", r - rungs,
             steps, r->same_bits);
    else if (same.parameters)
        snprintf(text, size, "%.4f, the bits of rung %d", mine.loss, r->same_bits);
    else
        snprintf(text, size, "%.4f, within %.0e", mine.loss, tolerances[t->precision]);
    free(first.parameters);
    free(same.parameters);
    free(mine.parameters);
}

// Writes the milliseconds of each phase. A launch of a graph has no phases.
static void time_phases(struct trainer *t, const struct rung *r, char *text, size_t size) {
    cudaEvent_t marks[MARKS];
    double sums[MARKS] = {0};
    snprintf(text, size, "%6s %7s %8s %6s", "-", "-", "-", "-");
    if (r->graph)
        return;
    for (int i = 0; i < MARKS; i++)
        CUDA_CHECK(cudaEventCreate(&marks[i]));
    int steps = settings.steps < CHECKED ? (int)settings.steps : CHECKED;
    begin_rung(t, r, steps);
    t->marks = marks;
    for (int s = 0; s < steps; s++) {
        r->run(t, 1);
        CUDA_CHECK(cudaStreamSynchronize(t->stream));
        for (int i = 1; i < MARKS; i++) {
            float ms;
            CUDA_CHECK(cudaEventElapsedTime(&ms, marks[i - 1], marks[i]));
            sums[i] += ms / steps;
        }
    }
    t->marks = NULL;
    for (int i = 0; i < MARKS; i++)
        CUDA_CHECK(cudaEventDestroy(marks[i]));
    snprintf(text, size, "%6.3f %7.3f %8.3f %6.3f", sums[1], sums[2], sums[3], sums[4]);
}

// Returns the number of operations of a training step without its batch: the nodes of its graph.
static size_t count_operations(struct trainer *t) {
    size_t count;
    t->waits = 0;
    cudaGraph_t graph = capture(t, NULL, 1);
    CUDA_CHECK(cudaGraphGetNodes(graph, NULL, &count));
    CUDA_CHECK(cudaGraphDestroy(graph));
    return count;
}

// The floor. Each function returns the milliseconds that a training step needs at least.

enum { ROUNDS = 10, SIDE = 2048, COPIED = 64 << 20 };

// A graph with the same number of kernels. Each of them writes one number.
static double launch_floor(struct trainer *t, size_t operations) {
    cudaGraph_t graph;
    CUDA_CHECK(cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeGlobal));
    for (size_t i = 0; i < operations; i++)
        fill(t->dx, 1, 0, t->stream);
    CUDA_CHECK(cudaStreamEndCapture(t->stream, &graph));
    instantiate(t, graph);
    CUDA_CHECK(cudaGraphLaunch(t->graph, t->stream));
    double start = device_seconds(t->stream);
    for (int i = 0; i < ROUNDS; i++)
        CUDA_CHECK(cudaGraphLaunch(t->graph, t->stream));
    double ms = 1e3 * (device_seconds(t->stream) - start) / ROUNDS;
    CUDA_CHECK(cudaGraphExecDestroy(t->graph));
    t->graph = NULL;
    return ms;
}

// Its arithmetic at the rate of a large product.
static double arithmetic_floor(struct trainer *t) {
    size_t matrix = (size_t)SIDE * SIDE;
    float *numbers;
    double flops = 0, large = 2. * SIDE * matrix;
    for (int i = 0; i < t->model.count; i++) // forward, dW and, but for the first layer, dx
        flops += (i ? 3 : 2) * opt.batch * t->model.layers[i].flops;
    DEVICE_ALLOC(numbers, "floor", 3 * matrix * sizeof *numbers);
    CUDA_CHECK(cudaMemsetAsync(numbers, 0, 3 * matrix * sizeof *numbers, t->stream));
    double start = 0;
    for (int i = 0; i < 2; i++) { // the second one is timed
        start = device_seconds(t->stream);
        matmul_rounded(&t->pass, 0, 1, SIDE, SIDE, SIDE, numbers, numbers + matrix, 0,
                       numbers + 2 * matrix, CUDA_R_32F);
    }
    double seconds = device_seconds(t->stream) - start;
    CUDA_CHECK(cudaFree(numbers));
    return 1e3 * seconds * flops / large;
}

// Its memory traffic at the rate of a large copy: the update reads three floats per parameter and
// writes two; forward and backward read the weights and write the gradients; each activation and
// its gradient is written once and read twice.
static double traffic_floor(struct trainer *t) {
    char *bytes;
    double weights = type_size(t->pass.type), traffic = 0;
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        traffic += l->parameters * (5 * 4 + 4 + (i ? 2 : 1) * weights);
        traffic += 3. * sizeof(float) * opt.batch * (l->inputs + l->outputs);
    }
    DEVICE_ALLOC(bytes, "floor", COPIED);
    CUDA_CHECK(cudaMemsetAsync(bytes, 0, COPIED, t->stream));
    double start = device_seconds(t->stream);
    for (int i = 0; i < ROUNDS; i++)
        CUDA_CHECK(cudaMemcpyAsync(bytes, bytes + COPIED / 2, COPIED / 2, cudaMemcpyDeviceToDevice,
                                   t->stream));
    double seconds = (device_seconds(t->stream) - start) / ROUNDS;
    CUDA_CHECK(cudaFree(bytes));
    return 1e3 * seconds * traffic / COPIED;
}

void print_heading(const struct trainer *t) {
    print_device();
    say("ladder    %s, %ld steps of batch %ld%s\n", t->model.shape, settings.steps, opt.batch,
        device_is_modelled() ? "; times are modelled, and leave out the host's own work" : "");
    say("%-27s %8s %8s %6s %8s  %-16s%s\n", "rung", "ms/step", "images/s", "faster", "launches",
        "x floor (limit)", " batch forward backward update  loss of 10 steps");
}

// Measures the floor, and writes how many times as long the rung takes, and which limit is the
// highest.
static void compare_with_floor(struct trainer *t, double ms, size_t operations, char *text,
                               size_t size) {
    static const char *const limits[] = {"launches", "arithmetic", "traffic"};
    const double floors[] = {launch_floor(t, operations), arithmetic_floor(t), traffic_floor(t)};
    int highest = 0;
    for (int i = 1; i < 3; i++)
        highest = floors[i] > floors[highest] ? i : highest;
    snprintf(text, size, "%.1f (%s)", ms / floors[highest], limits[highest]);
}

void climb(struct trainer *t, const struct rung *r, double *before) {
    char checked[64], phases[64], floor[64] = "-", faster[16] = "-";
    check(t, r, checked, sizeof checked);
    time_phases(t, r, phases, sizeof phases);
    struct result result = run(t, r, settings.steps);
    size_t operations = count_operations(t) + r->batch_calls;
    double launches = r->graph == NO_GRAPH     ? (double)operations
                      : r->graph == STEP_GRAPH ? 2
                                               : 1. / settings.steps;
    if (settings.floor)
        compare_with_floor(t, result.ms, operations, floor, sizeof floor);
    if (*before > 0)
        snprintf(faster, sizeof faster, "%.2f", *before / result.ms);
    say("%td %-20s %s %8.4f %8.0f %6s %8.3g  %-16s%s  %s\n", r - rungs, r->name,
        precision_word(t->precision + 1), result.ms, 1e3 * opt.batch / result.ms, faster, launches,
        floor, phases, checked);
    *before = result.ms;
    free(result.parameters);
}
