// Parts of a model: their initial values are those that the whole model has at the same places, and
// parts of divided layers compute what the whole layers do.
#include "09_tensor/divided.h"
#include "common/data/datasets.h"
#include "common/device/device.h"
#include "tests/unit/default_options.h"
#include "tests/unit/model_step.h"
#include "zoo/layers/kinds.h"
#include <pthread.h>

enum { INPUTS = 6, WIDTH = 4, BATCH = 5, WEIGHTS = WIDTH * INPUTS };

// Two dense layers: the columns of the first matrix and the rows of the second one are divided
// between two shards. Both have a copy of the first bias, and shard 1 has the second bias.
static const struct sharding halves = {
    .shards = 2,
    .units = 4,
    .unit = {WEIGHTS, WIDTH, 2 * WIDTH, 2},
    .division = {{.columns = INPUTS}, {.copies = 1}, {0}, {.first = 1, .shards = 1}}};

static void build(struct model *m) {
    *m = (struct model){.out = {1, 1, INPUTS}};
    append_dense(m, &dense, WIDTH);
    append_dense(m, &dense, 2);
}

static float *whole_parameters(const struct model *m) {
    const struct sharding whole = {1, 1, {m->parameters}};
    float *parameters = new_device_array(m->parameters * sizeof *parameters);
    for (const struct layer *l = m->layers; l < m->layers + m->count; l++)
        l->kind->initialise(l, parameters + l->first, 0, l->parameters, 3, pass.stream);
    float *same = new_device_array(m->parameters * sizeof *same);
    shard_initialise(&whole, 0, m, same, 3, pass.stream);
    assert_memory_equal(to_host(same, m->parameters * sizeof *same),
                        to_host(parameters, m->parameters * sizeof *same),
                        m->parameters * sizeof *same);
    return parameters;
}

static float *part_of(const struct model *m, int number) {
    float *part = new_device_array(shard_size(&halves, number) * sizeof *part);
    shard_initialise(&halves, number, m, part, 3, pass.stream);
    return part;
}

TEST(parts_have_the_values_of_the_whole) {
    enum { HALF = INPUTS / 2 };
    struct model m;
    build(&m);
    assert_true(sharding_fits(&halves, m.parameters));
    const float *whole = to_host(whole_parameters(&m), m.parameters * sizeof *whole);
    for (int k = 0; k < 2; k++) {
        size_t size = WEIGHTS / 2 + WIDTH + WIDTH + 2 * (k == 1);
        assert_int_equal(shard_size(&halves, k), size);
        const float *part = to_host(part_of(&m, k), size * sizeof *part);
        for (int row = 0; row < WIDTH; row++)
            assert_memory_equal(part + row * HALF, whole + row * INPUTS + k * HALF,
                                HALF * sizeof *part);
        part += WEIGHTS / 2;
        assert_memory_equal(part, whole + WEIGHTS, WIDTH * sizeof *part); // the copy
        assert_memory_equal(part + WIDTH, whole + WEIGHTS + WIDTH + k * WIDTH,
                            WIDTH * sizeof *part);
        if (k == 1)
            assert_memory_equal(part + 2 * WIDTH, whole + WEIGHTS + 3 * WIDTH, 2 * sizeof *part);
    }
}

TEST(padding_becomes_zero) {
    const struct sharding four = {4, 1, {WEIGHTS + 3 * WIDTH + 2}}; // 38 = 3 * 10 + 8
    struct model m;
    build(&m);
    const float *whole = to_host(whole_parameters(&m), m.parameters * sizeof *whole);
    float *last = new_device_array(10 * sizeof *last);
    shard_initialise(&four, 3, &m, last, 3, pass.stream);
    last = to_host(last, 10 * sizeof *last);
    assert_memory_equal(last, whole + 30, 8 * sizeof *last);
    assert_true(last[8] == 0 && last[9] == 0);
}

enum { MOST_PARTS = 4, MOST_SUMMED = 1 << 13, TOKENS = 8, CLASSES = 11 };

// Parts of a model that compute at the same time, each in a thread with its own stream, as ranks do
// in processes. Their collectives meet at a barrier.
static struct {
    pthread_barrier_t barrier;
    const float *given[MOST_PARTS]; // the arguments of a collective
} rendezvous;

struct part {
    pthread_t thread;
    int number, count;
    struct model model;
    struct parts parts;
    struct pass pass;
    struct step step;
    const float *dy;                          // its share, on the host
    size_t outputs;                           // floats of y and dy
    float *sums;                              // MOST_SUMMED, of sum
    const float *values, *y, *gradients, *dx; // on the host
};

// Waits until the values of all parts are there.
static void give(const struct part *p, const float *values, cudaStream_t stream) {
    CUDA_CHECK(cudaStreamSynchronize(stream));
    rendezvous.given[p->number] = values;
    pthread_barrier_wait(&rendezvous.barrier);
}

// Waits until all parts have read.
static void taken(cudaStream_t stream) {
    CUDA_CHECK(cudaStreamSynchronize(stream));
    pthread_barrier_wait(&rendezvous.barrier);
}

static void copy_floats(float *to, const float *from, size_t count, cudaStream_t stream) {
    CUDA_CHECK(cudaMemcpyAsync(to, from, count * sizeof *to, cudaMemcpyDeviceToDevice, stream));
}

// Sets to to the sums of count values of each part, which begin at value first.
static void add_given(const struct part *p, float *to, size_t first, size_t count,
                      cudaStream_t stream) {
    copy_floats(to, rendezvous.given[0] + first, count, stream);
    for (int k = 1; k < p->count; k++)
        add_to(to, rendezvous.given[k] + first, count, stream);
}

static void sum(void *group, float *values, size_t count, cudaStream_t stream) {
    struct part *p = group;
    give(p, values, stream);
    add_given(p, p->sums, 0, count, stream);
    taken(stream);
    copy_floats(values, p->sums, count, stream);
}

static void all_gather(void *group, const float *own, float *all, size_t count,
                       cudaStream_t stream) {
    struct part *p = group;
    give(p, own, stream);
    for (int k = 0; k < p->count; k++)
        copy_floats(all + (size_t)k * count, rendezvous.given[k], count, stream);
    taken(stream);
}

static void reduce_scatter(void *group, const float *all, float *own, size_t count,
                           cudaStream_t stream) {
    struct part *p = group;
    give(p, all, stream);
    add_given(p, own, (size_t)p->number * count, count, stream);
    taken(stream);
}

// A training step of a part: the forward and backward passes of all its layers.
static void *compute(void *argument) {
    struct part *p = argument;
    size_t bytes = p->outputs * sizeof *p->dy;
    pass = p->pass;
    open_device(NULL);
    forward(&p->step, &p->model, BATCH);
    CUDA_CHECK(cudaMemcpyAsync(p->step.dy, p->dy, bytes, cudaMemcpyDefault, pass.stream));
    backward(&p->step, &p->model, BATCH, 1);
    CUDA_CHECK(cudaStreamSynchronize(pass.stream));
    close_device(NULL);
    return NULL;
}

static const struct example {
    const char *model, *hidden;
    int parts, own_tokens;
} examples[] = {
    {"mlp", "8,6,4", 2, 0}, // two pairs
    {"mlp", "8,12", 4, 0},  // a pair, and a layer that all parts have
    {"gpt", NULL, 2, 0},    {"gpt", NULL, 4, 0}, {"gpt", NULL, 2, 1}, {"gpt", NULL, 4, 1},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

// Builds the example's model or, if parts is not NULL, the part of it that they say.
static void build_example(struct model *m, const struct example *e, const struct model *whole,
                          struct parts *parts) {
    char why[WHY_SIZE] = "";
    int is_text = !e->hidden, built;
    struct training_options options = default_options();
    struct dataset set = {.shape = {is_text ? TOKENS : 1, 1, is_text ? 1 : INPUTS},
                          .inputs = is_text ? TOKENS : INPUTS,
                          .targets = is_text ? TOKENS : 1,
                          .classes = CLASSES,
                          .tokens = is_text};
    options.model = e->model;
    options.hidden = e->hidden;
    zoo_opt.layers = 2;
    zoo_opt.heads = 4;
    zoo_opt.width = 16;
    zoo_opt.dropout = 0.2;
    built = parts ? build_part(m, whole, parts, &options, &set, why)
                  : model_build(m, &options, &set, why);
    assert_string_equal(why, "");
    assert_int_equal(built, 0);
}

// Makes the arrays of a part. dy: of the whole model.
static void new_part(struct part *p, const struct sharding *s, const struct model *whole,
                     const float *x, const float *dy) {
    const struct model *m = &p->model;
    size_t bytes = m->parameters * sizeof(float);
    assert_int_equal(shard_size(s, p->number), m->parameters);
    float *values = new_device_array(bytes);
    shard_initialise(s, p->number, whole, values, 3, pass.stream);
    p->values = to_host(values, bytes);
    p->step = new_step(m, p->values, x, BATCH);
    if (pass.type == CUDA_R_16BF) {
        p->step.parameters = new_device_array(bytes / 2);
        to_bfloat16(p->step.parameters, values, m->parameters, pass.stream);
    }
    p->outputs = (size_t)BATCH * (size_t)m->layers[m->count - 1].outputs;
    p->dy = dy + (p->parts.own_tokens ? (size_t)p->number * p->outputs : 0);
    p->sums = new_device_array(MOST_SUMMED * sizeof *p->sums);
    p->pass = pass; // with the scratch memory that new_step has made
    p->parts.sum = sum;
    p->parts.all_gather = all_gather;
    p->parts.reduce_scatter = reduce_scatter;
    p->parts.group = p;
}

static void run_parts(struct part *parts, int count) {
    CUDA_CHECK(cudaDeviceSynchronize());
    assert_int_equal(pthread_barrier_init(&rendezvous.barrier, NULL, (unsigned)count), 0);
    for (int k = 0; k < count; k++)
        assert_int_equal(pthread_create(&parts[k].thread, NULL, compute, &parts[k]), 0);
    for (int k = 0; k < count; k++)
        pthread_join(parts[k].thread, NULL);
    pthread_barrier_destroy(&rendezvous.barrier);
    for (struct part *p = parts; p < parts + count; p++) {
        const struct model *m = &p->model;
        p->y = to_host(p->step.activations[m->count], p->outputs * sizeof *p->y);
        p->gradients = to_host(p->step.gradients, m->parameters * sizeof *p->gradients);
        p->dx = to_host(p->step.dy, sizeof(float[BATCH]) * (size_t)m->layers[0].inputs);
    }
}

// Each part that has a parameter must have its initial value and its gradient. With own_tokens, the
// gradient of a parameter that all parts have is the sum of theirs.
static void compare_parameters(const struct part *parts, int count, const struct sharding *s,
                               const float *values, const float *gradients, size_t parameters,
                               double tolerance) {
    for (size_t i = 0; i < parameters; i++) {
        int held = 0, own_tokens = parts[0].parts.own_tokens;
        float sum = 0;
        for (int k = 0; k < count; k++) {
            struct location place = shard_find(s, k, i);
            if (!place.held)
                continue;
            held++;
            sum += parts[k].gradients[place.index];
            assert_true(parts[k].values[place.index] == values[i]);
            if (!own_tokens)
                assert_close(&parts[k].gradients[place.index], &gradients[i], 1, tolerance);
        }
        assert_true(held == 1 || held == count);
        if (own_tokens)
            assert_close(&sum, &gradients[i], 1, tolerance);
    }
}

static void compare_with_whole(const struct example *e, cudaDataType type, double tolerance) {
    static struct part parts[MOST_PARTS];
    static struct model whole;
    static struct sharding s;
    int count = e->parts, inputs = e->hidden ? INPUTS : TOKENS;
    build_example(&whole, e, NULL, NULL);
    size_t outputs = (size_t)BATCH * (size_t)whole.layers[whole.count - 1].outputs;
    float *x = random_floats((size_t)(BATCH * inputs), 1, 7), *dy = random_floats(outputs, 1, 8);
    float *values = initialised(&whole, 3);
    for (int i = 0; !e->hidden && i < BATCH * inputs; i++)
        x[i] = (float)(rng_bits(9, (uint64_t)i) % CLASSES);
    struct results want = run_step(&whole, type, values, x, dy, BATCH, 0);
    s = (struct sharding){.shards = count};
    for (int k = 0; k < count; k++) {
        parts[k] = (struct part){
            .number = k, .count = count, .parts = {count, k, .own_tokens = e->own_tokens}};
        build_example(&parts[k].model, e, &whole, &parts[k].parts);
        for (int i = 0; k == 0 && i < parts[k].model.count; i++)
            shard_layer(&s, &parts[k].model.layers[i], 0, count);
        new_part(&parts[k], &s, &whole, x, dy);
    }
    assert_true(sharding_fits(&s, whole.parameters));
    run_parts(parts, count);
    for (struct part *p = parts; p < parts + count; p++) {
        assert_close(p->y, want.y + (p->dy - dy), p->outputs, tolerance);
        if (e->hidden) // a text has no dx
            assert_close(p->dx, want.dx, (size_t)(BATCH * inputs), tolerance);
    }
    compare_parameters(parts, count, &s, values, want.gradients, whole.parameters, tolerance);
}

TEST(parts_of_a_model_compute_what_the_whole_does) {
    for (int i = 0; i < EXAMPLES; i++)
        compare_with_whole(&examples[i], CUDA_R_32F, 1e-5);
}

// Sums of parts are rounded in another order, so some of them become another bfloat16.
TEST(parts_of_a_model_in_bfloat16_compute_nearly_what_the_whole_does) {
    for (int i = 0; i < EXAMPLES; i++)
        compare_with_whole(&examples[i], CUDA_R_16BF, 0.01);
}

// The units of layers that shards 2 and 3 divide.
static void check_units(const struct sharding *s, int units, const size_t sizes[],
                        const struct division divisions[]) {
    assert_int_equal(s->units, units);
    for (int i = 0; i < units; i++) {
        struct division want = divisions[i];
        want.first = want.shards = 2;
        assert_int_equal(s->unit[i], sizes[i]);
        assert_memory_equal(&s->division[i], &want, sizeof want);
    }
}

TEST(a_pair_of_layers_is_divided_by_outputs_and_then_by_inputs) {
    static struct model whole, m;
    const struct example e = {"mlp", "8,12", 2, 0};
    struct sharding s = {.shards = 4};
    struct parts parts = {.count = 2};
    build_example(&whole, &e, NULL, NULL);
    build_example(&m, &e, &whole, &parts);
    for (int i = 0; i < m.count; i++)
        shard_layer(&s, &m.layers[i], 2, 2);
    // The copies of the second bias and of the last layer, which has no partner, are one unit.
    check_units(&s, 4, (size_t[]){8 * INPUTS, 8, 12 * 8, 12 + (12 + 1) * CLASSES},
                (struct division[]){{0}, {0}, {.columns = 8}, {.copies = 1}});
}

TEST(queries_keys_and_values_are_divided_each_by_itself) {
    enum { WIDE = 16, NORM = 2 * WIDE, SQUARE = WIDE * WIDE };
    static struct model whole, m;
    const struct example e = {"gpt", NULL, 2, 1};
    struct sharding s = {.shards = 4};
    struct parts parts = {.count = 2, .number = 1, .own_tokens = 1};
    build_example(&whole, &e, NULL, NULL);
    build_example(&m, &e, &whole, &parts);
    for (int i = 0; i < m.count; i++)
        if (m.layers[i].inner) {
            shard_layer(&s, &m.layers[i], 2, 2);
            break;
        }
    check_units(&s, 13,
                (size_t[]){NORM, SQUARE, SQUARE, SQUARE, WIDE, WIDE, WIDE, SQUARE, WIDE + NORM,
                           4 * SQUARE, 4 * WIDE, 4 * SQUARE, WIDE},
                (struct division[]){{.copies = 1},
                                    {0},
                                    {0},
                                    {0},
                                    {0},
                                    {0},
                                    {0},
                                    {.columns = WIDE},
                                    {.copies = 1},
                                    {0},
                                    {0},
                                    {.columns = 4 * WIDE},
                                    {.copies = 1}});
}

int main(void) {
    return run_all_tests(
        (struct around){open_device, close_device, .end = free_arrays_and_reset_type});
}
