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

static int make(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    enum { TRAIN = 10000, TEST = 2000 };
    size_t count = test ? TEST : TRAIN, first = test ? TRAIN : 0;
    (void)folder;
    if (data_allocate(set, count, (struct shape){SIDE, SIDE, CHANNELS}, why))
        return -1;
    for (size_t i = 0; i < count; i++) {
        set->labels[i] = (first + i) % CLASSES;
        paint(set->values + i * VALUES, shapes[set->labels[i]], rng_bits(4, first + i));
    }
    return 0;
}

static int found(const char *folder) {
    return !strcmp(folder, "shapes");
}

const struct data_source shape_images = {found, make, 1, 10, "images", "shapes"};
