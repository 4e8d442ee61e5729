// Tests of the synthetic images of --data shapes.
#include "common/data/data.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h> // after error.h, whose fail() its macro of that name would break

enum { SIDE = 32, CHANNELS = 3, VALUES = SIDE * SIDE * CHANNELS, CLASSES = 10 };
enum { TRAIN = 10000, TEST = 2000 };

static struct dataset train, test;

static int load(void **state) {
    const char *from = "shapes";
    char why[WHY_SIZE];
    (void)state;
    return data_load(&train, &test, &from, why);
}

static int free_sets(void **state) {
    (void)state;
    free(train.values);
    free(train.labels);
    free(test.values);
    free(test.labels);
    return 0;
}

static void sizes(void **state) {
    const struct dataset *sets[] = {&train, &test};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct shape s = sets[i]->shape;
        size_t counts[CLASSES] = {0};
        assert_true(s.height == SIDE && s.width == SIDE && s.channels == CHANNELS);
        assert_int_equal(sets[i]->count, i ? TEST : TRAIN);
        assert_int_equal(sets[i]->inputs, VALUES);
        assert_int_equal(sets[i]->targets, 1);
        assert_int_equal(sets[i]->classes, CLASSES);
        for (size_t k = 0; k < sets[i]->count; k++)
            counts[sets[i]->labels[k]]++;
        for (int c = 0; c < CLASSES; c++)
            assert_int_equal(counts[c], sets[i]->count / CLASSES);
    }
}

// The sums, means and deviations come from a Python version of the generator. The images must stay
// the same, because measured accuracies and snapshots belong to them.
static void known_values(void **state) {
    static const double means[] = {0.49771143, 0.49846783, 0.49758082};
    static const double deviations[] = {0.11503007, 0.11447929, 0.11473629};
    (void)state;
    assert_int_equal(crc32(0, train.values, TRAIN * VALUES), 0xfde5e0a6);
    assert_int_equal(crc32(0, train.labels, TRAIN), 0xfaed1910);
    assert_int_equal(crc32(0, test.values, TEST * VALUES), 0xa06bb445);
    assert_int_equal(crc32(0, test.labels, TEST), 0x291295d3);
    for (int c = 0; c < CHANNELS; c++) {
        assert_float_equal(train.mean[c], means[c], 1e-7);
        assert_float_equal(train.deviation[c], deviations[c], 1e-7);
    }
}

static int compare_images(const void *a, const void *b) {
    return memcmp(*(uint8_t *const *)a, *(uint8_t *const *)b, VALUES);
}

static void no_image_appears_twice(void **state) {
    static uint8_t *images[TRAIN + TEST];
    (void)state;
    for (size_t i = 0; i < TRAIN + TEST; i++)
        images[i] = i < TRAIN ? train.values + i * VALUES : test.values + (i - TRAIN) * VALUES;
    qsort(images, TRAIN + TEST, sizeof *images, compare_images);
    for (size_t i = 1; i < TRAIN + TEST; i++)
        assert_true(compare_images(&images[i - 1], &images[i]));
}

// Returns the median of a channel, which is near the colour of the ground.
static int ground(const uint8_t *image, int channel) {
    int counts[256] = {0}, median = -1;
    for (int p = channel; p < VALUES; p += CHANNELS)
        counts[image[p]]++;
    for (int below = 0; below < SIDE * SIDE / 2;)
        below += counts[++median];
    return median;
}

// Returns the number of pixels that differ much from the ground: those of the shape, and a few with
// much noise.
static int different_pixels(const uint8_t *image) {
    int colours[CHANNELS], pixels = 0;
    for (int c = 0; c < CHANNELS; c++)
        colours[c] = ground(image, c);
    for (int p = 0; p < VALUES; p += CHANNELS) {
        int difference = 0;
        for (int c = 0; c < CHANNELS; c++)
            difference += abs(image[p + c] - colours[c]);
        pixels += difference > 90;
    }
    return pixels;
}

// The class of an image shows neither in the area of its shape nor in its colours.
static void area_and_colours_tell_nothing(void **state) {
    double pixels[CLASSES] = {0}, sums[CLASSES][CHANNELS] = {{0}}, all = 0;
    (void)state;
    for (size_t i = 0; i < TRAIN; i++) {
        const uint8_t *image = train.values + i * VALUES;
        int more = different_pixels(image);
        pixels[train.labels[i]] += more;
        all += more;
        for (int p = 0; p < VALUES; p++)
            sums[train.labels[i]][p % CHANNELS] += image[p] / (255. * TRAIN / CLASSES);
    }
    for (int c = 0; c < CLASSES; c++) {
        assert_float_equal(pixels[c] / (all / CLASSES), 1, 0.06);
        for (int k = 0; k < CHANNELS; k++)
            assert_float_equal(sums[c][k] / (SIDE * SIDE), train.mean[k], 0.01);
    }
}

// The nearest class mean, which finds nearly all labels of --data synthetic, is little better than
// a guess: the shapes have no usual place.
static void class_means_tell_little(void **state) {
    static double sums[CLASSES][VALUES];
    size_t correct = 0;
    (void)state;
    for (size_t i = 0; i < TRAIN; i++)
        for (int p = 0; p < VALUES; p++)
            sums[train.labels[i]][p] += train.values[i * VALUES + p] / (double)(TRAIN / CLASSES);
    for (size_t i = 0; i < TEST; i++) {
        int nearest = 0;
        double least = INFINITY;
        for (int c = 0; c < CLASSES; c++) {
            double distance = 0;
            for (int p = 0; p < VALUES; p++)
                distance += pow(test.values[i * VALUES + p] - sums[c][p], 2);
            if (distance < least) {
                least = distance;
                nearest = c;
            }
        }
        correct += nearest == test.labels[i];
    }
    print_message("nearest class mean: %zu of %d\n", correct, TEST);
    assert_true(correct < TEST * 15 / 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(known_values),
        cmocka_unit_test(no_image_appears_twice),
        cmocka_unit_test(area_and_colours_tell_nothing),
        cmocka_unit_test(class_means_tell_little),
    };
    return cmocka_run_group_tests(tests, load, free_sets);
}
