// Step 1: trains an MNIST classifier. A training step is four array operations: gather a batch,
// forward, backward, update. A snapshot holds all that the next step depends on, which makes the
// run restartable.
#include "../common/data.h"
#include "../common/model.h"
#include "../common/optimizer.h"
#include "../common/options.h"
#include "../common/report.h"
#include "../common/rng.h"
#include "../common/snapshot.h"
#include <math.h>
#include <stdio.h>

static struct {
    const char *data, *model, *hidden, *optimizer, *snapshot, *csv;
    long epochs, max_steps, batch, tf32, seed, log_every, save_every;
    double lr, momentum, weight_decay;
} opt;

static const struct option_spec options[] = {
    {"data", OPTION_TEXT, &opt.data, "auto", 0, 0,
     "folder with the images, auto: that of make data, or: synthetic"},
    {"model", OPTION_TEXT, &opt.model, "mlp", 0, 0, "kind of model: mlp"},
    {"hidden", OPTION_TEXT, &opt.hidden, "512,512", 0, 0, "widths of the hidden layers"},
    {"epochs", OPTION_INT, &opt.epochs, "10", 1, 1e6, "passes over the training set"},
    {"max-steps", OPTION_INT, &opt.max_steps, "0", 0, 1e12,
     "stop after so many steps in all, 0: never"},
    {"batch", OPTION_INT, &opt.batch, "128", 1, 1e6, "samples per step"},
    {"optimizer", OPTION_TEXT, &opt.optimizer, "sgd", 0, 0, "sgd, adam or adamw"},
    {"lr", OPTION_REAL, &opt.lr, "auto", 1e-12, 1e3,
     "learning rate, auto: 0.05 for sgd, else 0.001"},
    {"momentum", OPTION_REAL, &opt.momentum, "0.9", 0, 1, "of SGD, 0: none"},
    {"weight-decay", OPTION_REAL, &opt.weight_decay, "0", 0, 1e3,
     "of parameters, 0: none; adamw: decoupled"},
    {"tf32", OPTION_INT, &opt.tf32, "0", 0, 1,
     "1: faster products, whose inputs are rounded to 10 bits after the first"},
    {"seed", OPTION_INT, &opt.seed, "1", 0, 1e15, "of the weights and of the order of samples"},
    {"log-every", OPTION_INT, &opt.log_every, "100", 1, 1e9, "steps between progress reports"},
    {"snapshot", OPTION_TEXT, &opt.snapshot, NULL, 0, 0,
     "file to save to and, if it is there, resume from"},
    {"save-every", OPTION_INT, &opt.save_every, "1", 1, 1e6, "epochs between snapshots"},
    {"csv", OPTION_TEXT, &opt.csv, NULL, 0, 0,
     "file for the losses, a line per progress report and epoch"},
};

struct trainer {
    cudaStream_t stream;
    struct pass pass;
    struct dataset train, test;   // on the device
    uint32_t *order, *host_order; // of the training samples in this epoch; order is on the device
    struct model model;
    struct optimizer optimizer;
    float *parameters, *gradients;       // flat: state->parameters floats each
    float *states;                       // flat: for each parameter as many as the optimizer keeps
    float *activations[MOST_LAYERS + 1]; // [0]: the batch, [i + 1]: what layer i makes of [i]
    float *dy, *dx;                      // gradients of a layer's outputs and of its inputs
    uint8_t *labels;                     // of the batch
    int rows;                            // samples that go through the model at a time
    struct stats *stats;                 // lanes on the device, summed since the last read_stats
    struct stats *sums, *host_sums;      // of all lanes; sums is on the device
    struct snapshot *state;              // where training stands; its values only while saving
    int resumed;                         // state came from a file
};

// All that needs no device, so that bad input is refused before anything is started.
static void load(struct trainer *t) {
    char why[WHY_SIZE];
    if (data_load(&t->train, &t->test, &opt.data, why))
        fail("%s", why);
    if ((size_t)opt.batch > t->train.count)
        fail("--batch %ld: the training set has only %zu samples", opt.batch, t->train.count);
    t->rows = opt.batch;
    if (model_build(&t->model, opt.model, opt.hidden, t->train.pixels, CLASSES, why))
        wrong_usage("%s", why);
    if (optimizer_build(&t->optimizer, opt.optimizer, opt.lr, opt.momentum, opt.weight_decay, why))
        wrong_usage("%s", why);
    t->state = snapshot_new(t->model.shape, opt.optimizer, t->model.parameters,
                            t->optimizer.states * t->model.parameters, opt.snapshot != NULL);
    t->state->seed = opt.seed;
    t->state->batch = opt.batch;
    if (opt.snapshot && (t->resumed = snapshot_load(opt.snapshot, t->state, why)) < 0)
        fail("%s", why);
}

static void setup(struct trainer *t) {
    size_t bytes = t->state->parameters * sizeof(float), row = t->rows * sizeof(float), widest = 0;
    data_to_device(&t->train);
    data_to_device(&t->test);
    DEVICE_ALLOC(t->order, "data", t->train.count * sizeof *t->order);
    CUDA_CHECK(cudaMallocHost((void **)&t->host_order, t->train.count * sizeof *t->order));
    DEVICE_ALLOC(t->parameters, "parameters", bytes);
    DEVICE_ALLOC(t->gradients, "gradients", bytes);
    DEVICE_ALLOC(t->states, "optimizer", t->optimizer.states * bytes);
    DEVICE_ALLOC(t->activations[0], "activations", row * t->train.pixels);
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        size_t width = l->outputs + l->workspace;
        widest = width > widest ? width : widest;
        DEVICE_ALLOC(t->activations[i + 1], "activations", row * width);
    }
    DEVICE_ALLOC(t->dy, "activations", row * widest);
    DEVICE_ALLOC(t->dx, "activations", row * widest);
    DEVICE_ALLOC(t->labels, "activations", t->rows);
    DEVICE_ALLOC(t->stats, "activations", STATS_LANES * sizeof *t->stats);
    DEVICE_ALLOC(t->sums, "activations", sizeof *t->sums);
    CUDA_CHECK(cudaMallocHost((void **)&t->host_sums, sizeof *t->host_sums));
    CUDA_CHECK(cudaMemsetAsync(t->stats, 0, STATS_LANES * sizeof *t->stats, t->stream));
}

// Runs samples through the model: rows of them, from the first on in that order (NULL: as stored).
static void forward(struct trainer *t, struct dataset *set, const uint32_t *order, size_t first,
                    int rows) {
    gather_batch(set->images, set->labels, order, first, rows, set->pixels, set->mean,
                 set->deviation, t->activations[0], t->labels, t->stream);
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        l->kind->forward(l, &t->pass, t->parameters + l->first, t->activations[i],
                         t->activations[i + 1], rows);
    }
}

// From the gradient of the last layer's outputs, in dy, to the gradients of all parameters.
static void backward(struct trainer *t, int rows) {
    for (int i = t->model.count - 1; i >= 0; i--) {
        const struct layer *l = &t->model.layers[i];
        l->kind->backward(l, &t->pass, t->parameters + l->first, t->activations[i],
                          t->activations[i + 1], t->dy, i > 0 ? t->dx : NULL,
                          t->gradients + l->first, rows);
        float *swap = t->dy;
        t->dy = t->dx;
        t->dx = swap;
    }
}

static long steps_per_epoch(const struct trainer *t) {
    return t->train.count / opt.batch; // the last, partial batch is dropped
}

static long steps_done(const struct trainer *t) {
    return t->state->epochs * steps_per_epoch(t) + t->state->step;
}

static void train_step(struct trainer *t, size_t first, int rows) {
    forward(t, &t->train, t->order, first, rows);
    softmax_cross_entropy(t->activations[t->model.count], t->labels, rows, CLASSES, 1.f / opt.batch,
                          t->dy, t->stats, t->stream);
    backward(t, rows);
    optimizer_step(&t->optimizer, t->parameters, t->gradients, t->states, t->state->parameters,
                   steps_done(t) + 1, t->stream);
}

// Waits for the work queued so far, and returns the sums since the last call.
static struct stats read_stats(struct trainer *t) {
    struct stats *sums = t->host_sums;
    sum_stats(t->stats, t->sums, t->stream);
    CUDA_CHECK(cudaMemcpyAsync(sums, t->sums, sizeof *sums, cudaMemcpyDeviceToHost, t->stream));
    CUDA_CHECK(cudaMemsetAsync(t->stats, 0, STATS_LANES * sizeof *t->stats, t->stream));
    CUDA_CHECK(cudaStreamSynchronize(t->stream));
    if (!isfinite(sums->loss))
        fail("epoch %ld, step %ld: the loss is not finite: lower --lr", t->state->epochs + 1,
             t->state->step);
    return *sums;
}

static struct stats evaluate(struct trainer *t) {
    size_t first = 0, end = t->test.count;
    t->pass.training = 0;
    for (; first < end; first += t->rows) {
        int rows = fmin(t->rows, end - first);
        forward(t, &t->test, NULL, first, rows);
        softmax_cross_entropy(t->activations[t->model.count], t->labels, rows, CLASSES, 1, NULL,
                              t->stats, t->stream);
    }
    return read_stats(t);
}

static int finished(const struct trainer *t) {
    return t->state->epochs >= opt.epochs || (opt.max_steps && steps_done(t) >= opt.max_steps);
}

static void save(struct trainer *t) {
    char why[WHY_SIZE];
    float *parameters = t->state->values, *states = parameters + t->state->parameters;
    size_t bytes = t->state->parameters * sizeof(float);
    if (!opt.snapshot)
        return;
    CUDA_CHECK(cudaMemcpy(parameters, t->parameters, bytes, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(states, t->states, t->optimizer.states * bytes, cudaMemcpyDeviceToHost));
    if (snapshot_save(opt.snapshot, t->state, why))
        fail("%s", why);
}

// The parameters and the optimizer's state from the snapshot, or new ones.
static void start(struct trainer *t) {
    float *parameters = t->state->values, *states = parameters + t->state->parameters;
    size_t bytes = t->state->parameters * sizeof(float);
    if (t->resumed) {
        CUDA_CHECK(cudaMemcpy(t->parameters, parameters, bytes, cudaMemcpyHostToDevice));
        CUDA_CHECK(
            cudaMemcpy(t->states, states, t->optimizer.states * bytes, cudaMemcpyHostToDevice));
        say("resumed   %s: %ld epochs and %ld steps are done%s\n", opt.snapshot, t->state->epochs,
            t->state->step, finished(t) ? "; nothing is left to do" : "");
        return;
    }
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        l->kind->initialise(l, t->parameters + l->first, 0, l->parameters, opt.seed, t->stream);
    }
    CUDA_CHECK(cudaMemsetAsync(t->states, 0, t->optimizer.states * bytes, t->stream));
    save(t); // a run must not learn after hours that it cannot save
}

// Goes on from the step where state stands to the end of the epoch, or of the training.
static void train_epoch(struct trainer *t) {
    struct snapshot *s = t->state;
    long steps = steps_per_epoch(t);
    shuffle(t->host_order, t->train.count, opt.seed, s->epochs);
    CUDA_CHECK(cudaMemcpyAsync(t->order, t->host_order, t->train.count * sizeof *t->order,
                               cudaMemcpyHostToDevice, t->stream));
    while (s->step < steps && !finished(t)) {
        t->pass.training = 1;
        t->pass.seed = rng_bits(~opt.seed, steps_done(t));
        train_step(t, s->step * opt.batch, t->rows);
        s->step++;
        if (s->step % opt.log_every == 0 || s->step == steps || finished(t)) {
            struct stats sums = read_stats(t);
            s->sums.loss += sums.loss;
            s->sums.samples += sums.samples;
            report_loss(steps_done(t), sums.loss / sums.samples);
        } else if (report_due(steps_done(t))) {
            CUDA_CHECK(cudaStreamSynchronize(t->stream));
            report_progress(steps_done(t));
        }
    }
}

static void train(struct trainer *t) {
    struct snapshot *s = t->state;
    report_open(opt.csv, steps_done(t), opt.epochs, steps_per_epoch(t), opt.max_steps, opt.batch);
    while (!finished(t)) {
        double start = seconds(), samples = s->sums.samples;
        train_epoch(t);
        double elapsed = seconds() - start;
        if (s->step < steps_per_epoch(t)) {
            report_stop(steps_done(t));
            break;
        }
        s->epochs++;
        s->step = 0;
        report_epoch(s->epochs, opt.epochs, steps_done(t), s->sums, evaluate(t), elapsed,
                     (s->sums.samples - samples) / elapsed);
        s->sums = (struct stats){0};
        if (s->epochs % opt.save_every == 0 && !finished(t))
            save(t);
    }
    save(t);
}

int main(int argc, char **argv) {
    static struct trainer t;
    options_parse(options, sizeof options / sizeof *options, "Trains an MNIST classifier.", argc,
                  argv);
    setvbuf(stdout, NULL, _IOLBF, 0); // a job log shows each line at once
    load(&t);
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaStreamCreate(&t.stream));
    CUBLAS_CHECK(cublasCreate(&t.pass.blas));
    CUBLAS_CHECK(cublasSetStream(t.pass.blas, t.stream));
    if (opt.tf32)
        CUBLAS_CHECK(cublasSetMathMode(t.pass.blas, CUBLAS_TF32_TENSOR_OP_MATH));
    t.pass.stream = t.stream;
    setup(&t);
    print_device();
    say("model     %s, %zu parameters\n", t.model.shape, t.model.parameters);
    say("data      %s: %zu training and %zu test images, pixel mean %.4f, deviation %.4f\n",
        opt.data, t.train.count, t.test.count, t.train.mean, t.train.deviation);
    say("training  %ld steps of batch %ld per epoch, %s%s, seed %ld\n", steps_per_epoch(&t),
        opt.batch, t.optimizer.text, opt.tf32 ? ", tf32" : "", opt.seed);
    start(&t);
    train(&t);
    return 0;
}
