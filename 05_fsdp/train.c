// Step 5 extends step 4: it shards the model. An all-reduce is a reduce-scatter followed by an
// all-gather. In between, each of N ranks needs only 1/N of the gradients, and can update 1/N of
// the parameters. So a rank stores only its shard: 1/N of the parameters, gradients and optimizer
// state. All ranks gather the parameters of a layer just before they compute with it, and drop them
// afterwards.
#include "02_multigpu_fork/nccl_check.h"
#include "03_multigpu_launcher/agree.h"
#include "03_multigpu_launcher/environment.h"
#include "04_multinode/meet_by_tcp.h"
#include "04_multinode/watchdog.h"
#include "05_fsdp/fsdp.h"
#include "common/base/minmax.h"
#include "common/base/rng.h"
#include "common/data/loader.h"
#include "common/device/device.h"
#include "common/models/model.h"
#include "common/snapshots/snapshot.h"
#include "common/training/optimizer.h"
#include "common/training/report.h"
#include "common/training/requests.h"
#include "common/training/training_options.h"
#include <math.h>
#include <nccl.h>
#include <stdio.h>

static struct {
    long overlap;
    long prefetch;
} step_opt;

static const struct option_spec options[] = {
    {"overlap", OPTION_INT | OPTION_LOCAL, &step_opt.overlap, "1", 0, 1,
     "1: collectives run during computation, 0: computation waits for each of them"},
    {"prefetch", OPTION_INT, &step_opt.prefetch, "1", 0, 1,
     "1: gather the next layer while this one computes"},
    {0},
};

static const struct option_table tables[] = {
    {"options of all steps", training_options},
    {"options of the meeting of the ranks", meeting_options},
    {"options of this step", options},
    {0},
};

struct sums { // six doubles, which one all-reduce sums over all ranks
    struct stats stats;
    struct requests requests;
};

struct trainer {
    cudaStream_t stream;
    struct pass pass;
    struct dataset train, test;
    struct model model;
    struct optimizer optimizer;
    struct fsdp fsdp; // this rank's shard of the parameters, gradients and optimizer state
    float *activations[MOST_LAYERS + 1]; // [0]: the batch, [i + 1]: the outputs of layer i

    float *dy, *dx;  // gradients of a layer's outputs and of its inputs
    uint8_t *labels; // of the batch
    int rows;        // samples of one forward pass

    struct stats *stats;           // STATS_LANES partial sums since the last read_stats
    struct sums *sums, *host_sums; // totals of stats, on the device and on the host

    struct progress progress;  // completed epochs and steps
    struct snapshot *snapshot; // in host memory, to load and save; NULL: no --snapshot
    int resumed;               // 1: training continues from a snapshot file
    struct requests requests;  // as training last looked at them
    int rank, world;
    struct place place;
    ncclComm_t comm;
};

// Reads the data and the snapshot, and builds the model. This does not need the GPU, so a wrong
// option or file ends the program at once.
static void load(struct trainer *t) {
    char why[WHY_SIZE];
    if (data_load(&t->train, &t->test, &opt.data, why))
        fail("%s", why);
    t->rows = opt.batch / t->world;
    long fit = max_size(t->rows, 1) * t->world;
    if (opt.batch != fit)
        wrong_usage("--batch %ld is not divisible by %d ranks; %ld and %ld are", opt.batch,
                    t->world, fit, fit + t->world);
    if (model_build(&t->model, &opt, &t->train, why))
        wrong_usage("%s", why);
    if (optimizer_build(&t->optimizer, &opt, t->train.count, why))
        wrong_usage("%s", why);
    fsdp_build(&t->fsdp, &t->model, t->rank, t->world, step_opt.prefetch);
    if (!opt.snapshot)
        return;
    t->snapshot = snapshot_of_run(t->model.shape, &t->optimizer, t->fsdp.count);
    if (t->rank == 0 && snapshot_lock(opt.snapshot, why))
        fail("%s", why);
    t->resumed = snapshot_load_shard(opt.snapshot, t->snapshot, &t->fsdp.sharding, t->rank, why);
    if (t->resumed < 0)
        fail("%s", why);
    t->progress = t->snapshot->progress;
}

// Creates NCCL's communicator, through which all ranks call collectives. Rank 0 makes its id, and
// gives it to the other ranks.
static void join(struct trainer *t) {
    ncclUniqueId id = {0};
    char plan[PLAN_SIZE]; // must be the same on all ranks
    if (t->rank == 0)
        NCCL_CHECK(ncclGetUniqueId(&id));
    meet_by_tcp(&t->place, &id, meeting_opt.token_file, meeting_opt.join_timeout);
    start_watchdog(meeting_opt.join_timeout, meeting_opt.step_timeout);
    COLLECTIVE(t->stream, ncclCommInitRank(&t->comm, t->world, id, t->rank));
    watch_comm(t->comm);
    describe_run(plan, sizeof plan, &t->progress, opt.snapshot);
    COLLECTIVE(t->stream, agree(plan, t->comm, t->stream));
    fsdp_join(&t->fsdp, t->comm, t->stream, step_opt.overlap);
}

static void setup(struct trainer *t) {
    size_t column = t->rows * sizeof(float), widest = 0; // column: bytes of a float per sample
    loader_open(&t->train, t->rows, opt.batch);
    loader_open(&t->test, t->rows, 0);
    fsdp_allocate(&t->fsdp, t->optimizer.state_per_parameter);
    DEVICE_ALLOC(t->activations[0], "activations", column * t->train.inputs);
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        widest = max_size(l->outputs, widest);
        DEVICE_ALLOC(t->activations[i + 1], "activations",
                     column * ((size_t)l->outputs + l->workspace));
    }
    DEVICE_ALLOC(t->pass.scratch, "scratch", model_scratch(&t->model, t->pass.type, t->rows));
    DEVICE_ALLOC(t->dy, "activations", column * widest);
    DEVICE_ALLOC(t->dx, "activations", column * widest);
    DEVICE_ALLOC(t->labels, "activations", t->rows * t->train.targets);
    DEVICE_ALLOC(t->stats, "activations", STATS_LANES * sizeof *t->stats);
    DEVICE_ALLOC(t->sums, "activations", sizeof *t->sums);
    CUDA_CHECK(cudaMallocHost((void **)&t->host_sums, sizeof *t->host_sums));
    CUDA_CHECK(cudaMemsetAsync(t->stats, 0, STATS_LANES * sizeof *t->stats, t->stream));
}

// Runs the model on the samples.
static void forward(struct trainer *t, struct samples s) {
    gather_batch(s.set, s.order, s.first, s.count, t->activations[0], t->labels, t->stream);
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        const float *whole = fsdp_gather(&t->fsdp, i, i + 1);
        layer_forward(l, &t->pass, whole, t->activations[i], t->activations[i + 1], s.count);
    }
}

// Computes the gradients of all parameters. dy holds the gradient of the last layer's outputs.
static void backward(struct trainer *t, int rows) {
    for (int i = t->model.count - 1; i >= 0; i--) {
        const struct layer *l = &t->model.layers[i];
        float *whole = fsdp_gather(&t->fsdp, i, i - 1); // the gradients overwrite the parameters
        layer_backward(l, &t->pass, whole, t->activations[i], t->activations[i + 1], t->dy,
                       i > 0 ? t->dx : NULL, whole, rows);
        float *swap = t->dy;
        t->dy = t->dx;
        t->dx = swap;
        // The sum over the ranks runs during backward of the layers before this one.
        fsdp_scatter(&t->fsdp, i);
    }
    fsdp_finish(&t->fsdp); // the update waits for all sums
}

static long steps_done(const struct trainer *t) {
    return t->progress.epochs * t->optimizer.steps_per_epoch + t->progress.step;
}

static void train_step(struct trainer *t) {
    size_t slice = t->rank * t->rows; // where this rank's slice of the batch begins
    size_t first = t->progress.step * opt.batch + slice;
    begin_step(&t->pass, rng_bits(~opt.seed, steps_done(t)));
    t->pass.first_sample = slice;
    forward(t, load_samples(&t->train, first, t->train.count, t->stream));
    softmax_cross_entropy(t->activations[t->model.count], t->labels, t->rows * t->train.targets,
                          t->train.classes, 1.f / opt.batch / t->train.targets, t->dy, t->stats,
                          opt.label_smoothing, t->stream);
    backward(t, t->rows);
    optimizer_step(&t->optimizer, t->fsdp.parameters, t->fsdp.gradients, t->fsdp.optimizer_state,
                   t->fsdp.count, steps_done(t) + 1, t->stream);
}

// Waits until the stream is empty. Returns the loss and the counts since the last clear.
static struct stats read_stats(struct trainer *t, int clear) {
    struct sums *sums = t->host_sums;
    sum_stats(t->stats, &t->sums->stats, t->stream);
    sums->requests = current_requests();
    CUDA_CHECK(cudaMemcpyAsync(&t->sums->requests, &sums->requests, sizeof sums->requests,
                               cudaMemcpyHostToDevice, t->stream));
    COLLECTIVE(t->stream,
               ncclAllReduce(t->sums, t->sums, 6, ncclDouble, ncclSum, t->comm, t->stream));
    CUDA_CHECK(cudaMemcpyAsync(sums, t->sums, sizeof *sums, cudaMemcpyDeviceToHost, t->stream));
    if (clear)
        CUDA_CHECK(cudaMemsetAsync(t->stats, 0, STATS_LANES * sizeof *t->stats, t->stream));
    wait_for(t->stream);
    if (!isfinite(sums->stats.loss))
        fail("epoch %ld, step %ld: the loss is not finite%s: lower --lr, or look for a missing "
             "wait with CPU_DEVICE_CHECK=1 on the CPU device",
             t->progress.epochs + 1, t->progress.step, t->pass.training ? "" : " in evaluation");
    t->requests = sums->requests; // the same on all ranks
    t->requests.pace /= t->world;
    return sums->stats;
}

static struct stats evaluate(struct trainer *t) {
    size_t begin = t->test.count * t->rank / t->world;
    size_t end = t->test.count * (t->rank + 1) / t->world;
    // Forward makes collective calls, so all ranks must call it equally often. A rank that has one
    // sample less than the others may end with an empty batch.
    size_t most = (t->test.count + t->world - 1) / t->world;
    t->pass.training = 0;
    for (size_t first = begin; first < begin + most; first += t->rows) {
        struct samples s = load_samples(&t->test, first, end, t->stream);
        forward(t, s);
        softmax_cross_entropy(t->activations[t->model.count], t->labels, s.count * t->test.targets,
                              t->test.classes, 1, NULL, t->stats, 0, t->stream);
    }
    return read_stats(t, 1);
}

static int finished(const struct trainer *t) {
    return t->requests.stop || t->progress.epochs >= opt.epochs ||
           (opt.max_steps && steps_done(t) >= opt.max_steps);
}

static void save(struct trainer *t) {
    char why[WHY_SIZE];
    struct snapshot *s = t->snapshot;
    struct fsdp *f = &t->fsdp;
    note_save();
    if (!opt.snapshot)
        return;
    watch_save(); // all ranks save
    s->progress = t->progress;
    snapshot_from_device(s, f->parameters, f->optimizer_state);
    if (fsdp_save(f, opt.snapshot, s, &t->sums->requests.stop, why))
        fail("%s", why);
}

// Sets the parameters and the optimizer state to those of the snapshot, or to initial values.
static void start(struct trainer *t) {
    const struct snapshot *s = t->snapshot;
    struct fsdp *f = &t->fsdp;
    if (t->resumed) {
        snapshot_to_device(s, f->parameters, f->optimizer_state);
        print_resumed(opt.snapshot, s, finished(t));
        return;
    }
    fsdp_initialise(f, opt.seed);
    wait_for(t->stream);
    save(t); // if the snapshot cannot be written, training fails now and not hours later
}

// Trains from the last completed step to the end of the epoch, or to the end of training.
static void train_epoch(struct trainer *t) {
    struct progress *p = &t->progress;
    struct stats before = p->sums; // up to the last line
    long steps = t->optimizer.steps_per_epoch;
    loader_shuffle(&t->train, opt.seed, p->epochs, t->stream);
    while (p->step < steps && !finished(t)) {
        watch_step(steps_done(t) + 1);
        train_step(t);
        p->step++;
        int line = p->step % opt.log_every == 0 || p->step == steps || finished(t);
        if (!line && !report_due(steps_done(t), t->requests.pace))
            continue;
        struct stats sums = read_stats(t, line);
        p->sums.loss = before.loss + sums.loss;
        p->sums.samples = before.samples + sums.samples;
        if (line) {
            before = p->sums;
            report_loss(steps_done(t), sums.loss / sums.samples,
                        optimizer_rate(&t->optimizer, steps_done(t)));
        } else {
            report_progress(steps_done(t));
        }
        if (t->requests.save && p->step < steps && !finished(t))
            save(t);
    }
}

static void train(struct trainer *t) {
    struct progress *p = &t->progress;
    report_open(t->rank == 0 ? opt.csv : NULL, steps_done(t), t->optimizer.steps_per_epoch);
    while (!finished(t)) {
        long first = p->step;
        double start = device_seconds(t->stream);
        train_epoch(t);
        double elapsed = device_seconds(t->stream) - start;
        long images = (p->step - first) * opt.batch;
        if (p->step < t->optimizer.steps_per_epoch) {
            report_stop(steps_done(t));
            break;
        }
        report_epoch(p->epochs + 1, steps_done(t), p->sums, evaluate(t), elapsed, images / elapsed);
        p->epochs++;
        p->step = 0;
        p->sums = (struct stats){0};
        if ((t->requests.save || p->epochs % opt.save_every == 0) && !finished(t))
            save(t);
    }
    save(t);
    report_finish(t->requests.stop);
}

static void print_banner(const struct trainer *t) {
    report_run(&t->model, &t->train, &t->test, &t->optimizer);
    say("ranks     global batch %ld = %d rank%s x %d\n", opt.batch, t->world, PLURAL(t->world),
        t->rows);
    say("launcher  %s\n", t->place.launcher);
    say("sharding  each rank keeps %zu of %zu parameters\n", t->fsdp.count, t->model.parameters);
}

int main(int argc, char **argv) {
    static struct trainer t;
    t.place = find_place(); // first, so that each error line names the rank
    options_parse(tables, "Trains an image classifier or a language model.", argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0); // a job log shows each line at once
    t.rank = t.place.rank;
    t.world = t.place.world;
    load(&t);
    report_muted = t.rank > 0; // only rank 0 prints
    CUDA_CHECK(cudaSetDevice(choose_device(&t.place)));
    CUDA_CHECK(cudaStreamCreate(&t.stream));
    open_pass(&t.pass, t.stream, opt.tf32);
    join(&t);
    stop_on_signals();
    setup(&t);
    print_banner(&t);
    start(&t);
    train(&t);
    barrier(&t.sums->requests.stop, t.comm, t.stream); // until rank 0 has saved
    end_watchdog();
    return 0;
}
