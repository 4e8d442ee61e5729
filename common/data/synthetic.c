#include "common/base/rng.h"
#include "common/data/datasets.h"

enum { TRAIN = 60000, TEST = 10000, CLASSES = 10, SIDE = 28, PIXELS = SIDE * SIDE };

static int open_images(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    (void)folder, (void)why;
    set->count = test ? TEST : TRAIN;
    set->shape = (struct shape){SIDE, SIDE, 1};
    return 0;
}

// Makes ten fixed random patterns, one per class, and adds noise of the same strength.
static int make(const struct dataset *set, size_t first, size_t count, uint8_t *values,
                uint8_t *labels, char why[WHY_SIZE]) {
    (void)why;
    for (size_t i = 0; i < count; i++) {
        size_t image = first + i + (set->count == TEST ? TRAIN : 0);
        labels[i] = rng_bits(1, image) % CLASSES;
        for (size_t p = 0; p < PIXELS; p++)
            *values++ = (rng_bits(2, labels[i] * PIXELS + p) >> 57) +
                        (rng_bits(3, image * PIXELS + p) >> 57);
    }
    return 0;
}

const struct data_source synthetic_images = {NULL, open_images, make, 1, 10, "images", "synthetic"};
