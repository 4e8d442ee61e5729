// What --model and its options build: layers, numbers of parameters, dropout, FLOPs, weight decay
// and scratch memory, and which options are refused. test_layers.c computes with these models, and
// tests/steps/torch_models.bats compares them with those of PyTorch.
#include "tests/unit/options.h"
#include "zoo/layers/inner.h"
#include "zoo/models/models.h"
#include <math.h>

static const struct shape digits = {28, 28, 1}, colours = {32, 32, 3}, of_size = {0};
static struct model m;

// of_size: a text with the context of --size.
static int try_build(const char *words, struct shape in, char why[WHY_SIZE]) {
    set_options(words);
    if (!in.height)
        in = (struct shape){gpt_size().context, 1, 1};
    struct dataset set = set_of(in, strcmp(opt.model, "gpt") ? 10 : 256);
    return model_build(&m, &opt, &set, why);
}

static void build(const char *words, struct shape in) {
    char why[WHY_SIZE] = "";
    if (try_build(words, in, why))
        fail_msg("%s: %s", words, why);
}

// Published numbers: those of resnets of depths 18 and 20, with batch normalisation, which has as
// many parameters; those of GPT-2, whose table of 50257 tokens is also the head. Here there are 256
// tokens, and a head with biases.
TEST(models_have_their_layers_and_parameters) {
    static const struct {
        const char *words;
        const struct shape *in;
        int layers;
        size_t parameters;
    } cases[] = {
        {"", &digits, 3, 669706},
        {"--hidden 1,65536,7", &digits, 4, 785 + 2 * 65536 + 65537 * 7 + 8 * 10},
        {"--model cnn", &digits, 7, 1199882},
        {"--model resnet --depth 8", &colours, 7, 78042},
        {"--model resnet --depth 14", &colours, 10, 175258},
        {"--model resnet --depth 20", &colours, 13, 272474},
        {"--model resnet --depth 8 --width 24", &colours, 7, 174274},
        {"--model resnet --depth 18", &colours, 12, 11173962},
        {"--model gpt --size gpt2", &of_size, 15, 124439808 - 50257 * 768 + 2 * 256 * 768 + 256},
        {"--model gpt --size gpt2 --layers 48 --heads 25 --width 1600", &of_size, 51,
         1557611200 - 50257 * 1600 + 2 * 256 * 1600 + 256},
        {"--model gpt --size tiny", &of_size, 5,
         2 * (12 * 4096 + 13 * 64) + 128 + (64 + 2 * 256) * 64 + 256},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        build(cases[i].words, *cases[i].in);
        if (m.count != cases[i].layers || m.parameters != cases[i].parameters)
            fail_msg("%s: %d layers, %zu parameters", cases[i].words, m.count, m.parameters);
    }
}

TEST(each_model_has_its_own_dropout) {
    static const struct {
        const char *words;
        float found[2];
        const char *text;
    } cases[] = {
        {"--hidden 30", {0, 0}, ""},
        {"--hidden 30 --dropout 0.1", {0.1f, 0}, ", dropout 0.1"},
        {"--model cnn", {0.25f, 0.5f}, ", dropout 0.25 and 0.5"},
        {"--model cnn --dropout 0", {0, 0}, ""},
        {"--model cnn --dropout 0.1", {0.1f, 0.1f}, ", dropout 0.1"},
        {"--model resnet", {0, 0}, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float found[2] = {0, 0};
        int count = 0;
        build(cases[i].words, digits);
        for (int k = 0; k < m.count; k++)
            if (m.layers[k].kind == &dropout)
                found[count++] = settings_of(&m.layers[k])->dropout.rate;
        assert_memory_equal(found, cases[i].found, sizeof found);
        assert_string_equal(m.settings, cases[i].text);
        assert_null(strstr(m.shape, "dropout")); // so that snapshots of a run without it fit
    }
}

TEST(augmentation_is_the_first_layer) {
    static const struct {
        const char *words;
        int most_shift, flip;
    } cases[] = {{"crop", 4, 0}, {"flip", 0, 1}, {"flip,crop", 4, 1}};
    for (int i = 0; i < 3; i++) {
        char words[100], settings[100];
        snprintf(words, sizeof words, "--model resnet --augment %s", cases[i].words);
        snprintf(settings, sizeof settings, ", augment %s", cases[i].words);
        build(words, (struct shape){12, 10, 2});
        struct augmentation a = settings_of(&m.layers[0])->augmentation;
        assert_ptr_equal(m.layers[0].kind, &augmentation);
        assert_true(a.most_shift == cases[i].most_shift && a.flip == cases[i].flip);
        assert_true(a.black[0] == -2 && a.black[1] == -0.5);
        assert_string_equal(m.settings, settings);
        // The next layer need not compute dx, but all others must.
        for (int l = 0; l < m.count; l++)
            assert_int_equal(m.layers[l].dx_unused, l == 1);
    }
}

// The dot product of a filter and a window, or of a weight and a token, counts as 2 operations for
// each of its elements. Each head of attention has two products of T x T x D.
TEST(flops_are_those_of_the_products) {
    const double resnet[] = {2. * 1024 * 16 * 27,
                             0,
                             2. * 1024 * 16 * 144 * 2,
                             2. * 256 * 32 * (144 + 288 + 16),
                             2. * 64 * 64 * (288 + 576 + 32),
                             0,
                             2. * 64 * 10};
    build("--model resnet --depth 8", colours);
    for (int i = 0; i < m.count; i++)
        assert_true(m.layers[i].flops == resnet[i]);
    build("--model gpt --size small", of_size);
    double tokens = 256, width = 384;
    for (int i = 1; i < m.count - 2; i++)
        assert_true(m.layers[i].flops ==
                    2 * tokens * 12 * width * width + 4 * tokens * tokens * width);
    assert_true(m.layers[0].flops == 0);
    assert_true(m.layers[m.count - 1].flops == 2 * tokens * 256 * width);
}

// tests/steps/every.bats has wrong settings of other models, and images that are too small. In
// images that are too large, a layer would have more values than an int can count.
TEST(wrong_options_are_refused) {
    static const char *const hidden[] = {",",
                                         "512,",
                                         "512,,512",
                                         "512x",
                                         "0",
                                         "65537",
                                         "1.5",
                                         "512;512",
                                         "0x10",
                                         "99999999999999999999",
                                         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};
    char words[100], why[WHY_SIZE];
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        snprintf(words, sizeof words, "--hidden %s", hidden[i]);
        assert_int_equal(try_build(words, digits, why), -1);
        assert_memory_equal(why, words, strlen(words));
    }
    assert_int_equal(try_build("--model cnn", (struct shape){6, 1 << 28, 1}, why), -1);
    assert_non_null(strstr(why, "images of 268435456 x 6 pixels are too large"));
    assert_int_equal(try_build("--model resnet", (struct shape){30000, 30000, 1}, why), -1);
    assert_non_null(strstr(why, "images of 30000 x 30000 pixels are too large"));
    assert_int_equal(try_build("--model gpt --width 258 --heads 2", of_size, why), -1);
    assert_string_equal(why, "--width 258: want at most 128 for each of the 2 heads");
}

// No option makes a model with more layers than its arrays hold, nor a norm with more channels than
// its kernels take. 1b and 8b are named after their parameters, in billions.
TEST(models_stay_within_their_limits) {
    char words[100];
    double most = 0;
    build("--model resnet --depth 20", colours);
    assert_true(m.count <= MOST_LAYERS && zoo_model(&m)->count <= MOST_INNER_LAYERS);
    build("--model resnet --depth 18 --width 512", colours);
    assert_true(m.layers[m.count - 3].out.channels <= MOST_NORM_CHANNELS);
    build("--model gpt --layers 60 --dropout 0.1", of_size);
    assert_true(m.count <= MOST_LAYERS && zoo_model(&m)->count <= MOST_INNER_LAYERS);
    build(
        "--dropout 0.5 --hidden 65536,65536,65536,65536,65536,65536,65536,65536,65536,65536,65536,"
        "65536,65536,65536,65536,65536",
        digits);
    assert_true(m.count == 33 && m.count <= MOST_LAYERS);
    assert_string_equal(m.shape + strlen(m.shape) - 9, "-65536-10"); // the longest name
    for (int i = 0; gpt_size_name(i); i++) {
        double billions = strtod(gpt_size_name(i), NULL);
        snprintf(words, sizeof words, "--model gpt --size %s", gpt_size_name(i));
        build(words, of_size);
        assert_true((double)m.parameters > most);
        most = (double)m.parameters;
        assert_true(billions == 0 || fabs(most / 1e9 - billions) < 0.1 * billions);
        const struct zoo_model *z = zoo_model(&m);
        for (const struct layer *l = z->inner; l < z->inner + z->count; l++)
            assert_true(l->out.channels <= 4 * MOST_NORM_CHANNELS);
    }
}

// As in GPT-2: weights in front of a sum are smaller.
TEST(a_gpt_begins_as_gpt2) {
    int found[2] = {0};
    build("--model gpt --size tiny --layers 8", of_size);
    const struct zoo_model *z = zoo_model(&m);
    for (const struct layer *l = z->inner; l < z->inner + z->count; l++)
        if (l->kind == &linear) {
            const struct layer *around = zoo_layer(l)->around;
            int in_front_of_sum =
                around->kind == &sublayer && l + 2 == zoo_layer(around)->inner_end;
            double want = in_front_of_sum ? 0.005 : 0.02;
            found[in_front_of_sum]++;
            assert_true(fabs(settings_of(l)->deviation - want) < 1e-8);
        }
    assert_true(found[0] == 17 && found[1] == 16); // 17: the head is one of them
}

// Of the largest part of a batch, and of the layers within blocks. The guards around it in
// test_layers.c show that it is enough.
TEST(scratch_is_that_of_the_largest_layer) {
    build("", digits);
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 128), 0);
    assert_int_equal(model_scratch(&m, CUDA_R_16BF, 128), (784 + 512) * 128 * 2);
    build("--model cnn", digits);
    size_t image = 24 * 24 * 32 * 9 * sizeof(float); // the patches of the second convolution
    size_t first = 26 * 26 * 9 * sizeof(float);
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 3), 3 * image);
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 10000), patch_workspace() / first * first);
    build("--model resnet --depth 8", colours);
    image = 32 * 32 * 16 * 9 * sizeof(float);
    // The gradients of four layers in a block, and the statistics of a normalisation between them.
    size_t gradients = (4 * 32 * 32 * 16 + 2 * 8) * sizeof(float);
    assert_int_equal(model_scratch(&m, CUDA_R_16BF, 2),
                     2 * (image + 2 * 32 * 32 * 16 * 2 + gradients));
    build("--model resnet --depth 8", (struct shape){400, 400, 3});
    image = 400 * 400 * 16 * 9 * sizeof(float);
    assert_true(image > patch_workspace());
    gradients = (4 * 400 * 400 * 16 + 2 * 8) * sizeof(float);
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 100), image + 100 * gradients);
}

int main(void) {
    return run_all_tests((struct around){NULL});
}
