// What --model gpt builds: layers, numbers of parameters, initial values, weight decay and FLOPs.
// test_layers.c computes with this model, and tests/steps/torch_models.bats compares it with
// PyTorch.
#include "common/data/data.h"
#include "tests/unit/default_options.h"
#include "tests/unit/device_arrays.h"
#include "zoo/layers/kinds.h"
#include "zoo/models/models.h"

static struct training_options options_of(const char *size) {
    struct training_options options = default_options();
    options.model = "gpt";
    zoo_opt.size = size;
    return options;
}

static int try_build(struct model *m, const struct training_options *options, char why[WHY_SIZE]) {
    int context = gpt_size().context;
    struct dataset set = {.shape = {context, 1, 1}, .inputs = context, .targets = context};
    set.classes = 256;
    set.tokens = 1;
    return model_build(m, options, &set, why);
}

static void build(struct model *m, const struct training_options *options) {
    char why[WHY_SIZE];
    if (try_build(m, options, why))
        fail_msg("%s", why);
}

// GPT-2's models have 124,439,808 and 1,557,611,200 parameters, with a table of 50257 tokens that
// is also the head. Here there are 256 tokens, and a head with biases.
TEST(sizes_have_the_published_numbers_of_parameters) {
    const struct {
        const char *size;
        long layers, heads, width, context; // 0: of the size
        size_t parameters;
    } cases[] = {
        {"gpt2", 0, 0, 0, 0, 124439808 - 50257 * 768 + 2 * 256 * 768 + 256},
        {"gpt2", 48, 25, 1600, 0, 1557611200 - 50257 * 1600 + 2 * 256 * 1600 + 256},
        {"tiny", 0, 0, 0, 0, 2 * (12 * 4096 + 13 * 64) + 128 + (64 + 2 * 256) * 64 + 256},
        {"tiny", 1, 1, 1, 1, 12 + 13 + 2 + 1 + 2 * 256 + 256},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training_options options = options_of(cases[i].size);
        struct model m;
        zoo_opt.layers = cases[i].layers;
        zoo_opt.heads = cases[i].heads;
        zoo_opt.width = cases[i].width;
        zoo_opt.context = cases[i].context;
        build(&m, &options);
        assert_int_equal(m.parameters, cases[i].parameters);
    }
}

// 1b and 8b are named after their parameters, in billions.
TEST(all_sizes_can_be_built) {
    double most = 0;
    for (int i = 0; gpt_size_name(i); i++) {
        struct training_options options = options_of(gpt_size_name(i));
        struct model m;
        build(&m, &options);
        assert_true((double)m.parameters > most);
        most = (double)m.parameters;
        double billions = strtod(gpt_size_name(i), NULL);
        assert_true(billions == 0 || fabs(most / 1e9 - billions) < 0.1 * billions);
        for (const struct layer *l = m.inner; l < m.inner + m.inner_count; l++)
            assert_true(l->out.channels <= 4 * MOST_NORM_CHANNELS);
    }
}

TEST(too_wide_heads_are_refused) {
    struct training_options options = options_of("tiny");
    struct model m;
    char why[WHY_SIZE];
    zoo_opt.width = 258;
    zoo_opt.heads = 2;
    assert_int_equal(try_build(&m, &options, why), -1);
    assert_string_equal(why, "--width 258: want at most 128 for each of the 2 heads");
}

// The deepest one, with dropout, fits into the arrays of struct model. A block is one layer.
TEST(each_block_is_a_layer) {
    struct training_options options = options_of("tiny");
    struct model m;
    for (zoo_opt.layers = 1; zoo_opt.layers <= 60; zoo_opt.layers += 59)
        for (int dropout = 0; dropout < 2; dropout++) {
            zoo_opt.dropout = dropout ? 0.1 : NAN;
            build(&m, &options);
            assert_int_equal(m.count, zoo_opt.layers + 3 + dropout);
            assert_true(m.count <= MOST_LAYERS && m.inner_count <= MOST_INNER_LAYERS);
            assert_ptr_equal(m.layers[0].kind, &embedding);
            for (int i = 1 + dropout; i < m.count - 2; i++)
                assert_ptr_equal(m.layers[i].kind, &block);
            assert_ptr_equal(m.layers[m.count - 2].kind, &layer_normalisation);
            assert_int_equal(m.layers[m.count - 1].outputs, 64 * 256);
        }
}

// Four products of each block are behind a norm or in front of a sum, and the head is behind a
// norm.
TEST(initial_weights_in_front_of_a_sum_are_smaller) {
    struct training_options options = options_of("tiny");
    struct model m;
    int found[2] = {0};
    zoo_opt.layers = 8;
    build(&m, &options);
    for (const struct layer *l = m.inner; l < m.inner + m.inner_count; l++)
        if (l->kind == &linear) {
            int in_front_of_sum = l->around->kind == &sublayer && l + 2 == l->around->inner_end;
            found[in_front_of_sum]++;
            assert_true(fabs(settings_of(l)->linear.deviation - (in_front_of_sum ? 0.005 : 0.02)) <
                        1e-8);
        }
    assert_true(found[0] == 17 && found[1] == 16); // 17: the head is one of them
}

// As in GPT-2: matrices, the tables included, and not biases or norms.
TEST(matrices_decay) {
    struct training_options options = options_of("tiny");
    struct model m;
    size_t vectors = 0, width = 64;
    build(&m, &options);
    const struct layer *lists[][2] = {{m.layers, m.layers + m.count},
                                      {m.inner, m.inner + m.inner_count}};
    for (int i = 0; i < 2; i++)
        for (const struct layer *l = lists[i][0]; l < lists[i][1]; l++) {
            size_t want = l->kind == &layer_normalisation ? l->parameters : 0;
            want = l->kind == &bias || l->kind == &gelu_layer ? (size_t)l->out.channels : want;
            assert_int_equal(l->vectors, want);
            vectors += want;
        }
    assert_int_equal(m.vectors, vectors);
    assert_int_equal(vectors, 2 * (4 + 3 + 1 + 4 + 1) * width + 2 * width + 256);
}

// 2 for each weight and token, and for each head two products of T x T x D.
TEST(flops_are_those_of_the_products) {
    struct training_options options = options_of("small");
    struct model m;
    build(&m, &options);
    double tokens = 256, width = 384;
    double block_flops = 2 * tokens * 12 * width * width + 4 * tokens * tokens * width;
    for (int i = 1; i < m.count - 2; i++)
        assert_true(m.layers[i].flops == block_flops);
    assert_true(m.layers[0].flops == 0);
    assert_true(m.layers[m.count - 1].flops == 2 * tokens * 256 * width);
}

int main(void) {
    return run_all_tests((struct around){NULL});
}
