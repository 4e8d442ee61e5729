#include "common/base/rng.h"
#include "common/data/datasets.h"

// Makes ten fixed random patterns, one per class, and adds noise of the same strength.
static int make(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    enum { TRAIN = 60000, TEST = 10000, CLASSES = 10, SIDE = 28, PIXELS = SIDE * SIDE };
    size_t count = test ? TEST : TRAIN, first = test ? TRAIN : 0;
    (void)folder;
    if (data_allocate(set, count, (struct shape){SIDE, SIDE, 1}, why))
        return -1;
    for (size_t i = 0; i < count; i++) {
        set->labels[i] = rng_bits(1, first + i) % CLASSES;
        for (size_t p = 0; p < PIXELS; p++)
            set->values[i * PIXELS + p] = (rng_bits(2, set->labels[i] * PIXELS + p) >> 57) +
                                          (rng_bits(3, (first + i) * PIXELS + p) >> 57);
    }
    return 0;
}

static int found(const char *folder) {
    return !strcmp(folder, "synthetic");
}

const struct data_source synthetic_images = {found, make, 1, 10, "images", "synthetic"};
