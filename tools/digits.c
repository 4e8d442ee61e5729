// Draws handwritten digits, and writes them as the four files of MNIST to a folder: for machines
// that cannot download MNIST. Their curves and mistakes resemble MNIST's. Uses only exact
// arithmetic, so the files are the same everywhere.
#include "common/base/rng.h"
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 28, TRAIN = 60000, TEST = 10000, MOST_POINTS = 32, DOTS = 12 };

// Ways to write each digit. A pair such as 50 is a point: 5 to the right and 0 down, of at most 9.
// The pen draws a curve near the points of a stroke, and a | lifts it.
static const char *const forms[10][4] = {
    {"50 21 15 28 59 88 84 71 50", "71 40 11 05 19 59 88 84 71 40 21"},
    {"50 50 49", "22 50 50 50 59", "22 50 50 59|29 29 89", "60 39"},
    {"12 30 70 83 65 19 19 89", "12 40 81 74 38 18 27 58 89", "21 70 73 29 29 79"},
    {"11 50 82 54 34 54 86 68 49 18", "10 80 80 44 44 86 69 18", "20 71 63 34 34 75 68 19"},
    {"50 15 15 85|63 69", "50 05 05 86 86 60 60 69", "20 25 55 75|80 74 59"},
    {"80 20 20 24 54 86 69 18", "20 24 54 86 69 18|20 81", "70 30 14 14 64 78 39 08"},
    {"70 32 16 38 69 86 54 26", "50 13 08 49 78 75 45 07", "80 23 18 59 87 65 27"},
    {"10 80 80 49", "10 80 80 49|25 75", "12 10 50 80 65 59"},
    {"71 40 22 55 78 49 27 55 72 50", "50 21 33 76 68 49 26 54 72 50", "71 20 24 87 59 17 64 71"},
    {"82 50 22 34 74 82 82 69", "71 31 14 45 72 71 81 59", "81 40 22 44 82 80 77 49 18"},
};

static uint64_t image, used; // the image in work, and the random numbers that it has used

static float uniform(float low, float high) {
    return low + (high - low) * rng_uniform(image, used++);
}

// About normal: a sum of uniform numbers, with this deviation.
static float normal(float deviation) {
    return deviation * (uniform(-1.5f, 1.5f) + uniform(-1.5f, 1.5f) + uniform(-1.5f, 1.5f)) / 1.5f;
}

struct point {
    float x, y;
};

static struct point between(struct point a, struct point b, float t) {
    return (struct point){a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)};
}

// Adds the ink of a round pen to the pixels near the point.
static void dot(uint8_t *pixels, struct point at, float radius, float ink) {
    for (int y = (int)(at.y - radius); y <= at.y + radius + 1; y++)
        for (int x = (int)(at.x - radius); x <= at.x + radius + 1; x++) {
            float dx = x - at.x, dy = y - at.y;
            float value = ink * (radius * radius + 1 - dx * dx - dy * dy) / 2;
            value = value < ink ? value : ink;
            if (x >= 0 && x < SIZE && y >= 0 && y < SIZE && value > pixels[y * SIZE + x])
                pixels[y * SIZE + x] = (uint8_t)value;
        }
}

// Draws the strokes of this form: from the middle between two points to the next middle, a parabola
// that the point between them bends.
static void draw(uint8_t *pixels, const char *form) {
    float width = uniform(1.15f, 2.15f), height = uniform(1.75f, 2.25f);
    float slant = normal(.25f), rise = normal(.15f), shake = uniform(0, 1.1f);
    float radius = uniform(.9f, 1.7f), ink = uniform(230, 255);
    struct point middle = {13.5f + normal(.8f), 13.5f + normal(.8f)};
    while (*form) {
        struct point points[MOST_POINTS];
        int count = 1;
        for (; *form && *form != '|'; form += form[2] == ' ' ? 3 : 2) {
            float x = width * (form[0] - '0' - 4.5f + normal(shake));
            float y = height * (form[1] - '0' - 4.5f + normal(shake));
            points[count++] = (struct point){middle.x + x - slant * y, middle.y + y + rise * x};
        }
        form += *form == '|';
        points[0] = points[1];
        points[count] = points[count - 1];
        for (int i = 1; i < count; i++)
            for (int t = 0; t <= DOTS; t++) {
                float part = t / (float)DOTS;
                struct point from = between(points[i - 1], points[i], .5f + part / 2);
                struct point to = between(points[i], points[i + 1], part / 2);
                dot(pixels, between(from, to, part), radius, ink);
            }
    }
}

static void write_number(FILE *file, uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8)
        putc(number >> shift & 255, file);
}

static FILE *create(const char *folder, const char *name, int dimensions, uint32_t count) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-idx%d-ubyte", folder, name, dimensions);
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(1);
    }
    write_number(file, 8 << 8 | dimensions);
    write_number(file, count);
    for (int d = 1; d < dimensions; d++)
        write_number(file, SIZE);
    return file;
}

// Writes the images from number first on.
static void write_set(const char *folder, const char *images, const char *labels, int first,
                      int count) {
    FILE *a = create(folder, images, 3, count), *b = create(folder, labels, 1, count);
    for (image = first; image < (uint64_t)first + count; image++) {
        uint8_t pixels[SIZE * SIZE] = {0};
        used = 0;
        int digit = (int)uniform(0, 10), number = 0;
        while (number < 4 && forms[digit][number])
            number++;
        draw(pixels, forms[digit][(int)uniform(0, number)]);
        fwrite(pixels, 1, sizeof pixels, a);
        putc(digit, b);
    }
    if (fclose(a) | fclose(b)) {
        perror(folder);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: digits FOLDER\n");
        return 2;
    }
    write_set(argv[1], "train-images", "train-labels", 0, TRAIN);
    write_set(argv[1], "t10k-images", "t10k-labels", TRAIN, TEST);
    return 0;
}
