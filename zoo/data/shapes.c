#include "common/base/rng.h"
#include "zoo/data/sources.h"

enum { SIDE = 32, CHANNELS = 3, VALUES = SIDE * SIDE * CHANNELS, CLASSES = 10, GRID = 5 };

// Each shape covers 9 of 25 cells, so a model cannot tell the shapes apart by the covered area.
static const char *const shapes[CLASSES] = {
    "..#.. ..#.. ##### ..#.. ..#..", // 0: plus
    "#...# .#.#. ..#.. .#.#. #...#", // 1: cross
    "##### ..#.. ..#.. ..#.. ..#..", // 2: T
    "#.... #.... #.... #.... #####", // 3: L
    "#...# #...# .#.#. .#.#. ..#..", // 4: V
    "..#.. .#.#. .#.#. #...# #...#", // 5: V upside down
    "..... #...# #...# ##### .....", // 6: U
    ".###. .#... .#... .#... .###.", // 7: C
    "###.. ..#.. ..#.. ..#.. ..###", // 8: Z
    "..#.. .#.#. #.#.# .#.#. ..#..", // 9: diamond with a dot
};

// The random numbers of an image: number k is for the value k, or for what its name says.
enum { SIZE = VALUES, TOP, LEFT, GROUND, CONTRAST = GROUND + CHANNELS, SIGN = CONTRAST + CHANNELS };

// Returns random number k of the image with this key, in least..most.
static int draw(uint64_t key, int k, int least, int most) {
    return least + (int)(rng_bits(key, (uint64_t)k) % (uint64_t)(most - least + 1));
}

// Paints a shape with a random size, place and colours, and adds noise. The shape is brighter or
// darker than the ground in each channel. Integer arithmetic gives the same bytes on all machines.
static void paint(uint8_t *values, const char *shape, uint64_t key) {
    int size = draw(key, SIZE, 9, 17); // pixels of the side
    int top = draw(key, TOP, 0, SIDE - size), left = draw(key, LEFT, 0, SIDE - size);
    int colours[2][CHANNELS];
    for (int c = 0; c < CHANNELS; c++) {
        int contrast = draw(key, CONTRAST + c, 40, 64);
        colours[0][c] = draw(key, GROUND + c, 96, 159);
        colours[1][c] = colours[0][c] + (draw(key, SIGN + c, 0, 1) ? contrast : -contrast);
    }
    for (int p = 0; p < VALUES; p++) {
        int y = p / CHANNELS / SIDE - top, x = p / CHANNELS % SIDE - left, covered = 0;
        if (y >= 0 && y < size && x >= 0 && x < size) {
            int row = y * GRID / size, column = x * GRID / size;
            covered = shape[row * (GRID + 1) + column] == '#';
        }
        values[p] = (uint8_t)(colours[covered][p % CHANNELS] + draw(key, p, -32, 31));
    }
}

enum { TRAIN = 10000, TEST = 2000 };

static int open_images(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    (void)folder, (void)why;
    set->count = test ? TEST : TRAIN;
    set->shape = (struct shape){SIDE, SIDE, CHANNELS};
    return 0;
}

static int make(const struct dataset *set, size_t first, size_t count, uint8_t *values,
                uint8_t *labels, char why[WHY_SIZE]) {
    (void)why;
    for (size_t i = 0; i < count; i++) {
        size_t image = first + i + (set->count == TEST ? TRAIN : 0);
        labels[i] = image % CLASSES;
        paint(values + i * VALUES, shapes[labels[i]], rng_bits(4, image));
    }
    return 0;
}

const struct data_source shape_images = {NULL, open_images, make, 1, 10, "images", "shapes"};
