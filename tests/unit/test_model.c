// What --model and its options build: layers, shapes, numbers of parameters and scratch memory, and
// which options are refused. test_layers.c computes with these models, and
// tests/steps/torch_models.bats compares them with those of PyTorch.
#include "common/data/data.h"
#include "tests/unit/default_options.h"
#include "tests/unit/device_arrays.h"
#include "zoo/layers/kinds.h"
#include "zoo/models/models.h"
#include <stdio.h>

static const struct shape digits = {28, 28, 1}, colours = {32, 32, 3};

static struct training_options options_of(const char *name) {
    struct training_options options = default_options();
    options.model = name;
    return options;
}

static int try_build(struct model *m, const struct training_options *options, struct shape shape,
                     char why[WHY_SIZE]) {
    struct dataset set = {.shape = shape, .inputs = shape_size(shape), .targets = 1, .classes = 10};
    return model_build(m, options, &set, why);
}

static void build(struct model *m, const struct training_options *options, struct shape shape) {
    char why[WHY_SIZE];
    if (try_build(m, options, shape, why))
        fail_msg("%s", why);
}

static void new_mlp(struct model *m, const char *hidden) {
    struct training_options options = options_of("mlp");
    options.hidden = hidden;
    build(m, &options, digits);
}

static void new_resnet(struct model *m, long depth, long width, struct shape shape) {
    struct training_options options = options_of("resnet");
    zoo_opt.depth = depth;
    zoo_opt.width = width;
    build(m, &options, shape);
}

// The reason must begin with this text.
static void refused(const struct training_options *options, struct shape shape, const char *text) {
    struct model m;
    char why[WHY_SIZE] = "";
    assert_int_equal(try_build(&m, options, shape, why), -1);
    if (strncmp(why, text, strlen(text)) || strchr(why, '\n'))
        fail_msg("\"%s\" does not begin with \"%s\"", why, text);
}

TEST(hidden_widths_make_an_mlp) {
    const struct {
        const char *hidden, *shape;
        int layers;
        size_t parameters;
    } cases[] = {
        {"512,512", "mlp 784-512-512-10", 3, 669706}, // the default
        {"1,65536,7", "mlp 784-1-65536-7-10", 4, 785 + 2 * 65536 + 65537 * 7 + 8 * 10},
    };
    for (int i = 0; i < 2; i++) {
        struct model m;
        new_mlp(&m, cases[i].hidden);
        assert_string_equal(m.shape, cases[i].shape);
        assert_string_equal(m.settings, "");
        assert_int_equal(m.count, cases[i].layers);
        assert_int_equal(m.parameters, cases[i].parameters);
        for (int k = 0; k < m.count; k++)
            assert_ptr_equal(m.layers[k].kind, k < m.count - 1 ? &dense_relu : &dense);
    }
}

TEST(each_model_has_its_own_dropout) {
    const struct {
        const char *name;
        double rate;
        float found[2];
        int layers;
        const char *text;
    } cases[] = {
        {"mlp", NAN, {0, 0}, 2, ""},
        {"cnn", NAN, {0.25f, 0.5f}, 7, ", dropout 0.25 and 0.5"},
        {"cnn", 0, {0, 0}, 5, ""},
        {"cnn", 0.1, {0.1f, 0.1f}, 7, ", dropout 0.1"},
        {"mlp", 0.1, {0.1f, 0}, 3, ", dropout 0.1"},
        {"resnet", NAN, {0, 0}, 7, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        float found[2] = {0, 0};
        int count = 0;
        struct training_options options = options_of(cases[i].name);
        options.hidden = "30";
        zoo_opt.depth = 8;
        zoo_opt.dropout = cases[i].rate;
        build(&m, &options, digits);
        for (int k = 0; k < m.count; k++)
            if (m.layers[k].kind == &dropout)
                found[count++] = settings_of(&m.layers[k])->dropout.rate;
        assert_memory_equal(found, cases[i].found, sizeof found);
        assert_int_equal(m.count, cases[i].layers);
        assert_string_equal(m.settings, cases[i].text);
        assert_null(strstr(m.shape, "dropout")); // so that snapshots of a run without it fit
    }
}

// The numbers of parameters of depths 18 and 20 are those published for networks of these shapes
// with batch normalisation, which has as many parameters.
TEST(resnets_have_the_blocks_of_their_depth) {
    const struct {
        long depth, width;            // 0: the usual width
        int blocks, channels, height; // channels and height of the last block
        size_t parameters;
    } cases[] = {
        {8, 0, 3, 64, 8, 78042},   {14, 0, 6, 64, 8, 175258},    {20, 0, 9, 64, 8, 272474},
        {8, 24, 3, 96, 8, 174274}, {18, 0, 8, 512, 4, 11173962}, {18, 24, 8, 192, 4, 1575202},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        new_resnet(&m, cases[i].depth, cases[i].width, colours);
        assert_int_equal(m.count, 2 + cases[i].blocks + 2);
        for (int b = 2; b < 2 + cases[i].blocks; b++)
            assert_ptr_equal(m.layers[b].kind, &residual);
        assert_int_equal(m.layers[m.count - 3].out.channels, cases[i].channels);
        assert_int_equal(m.layers[m.count - 3].out.height, cases[i].height);
        assert_int_equal(m.layers[m.count - 1].outputs, 10);
        assert_int_equal(m.parameters, cases[i].parameters);
    }
}

// The dot product of a filter and a window counts as 2 operations for each of its elements.
TEST(flops_are_those_of_the_products) {
    struct model m;
    new_resnet(&m, 8, 0, colours);
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

// tests/steps/images.bats has wrong settings of the other models, and images that are too small.
TEST(wrong_widths_are_refused) {
    const char *hidden[] = {"",
                            ",",
                            "512,",
                            ",512",
                            "512,,512",
                            "abc",
                            "512x",
                            "512,12a",
                            "0",
                            "-5",
                            "65537",
                            "1.5",
                            "512;512",
                            "0x10",
                            "99999999999999999999",
                            "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};
    char text[100];
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        struct training_options options = options_of("mlp");
        options.hidden = hidden[i];
        snprintf(text, sizeof text, "--hidden %s: ", hidden[i]);
        refused(&options, digits, text);
    }
}

// A layer would have more values than an int can count.
TEST(images_that_are_too_large_are_refused) {
    const struct {
        const char *model;
        struct shape shape;
        const char *text;
    } cases[] = {
        {"cnn", {5000, 5000, 1}, "--model cnn: images of 5000 x 5000 pixels are too large"},
        {"cnn", {6, 1 << 28, 1}, "--model cnn: images of 268435456 x 6 pixels are too large"},
        {"resnet",
         {30000, 30000, 1},
         "--model resnet: images of 30000 x 30000 pixels are too large"},
        {"resnet", {3000, 3000, 1}, "--model resnet: images of 3000 x 3000 pixels are too large"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training_options options = options_of(cases[i].model);
        zoo_opt.depth = 18;
        refused(&options, cases[i].shape, cases[i].text);
    }
}

// The smallest images that models take, whose last layers have one pixel.
TEST(small_images_are_enough) {
    struct model m;
    struct training_options cnn = options_of("cnn");
    build(&m, &cnn, (struct shape){6, 6, 1});
    assert_int_equal(m.layers[2].outputs, 64);
    new_resnet(&m, 18, 8, (struct shape){8, 15, 1}); // which three layers halve
    const struct layer *last = m.layers + m.count - 3;
    assert_ptr_equal(last->kind, &residual);
    assert_true(last->out.height == 1 && last->out.width == 2);
}

// No option makes a model with more layers than its arrays hold, nor a norm with more channels than
// its kernels take.
TEST(models_stay_within_their_limits) {
    struct model m;
    new_resnet(&m, 20, 0, colours); // the deepest
    assert_true(m.count <= MOST_LAYERS && m.inner_count <= MOST_INNER_LAYERS);
    new_resnet(&m, 18, 512, colours); // the widest
    assert_true(m.layers[m.count - 3].out.channels <= MOST_NORM_CHANNELS);
    struct training_options options = options_of("mlp");
    options.hidden = "65536,65536,65536,65536,65536,65536,65536,65536,65536,65536,65536,65536,"
                     "65536,65536,65536,65536";
    zoo_opt.dropout = 0.5;
    build(&m, &options, digits);
    assert_int_equal(m.count, 33);
    assert_true(m.count <= MOST_LAYERS);
    assert_int_equal(m.parameters, 785 * 65536LL + 15 * 65537LL * 65536 + 65537LL * 10);
    assert_string_equal(m.shape + strlen(m.shape) - 9, "-65536-10"); // the longest name
}

// Of the largest part of a batch, and of the layers within blocks. The guards around it in
// test_layers.c show that it is enough.
TEST(scratch_is_that_of_the_largest_layer) {
    struct model m;
    new_mlp(&m, "512,512");
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 128), 0);
    assert_int_equal(model_scratch(&m, CUDA_R_16BF, 128), (784 + 512) * 128 * 2);
    assert_int_equal(model_scratch(&m, CUDA_R_16BF, 0), 512 * 4);
    new_mlp(&m, "65536,65536");
    assert_int_equal(model_scratch(&m, CUDA_R_16BF, 1 << 20), 65536LL * 2 * (1 << 20) * 2);
    struct training_options cnn = options_of("cnn");
    build(&m, &cnn, digits);
    size_t image = 24 * 24 * 32 * 9 * sizeof(float); // the patches of the second convolution
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 3), 3 * image);
    size_t first = 26 * 26 * 9 * sizeof(float);
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 10000), patch_workspace() / first * first);
    assert_true(patch_workspace() / first * first > patch_workspace() / image * image);
    new_resnet(&m, 8, 0, colours);
    image = 32 * 32 * 16 * 9 * sizeof(float);
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 2), 2 * image);
    assert_int_equal(model_scratch(&m, CUDA_R_16BF, 2), 2 * (image + 2 * 32 * 32 * 16 * 2));
    new_resnet(&m, 8, 0, (struct shape){400, 400, 3});
    image = 400 * 400 * 16 * 9 * sizeof(float);
    assert_true(image > patch_workspace());
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 100), image);
}

int main(void) {
    return run_all_tests((struct around){NULL});
}
