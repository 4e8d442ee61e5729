// Parts of a model: their initial values are those that the whole model has at the same places, and
// each matrix is divided in its own way.
#include "09_tensor/divided.h"
#include "common/data/datasets.h"
#include "common/device/device.h"
#include "tests/unit/model_step.h"
#include "tests/unit/options.h"
#include "zoo/layers/kinds.h"

enum { INPUTS = 6, WIDTH = 4, WEIGHTS = WIDTH * INPUTS };

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

// Which units the parts of two models have. tests/steps/tensor.bats trains with them, and compares
// the parameters and the gradients of all parts with those of step 1.
enum { TOKENS = 8, CLASSES = 11 };

// Builds the model of these options, or the part of it that parts say.
static void build_model(struct model *m, const char *words, struct shape in,
                        const struct model *whole, struct parts *parts) {
    char why[WHY_SIZE] = "";
    set_options(words);
    struct dataset set = set_of(in, CLASSES);
    if (whole ? build_part(m, whole, parts, &opt, &set, why) : model_build(m, &opt, &set, why))
        fail_msg("%s", why);
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
    struct sharding s = {.shards = 4};
    struct parts parts = {.count = 2};
    const char *words = "--hidden 8,12";
    const struct shape in = {1, 1, INPUTS};
    build_model(&whole, words, in, NULL, NULL);
    build_model(&m, words, in, &whole, &parts);
    for (int i = 0; i < m.count; i++)
        shard_layer(&s, &m.layers[i], 2, 2);
    // The copies of the second bias and of the last layer, which has no partner, are one unit.
    check_units(&s, 4, (size_t[]){8 * INPUTS, 8, 12 * 8, 12 + (12 + 1) * CLASSES},
                (struct division[]){{0}, {0}, {.columns = 8}, {.copies = 1}});
}

TEST(queries_keys_and_values_are_divided_each_by_itself) {
    enum { WIDE = 16, NORM = 2 * WIDE, SQUARE = WIDE * WIDE };
    static struct model whole, m;
    struct sharding s = {.shards = 4};
    struct parts parts = {.count = 2, .number = 1, .own_tokens = 1};
    const char *words = "--model gpt --layers 2 --heads 4 --width 16";
    const struct shape in = {TOKENS, 1, 1};
    build_model(&whole, words, in, NULL, NULL);
    build_model(&m, words, in, &whole, &parts);
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
