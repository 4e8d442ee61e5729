// Tests of the layer that changes images at random, and of its kernel.
#include "common/data/data.h"
#include "common/layers/layers.h"
#include "tests/unit/default_options.h"
#include "tests/unit/device_arrays.h"
#include <stdio.h>

enum { HEIGHT = 9, WIDTH = 6, CHANNELS = 3, SIZE = HEIGHT * WIDTH * CHANNELS };
static const struct shape image_shape = {HEIGHT, WIDTH, CHANNELS};

static struct augmentation settings(int most_shift, int flip) {
    return (struct augmentation){image_shape, most_shift, flip, {-1, -2, -3}};
}

// An image whose values say where they are: no two are equal.
static float *numbered_images(int images) {
    float *x = new_array((size_t)images * SIZE * sizeof *x);
    for (int i = 0; i < images * SIZE; i++)
        x[i] = (float)(i + 1);
    return x;
}

static float *augmented(const float *x, int images, struct augmentation a, uint64_t seed,
                        uint64_t first) {
    size_t bytes = (size_t)images * SIZE * sizeof *x;
    float *y = new_device_array(bytes);
    augment_images(to_device(x, bytes), y, images, &a, seed, first, NULL);
    return to_host(y, bytes);
}

// Returns 1 if y is x after this change, by the formula of torchvision: the image with a black
// border is cut out at (top, left), and then mirrored.
static int is_changed(const float *y, const float *x, struct augmentation a, int top, int left,
                      int mirrored) {
    int equal = 1;
    for (int row = 0; row < HEIGHT; row++)
        for (int column = 0; column < WIDTH; column++)
            for (int c = 0; c < CHANNELS; c++) {
                int from_row = row + top - a.most_shift;
                int from_column = (mirrored ? WIDTH - 1 - column : column) + left - a.most_shift;
                int inside =
                    from_row >= 0 && from_row < HEIGHT && from_column >= 0 && from_column < WIDTH;
                float want =
                    inside ? x[(from_row * WIDTH + from_column) * CHANNELS + c] : a.black[c];
                equal &= y[(row * WIDTH + column) * CHANNELS + c] == want;
            }
    return equal;
}

// Finds the change of each image. Counts how often each one occurs.
static void count_changes(struct augmentation a, int images, int counts[2][9][9]) {
    float *x = numbered_images(images), *y = augmented(x, images, a, 7, 100);
    for (int i = 0; i < images; i++) {
        int found = 0;
        for (int mirrored = 0; mirrored < 2; mirrored++)
            for (int top = 0; top <= 2 * a.most_shift; top++)
                for (int left = 0; left <= 2 * a.most_shift; left++)
                    if (is_changed(y + i * SIZE, x + i * SIZE, a, top, left, mirrored)) {
                        counts[mirrored][top][left]++;
                        found++;
                    }
        if (found != 1)
            fail_msg("image %d is %d of the allowed changes", i, found);
    }
}

static void all_changes_are_equally_likely(void **state) {
    enum { IMAGES = 16200 };
    int counts[2][9][9] = {{{0}}};
    double chi_squared = 0, expected = IMAGES / 162.;
    (void)state;
    count_changes(settings(4, 1), IMAGES, counts);
    for (int i = 0; i < 162; i++)
        chi_squared += pow((&counts[0][0][0])[i] - expected, 2) / expected;
    // 161 degrees of freedom: 99.99 % of random tables are between these.
    assert_true(chi_squared > 101 && chi_squared < 239);
}

static void crop_mirrors_no_image_and_flip_shifts_none(void **state) {
    enum { IMAGES = 1000 };
    (void)state;
    int counts[2][9][9] = {{{0}}}, mirrored = 0;
    count_changes(settings(4, 0), IMAGES, counts);
    for (int i = 0; i < 81; i++)
        mirrored += (&counts[1][0][0])[i];
    assert_int_equal(mirrored, 0);
    memset(counts, 0, sizeof counts);
    count_changes(settings(0, 1), IMAGES, counts);
    assert_int_equal(counts[0][0][0] + counts[1][0][0], IMAGES);
    assert_true(counts[1][0][0] >= 440 && counts[1][0][0] <= 560);
}

static void changes_depend_on_the_sample_and_the_seed(void **state) {
    enum { IMAGES = 200 };
    (void)state;
    struct augmentation a = settings(4, 1);
    float *x = numbered_images(IMAGES), *whole = augmented(x, IMAGES, a, 7, 30);
    for (int from = 0, images; from < IMAGES; from += images) { // as several processes do
        images = from + 77 < IMAGES ? 77 : IMAGES - from;
        assert_memory_equal(augmented(x + from * SIZE, images, a, 7, 30 + (uint64_t)from),
                            whole + from * SIZE, (size_t)images * SIZE * sizeof *x);
    }
    float *other_seed = augmented(x, IMAGES, a, 8, 30);
    int equal = 0;
    for (int i = 0; i < IMAGES; i++)
        equal += !memcmp(other_seed + i * SIZE, whole + i * SIZE, SIZE * sizeof *x);
    assert_true(equal <= 8);   // one of 162 is the same by chance
    augmented(x, 0, a, 7, 30); // an empty batch
}

static int build(struct model *m, const char *name, const char *words, struct shape shape,
                 char why[WHY_SIZE]) {
    struct training_options options = default_options();
    options.model = name;
    options.dropout = 0;
    options.augment = words;
    options.hidden = "20";
    options.depth = 8;
    options.width = 8;
    struct dataset set = {.shape = shape,
                          .inputs = shape_size(shape),
                          .targets = 1,
                          .classes = 10,
                          .mean = {0.5f, 0.25f},
                          .deviation = {0.25f, 0.5f}};
    return model_build(m, &options, &set, why);
}

static void augmentation_is_the_first_layer(void **state) {
    (void)state;
    const struct shape shape = {12, 10, 2};
    char why[WHY_SIZE];
    struct model m, without;
    for (int i = 0; model_name(i); i++) {
        assert_int_equal(build(&without, model_name(i), "none", shape, why), 0);
        assert_int_equal(build(&m, model_name(i), "crop,flip", shape, why), 0);
        assert_int_equal(m.count, without.count + 1);
        assert_ptr_equal(m.layers[0].kind, &augmentation);
        assert_int_equal(m.layers[0].outputs, 12 * 10 * 2);
        assert_int_equal(m.layers[0].parameters, 0);
        assert_int_equal(m.parameters, without.parameters);
        assert_string_equal(m.shape, without.shape); // so snapshots fit
        char text[2 * sizeof m.text];
        snprintf(text, sizeof text, "%s, augment crop,flip", without.text);
        assert_string_equal(m.text, text);
        assert_true(m.layers[0].augmentation.black[0] == -2);
        assert_true(m.layers[0].augmentation.black[1] == -0.5);
        // The layer behind need not compute dx, but all others must.
        for (int l = 0; l < m.count; l++)
            assert_int_equal(m.layers[l].dx_unused, l == 1);
    }
}

static void words_choose_the_changes(void **state) {
    (void)state;
    const struct shape shape = {12, 10, 2};
    struct model m;
    char why[WHY_SIZE];
    const struct {
        const char *words;
        int most_shift, flip;
    } cases[] = {{"crop", 4, 0}, {"flip", 0, 1}, {"crop,flip", 4, 1}, {"flip,crop", 4, 1}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(build(&m, "mlp", cases[i].words, shape, why), 0);
        assert_int_equal(m.layers[0].augmentation.most_shift, cases[i].most_shift);
        assert_int_equal(m.layers[0].augmentation.flip, cases[i].flip);
    }
    const char *wrong[] = {"",          "crops",  "cro",       "Crop",      "crop,",      ",flip",
                           "crop flip", "rotate", "crop,none", "none,crop", "crop,rotate"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(build(&m, "mlp", wrong[i], shape, why), -1);
        assert_non_null(strstr(why, ": want none, crop, flip, or crop,flip"));
    }
    assert_int_equal(build(&m, "mlp", "crop", (struct shape){4, 10, 1}, why), -1);
    assert_string_equal(why, "--augment crop: shifts of 4 pixels need images of at least 5 x 5 "
                             "pixels, and these have 10 x 4");
    assert_int_equal(build(&m, "mlp", "flip", (struct shape){1, 1, 1}, why), 0);
}

static const float *outputs_of_layer(const struct pass *pass, const float *x, int images) {
    struct model m;
    char why[WHY_SIZE];
    size_t bytes = (size_t)images * SIZE * sizeof *x;
    assert_int_equal(
        build(&m, "mlp", "crop,flip", (struct shape){HEIGHT, WIDTH * CHANNELS, 1}, why), 0);
    float *y = new_device_array(bytes);
    m.layers[0].kind->forward(m.layers, pass, NULL, to_device(x, bytes), y, images);
    return to_host(y, bytes);
}

static void evaluation_changes_nothing(void **state) {
    enum { IMAGES = 20 };
    (void)state;
    float *x = numbered_images(IMAGES);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(all_changes_are_equally_likely, free_arrays),
        cmocka_unit_test_teardown(crop_mirrors_no_image_and_flip_shifts_none, free_arrays),
        cmocka_unit_test_teardown(changes_depend_on_the_sample_and_the_seed, free_arrays),
        cmocka_unit_test(augmentation_is_the_first_layer),
        cmocka_unit_test(words_choose_the_changes),
        cmocka_unit_test_teardown(evaluation_changes_nothing, free_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
