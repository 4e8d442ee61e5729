// Step 9 extends step 8: the ranks of a node divide each matrix, and sum their parts of each
// result.
#include "02_multigpu_fork/nccl_check.h"
#include "03_multigpu_launcher/agree.h"
#include "03_multigpu_launcher/environment.h"
#include "04_multinode/meet_by_tcp.h"
#include "04_multinode/watchdog.h"
#include "05_fsdp/shard.h"
#include "08_pipeline/pipeline.h"
#include "08_pipeline/stage_costs.h"
#include "09_tensor/tensor.h"
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

static struct { long overlap; } step_opt;

static const struct option_spec options[] = {
    {"overlap", OPTION_INT, &step_opt.overlap, "1", 0, 1,
     "1: replicas of stage 0 sum gradients during its last backward, 0: after it"},
    {0},
};

static const struct option_table tables[] = {
    {"options of all steps", training_options},
    {"options of the pipeline", pipeline_options},
    {"options of the parts", tensor_options},
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
    struct model whole, model; // model: the layers of whole that this rank has
    struct model part;         // of each layer of whole that is divided, this rank's part
    struct optimizer optimizer;
    struct pipeline pipeline;      // the ranks that have the other layers
    struct parts parts;            // the ranks that have the other parts
    float *parameters, *gradients; // flat arrays: model.parameters floats each
    float *optimizer_state;        // flat: optimizer.state_per_parameter times as many
    float **activations;           // [0]: the micro-batch, [i + 1]: the outputs of layer i

    float *dy, *dx;  // gradients of a layer's outputs and of its inputs
    uint8_t *labels; // of the micro-batch
    int rows;        // samples of one forward pass

    struct stats *stats;           // STATS_LANES partial sums since the last read_stats
    struct sums *sums, *host_sums; // totals of stats, on the device and on the host

    struct progress progress;  // completed epochs and steps
    struct snapshot *snapshot; // in host memory, to load and save; NULL: no --snapshot
    int resumed;               // 1: training continues from a snapshot file
    struct requests requests;  // as training last looked at them
    int rank, world;
    double *checksums; // two numbers for check_replicas
    struct place place;
    ncclComm_t comm;
    cudaStream_t comm_stream; // all-reduces on this stream run while the other one computes
    cudaEvent_t event;        // marks a point in a stream; the other stream can wait for it
};

// Reads the data and the snapshot, and builds the model. This does not need the GPU, so a wrong
// option or file ends the program at once.
static void load(struct trainer *t) {
    char why[WHY_SIZE];
    if (data_load(&t->train, &t->test, &opt.data, why))
        fail("%s", why);
    if (model_build(&t->whole, &opt, &t->train, why))
        wrong_usage("%s", why);
    tensor_build(&t->parts, &t->place);
    if (build_part(&t->part, &t->whole, &t->parts, &opt, &t->train, why))
        wrong_usage("--tensor %d: %s", t->parts.count, why);
    if (optimizer_build(&t->optimizer, &opt, t->train.count, why))
        wrong_usage("%s", why);
    t->pipeline =
        (struct pipeline){.all = &t->part, .parts = t->parts.count, .shard_layer = shard_layer};
    pipeline_build(&t->pipeline, &t->model, &t->place, opt.batch);
    t->rows = t->pipeline.rows;
    if (!opt.snapshot)
        return;
    t->snapshot = snapshot_of_run(t->model.shape, &t->optimizer, t->model.parameters);
    if (t->rank == 0 && snapshot_lock(opt.snapshot, why))
        fail("%s", why);
    t->resumed = snapshot_load_shard(opt.snapshot, t->snapshot, &t->pipeline.sharding,
                                     t->pipeline.shard, why);
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
    pipeline_join(&t->pipeline, t->comm, &t->pass);
    CUDA_CHECK(cudaStreamCreate(&t->comm_stream));
    tensor_join(&t->parts, t->comm, t->comm_stream, t->pipeline.stream);
    CUDA_CHECK(cudaEventCreateWithFlags(&t->event, cudaEventDisableTiming));
}

static void setup(struct trainer *t) {
    size_t bytes = t->model.parameters * sizeof(float);
    size_t state_bytes = t->optimizer.state_per_parameter * bytes;
    size_t column = t->rows * sizeof(float), widest = 0; // column: bytes of a float per sample
    t->train.unread = t->test.unread = !t->pipeline.first_stage && !t->pipeline.last_stage;
    loader_open(&t->train, t->pipeline.micro_batches * t->rows, opt.batch);
    loader_open(&t->test, t->rows, 0);
    DEVICE_ALLOC(t->parameters, "parameters", bytes);
    DEVICE_ALLOC(t->gradients, "gradients", bytes);
    DEVICE_ALLOC(t->optimizer_state, "optimizer", state_bytes);
    widest = pipeline_allocate(&t->pipeline, column);
    DEVICE_ALLOC(t->pass.scratch, "scratch", model_scratch(&t->model, t->pass.type, t->rows));
    DEVICE_ALLOC(t->dy, "activations", column * widest);
    DEVICE_ALLOC(t->dx, "activations", column * widest);
    DEVICE_ALLOC(t->labels, "activations", t->rows * t->train.targets);
    DEVICE_ALLOC(t->stats, "activations", STATS_LANES * sizeof *t->stats);
    DEVICE_ALLOC(t->sums, "activations", sizeof *t->sums);
    CUDA_CHECK(cudaMallocHost((void **)&t->host_sums, sizeof *t->host_sums));
    DEVICE_ALLOC(t->checksums, "data", 2 * sizeof *t->checksums);
    CUDA_CHECK(cudaMemsetAsync(t->optimizer_state, 0, state_bytes, t->stream));
    CUDA_CHECK(cudaMemsetAsync(t->stats, 0, STATS_LANES * sizeof *t->stats, t->stream));
}

// Makes this micro-batch the one that the functions below compute. Returns its samples.
static struct samples begin_micro_batch(struct trainer *t, int micro_batch) {
    t->activations = activations_of(&t->pipeline, micro_batch);
    t->pass.first_sample = t->pipeline.slice + micro_batch * t->rows;
    struct samples s = micro_batch_of(&t->pipeline, micro_batch), all = t->pipeline.samples;
    return t->pass.training ? s : load_samples(&t->test, s.first, all.first + all.count, t->stream);
}

// Adds the losses of these samples to stats. In training, dy becomes their gradient.
static void compute_loss(struct trainer *t, struct samples s) {
    const struct parts *parts = &t->parts;
    int training = t->pass.training, labels = s.count * s.set->targets, first = 0;
    gather_batch(s.set, s.order, s.first, s.count, NULL, t->labels, t->stream);
    if (parts->own_tokens) {
        labels /= parts->count;
        first = parts->number * labels;
    }
    softmax_cross_entropy(t->activations[t->model.count], t->labels + first, labels, s.set->classes,
                          1.f / opt.batch / s.set->targets, training ? t->dy : NULL, t->stats,
                          training ? opt.label_smoothing : 0, t->stream);
}

// Runs this stage's layers on a micro-batch.
static void forward(struct trainer *t, int micro_batch) {
    struct samples s = begin_micro_batch(t, micro_batch);
    if (t->pipeline.first_stage)
        gather_batch(s.set, s.order, s.first, s.count, t->activations[0], NULL, t->stream);
    for (int i = 0; i < t->model.count; i++) {
        const struct layer *l = &t->model.layers[i];
        layer_forward(l, &t->pass, t->parameters + l->first, t->activations[i],
                      t->activations[i + 1], s.count);
    }
    if (t->pipeline.last_stage && !t->pass.training)
        compute_loss(t, s);
}

// Sums the gradients of one layer over the ranks of comm. The sum runs on the second stream, while
// the first stream computes the gradients of the layer before.
static void sum_layer(struct trainer *t, const struct layer *l, ncclComm_t comm) {
    CUDA_CHECK(cudaEventRecord(t->event, t->stream));
    CUDA_CHECK(cudaStreamWaitEvent(t->comm_stream, t->event, 0));
    // A sum with the other parts waits for this one (tensor.c).
    COLLECTIVE(t->comm_stream,
               ncclAllReduce(t->gradients + l->first, t->gradients + l->first, l->parameters,
                             ncclFloat, ncclSum, comm, t->comm_stream));
}

// Computes the gradients of this stage's parameters, and adds them to those of the micro-batches
// before. dy holds the gradient of the stage's outputs, and then that of its inputs.
static void backward(struct trainer *t, int micro_batch) {
    const struct pipeline *p = &t->pipeline;
    struct samples s = begin_micro_batch(t, micro_batch);
    // Sends and sums at the same time could wait for each other forever. Stage 0 ends last, and has
    // nothing to send in its last backward.
    int overlap = step_opt.overlap && p->first_stage && micro_batch == p->micro_batches - 1;
    if (p->last_stage)
        compute_loss(t, s);
    for (int i = t->model.count - 1; i >= 0; i--) {
        const struct layer *l = &t->model.layers[i];
        layer_backward(l, &t->pass, t->parameters + l->first, t->activations[i],
                       t->activations[i + 1], t->dy, i > 0 || !p->first_stage ? t->dx : NULL,
                       micro_batch ? p->micro_gradients : t->gradients + l->first, t->rows);
        if (micro_batch)
            add_to(t->gradients + l->first, p->micro_gradients, l->parameters, t->stream);
        float *swap = t->dy;
        t->dy = t->dx;
        t->dx = swap;
        if (overlap)
            sum_layer(t, l, p->replicas_comm);
    }
    if (overlap) { // the update waits for the last sum
        CUDA_CHECK(cudaEventRecord(t->event, t->comm_stream));
        CUDA_CHECK(cudaStreamWaitEvent(t->stream, t->event, 0));
    }
}

// Runs forward of so many micro-batches. While a stage sends outputs, it receives the next inputs.
static void run_forwards(struct trainer *t, int count) {
    struct pipeline *p = &t->pipeline;
    exchange(p, nothing, inputs(p, 0));
    for (int f = 0; f < count; f++) {
        forward(t, f);
        exchange(p, outputs(p, f), inputs(p, f + 1));
    }
}

// Runs forward and backward of all micro-batches. No stage waits forever: two neighbours make the
// same exchanges with each other in the same order. They move outputs for each forward of the
// earlier stage's warm-up, then pairs of outputs and gradients, then the gradients that are left.
// So if one of them waits for the other, the other does not wait for it. The stages form a line, so
// no circle of more stages can wait, either.
static void run_batch(struct trainer *t) {
    struct pipeline *p = &t->pipeline;
    int f = p->warm_up, b = 0;
    run_forwards(t, f);                      // the warm-up
    for (; f < p->micro_batches; f++, b++) { // the steady state: one forward, one backward
        forward(t, f);
        exchange(p, outputs(p, f), output_gradients(p, b, t->dy));
        backward(t, b);
        exchange(p, input_gradients(p, b, t->dy), inputs(p, f + 1));
    }
    for (; b < p->micro_batches; b++) { // the cool-down
        exchange(p, nothing, output_gradients(p, b, t->dy));
        backward(t, b);
        exchange(p, input_gradients(p, b, t->dy), nothing);
    }
}

static long steps_done(const struct trainer *t) {
    return t->progress.epochs * t->optimizer.steps_per_epoch + t->progress.step;
}

static void train_step(struct trainer *t) {
    struct pipeline *p = &t->pipeline;
    size_t first = t->progress.step * opt.batch + p->slice;
    begin_step(&t->pass, rng_bits(~opt.seed, steps_done(t)));
    p->samples = load_samples(&t->train, first, t->train.count, t->stream);
    p->sent = t->parts.sent = 0;
    run_batch(t);
    p->sent_a_step = p->sent; // not counting evaluation, which also sends
    // The other stages sum theirs now, while the stages before them still compute.
    if (!step_opt.overlap || !p->first_stage)
        COLLECTIVE(t->stream, ncclAllReduce(t->gradients, t->gradients, t->model.parameters,
                                            ncclFloat, ncclSum, p->replicas_comm, t->stream));
    if (t->parts.own_tokens)
        sum_copies(&t->parts, p, t->gradients, t->stream);
    t->parts.sent_a_step = t->parts.sent;
    optimizer_step(&t->optimizer, t->parameters, t->gradients, t->optimizer_state,
                   t->model.parameters, steps_done(t) + 1, t->stream);
}

// Waits until the stream is empty. Returns the loss and the counts since the last clear.
static struct stats read_stats(struct trainer *t, int clear) {
    struct sums *sums = t->host_sums;
    sum_stats(t->stats, &t->sums->stats, t->stream);
    if (t->parts.number > 0 && !t->parts.own_tokens) // part 0 counts the same samples
        CUDA_CHECK(cudaMemsetAsync(&t->sums->stats, 0, sizeof sums->stats, t->stream));
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
    struct pipeline *p = &t->pipeline;
    size_t begin = t->test.count * p->replica / p->replicas;
    size_t end = t->test.count * (p->replica + 1) / p->replicas;
    t->pass.training = 0;
    p->samples = (struct samples){&t->test, NULL, begin, end - begin};
    run_forwards(t, (end - begin + t->rows - 1) / t->rows);
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

// Each rank of a replica saves its parameters in a file of its own. When all files are there,
// rank 0 makes them the snapshot.
static void save(struct trainer *t) {
    char why[WHY_SIZE];
    struct snapshot *s = t->snapshot;
    struct pipeline *p = &t->pipeline;
    note_save();
    if (opt.snapshot)
        watch_save();
    if (!opt.snapshot || p->replica > 0)
        return;
    s->progress = t->progress;
    snapshot_from_device(s, t->parameters, t->optimizer_state);
    int failed = snapshot_save_shard(opt.snapshot, s, &p->sharding, p->shard, why);
    barrier(&t->sums->requests.stop, p->comm, t->stream);
    barrier(&t->sums->requests.stop, t->parts.comm, t->stream); // the other parts have saved, too
    if (failed) {
        remove_shards(opt.snapshot);
        fail("%s", why);
    }
    barrier(&t->sums->requests.stop, p->comm, t->stream); // ends this rank if another has failed
    barrier(&t->sums->requests.stop, t->parts.comm, t->stream);
    if (t->rank == 0 && snapshot_commit(opt.snapshot, s, &p->sharding, why))
        fail("%s", why);
}

// Sets the parameters and the optimizer state to those of the snapshot, or to initial values.
static void start(struct trainer *t) {
    const struct snapshot *s = t->snapshot;
    struct pipeline *p = &t->pipeline;
    if (t->resumed) {
        snapshot_to_device(s, t->parameters, t->optimizer_state);
        print_resumed(opt.snapshot, s, finished(t));
        return;
    }
    shard_initialise(&p->sharding, p->shard, &t->whole, t->parameters, opt.seed, t->stream);
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
        check_replicas(t, device_checksum(t->parameters, t->model.parameters, t->stream),
                       t->pipeline.replicas_comm);
        check_replicas(t, checksum_of_copies(&t->pipeline, t->parameters, t->stream),
                       t->parts.comm);
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
    report_run(&t->whole, &t->train, &t->test, &t->optimizer);
    say("ranks     global batch %ld = %d replica%s x %ld\n", opt.batch, t->pipeline.replicas,
        PLURAL(t->pipeline.replicas), opt.batch / t->pipeline.replicas);
    say("launcher  %s\n", t->place.launcher);
    print_pipeline(&t->pipeline);
    print_tensor(&t->parts, &t->place);
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
    if (t.rank == 0) {
        print_stage_costs(&t.pipeline, t.optimizer.state_per_parameter, t.train.targets);
        print_tensor_cost(&t.parts, &t.pipeline);
    }
    end_watchdog();
    return 0;
}
