// What --model cnn and --model resnet build: layers, shapes and numbers of parameters, and which
// options they refuse. test_image_layers.c computes with these models.
#include "common/data/data.h"
#include "common/layers/layers.h"
#include "common/models/models.h"
#include "tests/unit/default_options.h"
#include "tests/unit/device_arrays.h"
#include <stdio.h>

static int try_build(struct model *m, const char *name, long depth, long width, struct shape shape,
                     char why[WHY_SIZE]) {
    struct training_options options = default_options();
    options.model = name;
    options.hidden = "9";
    options.depth = depth;
    options.width = width;
    struct dataset set = {.shape = shape, .inputs = shape_size(shape), .targets = 1, .classes = 10};
    return model_build(m, &options, &set, why);
}

static void build(struct model *m, const char *name, long depth, long width, struct shape shape) {
    char why[WHY_SIZE];
    if (try_build(m, name, depth, width, shape, why))
        fail_msg("%s", why);
}

struct expected {
    const struct layer_kind *kind;
    struct shape out;
    size_t parameters;
};

static void check_layers(const struct model *m, const struct expected *want, int count) {
    assert_int_equal(m->count, count);
    for (int i = 0; i < count; i++) {
        const struct layer *l = &m->layers[i];
        assert_ptr_equal(l->kind, want[i].kind);
        assert_memory_equal(&l->out, &want[i].out, sizeof l->out);
        assert_int_equal(l->parameters, want[i].parameters);
    }
}

// https://github.com/pytorch/examples/blob/main/mnist/main.py
static void cnn_is_the_network_of_pytorchs_example(void **state) {
    (void)state;
    const struct expected want[] = {{&convolution_relu, {26, 26, 32}, 320},
                                    {&convolution_relu, {24, 24, 64}, 18496},
                                    {&max_pooling, {12, 12, 64}, 0},
                                    {&dropout, {12, 12, 64}, 0},
                                    {&dense_relu, {1, 1, 128}, 1179776},
                                    {&dropout, {1, 1, 128}, 0},
                                    {&dense, {1, 1, 10}, 1290}};
    struct model m;
    build(&m, "cnn", 20, 0, (struct shape){28, 28, 1});
    check_layers(&m, want, 7);
    assert_int_equal(m.parameters, 1199882);
    assert_true(m.layers[3].dropout.rate == 0.25f && m.layers[5].dropout.rate == 0.5f);
    for (int i = 0; i < 2; i++) {
        const struct windows *w = &m.layers[i].convolution.windows;
        assert_true(w->size == 3 && w->stride == 1 && w->padding == 0);
        assert_true(m.layers[i].convolution.has_bias);
    }
}

// The layers of a block: convolution, norm with ReLU, convolution, norm, and in the shortcut a
// convolution of one pixel and a norm, if the shape changes.
static void check_block(const struct layer *block, int channels, int stride, int projection) {
    const struct layer_kind *kinds[] = {&convolution, &group_normalisation_relu,
                                        &convolution, &group_normalisation,
                                        &convolution, &group_normalisation};
    const struct layer *l = block->residual.body;
    assert_ptr_equal(block->residual.shortcut, l + 4);
    assert_ptr_equal(block->residual.end, l + (projection ? 6 : 4));
    for (int i = 0; l + i < block->residual.end; i++) {
        assert_ptr_equal(l[i].kind, kinds[i]);
        assert_int_equal(l[i].out.channels, channels);
        if (i % 2) {
            assert_int_equal(l[i].norm.groups, 8);
            continue;
        }
        const struct windows *w = &l[i].convolution.windows;
        assert_int_equal(w->size, i == 4 ? 1 : 3);
        assert_int_equal(w->padding, i == 4 ? 0 : 1);
        assert_int_equal(w->stride, i == 2 ? 1 : stride);
        assert_false(l[i].convolution.has_bias);
    }
    assert_memory_equal(&block->residual.end[-1].out, &l[3].out, sizeof l->out);
    assert_memory_equal(&block->out, &l[3].out, sizeof l->out);
}

// Returns the parameters of a residual network, from the sizes of its convolutions, norms and last
// layer.
static size_t resnet_parameters(int stages, int blocks, size_t width, size_t channels) {
    size_t sum = 9 * channels * width + 2 * width, in = width;
    for (int stage = 0; stage < stages; stage++)
        for (int block = 0; block < blocks; block++) {
            size_t out = width << stage;
            sum += 9 * in * out + 9 * out * out + 4 * out;
            sum += in == out ? 0 : in * out + 2 * out;
            in = out;
        }
    return sum + in * 10 + 10;
}

static void resnets_have_the_blocks_of_their_depth(void **state) {
    (void)state;
    const struct {
        int depth, stages, blocks, width;
    } nets[] = {{8, 3, 1, 16}, {14, 3, 2, 16}, {20, 3, 3, 16}, {18, 4, 2, 64}};
    for (int i = 0; i < 8; i++) {
        int stages = nets[i / 2].stages, blocks = nets[i / 2].blocks;
        int width = i % 2 ? 24 : nets[i / 2].width, channels = i % 2 ? 1 : 3;
        struct model m;
        build(&m, "resnet", nets[i / 2].depth, i % 2 ? 24 : 0, (struct shape){32, 30, channels});
        assert_int_equal(m.parameters,
                         resnet_parameters(stages, blocks, (size_t)width, (size_t)channels));
        assert_int_equal(m.count, 2 + stages * blocks + 2);
        assert_int_equal(m.layers[0].out.channels, width);
        assert_int_equal(m.layers[0].out.height, 32);
        assert_ptr_equal(m.layers[1].kind, &group_normalisation_relu);
        for (int b = 0; b < stages * blocks; b++) {
            int stage = b / blocks, first = stage > 0 && b % blocks == 0;
            assert_ptr_equal(m.layers[2 + b].kind, &residual);
            check_block(&m.layers[2 + b], width << stage, first ? 2 : 1, first);
        }
        assert_ptr_equal(m.layers[m.count - 2].kind, &mean_pooling);
        assert_ptr_equal(m.layers[m.count - 1].kind, &dense);
        assert_int_equal(m.layers[m.count - 1].outputs, 10);
        assert_int_equal(m.layers[m.count - 3].out.height, 32 >> (stages - 1));
    }
}

// As published for networks of these shapes with batch normalisation, which has as many parameters.
static void resnets_have_the_published_numbers_of_parameters(void **state) {
    (void)state;
    struct model m;
    build(&m, "resnet", 18, 0, (struct shape){32, 32, 3});
    assert_int_equal(m.parameters, 11173962);
    build(&m, "resnet", 20, 0, (struct shape){32, 32, 3});
    assert_int_equal(m.parameters, 272474);
}

// The dot product of a filter and a window counts as 2 operations for each of its elements.
static void flops_are_those_of_the_products(void **state) {
    (void)state;
    struct model m;
    build(&m, "resnet", 8, 0, (struct shape){32, 32, 3});
    double want[] = {2. * 1024 * 16 * 27,
                     0,
                     2. * 1024 * 16 * 144 * 2,
                     2. * 256 * 32 * (144 + 288 + 16),
                     2. * 64 * 64 * (288 + 576 + 32),
                     0,
                     2. * 64 * 10};
    assert_int_equal(m.count, 7);
    for (int i = 0; i < m.count; i++)
        assert_true(m.layers[i].flops == want[i]);
}

static void check_refused(const char *name, long depth, long width, struct shape shape,
                          const char *text) {
    struct model m;
    char why[WHY_SIZE] = "";
    assert_int_equal(try_build(&m, name, depth, width, shape, why), -1);
    if (strncmp(why, text, strlen(text)) || strchr(why, '\n'))
        fail_msg("\"%s\" does not begin with \"%s\"", why, text);
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    const struct shape image = {28, 28, 1};
    const long depths[] = {1, 2, 7, 9, 16, 19, 21, 26, 32, 50, 110, 1000};
    for (int i = 0; i < 12; i++) {
        char text[100];
        snprintf(text, sizeof text, "--depth %ld: want 8, 14, 18 or 20", depths[i]);
        check_refused("resnet", depths[i], 0, image, text);
    }
    const long widths[] = {1, 7, 9, 12, 513, 516, 520, 1000000};
    for (int i = 0; i < 8; i++) {
        char text[100];
        snprintf(text, sizeof text, "--width %ld: want a multiple of 8 up to 512", widths[i]);
        check_refused("resnet", 8, widths[i], image, text);
    }
    const struct shape tiny[] = {{5, 6, 1}, {6, 5, 1}, {1, 1, 784}, {28, 5, 3}};
    for (int i = 0; i < 4; i++)
        check_refused("cnn", 20, 0, tiny[i], "--model cnn: images have ");
    check_refused("cnn", 20, 0, tiny[0],
                  "--model cnn: images have 6 x 5 pixels, and the model needs 6 x 6");
}

// The smallest images that models take, whose last layers have one pixel.
static void small_images_are_enough(void **state) {
    (void)state;
    struct model m;
    build(&m, "cnn", 20, 0, (struct shape){6, 6, 1});
    assert_int_equal(m.layers[2].outputs, 64);
    build(&m, "resnet", 18, 8, (struct shape){8, 15, 1}); // which three layers halve
    const struct layer *last = m.layers + m.count - 3;
    assert_ptr_equal(last->kind, &residual);
    assert_true(last->out.height == 1 && last->out.width == 2);
}

// No option makes a model with more layers than its arrays hold, nor a norm with more channels than
// its kernels take.
static void models_stay_within_their_limits(void **state) {
    (void)state;
    const long depths[] = {8, 14, 18, 20};
    struct model m;
    for (int i = 0; i < 4; i++)
        for (long width = 0; width <= 512; width += 8) {
            build(&m, "resnet", depths[i], width, (struct shape){32, 32, 3});
            assert_true(m.count <= MOST_LAYERS && m.inner_count <= MOST_INNER_LAYERS);
            for (const struct layer *l = m.inner; l < m.inner + m.inner_count; l++)
                assert_true(l->out.channels <= MOST_NORM_CHANNELS);
        }
    char hidden[] = "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", why[WHY_SIZE];
    struct training_options options = default_options();
    options.hidden = hidden;
    options.dropout = 0.5;
    struct dataset set = {.shape = {1, 1, 5}, .inputs = 5, .targets = 1, .classes = 10};
    assert_int_equal(model_build(&m, &options, &set, why), 0);
    assert_int_equal(m.count, 33);
    assert_true(m.count <= MOST_LAYERS);
}

// Of the largest part of a batch, and of the layers within blocks.
static void scratch_is_that_of_the_largest_layer(void **state) {
    (void)state;
    struct model m;
    build(&m, "cnn", 20, 0, (struct shape){28, 28, 1});
    size_t image = 24 * 24 * 32 * 9 * sizeof(float); // the patches of the second convolution
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 3), 3 * image);
    size_t first = 26 * 26 * 9 * sizeof(float);
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 1000), CONV_WORKSPACE / first * first);
    assert_true(CONV_WORKSPACE / first * first > CONV_WORKSPACE / image * image);
    build(&m, "resnet", 8, 0, (struct shape){32, 32, 3});
    image = 32 * 32 * 16 * 9 * sizeof(float);
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 2), 2 * image);
    assert_int_equal(model_scratch(&m, CUDA_R_16BF, 2), 2 * (image + 2 * 32 * 32 * 16 * 2));
    build(&m, "resnet", 8, 0, (struct shape){400, 400, 3});
    image = 400 * 400 * 16 * 9 * sizeof(float);
    assert_true(image > CONV_WORKSPACE);
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 100), image);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cnn_is_the_network_of_pytorchs_example),
        cmocka_unit_test(resnets_have_the_blocks_of_their_depth),
        cmocka_unit_test(resnets_have_the_published_numbers_of_parameters),
        cmocka_unit_test(flops_are_those_of_the_products),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(small_images_are_enough),
        cmocka_unit_test(models_stay_within_their_limits),
        cmocka_unit_test(scratch_is_that_of_the_largest_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
