// Tests of the kernels of images and of group normalisation, which compare each kernel with the
// same formula in double precision. Most values are small integers, so that sums are exact and
// results must be equal. test_image_kernels_cu has the GPU's kernels.
#include "common/device/device.h"
#include "tests/unit/device_arrays.h"
#include "tests/unit/test_stream.h"
#include "zoo/kernels/image_change.h"
#include "zoo/kernels/image_kernels.h"
#include "zoo/kernels/norm_kernels.h"

static size_t at(struct shape s, int image, int y, int x, int c) {
    return (((size_t)image * (size_t)s.height + (size_t)y) * (size_t)s.width + (size_t)x) *
               (size_t)s.channels +
           (size_t)c;
}

static size_t batch_size(struct shape s, int images) {
    return (size_t)images * (size_t)shape_size(s);
}

static float *random_integers(size_t count, int most, uint64_t seed) {
    float *values = new_array(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((int)(rng_bits(seed, i) % (2 * (uint64_t)most + 1)) - most);
    return values;
}

// Calls check for many windows and batches, and frees the arrays after each call. Many windows
// leave rows and columns over, and some lie outside the image.
static void for_each_windows(void (*check)(int images, const struct windows *w)) {
    const struct shape shapes[] = {{1, 1, 8}, {2, 3, 1}, {5, 4, 3}, {7, 9, 8}};
    const int sizes[] = {1, 2, 3, 5};
    for (int i = 0; i < 4 * 4 * 3 * 3 * 3; i++) {
        struct windows w = {.in = shapes[i % 4],
                            .size = sizes[i / 4 % 4],
                            .stride = i / 16 % 3 + 1,
                            .padding = i / 48 % 3};
        int images = (int[]){0, 1, 3}[i / 144];
        int rows = w.in.height + 2 * w.padding - w.size, cols = w.in.width + 2 * w.padding - w.size;
        if (rows < 0 || cols < 0)
            continue;
        w.height = rows / w.stride + 1;
        w.width = cols / w.stride + 1;
        check(images, &w);
        assert_int_equal(free_arrays(NULL), 0);
    }
    struct windows large = {{29, 31, 6}, 3, 2, 1, 15, 16}; // the CPU device's threads share it
    check(11, &large);
}

// An element of a window, which has these indices in the patches.
struct element {
    int image, wy, wx, ky, kx, c, y, x, inside;
};

static struct element element_of_patches(const struct windows *w, size_t i) {
    struct element e = {.c = (int)(i % (size_t)w->in.channels)};
    i /= (size_t)w->in.channels;
    e.kx = (int)(i % (size_t)w->size), i /= (size_t)w->size;
    e.ky = (int)(i % (size_t)w->size), i /= (size_t)w->size;
    e.wx = (int)(i % (size_t)w->width), i /= (size_t)w->width;
    e.wy = (int)(i % (size_t)w->height), e.image = (int)(i / (size_t)w->height);
    e.y = w->stride * e.wy + e.ky - w->padding;
    e.x = w->stride * e.wx + e.kx - w->padding;
    e.inside = e.y >= 0 && e.y < w->in.height && e.x >= 0 && e.x < w->in.width;
    return e;
}

static size_t patch_elements(int images, const struct windows *w) {
    return (size_t)images * (size_t)(w->height * w->width * w->size * w->size * w->in.channels);
}

static void check_image_to_patches(int images, const struct windows *w) {
    size_t inputs = batch_size(w->in, images), count = patch_elements(images, w);
    for (size_t size = 2; size <= 4; size += 2) {
        uint8_t *x = random_bytes(inputs * size, 256, 1), *want = new_array(count * size);
        void *device_x = to_device(x, inputs * size), *patches = new_device_array(count * size);
        image_to_patches(device_x, patches, images, w, size, stream);
        memset(want, 0, count * size);
        for (size_t i = 0; i < count; i++) {
            struct element e = element_of_patches(w, i);
            if (e.inside)
                memcpy(want + i * size, x + at(w->in, e.image, e.y, e.x, e.c) * size, size);
        }
        assert_unchanged(patches, want, count * size);
        assert_unchanged(device_x, x, inputs * size);
    }
}

TEST(image_to_patches_copies_windows) {
    for_each_windows(check_image_to_patches);
}

static void check_patches_to_image(int images, const struct windows *w) {
    size_t inputs = batch_size(w->in, images), count = patch_elements(images, w);
    float *dpatches = random_integers(count, 1000, 1), *want = new_array(inputs * sizeof *want);
    float *device_dpatches = to_device(dpatches, count * sizeof *dpatches);
    float *dx = new_device_array(inputs * sizeof *dx);
    patches_to_image(device_dpatches, dx, images, w, stream);
    for (size_t i = 0; i < inputs; i++)
        want[i] = 0;
    for (size_t i = 0; i < count; i++) {
        struct element e = element_of_patches(w, i);
        if (e.inside)
            want[at(w->in, e.image, e.y, e.x, e.c)] += dpatches[i];
    }
    assert_close((float *)to_host(dx, inputs * sizeof *dx), want, inputs, 0);
    assert_unchanged(device_dpatches, dpatches, count * sizeof *dpatches);
}

TEST(patches_to_image_adds_all_copies) {
    for_each_windows(check_patches_to_image);
}

// Returns the index of the first of the largest values in the window, where NaN is the largest.
static size_t largest(const float *x, const struct windows *w, int image, int wy, int wx, int c) {
    size_t best = at(w->in, image, wy * w->stride, wx * w->stride, c);
    for (int k = 0; k < w->size * w->size; k++) {
        size_t i = at(w->in, image, wy * w->stride + k / w->size, wx * w->stride + k % w->size, c);
        if (!isnan(x[best]) && (isnan(x[i]) || x[i] > x[best]))
            best = i;
    }
    return best;
}

static void check_max_pool_of(float *x, int images, const struct windows *w) {
    struct shape out = {w->height, w->width, w->in.channels};
    size_t inputs = batch_size(w->in, images), outputs = batch_size(out, images);
    float *dy = random_floats(outputs, 1, 2), *want_y = new_array(outputs * sizeof *dy),
          *want_dx = new_array(inputs * sizeof *x);
    float *device_x = to_device(x, inputs * sizeof *x), *y = new_device_array(outputs * sizeof *y);
    float *device_dy = to_device(dy, outputs * sizeof *dy),
          *dx = new_device_array(inputs * sizeof *dx);
    max_pool(device_x, y, images, w, stream);
    max_pool_backward(device_x, device_dy, dx, images, w, stream);
    memset(want_dx, 0, inputs * sizeof *want_dx);
    for (size_t i = 0; i < outputs; i++) {
        int c = (int)(i % (size_t)out.channels), window = (int)(i / (size_t)out.channels);
        size_t from = largest(x, w, window / out.width / out.height,
                              window / out.width % out.height, window % out.width, c);
        want_y[i] = x[from];
        want_dx[from] = dy[i];
    }
    assert_unchanged(y, want_y, outputs * sizeof *y);
    assert_unchanged(dx, want_dx, inputs * sizeof *dx);
    assert_unchanged(device_x, x, inputs * sizeof *x);
    assert_unchanged(device_dy, dy, outputs * sizeof *dy);
}

// Different values, many equal ones, and some NaNs.
static void check_max_pool(int images, const struct windows *w) {
    if (w->padding || w->size > w->stride)
        return; // not allowed
    size_t inputs = batch_size(w->in, images);
    check_max_pool_of(random_floats(inputs, 1, 3), images, w);
    float *x = random_integers(inputs, 1, 4);
    check_max_pool_of(x, images, w);
    for (size_t i = 0; i < inputs; i++)
        x[i] = rng_bits(5, i) % 4 ? x[i] : rng_bits(5, i) % 8 ? NAN : -INFINITY;
    check_max_pool_of(x, images, w);
}

TEST(max_pool_finds_the_first_largest_value) {
    for_each_windows(check_max_pool);
    struct windows large = {{29, 31, 6}, 3, 3, 0, 9, 10};
    check_max_pool(11, &large);
}

static void check_mean_pool(int images, const struct windows *w) {
    size_t channels = (size_t)w->in.channels, outputs = (size_t)images * channels;
    size_t inputs = batch_size(w->in, images), pixels = (size_t)(w->in.height * w->in.width);
    float *x = random_integers(inputs, 1000, 1), *dy = random_floats(outputs, 1, 2);
    float *device_x = to_device(x, inputs * sizeof *x), *y = new_device_array(outputs * sizeof *y);
    float *device_dy = to_device(dy, outputs * sizeof *dy),
          *dx = new_device_array(inputs * sizeof *dx);
    mean_pool(device_x, y, images, w->in, stream);
    mean_pool_backward(device_dy, dx, images, w->in, stream);
    float *want_y = new_array(outputs * sizeof *y), *want_dx = new_array(inputs * sizeof *dx);
    for (size_t i = 0; i < outputs; i++) {
        double sum = 0;
        for (size_t p = 0; p < pixels; p++)
            sum += x[(i / channels * pixels + p) * channels + i % channels];
        want_y[i] = (float)(sum / (double)pixels);
    }
    for (size_t i = 0; i < inputs; i++)
        want_dx[i] = (float)(dy[i / channels / pixels * channels + i % channels] / (double)pixels);
    assert_close((float *)to_host(y, outputs * sizeof *y), want_y, outputs, 1.2e-7);
    assert_close((float *)to_host(dx, inputs * sizeof *dx), want_dx, inputs, 1.2e-7);
    assert_unchanged(device_x, x, inputs * sizeof *x);
    assert_unchanged(device_dy, dy, outputs * sizeof *dy);
}

TEST(mean_pool_divides_by_the_pixels) {
    for_each_windows(check_mean_pool);
}

// test_augmentation.c tests which changes there are, and how often.
static void check_augment_images(int images, struct shape in, int flip) {
    struct augmentation a = {in, 4, flip, {0.5f, 0.25f, -1, 2}};
    size_t bytes = batch_size(in, images) * sizeof(float);
    float *x = random_floats(batch_size(in, images), 1, 1), *want = new_array(bytes), *to = want;
    float *device_x = to_device(x, bytes), *y = new_device_array(bytes);
    augment_images(device_x, y, images, &a, 3, 1ull << 40, stream);
    for (int image = 0; image < images; image++) {
        struct image_change change = image_change(&a, 3, (1ull << 40) + (uint64_t)image);
        for (int i = 0; i < in.height * in.width; i++)
            for (int c = 0; c < in.channels; c++) {
                int row = i / in.width + change.shift_y, column = i % in.width;
                column = (change.mirrored ? in.width - 1 - column : column) + change.shift_x;
                int inside = row >= 0 && row < in.height && column >= 0 && column < in.width;
                *to++ = inside ? x[at(in, image, row, column, c)] : a.black[c];
            }
    }
    assert_unchanged(y, want, bytes);
    assert_unchanged(device_x, x, bytes);
}

TEST(augment_images_shifts_and_mirrors) {
    const struct shape shapes[] = {{1, 1, 1}, {28, 28, 1}, {5, 17, 4}, {32, 32, 3}};
    for (int s = 0; s < 4; s++)
        for (int images = 0; images < 20; images += 6)
            check_augment_images(images, shapes[s], images % 4);
}

struct norm {
    int images;
    struct groups g;
};

// The host version runs 256 threads for each group of each image.
static const struct norm norms[] = {
    {0, {{3, 3, 4}, 2}},
    {1, {{1, 1, 1}, 1}},
    {3, {{1, 1, 8}, 4}},
    {2, {{1, 2, 3}, 3}},
    {2, {{3, 2, 6}, 3}},
    {2, {{5, 7, 3}, 1}},
    {1, {{2, 2, 8}, 8}},
    {2, {{17, 19, 4}, 2}},
    {1, {{16, 16, 1}, 1}},
    {1, {{257, 1, 2}, 2}},
    {2, {{23, 13, 8}, 1}},
    {1, {{1, 1, 4096}, 2}},
    {SANITIZED ? 2 : 50, {{8, 8, 32}, 8}},
};
enum { NORMS = sizeof norms / sizeof *norms };

// The arrays of a call.
struct norm_arrays {
    float *x, *dy, *scale, *shift;        // on the host
    float *y, *dx, *product, *statistics; // wanted
    float *device_x, *device_scale, *device_statistics;
};

// Returns the index of element i of a group.
static size_t group_element(const struct norm *n, int image, int group, int i) {
    int width = n->g.in.channels / n->g.groups, pixel = i / width;
    return at(n->g.in, image, pixel / n->g.in.width, pixel % n->g.in.width,
              group * width + i % width);
}

static void reference_group(const struct norm *n, const struct norm_arrays *a, int image,
                            int group) {
    int channels = n->g.in.channels, count = shape_size(n->g.in) / n->g.groups;
    double mean = 0, variance = 0, mean_d = 0, mean_product = 0;
    for (int i = 0; i < count; i++)
        mean += a->x[group_element(n, image, group, i)] / (double)count;
    for (int i = 0; i < count; i++)
        variance += pow(a->x[group_element(n, image, group, i)] - mean, 2) / count;
    double deviation = sqrt(variance + 1e-5);
    for (int i = 0; i < count; i++) {
        size_t k = group_element(n, image, group, i);
        double normalised = (a->x[k] - mean) / deviation,
               d = (double)a->dy[k] * a->scale[k % (size_t)channels];
        mean_d += d / count;
        mean_product += d * normalised / count;
        a->y[k] =
            (float)(normalised * a->scale[k % (size_t)channels] + a->shift[k % (size_t)channels]);
        a->product[k] = (float)(normalised * a->dy[k]);
    }
    for (int i = 0; i < count; i++) {
        size_t k = group_element(n, image, group, i);
        double normalised = (a->x[k] - mean) / deviation,
               d = (double)a->dy[k] * a->scale[k % (size_t)channels];
        a->dx[k] = (float)((d - mean_d - normalised * mean_product) / deviation);
    }
    a->statistics[2 * (image * n->g.groups + group)] = (float)mean;
    a->statistics[2 * (image * n->g.groups + group) + 1] = (float)(1 / deviation);
}

// Groups have different means and deviations. Some deviations are so small that the 1e-5 matters.
static struct norm_arrays new_norm(const struct norm *n) {
    size_t count = batch_size(n->g.in, n->images), channels = (size_t)n->g.in.channels;
    size_t groups = (size_t)(n->images * n->g.groups);
    struct norm_arrays a = {
        random_floats(count, 1, 1),       random_floats(count, 1, 2),
        random_floats(channels, 2, 3),    random_floats(channels, 1, 4),
        new_array(count * sizeof(float)), new_array(count * sizeof(float)),
        new_array(count * sizeof(float)), new_array(2 * groups * sizeof(float))};
    for (int i = 0; i < (int)count; i++) {
        size_t group = (size_t)i % channels / (channels / (size_t)n->g.groups);
        group += (size_t)i / (size_t)shape_size(n->g.in) * (size_t)n->g.groups;
        a.x[i] = group % 3 == 1 ? 0.005f * a.x[i] : 2 * a.x[i] + 0.5f * (float)(group % 5) - 1;
    }
    for (int image = 0; image < n->images; image++)
        for (int group = 0; group < n->g.groups; group++)
            reference_group(n, &a, image, group);
    a.device_x = to_device(a.x, count * sizeof *a.x);
    a.device_scale = to_device(a.scale, channels * sizeof *a.scale);
    a.device_statistics = to_device(a.statistics, 2 * groups * sizeof *a.x);
    return a;
}

static void assert_inputs_unchanged(const struct norm *n, const struct norm_arrays *a) {
    assert_unchanged(a->device_x, a->x, batch_size(n->g.in, n->images) * sizeof *a->x);
    assert_unchanged(a->device_scale, a->scale, (size_t)n->g.in.channels * sizeof *a->x);
}

static void check_group_norm(const struct norm *n, int relu) {
    size_t count = batch_size(n->g.in, n->images), groups = (size_t)(n->images * n->g.groups);
    struct norm_arrays a = new_norm(n);
    float *shift = to_device(a.shift, (size_t)n->g.in.channels * sizeof *shift);
    float *y = new_device_array(count * sizeof *y),
          *statistics = new_device_array(2 * groups * sizeof *y);
    group_norm(a.device_x, y, a.device_scale, shift, statistics, n->images, n->g, relu, stream);
    for (size_t i = 0; i < count && relu; i++)
        a.y[i] = fmaxf(a.y[i], 0);
    assert_close((float *)to_host(y, count * sizeof *y), a.y, count, 1e-5);
    assert_close((float *)to_host(statistics, 2 * groups * sizeof *y), a.statistics, 2 * groups,
                 1e-6);
    assert_inputs_unchanged(n, &a);
    assert_unchanged(shift, a.shift, (size_t)n->g.in.channels * sizeof *shift);
}

TEST(group_norm_normalises_groups) {
    for (int i = 0; i < NORMS; i++) {
        check_group_norm(&norms[i], i % 2);
        assert_int_equal(free_arrays(NULL), 0);
    }
    check_group_norm(&norms[4], 1);
}

// dx is up to 300 times dy, and its rounding errors with it.
TEST(group_norm_backward_is_its_derivative) {
    for (int i = 0; i < NORMS; i++) {
        const struct norm *n = &norms[i];
        size_t count = batch_size(n->g.in, n->images), bytes = count * sizeof(float);
        struct norm_arrays a = new_norm(n);
        float *dy = to_device(a.dy, bytes), *dx = new_device_array(bytes);
        group_norm_backward(a.device_x, dy, dx, a.device_scale, a.device_statistics, n->images,
                            n->g, stream);
        assert_close((float *)to_host(dx, bytes), a.dx, count, 1e-4);
        assert_unchanged(dy, a.dy, bytes);
        assert_inputs_unchanged(n, &a);
        multiply_by_normalised(a.device_x, dy, a.device_statistics, n->images, n->g, stream);
        assert_close((float *)to_host(dy, bytes), a.product, count, 1e-5);
        assert_inputs_unchanged(n, &a);
        assert_int_equal(free_arrays(NULL), 0);
    }
}

// A ReLU must not hide a NaN. Image 0 has a NaN in the second of its two groups.
TEST(group_norm_keeps_nan) {
    const float x[] = {1, 2, 3, 4, 5, NAN, 1, 2, 3, 4, 5, 6}, ones[] = {1, 1}, zeros[] = {0, 0};
    for (int relu = 0; relu < 2; relu++) {
        struct groups g = {{3, 1, 2}, 2};
        float *y = new_device_array(sizeof x), *statistics = new_device_array(8 * sizeof *y);
        group_norm(to_device(x, sizeof x), y, to_device(ones, sizeof ones),
                   to_device(zeros, sizeof zeros), statistics, 2, g, relu, stream);
        float *got = to_host(y, sizeof x);
        for (int i = 0; i < 12; i++)
            assert_int_equal(!!isnan(got[i]), i < 6 && i % 2);
    }
}

int main(void) {
    setenv("OMP_NUM_THREADS", "3",
           0); // the CPU device shares large arrays out even where there is one core
    return run_all_tests((struct around){make_stream, destroy_stream, .end = free_arrays});
}
