// Step 7 extends step 5 by what large models need. Each group of ranks can shard its own copy of
// the model. A unit of several layers is gathered at once, and in bfloat16. A batch is computed in
// micro-batches. The norm of the gradients is clipped. Backward can recompute activations, so
// forward need not keep them.
#include "02_multigpu_fork/nccl_check.h"
#include "03_multigpu_launcher/agree.h"
#include "03_multigpu_launcher/environment.h"
#include "04_multinode/meet_by_tcp.h"
#include "04_multinode/watchdog.h"
#include "07_large_models/costs.h"
#include "07_large_models/saving.h"
#include "07_large_models/units.h"
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
#include "zoo/kernels/element_kernels.h"
#include <math.h>
#include <nccl.h>
#include <stdio.h>

static struct {
    long overlap;
    long prefetch;
    long strategy, precision, save;
    long unit_bytes, recompute, accumulate;
    double clip;
} step_opt;

static const struct option_spec options[] = {
    {"overlap", OPTION_INT | OPTION_LOCAL, &step_opt.overlap, "1", 0, 1,
     "1: collectives run during computation, 0: computation waits for each of them"},
    {"prefetch", OPTION_INT, &step_opt.prefetch, "1", 0, 1,
     "1: gather the next layer while this one computes"},
    {"strategy", OPTION_CHOICE, &step_opt.strategy, "full", 0, 0, "how the ranks shard",
     strategy_name},
    {"unit-bytes", OPTION_INT, &step_opt.unit_bytes, "0", 0, 1e15,
     "size of a unit of layers, 0: one layer each"},
    {"recompute", OPTION_INT, &step_opt.recompute, "0", 0, 1,
     "1: backward recomputes activations in a unit"},
    {"precision", OPTION_CHOICE | OPTION_CHANGES, &step_opt.precision, "fp32", 0, 0,
     "of matrix products and gathered parameters", precision_name},
    {"accumulate", OPTION_INT, &step_opt.accumulate, "1", 1, 1e6,
     "number of micro-batches of a rank"},
    {"clip", OPTION_REAL | OPTION_CHANGES, &step_opt.clip, "0", 0, 1e9,
     "largest norm of the gradient, 0: no limit"},
    {"save", OPTION_CHOICE, &step_opt.save, "sharded", 0, 0,
     "a file for each rank, or one full file", saving_name, .used_by = "snapshot"},
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
    struct units fsdp; // this rank's shard of the parameters, gradients and optimizer state
    float *activations[MOST_LAYERS + 1]; // [0]: the batch, [i + 1]: the outputs of layer i
    float *outputs[MOST_LAYERS];         // where layer i writes them, and then its workspace

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
    double *checksums; // two numbers for check_replicas
    double *squares;   // scratch for the norm of the gradients
    struct place place;
    ncclComm_t comm;
};

// Reads the data and the snapshot, and builds the model. This does not need the GPU, so a wrong
// option or file ends the program at once.
static void load(struct trainer *t) {
    char why[WHY_SIZE];
    if (data_load(&t->train, &t->test, &opt.data, why))
        fail("%s", why);
    long all = t->world * step_opt.accumulate; // micro-batches of all ranks
    t->rows = opt.batch / all;
    long fit = max_size(t->rows, 1) * all;
    if (opt.batch != fit)
        wrong_usage(
            "--batch %ld is not divisible by %d rank%s x %ld micro-batch%s; %ld and %ld are",
            opt.batch, t->world, PLURAL(t->world), step_opt.accumulate,
            step_opt.accumulate == 1 ? "" : "es", fit, fit + all);
    if (model_build(&t->model, &opt, &t->train, why))
        wrong_usage("%s", why);
    if (optimizer_build(&t->optimizer, &opt, t->train.count, why))
        wrong_usage("%s", why);
    t->fsdp = (struct units){.strategy = step_opt.strategy,
                             .precision = step_opt.precision,
                             .micro_batches = step_opt.accumulate,
                             .prefetch = step_opt.prefetch};
    units_build(&t->fsdp, &t->model, &t->place, step_opt.unit_bytes);
    if (!opt.snapshot)
        return;
    t->snapshot = snapshot_of_run(t->model.shape, &t->optimizer, t->fsdp.count);
    if (t->rank == 0 && snapshot_lock(opt.snapshot, why))
        fail("%s", why);
    t->resumed =
        snapshot_load_shard(opt.snapshot, t->snapshot, &t->fsdp.sharding, t->fsdp.shard, why);
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
    size_t used = snprintf(plan, sizeof plan, "%d shards, ", t->fsdp.shards);
    describe_run(plan + used, sizeof plan - used, &t->progress, opt.snapshot);
    COLLECTIVE(t->stream, agree(plan, t->comm, t->stream));
    units_join(&t->fsdp, t->comm, t->rank, t->stream, step_opt.overlap);
}

static void setup(struct trainer *t) {
    size_t column = t->rows * sizeof(float), widest = 0; // column: bytes of a float per sample
    loader_open(&t->train, t->rows * step_opt.accumulate, opt.batch);
    loader_open(&t->test, t->rows, 0);
    units_allocate(&t->fsdp, t->optimizer.state_per_parameter);
    DEVICE_ALLOC(t->activations[0], "activations", column * t->train.inputs);
    widest = allocate_activations(&t->fsdp, column, step_opt.recompute, t->outputs, t->activations);
    t->pass.type = t->fsdp.type;
    if (step_opt.clip)
        DEVICE_ALLOC(t->squares, "scratch", SQUARES_LANES * sizeof *t->squares);
    DEVICE_ALLOC(t->pass.scratch, "scratch", model_scratch(&t->model, t->pass.type, t->rows));
    DEVICE_ALLOC(t->dy, "activations", column * widest);
    DEVICE_ALLOC(t->dx, "activations", column * widest);
    DEVICE_ALLOC(t->labels, "activations", t->rows * t->train.targets);
    DEVICE_ALLOC(t->stats, "activations", STATS_LANES * sizeof *t->stats);
    DEVICE_ALLOC(t->sums, "activations", sizeof *t->sums);
    CUDA_CHECK(cudaMallocHost((void **)&t->host_sums, sizeof *t->host_sums));
    DEVICE_ALLOC(t->checksums, "data", 2 * sizeof *t->checksums);
    CUDA_CHECK(cudaMemsetAsync(t->stats, 0, STATS_LANES * sizeof *t->stats, t->stream));
}

// Runs layers [from, end) of a gathered unit.
static void run_layers(struct trainer *t, const struct unit *u, int from, int end, int rows) {
    for (const struct layer *l = t->model.layers + from; from < end; l++, from++) {
        float *outputs = t->outputs[from], *kept = t->activations[from + 1];
        layer_forward(l, &t->pass, gathered_layer(&t->fsdp, u, l), t->activations[from], outputs,
                      rows);
        if (kept != outputs) // the next unit overwrites them
            CUDA_CHECK(cudaMemcpyAsync(kept, outputs, (size_t)rows * l->outputs * sizeof *kept,
                                       cudaMemcpyDeviceToDevice, t->stream));
    }
}

// Runs the model on the samples.
static void forward(struct trainer *t, struct samples s) {
    gather_batch(s.set, s.order, s.first, s.count, t->activations[0], t->labels, t->stream);
    for (int n = 0; n < t->fsdp.unit_count; n++) {
        struct unit *u = &t->fsdp.units[n];
        fetch_unit(&t->fsdp, n, n + 1);
        run_layers(t, u, u->first_layer, u->end_layer, s.count);
        u->gathered = t->fsdp.keep && t->pass.training; // if 0, its buffer is free
    }
}

// Computes the gradients of all parameters. dy holds the gradient of the last layer's outputs.
static void backward(struct trainer *t, int rows) {
    for (int i = t->model.count - 1, n = t->fsdp.unit_count - 1; i >= 0; i--) {
        const struct layer *l = &t->model.layers[i];
        struct unit *u = &t->fsdp.units[n];
        if (i + 1 == u->end_layer) {
            fetch_unit(&t->fsdp, n, n - 1);
            // Forward kept the outputs of layer i, because they are the inputs of the next unit,
            // but not its workspace.
            if (step_opt.recompute)
                run_layers(t, u, u->first_layer, l->workspace ? i + 1 : i, rows);
        }
        layer_backward(l, &t->pass, gathered_layer(&t->fsdp, u, l), t->activations[i],
                       t->outputs[i], t->dy, i > 0 ? t->dx : NULL,
                       u->gradients + (l->first - u->begin), rows);
        float *swap = t->dy;
        t->dy = t->dx;
        t->dx = swap;
        // The sum over the ranks runs during backward of the layers before this one.
        if (i == u->first_layer)
            scatter_unit(&t->fsdp, &t->fsdp.units[n--]);
    }
    units_finish(&t->fsdp); // the update waits for all sums
}

static long steps_done(const struct trainer *t) {
    return t->progress.epochs * t->optimizer.steps_per_epoch + t->progress.step;
}

// If the norm of the gradients is larger than --clip, scales them down to this norm. The ranks of a
// group add up the squares of their shards.
static void clip_gradients(struct trainer *t) {
    sum_squares(t->fsdp.gradients, t->fsdp.count, t->squares, t->stream);
    COLLECTIVE(t->stream, ncclAllReduce(t->squares, t->squares, 1, ncclDouble, ncclSum,
                                        t->fsdp.group_comm, t->stream));
    COLLECTIVE(t->stream, // the groups' sums may differ in the last bit
               ncclAllReduce(t->squares, t->squares, 1, ncclDouble, ncclMax, t->fsdp.replica_comm,
                             t->stream));
    clip_to_norm(t->fsdp.gradients, t->fsdp.count, t->squares, step_opt.clip, t->stream);
}

static void train_step(struct trainer *t) {
    size_t slice = t->rank * t->rows * step_opt.accumulate; // where this rank's slice begins
    size_t first = t->progress.step * opt.batch + slice;
    step_begins(t->stream);
    begin_step(&t->pass, rng_bits(~opt.seed, steps_done(t)));
    struct samples samples = load_samples(&t->train, first, t->train.count, t->stream);
    t->fsdp.sent = 0;
    for (int i = 0; i < step_opt.accumulate; i++) {
        t->fsdp.micro_batch = i;
        t->pass.first_sample = slice + i * t->rows;
        forward(t, some_of(samples, i * t->rows, t->rows));
        softmax_cross_entropy(t->activations[t->model.count], t->labels, t->rows * t->train.targets,
                              t->train.classes, 1.f / opt.batch / t->train.targets, t->dy, t->stats,
                              opt.label_smoothing, t->stream);
        backward(t, t->rows);
    }
    t->fsdp.sent_a_step = t->fsdp.sent; // not counting evaluation, which also gathers
    if (step_opt.clip)
        clip_gradients(t);
    optimizer_step(&t->optimizer, t->fsdp.parameters, t->fsdp.gradients, t->fsdp.optimizer_state,
                   t->fsdp.count, steps_done(t) + 1, t->stream);
    step_ends(t->stream);
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

// Ranks that start from the same parameters and add the same sums keep parameters with the same
// bits. This ends the program if the largest and the smallest of their checksums differ.
static void check_replicas(struct trainer *t, double checksum, ncclComm_t comm) {
    double extremes[2] = {checksum, -checksum}; // the maximum of -x is the negated minimum of x
    CUDA_CHECK(cudaMemcpyAsync(t->checksums, extremes, sizeof extremes, cudaMemcpyHostToDevice,
                               t->stream));
    COLLECTIVE(t->stream,
               ncclAllReduce(t->checksums, t->checksums, 2, ncclDouble, ncclMax, comm, t->stream));
    CUDA_CHECK(cudaMemcpyAsync(extremes, t->checksums, sizeof extremes, cudaMemcpyDeviceToHost,
                               t->stream));
    wait_for(t->stream);
    if (extremes[0] != -extremes[1])
        fail("epoch %ld: the parameters differ from those of another rank", t->progress.epochs + 1);
}

static int finished(const struct trainer *t) {
    return t->requests.stop || t->progress.epochs >= opt.epochs ||
           (opt.max_steps && steps_done(t) >= opt.max_steps);
}

static void save(struct trainer *t) {
    char why[WHY_SIZE];
    struct snapshot *s = t->snapshot;
    struct units *f = &t->fsdp;
    note_save();
    if (opt.snapshot)
        watch_save(); // all ranks of a group save
    if (!opt.snapshot || t->rank >= f->shards)
        return;
    s->progress = t->progress;
    snapshot_from_device(s, f->parameters, f->optimizer_state);
    if (units_save(f, opt.snapshot, s, t->rank, step_opt.save, &t->sums->requests.stop, why))
        fail("%s", why);
}

// Sets the parameters and the optimizer state to those of the snapshot, or to initial values.
static void start(struct trainer *t) {
    const struct snapshot *s = t->snapshot;
    struct units *f = &t->fsdp;
    if (t->resumed) {
        snapshot_to_device(s, f->parameters, f->optimizer_state);
        print_resumed(opt.snapshot, s, finished(t));
        return;
    }
    units_initialise(f, opt.seed);
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
        check_replicas(t, device_checksum(t->fsdp.parameters, t->fsdp.count, t->stream),
                       t->fsdp.replica_comm);
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
    say("ranks     global batch %ld = %d rank%s x %ld\n", opt.batch, t->world, PLURAL(t->world),
        t->rows * step_opt.accumulate);
    say("launcher  %s\n", t->place.launcher);
    say("sharding  %s: units: %d, shards per unit: %d, replicas: %d, %s\n",
        strategy_name(step_opt.strategy), t->fsdp.unit_count, t->fsdp.shards, t->fsdp.replicas,
        precision_name(step_opt.precision));
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
    double before = device_memory_used();
    setup(&t);
    print_banner(&t);
    start(&t);
    train(&t);
    barrier(&t.sums->requests.stop, t.comm, t.stream); // until rank 0 has saved
    if (t.rank == 0)
        print_costs(&t.fsdp, &t.optimizer, t.rows, t.train.targets, step_opt.recompute,
                    device_memory_used() - before);
    end_watchdog();
    return 0;
}
