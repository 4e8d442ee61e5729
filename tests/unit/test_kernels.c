// Each kernel of the device that the program is built for, against the same formula in double precision.
#include "../../common/kernels.h"
#include "device_arrays.h"

static cudaStream_t stream;

// The larger ones are shared among threads on a CPU, and the last is more than one grid on a GPU.
static const struct shape {
    int rows, cols;
} shapes[] = {{1, 1}, {1, 7}, {5, 1}, {3, 31}, {64, 10}, {37, 515}, {260, 129}, {1031, 677}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void rng_bits_are_splitmix64(void **state) {
    (void)state;
    const uint64_t of_0[] = {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec};
    const uint64_t of_1234567[] = {0x599ed017fb08fc85, 0x2c73f08458540fa5, 0x883ebce5a3f27c77};
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(rng_bits(0, i), of_0[i]);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(rng_bits(1234567, i), of_1234567[i]);
}

static void rng_uniform_is_uniform(void **state) {
    (void)state;
    enum { COUNT = 1 << 20, PARTS = 16 };
    int counts[PARTS] = {0};
    double sum = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        float u = rng_uniform(42, i);
        assert_true(u >= 0 && u < 1);
        assert_true(u * 0x1p24f == floorf(u * 0x1p24f));
        sum += u;
        counts[(int)(u * PARTS)]++;
    }
    assert_true(fabs(sum / COUNT - 0.5) < 0.002); // seven standard deviations
    for (int i = 0; i < PARTS; i++)
        assert_true(abs(counts[i] - COUNT / PARTS) < 2000); // eight
}

static void fill_uniform_is_exact(void **state) {
    (void)state;
    const size_t counts[] = {1, 5, 20001, 700001};
    const uint64_t firsts[] = {0, 123, (uint64_t)1 << 40, UINT64_MAX - 1};
    const float bound = 0.3f;
    for (int c = 0; c < 4; c++)
        for (int f = 0; f < 4; f++) {
            size_t count = counts[c];
            float *values = new_device_array(count * sizeof *values);
            fill_uniform(values, count, bound, 7, firsts[f], stream);
            float *got = to_host(values, count * sizeof *got), *want = new_array(count * sizeof *want);
            for (size_t i = 0; i < count; i++)
                want[i] = (float)(bound * (2. * rng_uniform(7, firsts[f] + i) - 1));
            assert_memory_equal(got, want, count * sizeof *want);
        }
}

static void fill_uniform_does_not_depend_on_parts(void **state) {
    (void)state;
    const size_t cuts[] = {0, 1, 2, 777, 20000, 40001}, count = 40001;
    const uint64_t first = 99;
    float *whole = new_device_array(count * sizeof *whole), *parts = new_device_array(count * sizeof *parts);
    fill_uniform(whole, count, 2, 3, first, stream);
    for (int i = 0; i < 5; i++)
        fill_uniform(parts + cuts[i], cuts[i + 1] - cuts[i], 2, 3, first + cuts[i], stream);
    assert_unchanged(parts, to_host(whole, count * sizeof *whole), count * sizeof *parts);
}

// The data set ends with the last sample that the batch needs, so that guards lie behind it.
static void check_gather(int rows, int pixels, size_t first, int with_order) {
    const float mean = 0.1307f, deviation = 0.3081f;
    size_t samples = with_order ? 300 : first + (size_t)rows, visited = first + (size_t)rows;
    size_t batch = (size_t)rows * (size_t)pixels;
    uint8_t *images = random_bytes(samples * (size_t)pixels, 256, 1), *labels = random_bytes(samples, 10, 2);
    uint32_t *order = new_array(visited * sizeof *order);
    for (size_t i = 0; i < visited; i++)
        order[i] = (uint32_t)(rng_bits(3, i) % samples);
    order[visited - 1] = (uint32_t)samples - 1;

    uint8_t *device_images = to_device(images, samples * (size_t)pixels);
    uint8_t *device_labels = to_device(labels, samples), *y = new_device_array((size_t)rows);
    uint32_t *device_order = to_device(order, visited * sizeof *order);
    float *x = new_device_array(batch * sizeof *x);
    gather_batch(device_images, device_labels, with_order ? device_order : NULL, first, rows, pixels, mean,
                 deviation, x, y, stream);

    float *want = new_array(batch * sizeof *want);
    uint8_t *want_y = new_array((size_t)rows);
    for (size_t r = 0; r < (size_t)rows; r++) {
        size_t sample = with_order ? order[first + r] : first + r;
        want_y[r] = labels[sample];
        for (size_t p = 0; p < (size_t)pixels; p++)
            want[r * (size_t)pixels + p] =
                (float)((images[sample * (size_t)pixels + p] / 255. - mean) / deviation);
    }
    float *got = to_host(x, batch * sizeof *got);
    assert_close(got, want, batch, 1e-6);
    assert_unchanged(y, want_y, (size_t)rows);
    assert_unchanged(device_images, images, samples * (size_t)pixels);
    assert_unchanged(device_labels, labels, samples);
    assert_unchanged(device_order, order, visited * sizeof *order);
}

static void gather_batch_normalises(void **state) {
    (void)state;
    for (int s = 0; s < SHAPES; s++)
        for (size_t first = 0; first < 60; first += 53)
            for (int with_order = 0; with_order < 2; with_order++)
                check_gather(shapes[s].rows, shapes[s].cols, first, with_order);
}

static void check_add_bias(int rows, int cols, int relu) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    float *y = random_floats(count, 2, 1), *bias = random_floats((size_t)cols, 1, 2);
    float *device_y = to_device(y, bytes), *device_bias = to_device(bias, (size_t)cols * sizeof *bias);
    add_bias(device_y, device_bias, rows, cols, relu, stream);
    float *want = new_array(bytes);
    for (size_t i = 0; i < count; i++) {
        double sum = (double)y[i] + bias[i % (size_t)cols];
        want[i] = (float)(relu ? fmax(sum, 0) : sum);
    }
    float *got = to_host(device_y, bytes);
    assert_close(got, want, count, 1e-6);
    assert_unchanged(device_bias, bias, (size_t)cols * sizeof *bias);
}

static void add_bias_adds_and_cuts(void **state) {
    (void)state;
    for (int s = 0; s < SHAPES; s++)
        for (int relu = 0; relu < 2; relu++)
            check_add_bias(shapes[s].rows, shapes[s].cols, relu);
}

// A loss that has gone wrong must not be hidden by a ReLU.
static void add_bias_keeps_nan(void **state) {
    (void)state;
    const float y[] = {NAN, -1, 1, -1, NAN, 1}, bias[] = {0, 0, NAN};
    for (int relu = 0; relu < 2; relu++) {
        float *device_y = to_device(y, sizeof y);
        add_bias(device_y, to_device(bias, sizeof bias), 2, 3, relu, stream);
        float *got = to_host(device_y, sizeof y);
        for (int i = 0; i < 6; i++)
            assert_int_equal(!!isnan(got[i]), isnan(y[i]) || isnan(bias[i % 3]));
    }
}

static void relu_backward_masks(void **state) {
    (void)state;
    const size_t counts[] = {6, 7, 1001, 40001, 700001};
    const float special[] = {0, -0.f, 1e-45f, -1e-45f, INFINITY, -INFINITY};
    for (int c = 0; c < 5; c++) {
        size_t count = counts[c], bytes = count * sizeof(float);
        float *dy = random_floats(count, 1, 1), *y = random_floats(count, 1, 2);
        memcpy(y, special, sizeof special);
        float *device_dy = to_device(dy, bytes), *device_y = to_device(y, bytes);
        relu_backward(device_dy, device_y, count, stream);
        for (size_t i = 0; i < count; i++)
            dy[i] = y[i] > 0 ? dy[i] : 0;
        float *got = to_host(device_dy, bytes);
        assert_close(got, dy, count, 0);
        assert_unchanged(device_y, y, bytes);
    }
}

static void sum_rows_sums(void **state) {
    (void)state;
    for (int s = 0; s < SHAPES; s++) {
        size_t rows = (size_t)shapes[s].rows, cols = (size_t)shapes[s].cols;
        float *x = random_floats(rows * cols, 1, 1), *want = new_array(cols * sizeof *want);
        for (size_t c = 0; c < cols; c++) {
            double sum = 0;
            for (size_t r = 0; r < rows; r++)
                sum += x[r * cols + c];
            want[c] = (float)sum;
        }
        float *device_x = to_device(x, rows * cols * sizeof *x);
        float *sums = new_device_array(cols * sizeof *sums);
        sum_rows(device_x, sums, shapes[s].rows, shapes[s].cols, stream);
        float *got = to_host(sums, cols * sizeof *got);
        assert_close(got, want, cols, 1e-4);
        assert_unchanged(device_x, x, rows * cols * sizeof *x);
    }
}

// Adds to stats like the kernel.
static void reference_loss(const float *logits, const uint8_t *labels, int rows, int classes, double scale,
                           float *dlogits, struct stats *stats) {
    for (int r = 0; r < rows; r++) {
        const float *z = logits + (size_t)r * (size_t)classes;
        double largest = z[0];
        for (int c = 1; c < classes; c++)
            largest = fmax(largest, z[c]);
        double sum = exp(z[0] - largest);
        for (int c = 1; c < classes; c++)
            sum += exp(z[c] - largest);
        for (int c = 0; c < classes; c++)
            dlogits[(size_t)r * (size_t)classes + (size_t)c] =
                (float)((exp(z[c] - largest) / sum - (c == labels[r])) * scale);
        stats->loss += log(sum) - (z[labels[r]] - largest);
        stats->correct += z[labels[r]] == largest;
        stats->samples++;
    }
}

static void check_stats(const struct stats *device, struct stats want) {
    struct stats *got = to_host(device, sizeof *got);
    const float got_loss = (float)got->loss, want_loss = (float)want.loss;
    assert_close(&got_loss, &want_loss, 1, 1e-5);
    assert_true(got->correct == want.correct);
    assert_true(got->samples == want.samples);
}

static void check_loss(const float *logits, const uint8_t *labels, int rows, int classes, float scale) {
    size_t count = (size_t)rows * (size_t)classes, bytes = count * sizeof(float);
    struct stats sums = {1.5, 2, 3}; // what earlier batches left
    float *device_logits = to_device(logits, bytes), *dlogits = new_device_array(bytes);
    uint8_t *device_labels = to_device(labels, (size_t)rows);
    struct stats *stats = to_device(&sums, sizeof sums);
    float *want = new_array(bytes);
    softmax_cross_entropy(device_logits, device_labels, rows, classes, scale, dlogits, stats, stream);
    reference_loss(logits, labels, rows, classes, scale, want, &sums);
    float *got = to_host(dlogits, bytes);
    assert_close(got, want, count, 1e-6);
    check_stats(stats, sums);

    softmax_cross_entropy(device_logits, device_labels, rows, classes, scale, NULL, stats, stream);
    reference_loss(logits, labels, rows, classes, scale, want, &sums);
    check_stats(stats, sums);
    assert_unchanged(device_logits, logits, bytes);
    assert_unchanged(device_labels, labels, (size_t)rows);
}

static void loss_is_cross_entropy(void **state) {
    (void)state;
    const struct shape batches[] = {{1, 1}, {1, 10}, {2, 2}, {129, 10}, {65, 256}, {5000, 10}};
    for (int b = 0; b < 6; b++)
        for (int spread = 1; spread <= 100; spread *= 10) {
            int rows = batches[b].rows, classes = batches[b].cols;
            size_t count = (size_t)rows * (size_t)classes;
            check_loss(random_floats(count, (float)spread, 1), random_bytes((size_t)rows, classes, 2), rows,
                       classes, spread == 1 ? 1 : 1.f / (float)rows);
        }
}

// exp(1e4) is beyond even a double.
static void loss_does_not_overflow(void **state) {
    (void)state;
    const float logits[6][3] = {{1e4f, -1e4f, 0}, {1e4f, -1e4f, 0},  {-1e4f, -1e4f, -1e4f},
                                {1e30f, 0, 0},    {1e4f, 9999.f, 0}, {-1e4f, 1e4f, -1e30f}};
    const uint8_t labels[] = {0, 1, 2, 0, 1, 0};
    float *dlogits = new_device_array(sizeof logits);
    struct stats *stats = to_device(&(struct stats){0}, sizeof *stats);
    softmax_cross_entropy(to_device(logits, sizeof logits), to_device(labels, sizeof labels), 6, 3, 1,
                          dlogits, stats, stream);
    float *got = to_host(dlogits, sizeof logits);
    struct stats sums = {0};
    float want[18];
    reference_loss(logits[0], labels, 6, 3, 1, want, &sums);
    assert_true(isfinite(sums.loss) && sums.loss > 4e4);
    assert_close(got, want, 18, 1e-6);
    sums.correct--; // the row of equal logits, which has its largest at the first place
    check_stats(stats, sums);
}

static void loss_keeps_nan(void **state) {
    (void)state;
    for (int at = 0; at < 5; at++) {
        float logits[5] = {1, 2, 3, 4, 5};
        const uint8_t label = 2;
        logits[at] = NAN;
        struct stats *stats = to_device(&(struct stats){1, 1, 1}, sizeof *stats);
        softmax_cross_entropy(to_device(logits, sizeof logits), to_device(&label, 1), 1, 5, 1, NULL, stats,
                              stream);
        struct stats *got = to_host(stats, sizeof *got);
        assert_true(isnan(got->loss));
        assert_true(got->samples == 2);
    }
}

static void sgd_step_with_momentum(void **state) {
    (void)state;
    enum { STEPS = 3 };
    const size_t counts[] = {1, 13, 20001, 700001};
    const float momenta[] = {0, 0.9f}, lr = 0.05f;
    for (int c = 0; c < 4; c++)
        for (int m = 0; m < 2; m++) {
            size_t count = counts[c], bytes = count * sizeof(float);
            float *p = random_floats(count, 1, 1), *v = random_floats(count, 1, 2);
            float *device_p = to_device(p, bytes), *device_v = to_device(v, bytes);
            for (int step = 0; step < STEPS; step++) {
                float *g = random_floats(count, 1, 3 + (uint64_t)step), *device_g = to_device(g, bytes);
                sgd_step(device_p, device_g, device_v, count, lr, momenta[m], stream);
                for (size_t i = 0; i < count; i++) {
                    v[i] = (float)((double)momenta[m] * v[i] + g[i]);
                    p[i] = (float)(p[i] - (double)lr * v[i]);
                }
                assert_unchanged(device_g, g, bytes);
            }
            float *got_p = to_host(device_p, bytes), *got_v = to_host(device_v, bytes);
            assert_close(got_p, p, count, 1e-5);
            assert_close(got_v, v, count, 1e-5);
        }
}

static int make_stream(void **state) {
    (void)state;
    CUDA_CHECK(cudaStreamCreate(&stream));
    return 0;
}

static int destroy_stream(void **state) {
    (void)state;
    CUDA_CHECK(cudaStreamDestroy(stream));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rng_bits_are_splitmix64),
        cmocka_unit_test(rng_uniform_is_uniform),
        cmocka_unit_test_teardown(fill_uniform_is_exact, free_arrays),
        cmocka_unit_test_teardown(fill_uniform_does_not_depend_on_parts, free_arrays),
        cmocka_unit_test_teardown(gather_batch_normalises, free_arrays),
        cmocka_unit_test_teardown(add_bias_adds_and_cuts, free_arrays),
        cmocka_unit_test_teardown(add_bias_keeps_nan, free_arrays),
        cmocka_unit_test_teardown(relu_backward_masks, free_arrays),
        cmocka_unit_test_teardown(sum_rows_sums, free_arrays),
        cmocka_unit_test_teardown(loss_is_cross_entropy, free_arrays),
        cmocka_unit_test_teardown(loss_does_not_overflow, free_arrays),
        cmocka_unit_test_teardown(loss_keeps_nan, free_arrays),
        cmocka_unit_test_teardown(sgd_step_with_momentum, free_arrays),
    };
    setenv("OMP_NUM_THREADS", "3", 0); // the CPU device shares large arrays out even where there is one core
    return cmocka_run_group_tests(tests, make_stream, destroy_stream);
}
