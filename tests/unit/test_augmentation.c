// Tests of the layer that changes images at random. test_kernels.c tests its kernel.
#include "common/data/data.h"
#include "tests/unit/default_options.h"
#include "tests/unit/device_arrays.h"
#include "zoo/kernels/image_change.h"
#include "zoo/layers/kinds.h"
#include <stdio.h>
#include <string.h>

// Counts how often each change of so many images occurs.
static void count_changes(int most_shift, int flip, int images, int counts[2][9][9]) {
    struct augmentation a = {.most_shift = most_shift, .flip = flip};
    for (int i = 0; i < images; i++) {
        struct image_change c = image_change(&a, 7, (uint64_t)i);
        assert_true(abs(c.shift_y) <= most_shift && abs(c.shift_x) <= most_shift);
        counts[c.mirrored][c.shift_y + most_shift][c.shift_x + most_shift]++;
    }
}

TEST(all_changes_are_equally_likely) {
    enum { IMAGES = 16200 };
    int counts[2][9][9] = {{{0}}};
    double chi_squared = 0, expected = IMAGES / 162.;
    count_changes(4, 1, IMAGES, counts);
    for (int i = 0; i < 162; i++)
        chi_squared += pow((&counts[0][0][0])[i] - expected, 2) / expected;
    // 161 degrees of freedom: 99.99 % of random tables are between these.
    assert_true(chi_squared > 101 && chi_squared < 239);
}

TEST(crop_mirrors_no_image_and_flip_shifts_none) {
    enum { IMAGES = 1000 };
    int crops[2][9][9] = {{{0}}}, flips[2][9][9] = {{{0}}};
    count_changes(4, 0, IMAGES, crops);
    for (int i = 0; i < 81; i++)
        assert_int_equal((&crops[1][0][0])[i], 0);
    count_changes(0, 1, IMAGES, flips);
    assert_true(flips[1][0][0] >= 440 && flips[1][0][0] <= 560);
}

static int build(struct model *m, const char *name, const char *words, struct shape shape,
                 char why[WHY_SIZE]) {
    struct training_options options = default_options();
    options.model = name;
    zoo_opt.dropout = 0;
    zoo_opt.augment = words;
    options.hidden = "20";
    zoo_opt.depth = 8;
    zoo_opt.width = 8;
    struct dataset set = {.shape = shape,
                          .inputs = shape_size(shape),
                          .targets = 1,
                          .classes = 10,
                          .mean = {0.5f, 0.25f},
                          .deviation = {0.25f, 0.5f}};
    return model_build(m, &options, &set, why);
}

TEST(augmentation_is_the_first_layer) {
    const struct shape shape = {12, 10, 2};
    char why[WHY_SIZE];
    struct model m, without;
    for (int i = 0; model_name(i); i++) {
        if (!strcmp(model_name(i), "gpt")) // which has no images
            continue;
        assert_int_equal(build(&without, model_name(i), "none", shape, why), 0);
        assert_int_equal(build(&m, model_name(i), "crop,flip", shape, why), 0);
        assert_int_equal(m.count, without.count + 1);
        assert_ptr_equal(m.layers[0].kind, &augmentation);
        assert_int_equal(m.layers[0].outputs, 12 * 10 * 2);
        assert_int_equal(m.layers[0].parameters, 0);
        assert_int_equal(m.parameters, without.parameters);
        assert_string_equal(m.shape, without.shape); // so snapshots fit
        char text[2 * sizeof m.settings];
        snprintf(text, sizeof text, "%s, augment crop,flip", without.settings);
        assert_string_equal(m.settings, text);
        assert_true(settings_of(&m.layers[0])->augmentation.black[0] == -2);
        assert_true(settings_of(&m.layers[0])->augmentation.black[1] == -0.5);
        // The layer behind need not compute dx, but all others must.
        for (int l = 0; l < m.count; l++)
            assert_int_equal(m.layers[l].dx_unused, l == 1);
    }
}

// tests/steps/images.bats has words that are refused.
TEST(words_choose_the_changes) {
    const struct shape shape = {12, 10, 2};
    struct model m;
    char why[WHY_SIZE];
    const struct {
        const char *words;
        int most_shift, flip;
    } cases[] = {{"crop", 4, 0}, {"flip", 0, 1}, {"crop,flip", 4, 1}, {"flip,crop", 4, 1}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(build(&m, "mlp", cases[i].words, shape, why), 0);
        assert_int_equal(settings_of(&m.layers[0])->augmentation.most_shift, cases[i].most_shift);
        assert_int_equal(settings_of(&m.layers[0])->augmentation.flip, cases[i].flip);
    }
    assert_int_equal(build(&m, "mlp", "flip", (struct shape){1, 1, 1}, why), 0);
}

static const float *outputs_of_layer(const struct pass *pass, const float *x, int images) {
    enum { HEIGHT = 9, WIDTH = 18, SIZE = HEIGHT * WIDTH };
    struct model m;
    char why[WHY_SIZE];
    size_t bytes = (size_t)images * SIZE * sizeof *x;
    assert_int_equal(build(&m, "mlp", "crop,flip", (struct shape){HEIGHT, WIDTH, 1}, why), 0);
    float *y = new_device_array(bytes);
    m.layers[0].kind->forward(m.layers, pass, NULL, to_device(x, bytes), y, images);
    return to_host(y, bytes);
}

// The changes depend on the seed and on the sample, but not on how a batch is divided.
TEST(evaluation_changes_nothing) {
    enum { IMAGES = 20, SIZE = 9 * 18 };
    float *x = random_floats(IMAGES * SIZE, 1, 1);
    struct pass training = {.training = 1, .seed = 5, .first_sample = 3}, next_step = training,
                evaluation = {.seed = 5, .first_sample = 3}, moved = training;
    next_step.seed = 6;
    moved.first_sample += 2;
    const float *y = outputs_of_layer(&training, x, IMAGES);
    size_t bytes = IMAGES * SIZE * sizeof *x;
    assert_memory_equal(outputs_of_layer(&evaluation, x, IMAGES), x, bytes);
    assert_memory_equal(outputs_of_layer(&training, x, IMAGES), y, bytes);
    assert_true(memcmp(outputs_of_layer(&next_step, x, IMAGES), y, bytes));
    assert_memory_equal(outputs_of_layer(&moved, x + 2 * SIZE, IMAGES - 2), y + 2 * SIZE,
                        bytes - 2 * SIZE * sizeof *x);
}

int main(void) {
    return run_all_tests((struct around){.end = free_arrays});
}
