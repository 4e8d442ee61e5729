// Parts of a model: their initial values are those that the whole model has at the same places, and
// the parts of a divided layer compute what the whole layer does.
#include "common/device/device.h"
#include "common/layers/layers.h"
#include "common/layers/products.h"
#include "common/models/sharding.h"
#include "tests/unit/model_step.h"

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

// Part of a dense layer: the columns of its matrix are divided, so each part has some of the inputs
// and computes a share of all outputs.
static void part_forward(const struct layer *l, const struct pass *p, const void *parameters,
                         const float *x, float *y, int b) {
    matmul(p, 0, 1, b, l->outputs, l->inputs, x, parameters, 0, y);
    if (p->sum)
        p->sum(p->group, y, (size_t)b * (size_t)l->outputs, p->stream);
    add_bias(y, (const float *)parameters + l->outputs * l->inputs, b, l->outputs, 0, p->stream);
}

// The shares of two parts, which the test runs one after the other.
struct shares {
    const float *other; // the share of the other part, NULL: not yet known
    float *own;
};

static void sum_shares(void *parts, float *values, size_t count, cudaStream_t stream) {
    struct shares *s = parts;
    CUDA_CHECK(
        cudaMemcpyAsync(s->own, values, count * sizeof *values, cudaMemcpyDeviceToDevice, stream));
    if (s->other)
        add_to(values, s->other, count, stream);
}

TEST(parts_of_a_layer_compute_what_the_whole_does) {
    const size_t outputs = sizeof(float[BATCH * WIDTH]);
    const float *x = random_floats((size_t)BATCH * INPUTS, 1, 7);
    struct model m;
    build(&m);
    float *want = new_device_array(outputs), *y = new_device_array(outputs);
    m.layers[0].kind->forward(&m.layers[0], &pass, whole_parameters(&m),
                              to_device(x, sizeof(float[BATCH * INPUTS])), want, BATCH);
    struct layer part = m.layers[0];
    part.inputs /= 2;
    struct shares shares[2] = {{.own = new_device_array(outputs)},
                               {.own = new_device_array(outputs)}};
    for (int run = 0; run < 4; run++) { // part 0, part 1, and both again with the other's share
        int k = run % 2;
        float half[BATCH * INPUTS / 2];
        for (int i = 0; i < BATCH * INPUTS / 2; i++)
            half[i] = x[i / part.inputs * INPUTS + k * part.inputs + i % part.inputs];
        struct pass p = pass;
        p.sum = sum_shares;
        p.group = &shares[k];
        part_forward(&part, &p, part_of(&m, k), to_device(half, sizeof half), y, BATCH);
        shares[!k].other = shares[k].own;
        if (run >= 1)
            assert_close((float *)to_host(y, outputs), (float *)to_host(want, outputs),
                         BATCH * WIDTH, 1e-6);
    }
}

int main(void) {
    return run_all_tests((struct around){open_device, close_device, .end = free_arrays});
}
