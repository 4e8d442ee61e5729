// The ladder: the training of step 1 in seven versions, called rungs, from a naive loop to one
// launch per epoch. Each rung replaces a few functions of the rung before. The program first checks
// that a rung trains the same model as rung 0, then times it, and compares it with the floor: the
// time that its launches, its arithmetic or its memory traffic need at least.
#include "01_single_gpu/ladder/climb.h"
#include "common/base/minmax.h"
#include "common/kernels/kernels.h"
#include "common/layers/layers.h"
#include "common/training/training_options.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings settings;
static const char *rung_word(int i);
static const struct option_spec ladder_options[] = {
    {"rung", OPTION_CHOICE, &settings.rung, "all", 0, 0, "the rung to run; one of", rung_word},
    {"steps", OPTION_INT, &settings.steps, "auto", 1, 1e6,
     "training steps to time, auto: an epoch, the most"},
    {"threads", OPTION_INT, &settings.threads, "2", 1, MOST_THREADS, "threads that make batches"},
    {"precision", OPTION_CHOICE, &settings.precision, "auto", 0, 0,
     "of products, auto: that of the rung; one of", precision_word},
    {"floor", OPTION_FLAG, &settings.floor, NULL, 0, 0, "also measures the floor"},
    {"data", OPTION_TEXT | OPTION_OPEN, &opt.data, "auto", 0, 0,
     "folder of the images, auto: those of make data; or one of", data_word},
    {"hidden", OPTION_TEXT, &opt.hidden, "512,512", 0, 0, "widths of the hidden layers"},
    {"batch", OPTION_INT, &opt.batch, "128", 1, 1e6, "samples per training step"},
    {"lr", OPTION_REAL, &opt.lr, "0.05", 1e-12, 1e3, "learning rate"},
    {"seed", OPTION_INT, &opt.seed, "1", 0, 1e15, "seed of parameters and of the order of samples"},
    {0},
};

// Rung 0: the host makes a batch, copies it, and waits after each call.

static void wait_if_naive(struct trainer *t) {
    if (t->waits)
        CUDA_CHECK(cudaStreamSynchronize(t->stream));
}

// Marks the end of phase i of a training step; 0 is the beginning.
static void mark(struct trainer *t, int i) {
    if (t->marks)
        CUDA_CHECK(cudaEventRecord(t->marks[i], t->stream));
}

// The formula of gather_batch (common/kernels/kernels.h), as a loop on the host.
static void make_batch(const struct trainer *t, long step, float *x, uint8_t *y) {
    const struct dataset *set = &t->host;
    for (long row = 0; row < opt.batch; row++) {
        size_t sample = t->host_order[step * opt.batch + row];
        const uint8_t *values = set->values + sample * set->inputs;
        y[row] = set->labels[sample];
        for (int i = 0; i < set->inputs; i++) {
            int c = i % set->shape.channels;
            float scale = 1.f / (255.f * set->deviation[c]);
            float shift = -set->mean[c] / set->deviation[c];
            x[row * set->inputs + i] = (float)values[i] * scale + shift;
        }
    }
}

static void copy_batch_and_wait(struct trainer *t) {
    size_t values = opt.batch * t->host.inputs;
    float *x = malloc(values * sizeof *x); // pageable memory
    uint8_t *y = malloc(opt.batch);
    if (!x || !y)
        fail("no memory for a batch");
    make_batch(t, t->step, x, y);
    CUDA_CHECK(cudaMemcpy(t->activations[0], x, values * sizeof *x, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(t->labels, y, opt.batch, cudaMemcpyHostToDevice));
    free(x);
    free(y);
}

static const void *parameters_of(const struct trainer *t, const struct layer *l) {
    if (t->pass.type == CUDA_R_16BF)
        return t->rounded + l->first;
    return t->parameters + l->first;
}

// Each operation is a kernel of its own: the product, then the bias and ReLU.
static void forward_by_parts(struct trainer *t) {
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        const float *w = t->parameters + l->first, *bias = w + (size_t)l->inputs * l->outputs;
        float *y = t->activations[i + 1];
        matmul(&t->pass, 0, 1, opt.batch, l->outputs, l->inputs, t->activations[i], w, y);
        wait_if_naive(t);
        add_bias(y, bias, opt.batch, l->outputs, l->kind == &dense_relu, t->stream);
        wait_if_naive(t);
    }
}

static void backward_by_parts(struct trainer *t) {
    float *dy = t->dy, *dx = t->dx;
    for (int i = t->model.count - 1; i >= 0; i--) {
        const struct layer *l = &t->model.layers[i];
        float *dw = t->gradients + l->first, *dbias = dw + (size_t)l->inputs * l->outputs;
        if (l->kind == &dense_relu)
            relu_backward(dy, t->activations[i + 1], (size_t)opt.batch * l->outputs, t->stream);
        wait_if_naive(t);
        if (i > 0)
            matmul(&t->pass, 0, 0, opt.batch, l->inputs, l->outputs, dy, t->parameters + l->first,
                   dx);
        wait_if_naive(t);
        matmul(&t->pass, 1, 0, l->outputs, l->inputs, opt.batch, dy, t->activations[i], dw);
        wait_if_naive(t);
        sum_rows(dy, dbias, opt.batch, l->outputs, t->stream);
        wait_if_naive(t);
        float *swap = dy;
        dy = dx;
        dx = swap;
    }
}

static void train_step(struct trainer *t) {
    if (t->pass.type == CUDA_R_16BF) // the update below changes the float parameters
        to_bfloat16(t->rounded, t->parameters, t->model.parameters, t->stream);
    t->rung->forward(t);
    softmax_cross_entropy(t->activations[t->model.count], t->labels, opt.batch, t->host.classes,
                          1.f / opt.batch, t->dy, t->stats, 0, t->stream);
    wait_if_naive(t);
    mark(t, 2);
    t->rung->backward(t);
    mark(t, 3);
    sgd_step(t->parameters, t->gradients, t->velocity, t->model.parameters, (float)opt.lr, 0.9f, 0,
             t->stream);
    wait_if_naive(t);
    mark(t, 4);
}

static void run_eagerly(struct trainer *t, long steps) {
    for (long end = t->step + steps; t->step < end; t->step++) {
        mark(t, 0);
        t->rung->next_batch(t);
        mark(t, 1);
        train_step(t);
    }
}

// Rung 1: worker threads make the batches in pinned memory, and a stream of its own copies them
// while the GPU computes. The host waits for a copy of the step before only.

static void *make_batches(void *argument) {
    struct trainer *t = argument;
    pthread_mutex_lock(&t->lock);
    while (t->next < t->end) {
        long step = t->next++;
        while (step >= t->copied_steps + BUFFERS) // another batch is in the buffer
            pthread_cond_wait(&t->changed, &t->lock);
        pthread_mutex_unlock(&t->lock);
        make_batch(t, step, t->host_x[step % BUFFERS], t->host_y[step % BUFFERS]);
        pthread_mutex_lock(&t->lock);
        t->filled[step % BUFFERS] = step + 1;
        pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void run_with_workers(struct trainer *t, long steps) {
    t->next = t->copied_steps = t->step;
    t->end = t->step + steps;
    memset(t->filled, 0, sizeof t->filled);
    for (long i = 0; i < settings.threads; i++)
        if ((errno = pthread_create(&t->workers[i], NULL, make_batches, t)))
            fail("cannot start a thread: %m");
    run_eagerly(t, steps);
    for (long i = 0; i < settings.threads; i++)
        pthread_join(t->workers[i], NULL);
}

static void copy_batch_ahead(struct trainer *t) {
    int b = t->step % BUFFERS, last = (t->step + BUFFERS - 1) % BUFFERS;
    CUDA_CHECK(cudaEventRecord(t->used[last], t->stream)); // the step before has been queued
    pthread_mutex_lock(&t->lock);
    while (t->filled[b] != t->step + 1)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
    CUDA_CHECK(cudaStreamWaitEvent(t->copies, t->used[b], 0));
    CUDA_CHECK(cudaMemcpyAsync(t->x[b], t->host_x[b], sizeof(float) * opt.batch * t->host.inputs,
                               cudaMemcpyHostToDevice, t->copies));
    CUDA_CHECK(
        cudaMemcpyAsync(t->y[b], t->host_y[b], opt.batch, cudaMemcpyHostToDevice, t->copies));
    CUDA_CHECK(cudaEventRecord(t->copied[b], t->copies));
    CUDA_CHECK(cudaStreamWaitEvent(t->stream, t->copied[b], 0));
    t->activations[0] = t->x[b];
    t->labels = t->y[b];
    CUDA_CHECK(cudaEventSynchronize(t->copied[last])); // its buffer is free for a worker
    pthread_mutex_lock(&t->lock);
    t->copied_steps = t->step;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

// Rung 2: the data set is on the device, and a kernel makes the batch, as in train.c.

static void gather(struct trainer *t) {
    gather_batch(&t->device, t->order, t->step * opt.batch, (int)opt.batch, t->activations[0],
                 t->labels, t->stream);
}

// Rung 3: a product adds the bias and applies ReLU, or sums the gradient of the bias, in one
// launch.

static void plan_products(struct trainer *t) {
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        size_t bias = l->first + (size_t)l->inputs * l->outputs;
        end_fused(&t->forward[i]);
        end_fused(&t->gradient[i]);
        plan_forward(&t->forward[i], &t->pass, (int)opt.batch, l->outputs, l->inputs,
                     t->parameters + bias, l->kind == &dense_relu);
        plan_gradients(&t->gradient[i], &t->pass, (int)opt.batch, l->outputs, l->inputs,
                       t->gradients + bias);
    }
}

static void forward(struct trainer *t) {
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        const void *x = rounded(&t->pass, t->activations[i], opt.batch * l->inputs, 0);
        run_forward(&t->forward[i], &t->pass, x, parameters_of(t, l), t->activations[i + 1]);
    }
}

static void backward(struct trainer *t) {
    float *dy = t->dy, *dx = t->dx;
    for (int i = t->model.count - 1; i >= 0; i--) {
        const struct layer *l = &t->model.layers[i];
        size_t values = opt.batch * l->outputs, after_x = opt.batch * l->inputs * sizeof(uint16_t);
        if (l->kind == &dense_relu)
            relu_backward(dy, t->activations[i + 1], values, t->stream);
        const void *x = rounded(&t->pass, t->activations[i], opt.batch * l->inputs, 0);
        const void *dy_read = rounded(&t->pass, dy, values, after_x);
        if (i > 0)
            matmul_rounded(&t->pass, 0, 0, opt.batch, l->inputs, l->outputs, dy_read,
                           parameters_of(t, l), 0, dx, CUDA_R_32F);
        run_gradients(&t->gradient[i], &t->pass, dy, dy_read, x, t->gradients + l->first);
        float *swap = dy;
        dy = dx;
        dx = swap;
    }
}

// Rung 4: a training step is captured into a graph, which one call launches. A graph keeps the
// arguments of its operations, so it always reads its samples in the same place.

static void gather_picked(struct trainer *t) {
    gather_batch(&t->device, t->picked, 0, (int)opt.batch, t->activations[0], t->labels, t->stream);
}

cudaGraph_t capture(struct trainer *t, void (*next_batch)(struct trainer *t), long steps) {
    cudaGraph_t graph;
    long first = t->step;
    CUDA_CHECK(cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeGlobal));
    for (; t->step < first + steps; t->step++) {
        if (next_batch)
            next_batch(t);
        train_step(t);
    }
    t->step = first;
    CUDA_CHECK(cudaStreamEndCapture(t->stream, &graph));
    return graph;
}

void instantiate(struct trainer *t, cudaGraph_t graph) {
    CUDA_CHECK(cudaGraphInstantiateWithFlags(&t->graph, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    CUDA_CHECK(cudaGraphUpload(t->graph, t->stream)); // else the first launch would do this
}

static void launch_steps(struct trainer *t, long steps) {
    for (long end = t->step + steps; t->step < end; t->step++) {
        CUDA_CHECK(cudaMemcpyAsync(t->picked, t->order + t->step * opt.batch,
                                   opt.batch * sizeof *t->picked, cudaMemcpyDeviceToDevice,
                                   t->stream));
        CUDA_CHECK(cudaGraphLaunch(t->graph, t->stream));
    }
}

// Rung 5: the same with products in TF32 or bfloat16. Rung 6: one graph holds all steps of the
// epoch, and each of them has its own place in the order of the samples.

static void launch_once(struct trainer *t, long steps) {
    CUDA_CHECK(cudaGraphLaunch(t->graph, t->stream));
    t->step += steps;
}

// clang-format off
const struct rung rungs[RUNGS] = {
    {"naive", copy_batch_and_wait, 2, forward_by_parts, backward_by_parts, NO_GRAPH, run_eagerly,
     .waits = 1, .same_bits = -1},
    {"workers, copy stream", copy_batch_ahead, 2, forward_by_parts, backward_by_parts, NO_GRAPH,
     run_with_workers, .same_bits = 0},
    {"data on the device", gather, 1, forward_by_parts, backward_by_parts, NO_GRAPH, run_eagerly,
     .same_bits = -1},
    {"fused products", gather, 1, forward, backward, NO_GRAPH, run_eagerly, .same_bits = -1},
    {"a graph per step", gather_picked, 1, forward, backward, STEP_GRAPH, launch_steps,
     .same_bits = 3},
    {"faster products", gather_picked, 1, forward, backward, STEP_GRAPH, launch_steps, .same_bits = -1,
     .precision = TF32},
    {"a graph per epoch", gather, 1, forward, backward, EPOCH_GRAPH, launch_once, .same_bits = 5,
     .precision = TF32},
};
// clang-format on

static const char *rung_word(int i) {
    static const char *const words[] = {"all", "0", "1", "2", "3", "4", "5", "6"};
    return i <= RUNGS ? words[i] : NULL;
}

const char *precision_word(int i) {
    static const char *const words[] = {"auto", "fp32", "tf32", "bf16"};
    return i <= PRECISIONS ? words[i] : NULL;
}

static void load(struct trainer *t) {
    char why[WHY_SIZE];
    struct dataset test;
    opt.model = "mlp";
    if (data_load(&t->host, &test, &opt.data, why))
        fail("%s", why);
    if (t->host.tokens)
        wrong_usage("--data %s: the ladder needs images", opt.data);
    if (!t->host.values)
        wrong_usage("--data %s: has more than 1 GiB; the ladder keeps all images in memory",
                    opt.data);
    if (model_build(&t->model, &opt, &t->host, why))
        wrong_usage("%s", why);
    long most = (long)t->host.count / opt.batch;
    if (most < 1)
        fail("--batch %ld: the training set has only %zu samples", opt.batch, t->host.count);
    if (settings.steps > most)
        wrong_usage("--steps %ld: an epoch has only %ld", settings.steps, most);
    settings.steps = settings.steps ? settings.steps : most;
}

// Copies bytes from the host to new memory of the device.
static void *on_device(const void *from, size_t bytes) {
    void *to;
    DEVICE_ALLOC(to, "data", bytes);
    CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    return to;
}

static void setup_buffers(struct trainer *t) {
    size_t bytes = sizeof(float) * opt.batch * t->host.inputs;
    for (int i = 0; i < BUFFERS; i++) {
        CUDA_CHECK(cudaMallocHost((void **)&t->host_x[i], bytes));
        CUDA_CHECK(cudaMallocHost((void **)&t->host_y[i], opt.batch));
        DEVICE_ALLOC(t->x[i], "activations", bytes);
        DEVICE_ALLOC(t->y[i], "activations", opt.batch);
        CUDA_CHECK(cudaEventCreateWithFlags(&t->copied[i], cudaEventDisableTiming));
        CUDA_CHECK(cudaEventCreateWithFlags(&t->used[i], cudaEventDisableTiming));
    }
    t->activations[0] = t->x[0];
    t->labels = t->y[0];
}

static void setup(struct trainer *t) {
    size_t n = t->model.parameters, column = opt.batch * sizeof(float), widest = 0;
    t->host_order = malloc(t->host.count * sizeof *t->host_order);
    if (!t->host_order)
        fail("no memory for the order of the samples");
    shuffle(t->host_order, t->host.count, opt.seed, 0);
    t->order = on_device(t->host_order, t->host.count * sizeof *t->order);
    t->device = t->host;
    t->device.values = on_device(t->host.values, t->host.count * t->host.inputs);
    t->device.labels = on_device(t->host.labels, t->host.count);
    DEVICE_ALLOC(t->picked, "data", opt.batch * sizeof *t->picked);
    DEVICE_ALLOC(t->parameters, "parameters", n * sizeof(float));
    DEVICE_ALLOC(t->rounded, "parameters", n * sizeof *t->rounded);
    DEVICE_ALLOC(t->gradients, "gradients", n * sizeof(float));
    DEVICE_ALLOC(t->velocity, "optimizer", n * sizeof(float));
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        widest = max_size(l->outputs, widest);
        DEVICE_ALLOC(t->activations[i + 1], "activations",
                     column * ((size_t)l->outputs + l->workspace));
    }
    DEVICE_ALLOC(t->dy, "activations", column * widest);
    DEVICE_ALLOC(t->dx, "activations", column * widest);
    DEVICE_ALLOC(t->pass.scratch, "scratch", model_scratch(&t->model, CUDA_R_16BF, (int)opt.batch));
    DEVICE_ALLOC(t->stats, "activations", STATS_LANES * sizeof *t->stats);
    DEVICE_ALLOC(t->sums, "activations", sizeof *t->sums);
    CUDA_CHECK(cudaMallocHost((void **)&t->host_sums, sizeof *t->host_sums));
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    setup_buffers(t);
}

// Every run begins with the same parameters and the first batch.
static void reset(struct trainer *t) {
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        l->kind->initialise(l, t->parameters + l->first, 0, l->parameters, opt.seed, t->stream);
    }
    CUDA_CHECK(cudaMemsetAsync(t->velocity, 0, t->model.parameters * sizeof(float), t->stream));
    CUDA_CHECK(cudaMemsetAsync(t->stats, 0, STATS_LANES * sizeof *t->stats, t->stream));
    t->step = 0;
}

// The first step is neither timed nor captured, because cuBLAS loads its kernels then.
void begin_rung(struct trainer *t, const struct rung *r, long steps) {
    int by_parts = r->forward == forward_by_parts; // these functions read float parameters
    t->rung = r;
    t->waits = r->waits;
    t->precision = settings.precision && !by_parts ? settings.precision - 1 : r->precision;
    t->pass.type = t->precision == BF16 ? CUDA_R_16BF : CUDA_R_32F;
    CUBLAS_CHECK(cublasSetMathMode(t->pass.blas, t->precision == TF32 ? CUBLAS_TF32_TENSOR_OP_MATH
                                                                      : CUBLAS_DEFAULT_MATH));
    plan_products(t);
    reset(t);
    gather(t);
    train_step(t);
    reset(t);
    if (r->graph)
        instantiate(t, capture(t, r->next_batch, r->graph == STEP_GRAPH ? 1 : steps));
}

int main(int argc, char **argv) {
    static const struct option_table tables[] = {{NULL, ladder_options}, {0}};
    static struct trainer t;
    double before = 0;
    options_parse(tables, "Trains the network of step 1 in seven versions, and times them.", argc,
                  argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    load(&t);
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaStreamCreate(&t.stream));
    CUDA_CHECK(cudaStreamCreateWithFlags(&t.copies, cudaStreamNonBlocking));
    open_pass(&t.pass, t.stream, 0);
    t.pass.training = 1;
    setup(&t);
    print_heading(&t);
    for (int i = 0; i < RUNGS; i++)
        if (!settings.rung || settings.rung == i + 1)
            climb(&t, &rungs[i], &before);
    return 0;
}
