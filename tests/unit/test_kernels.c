// Tests of the kernels, on the GPU or on the CPU device. They compare each kernel with the same
// formula in double precision.
#include "common/data/data.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "tests/unit/device_arrays.h"
#include "tests/unit/test_stream.h"

// On a CPU, threads share the larger sizes. On a GPU, the last size is larger than one grid.
static const struct matrix {
    int rows, cols;
} shapes[] = {{1, 1}, {1, 7}, {5, 1}, {3, 31}, {64, 10}, {37, 515}, {260, 129}, {1031, 677}};
enum { SHAPES = sizeof shapes / sizeof *shapes - SANITIZED, LARGE = SANITIZED ? 40001 : 700001 };

static void rng_bits_are_splitmix64(void **state) {
    (void)state;
    const uint64_t of_0[] = {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f,
                             0xf88bb8a8724c81ec};
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
    const size_t counts[] = {1, 5, 20001, LARGE};
    const uint64_t firsts[] = {0, 123, (uint64_t)1 << 40, UINT64_MAX - 1};
    const float bound = 0.3f;
    for (int c = 0; c < 4; c++)
        for (int f = 0; f < 4; f++) {
            size_t count = counts[c];
            float *values = new_device_array(count * sizeof *values);
            fill_uniform(values, count, bound, 7, firsts[f], stream);
            float *got = to_host(values, count * sizeof *got),
                  *want = new_array(count * sizeof *want);
            for (size_t i = 0; i < count; i++)
                want[i] = (float)(bound * (2. * rng_uniform(7, firsts[f] + i) - 1));
            assert_memory_equal(got, want, count * sizeof *want);
        }
}

static void fill_uniform_does_not_depend_on_parts(void **state) {
    (void)state;
    const size_t cuts[] = {0, 1, 2, 777, 20000, 40001}, count = 40001;
    const uint64_t first = 99;
    float *whole = new_device_array(count * sizeof *whole),
          *parts = new_device_array(count * sizeof *parts);
    fill_uniform(whole, count, 2, 3, first, stream);
    for (int i = 0; i < 5; i++)
        fill_uniform(parts + cuts[i], cuts[i + 1] - cuts[i], 2, 3, first + cuts[i], stream);
    assert_unchanged(parts, to_host(whole, count * sizeof *whole), count * sizeof *parts);
}

static void fill_sets_each_value(void **state) {
    (void)state;
    const size_t counts[] = {0, 1, 7, 20001, LARGE};
    for (int c = 0; c < 5; c++) {
        size_t count = counts[c];
        float *values = new_device_array(count * sizeof *values),
              *want = new_array(count * sizeof *want);
        fill(values, count, 0.3f, stream);
        for (size_t i = 0; i < count; i++)
            want[i] = 0.3f;
        assert_unchanged(values, want, count * sizeof *values);
    }
}

// The data set ends with the last sample of the batch, so guards follow it directly.
static void check_gather(struct dataset set, int rows, size_t first, int with_order) {
    size_t visited = first + (size_t)rows, inputs = (size_t)set.inputs;
    size_t targets = (size_t)set.targets, batch = (size_t)rows * inputs;
    set.count = with_order ? 300 : visited;
    uint8_t *values = random_bytes(set.count * inputs, 256, 1),
            *labels = random_bytes(set.count * targets, 10, 2);
    uint32_t *order = new_array(visited * sizeof *order);
    for (size_t i = 0; i < visited; i++)
        order[i] = (uint32_t)(rng_bits(3, i) % set.count);
    order[visited - 1] = (uint32_t)set.count - 1;

    set.values = to_device(values, set.count * inputs);
    set.labels = to_device(labels, set.count * targets);
    uint8_t *y = new_device_array((size_t)rows * targets);
    uint32_t *device_order = to_device(order, visited * sizeof *order);
    float *x = new_device_array(batch * sizeof *x);
    gather_batch(&set, with_order ? device_order : NULL, first, rows, x, y, stream);

    float *want = new_array(batch * sizeof *want);
    uint8_t *want_y = new_array((size_t)rows * targets);
    for (size_t r = 0; r < (size_t)rows; r++) {
        size_t sample = with_order ? order[first + r] : first + r;
        memcpy(want_y + r * targets, labels + sample * targets, targets);
        for (size_t i = 0; i < inputs; i++) {
            size_t channel = i % (size_t)set.shape.channels;
            want[r * inputs + i] =
                (float)((values[sample * inputs + i] / 255. - set.mean[channel]) /
                        set.deviation[channel]);
        }
    }
    float *got = to_host(x, batch * sizeof *got);
    assert_close(got, want, batch, 1e-6);
    assert_unchanged(y, want_y, (size_t)rows * targets);
    assert_unchanged(set.values, values, set.count * inputs);
    assert_unchanged(set.labels, labels, set.count * targets);
    assert_unchanged(device_order, order, visited * sizeof *order);
}

// Images of one channel, and samples of several channels and labels.
static void gather_batch_normalises(void **state) {
    (void)state;
    struct dataset set = {.mean = {0.1307f, 0.5f, 0}, .deviation = {0.3081f, 0.2f, 1 / 255.f}};
    for (int s = 0; s < SHAPES; s++)
        for (size_t first = 0; first < 60; first += 53)
            for (int with_order = 0; with_order < 2; with_order++)
                for (int channels = 1; channels <= 3; channels++) {
                    set.shape.channels = set.targets = channels;
                    set.inputs = channels * shapes[s].cols;
                    check_gather(set, shapes[s].rows, first, with_order);
                }
}

static void check_add_bias(int rows, int cols, int relu) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    float *y = random_floats(count, 2, 1), *bias = random_floats((size_t)cols, 1, 2);
    float *device_y = to_device(y, bytes),
          *device_bias = to_device(bias, (size_t)cols * sizeof *bias);
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

static void add_bias_adds_and_applies_relu(void **state) {
    (void)state;
    for (int s = 0; s < SHAPES; s++)
        for (int relu = 0; relu < 2; relu++)
            check_add_bias(shapes[s].rows, shapes[s].cols, relu);
}

// A ReLU must not hide a NaN.
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

static void add_relu_adds_and_applies_relu(void **state) {
    (void)state;
    const size_t counts[] = {0, 1, 7, 20001, LARGE};
    for (int c = 0; c < 5; c++) {
        size_t count = counts[c], bytes = count * sizeof(float);
        float *a = random_floats(count, 2, 1), *b = random_floats(count, 1, 2),
              *want = new_array(bytes);
        float *device_a = to_device(a, bytes), *device_b = to_device(b, bytes),
              *y = new_device_array(bytes);
        add_relu(device_a, device_b, y, count, stream);
        for (size_t i = 0; i < count; i++)
            want[i] = fmaxf(a[i] + b[i], 0);
        assert_close((float *)to_host(y, bytes), want, count, 0);
        assert_unchanged(device_a, a, bytes);
        assert_unchanged(device_b, b, bytes);
    }
}

static void add_relu_keeps_nan(void **state) {
    (void)state;
    const float a[] = {NAN, 1, -1, NAN, INFINITY, -0.f, -2},
                b[] = {1, NAN, NAN, -1, -INFINITY, -0.f, 1};
    float *y = new_device_array(sizeof a);
    add_relu(to_device(a, sizeof a), to_device(b, sizeof b), y, 7, stream);
    float *got = to_host(y, sizeof a);
    for (int i = 0; i < 7; i++)
        assert_true(i < 5 ? isnan(got[i]) : got[i] == 0);
}

static void relu_backward_masks_gradients(void **state) {
    (void)state;
    const size_t counts[] = {6, 7, 1001, 40001, LARGE};
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

static void drop_values_drops_and_scales(void **state) {
    (void)state;
    const size_t counts[] = {1, 5, 20001, LARGE};
    const float rates[] = {0, 0.2f, 1};
    const uint64_t first = (uint64_t)1 << 40;
    for (int c = 0; c < 4; c++)
        for (int r = 0; r < 3; r++) {
            size_t count = counts[c], bytes = count * sizeof(float);
            float *x = random_floats(count, 1, 1), *want = new_array(bytes);
            float *device_x = to_device(x, bytes), *y = new_device_array(bytes);
            drop_values(device_x, y, count, rates[r], 7, first, stream);
            for (size_t i = 0; i < count; i++)
                want[i] = rng_uniform(7, first + i) < rates[r] ? 0 : x[i] / (1 - rates[r]);
            float *got = to_host(y, bytes);
            assert_close(got, want, count, 1e-6);
            assert_unchanged(device_x, x, bytes);
        }
}

static void sum_rows_adds_the_rows(void **state) {
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

// Adds to stats in the same way as the kernel.
static void reference_loss(const float *logits, const uint8_t *labels, int rows, int classes,
                           double scale, float *dlogits, struct stats *stats, double smoothing) {
    for (int r = 0; r < rows; r++) {
        const float *z = logits + (size_t)r * (size_t)classes;
        double largest = z[0];
        for (int c = 1; c < classes; c++)
            largest = fmax(largest, z[c]);
        double sum = exp(z[0] - largest);
        for (int c = 1; c < classes; c++)
            sum += exp(z[c] - largest);
        for (int c = 0; c < classes; c++) { // share: of label c in the loss
            double share = (1 - smoothing) * (c == labels[r]) + smoothing / classes;
            dlogits[(size_t)r * (size_t)classes + (size_t)c] =
                (float)((exp(z[c] - largest) / sum - share) * scale);
            stats->loss += share * (log(sum) - (z[c] - largest));
        }
        stats->correct += z[labels[r]] == largest;
        stats->samples++;
    }
}

// The kernel adds the values that earlier batches left in the lanes to the sums.
static struct stats *new_stats(struct stats *sums) {
    struct stats *lanes = random_stats();
    for (int lane = 0; lane < STATS_LANES; lane++) {
        sums->loss += lanes[lane].loss;
        sums->correct += lanes[lane].correct;
        sums->samples += lanes[lane].samples;
    }
    return to_device(lanes, STATS_LANES * sizeof *lanes);
}

static void check_stats(struct stats *lanes, struct stats want) {
    struct stats *sums = new_device_array(sizeof *sums);
    sum_stats(lanes, sums, stream);
    struct stats *got = to_host(sums, sizeof *got);
    const float got_loss = (float)got->loss, want_loss = (float)want.loss;
    assert_close(&got_loss, &want_loss, 1, 1e-5);
    assert_true(got->correct == want.correct);
    assert_true(got->samples == want.samples);
}

static void check_loss(const float *logits, const uint8_t *labels, int rows, int classes,
                       float scale, float smoothing) {
    size_t count = (size_t)rows * (size_t)classes, bytes = count * sizeof(float);
    float *device_logits = to_device(logits, bytes);
    uint8_t *device_labels = to_device(labels, (size_t)rows);
    for (int gradients = 0; gradients < 2; gradients++) {
        struct stats sums = {0}, *stats = new_stats(&sums);
        float *dlogits = gradients ? new_device_array(bytes) : NULL, *want = new_array(bytes);
        softmax_cross_entropy(device_logits, device_labels, rows, classes, scale, dlogits, stats,
                              smoothing, stream);
        reference_loss(logits, labels, rows, classes, scale, want, &sums, smoothing);
        if (gradients)
            assert_close((float *)to_host(dlogits, bytes), want, count, 1e-6);
        check_stats(stats, sums);
    }
    assert_unchanged(device_logits, logits, bytes);
    assert_unchanged(device_labels, labels, (size_t)rows);
}

static void loss_is_cross_entropy(void **state) {
    (void)state;
    const struct matrix batches[] = {{1, 1},    {1, 10},   {2, 2},
                                     {129, 10}, {65, 256}, {SANITIZED ? 1100 : 5000, 10}};
    for (int b = 0; b < 6; b++)
        for (int spread = 1; spread <= 100; spread *= 10) {
            int rows = batches[b].rows, classes = batches[b].cols;
            size_t count = (size_t)rows * (size_t)classes;
            check_loss(random_floats(count, (float)spread, 1),
                       random_bytes((size_t)rows, classes, 2), rows, classes,
                       spread == 1 ? 1 : 1.f / (float)rows, 0);
        }
}

static void smoothing_divides_a_part_of_the_label(void **state) {
    (void)state;
    const struct matrix batches[] = {{1, 1}, {2, 2}, {129, 10}, {65, 256}};
    for (int b = 0; b < 4; b++)
        for (int tenths = 1; tenths <= 10; tenths += 3) {
            int rows = batches[b].rows, classes = batches[b].cols;
            size_t count = (size_t)rows * (size_t)classes;
            check_loss(random_floats(count, 5, 1), random_bytes((size_t)rows, classes, 2), rows,
                       classes, 0.5f, (float)tenths / 10);
        }
}

// exp(1e4) is too large even for a double.
static void loss_does_not_overflow(void **state) {
    (void)state;
    const float logits[6][3] = {{1e4f, -1e4f, 0}, {1e4f, -1e4f, 0},  {-1e4f, -1e4f, -1e4f},
                                {1e30f, 0, 0},    {1e4f, 9999.f, 0}, {-1e4f, 1e4f, -1e30f}};
    const uint8_t labels[] = {0, 1, 2, 0, 1, 0};
    float *dlogits = new_device_array(sizeof logits);
    struct stats sums = {0}, *stats = new_stats(&sums);
    softmax_cross_entropy(to_device(logits, sizeof logits), to_device(labels, sizeof labels), 6, 3,
                          1, dlogits, stats, 0, stream);
    float *got = to_host(dlogits, sizeof logits);
    float want[18];
    reference_loss(logits[0], labels, 6, 3, 1, want, &sums, 0);
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
        struct stats sums = {0}, *stats = new_stats(&sums), *got = new_device_array(sizeof *got);
        softmax_cross_entropy(to_device(logits, sizeof logits), to_device(&label, 1), 1, 5, 1, NULL,
                              stats, 0, stream);
        sum_stats(stats, got, stream);
        got = to_host(got, sizeof *got);
        assert_true(isnan(got->loss));
        assert_true(got->samples == sums.samples + 1);
    }
}

// The bits do not depend on the number of threads or on their order.
static void loss_repeats_its_bits(void **state) {
    (void)state;
    enum { ROWS = 3 * STATS_LANES + 77, CLASSES = 10 };
    float *logits = to_device(random_floats(ROWS * CLASSES, 1, 1), ROWS * CLASSES * sizeof *logits);
    uint8_t *labels = to_device(random_bytes(ROWS, CLASSES, 2), ROWS);
    struct stats first;
    for (int run = 0; run < 10; run++) {
        struct stats unused = {0}, *stats = new_stats(&unused),
                     *sums = new_device_array(sizeof *sums);
        for (int batch = 0; batch < 3; batch++)
            softmax_cross_entropy(logits, labels, ROWS, CLASSES, 1, NULL, stats, 0, stream);
        sum_stats(stats, sums, stream);
        if (run == 0)
            first = *(struct stats *)to_host(sums, sizeof first);
        assert_unchanged(sums, &first, sizeof first);
    }
}

static void check_sgd(size_t count, float momentum, float decay, int nesterov) {
    enum { STEPS = 3 };
    const float lr = 0.05f;
    size_t bytes = count * sizeof(float);
    float *p = random_floats(count, 1, 1), *v = random_floats(count, 1, 2);
    float *device_p = to_device(p, bytes), *device_v = to_device(v, bytes);
    for (int step = 0; step < STEPS; step++) {
        float *g = random_floats(count, 1, 3 + (uint64_t)step), *device_g = to_device(g, bytes);
        (nesterov ? nesterov_step : sgd_step)(device_p, device_g, device_v, count, lr, momentum,
                                              decay, stream);
        for (size_t i = 0; i < count; i++) {
            double gradient = g[i] + (double)decay * p[i];
            v[i] = (float)((double)momentum * v[i] + gradient);
            p[i] = (float)(p[i] - lr * (nesterov ? gradient + (double)momentum * v[i] : v[i]));
        }
        assert_unchanged(device_g, g, bytes);
    }
    float *got_p = to_host(device_p, bytes), *got_v = to_host(device_v, bytes);
    assert_close(got_p, p, count, 1e-5);
    assert_close(got_v, v, count, 1e-5);
}

static void sgd_step_has_momentum_and_decay(void **state) {
    (void)state;
    const size_t counts[] = {1, 13, 20001, LARGE};
    for (int c = 0; c < 4; c++)
        for (float momentum = 0; momentum < 1; momentum += 0.9f)
            for (float decay = 0; decay < 1; decay += 0.7f)
                for (int nesterov = 0; nesterov < 2; nesterov++)
                    check_sgd(counts[c], momentum, decay, nesterov);
}

// Even the sign of a zero must not change, so runs without weight decay keep their bits.
static void zero_decay_changes_no_bit(void **state) {
    (void)state;
    const float g[] = {-0.f, -0.f, 0, 0, -0.f, 1}, v[] = {-0.f, 0, -0.f, 0, -0.f, -0.f};
    float p[] = {1, 1, 1, -1, -1, INFINITY}, want[6];
    float *device_p = to_device(p, sizeof p), *device_v = to_device(v, sizeof v);
    for (int i = 0; i < 6; i++)
        want[i] = 0.9f * v[i] + g[i];
    sgd_step(device_p, to_device(g, sizeof g), device_v, 6, 0.5f, 0.9f, 0, stream);
    assert_unchanged(device_v, want, sizeof want);
}

struct adam {
    float *p, *m, *v;
};

static struct adam adam_on_device(const struct adam *host, size_t count) {
    size_t bytes = count * sizeof(float);
    return (struct adam){to_device(host->p, bytes), to_device(host->m, bytes),
                         to_device(host->v, bytes)};
}

// Compares one call for the whole array, and calls for parts of it, with the formula.
static void check_adam(size_t count, float decay, int decoupled, double beta1, double beta2,
                       float epsilon) {
    enum { STEPS = 5 };
    const float lr = 0.01f;
    const size_t bytes = count * sizeof(float),
                 cuts[] = {0, count / 7, count / 2, count - count / 3, count};
    struct adam host = {random_floats(count, 1, 1), new_array(bytes), new_array(bytes)};
    memset(host.m, 0, bytes);
    memset(host.v, 0, bytes);
    struct adam whole = adam_on_device(&host, count), parts = adam_on_device(&host, count);
    double *p = new_array(2 * bytes), *m = new_array(2 * bytes), *v = new_array(2 * bytes);
    for (size_t i = 0; i < count; i++)
        p[i] = host.p[i], m[i] = v[i] = 0;
    for (int step = 1; step <= STEPS; step++) {
        float *g = random_floats(count, 1, 3 + (uint64_t)step), *device_g = to_device(g, bytes);
        adam_step(whole.p, device_g, whole.m, whole.v, count, lr, decay, decoupled, beta1, beta2,
                  epsilon, step, stream);
        for (int c = 0; c < 4; c++)
            adam_step(parts.p + cuts[c], device_g + cuts[c], parts.m + cuts[c], parts.v + cuts[c],
                      cuts[c + 1] - cuts[c], lr, decay, decoupled, beta1, beta2, epsilon, step,
                      stream);
        for (size_t i = 0; i < count; i++) {
            double gradient = decoupled ? g[i] : g[i] + decay * p[i];
            p[i] *= decoupled ? 1 - (double)lr * decay : 1;
            m[i] = beta1 * m[i] + (1 - beta1) * gradient;
            v[i] = beta2 * v[i] + (1 - beta2) * gradient * gradient;
            p[i] -= lr * m[i] / (1 - pow(beta1, step)) /
                    (sqrt(v[i] / (1 - pow(beta2, step))) + epsilon);
        }
        assert_unchanged(device_g, g, bytes);
    }
    for (size_t i = 0; i < count; i++)
        host.p[i] = (float)p[i], host.m[i] = (float)m[i], host.v[i] = (float)v[i];
    float *got_p = to_host(whole.p, bytes), *got_m = to_host(whole.m, bytes),
          *got_v = to_host(whole.v, bytes);
    assert_close(got_p, host.p, count, 2e-6);
    assert_close(got_m, host.m, count, 1e-6);
    assert_close(got_v, host.v, count, 1e-5 * (1 - beta2)); // values are about 1 - beta2
    assert_unchanged(parts.p, got_p, bytes);
    assert_unchanged(parts.m, got_m, bytes);
    assert_unchanged(parts.v, got_v, bytes);
}

static void adam_step_is_adam_and_adamw(void **state) {
    (void)state;
    const size_t counts[] = {1, 13, 20001, SANITIZED ? LARGE : 300001};
    for (int c = 0; c < 4; c++)
        for (float decay = 0; decay < 1; decay += 0.3f)
            for (int decoupled = 0; decoupled < 2; decoupled++)
                check_adam(counts[c], decay, decoupled, 0.9, 0.999, 1e-8f);
    check_adam(13, 0.3f, 1, 0.5, 0.98, 0.01f);
    check_adam(20001, 0, 0, 0, 0.9, 1e-4f);
}

static void check_adadelta(size_t count, float decay, double rho, float epsilon) {
    enum { STEPS = 5 };
    const float lr = 0.8f;
    const size_t bytes = count * sizeof(float), cut = count / 3;
    struct adam host = {random_floats(count, 1, 1), new_array(bytes), new_array(bytes)};
    memset(host.m, 0, bytes);
    memset(host.v, 0, bytes);
    struct adam whole = adam_on_device(&host, count), parts = adam_on_device(&host, count);
    double *p = new_array(2 * bytes), *m = new_array(2 * bytes), *v = new_array(2 * bytes);
    for (size_t i = 0; i < count; i++)
        p[i] = host.p[i], m[i] = v[i] = 0;
    for (int step = 1; step <= STEPS; step++) {
        float *g = random_floats(count, 1, 3 + (uint64_t)step), *device_g = to_device(g, bytes);
        adadelta_step(whole.p, device_g, whole.m, whole.v, count, lr, decay, rho, epsilon, stream);
        adadelta_step(parts.p, device_g, parts.m, parts.v, cut, lr, decay, rho, epsilon, stream);
        adadelta_step(parts.p + cut, device_g + cut, parts.m + cut, parts.v + cut, count - cut, lr,
                      decay, rho, epsilon, stream);
        for (size_t i = 0; i < count; i++) {
            double gradient = g[i] + decay * p[i];
            m[i] = rho * m[i] + (1 - rho) * gradient * gradient;
            double change = gradient * sqrt((v[i] + epsilon) / (m[i] + epsilon));
            v[i] = rho * v[i] + (1 - rho) * change * change;
            p[i] -= lr * change;
        }
        assert_unchanged(device_g, g, bytes);
    }
    for (size_t i = 0; i < count; i++)
        host.p[i] = (float)p[i], host.m[i] = (float)m[i], host.v[i] = (float)v[i];
    float *got_p = to_host(whole.p, bytes), *got_m = to_host(whole.m, bytes),
          *got_v = to_host(whole.v, bytes);
    assert_close(got_p, host.p, count, 2e-6);
    assert_close(got_m, host.m, count, 1e-6);
    assert_close(got_v, host.v, count, 1e-6);
    // The changes are small numbers, so their errors must be small in relation to them.
    for (size_t i = 0; i < count; i++)
        assert_true(fabs(got_v[i] - v[i]) <= 1e-5 * v[i]);
    assert_unchanged(parts.p, got_p, bytes);
    assert_unchanged(parts.m, got_m, bytes);
    assert_unchanged(parts.v, got_v, bytes);
}

static void adadelta_step_is_adadelta(void **state) {
    (void)state;
    const size_t counts[] = {1, 13, 20001, SANITIZED ? LARGE : 300001};
    for (int c = 0; c < 4; c++)
        for (float decay = 0; decay < 1; decay += 0.3f)
            check_adadelta(counts[c], decay, 0.9, 1e-6f);
    check_adadelta(20001, 0, 0.5, 0.01f);
}

static void add_to_adds(void **state) {
    (void)state;
    const size_t counts[] = {1, 13, 20001, LARGE};
    for (int c = 0; c < 4; c++) {
        size_t count = counts[c], bytes = count * sizeof(float);
        float *sums = random_floats(count, 1, 1), *x = random_floats(count, 1, 2);
        float *device_sums = to_device(sums, bytes), *device_x = to_device(x, bytes);
        add_to(device_sums, device_x, count, stream);
        for (size_t i = 0; i < count; i++)
            sums[i] += x[i];
        assert_unchanged(device_sums, sums, bytes);
        assert_unchanged(device_x, x, bytes);
    }
}

static double device_sum_squares(const float *device_x, size_t count) {
    double *sums = new_device_array(SQUARES_LANES * sizeof *sums);
    sum_squares(device_x, count, sums, stream);
    return *(double *)to_host(sums, sizeof *sums);
}

static const size_t norm_counts[] = {0, 1, 1000, SQUARES_LANES, 3 * SQUARES_LANES + 1, LARGE};

static void sum_squares_is_exact_on_integers(void **state) {
    (void)state;
    for (int c = 0; c < 6; c++) {
        size_t count = norm_counts[c];
        float *x = new_array(count * sizeof *x);
        double want = 0;
        for (size_t i = 0; i < count; i++) {
            x[i] = (float)((int)(rng_bits(1, i) % 2001) - 1000);
            want += (double)x[i] * x[i];
        }
        float *device_x = to_device(x, count * sizeof *x);
        assert_true(device_sum_squares(device_x, count) == want);
        assert_unchanged(device_x, x, count * sizeof *x);
    }
}

// The sum has the order of the header, with any number of threads.
static void sum_squares_repeats_its_bits(void **state) {
    (void)state;
    for (int c = 0; c < 6; c++) {
        size_t count = norm_counts[c];
        float *x = random_floats(count, 1, 1), *device_x = to_device(x, count * sizeof *x);
        double first = device_sum_squares(device_x, count), want = 0;
        for (size_t i = 0; i < count; i++)
            want += (double)x[i] * x[i];
        assert_true(fabs(first - want) <= 1e-12 * want);
        for (int again = 0; again < 10; again++)
            assert_true(device_sum_squares(device_x, count) == first);
    }
}

static void clip_to_norm_clips(void **state) {
    (void)state;
    for (int c = 0; c < 6; c++)
        for (float share = 0.25f; share <= 4; share *= 16) { // of the norm that is allowed
            size_t count = norm_counts[c], bytes = count * sizeof(float);
            float *x = random_floats(count, 1, 1), *device_x = to_device(x, bytes);
            double *sums = new_device_array(SQUARES_LANES * sizeof *sums);
            sum_squares(device_x, count, sums, stream);
            double norm = sqrt(*(double *)to_host(sums, sizeof *sums));
            float max_norm = (float)(share * (norm + 1e-6));
            clip_to_norm(device_x, count, sums, max_norm, stream);
            for (size_t i = 0; i < count && share < 1; i++)
                x[i] = (float)(x[i] * (max_norm / (norm + 1e-6)));
            float *got = to_host(device_x, bytes);
            assert_close(got, x, count, share < 1 ? 2e-7 : 0);
        }
}

// A NaN in any part of the gradients must stay visible after clipping.
static void clip_to_norm_keeps_nan(void **state) {
    (void)state;
    const double sum = NAN;
    const float x = 1;
    float *device_x = to_device(&x, sizeof x);
    clip_to_norm(device_x, 1, to_device(&sum, sizeof sum), 1, stream);
    assert_true(isnan(*(float *)to_host(device_x, sizeof x)));
}

static uint16_t *device_bfloat16(const float *x, size_t count) {
    uint16_t *y = new_device_array(count * sizeof *y);
    to_bfloat16(y, to_device(x, count * sizeof *x), count, stream);
    return y;
}

static void every_bfloat16_survives_a_round_trip(void **state) {
    (void)state;
    enum { COUNT = 0x10000 };
    uint16_t *all = new_array(COUNT * sizeof *all);
    for (unsigned i = 0; i < COUNT; i++)
        all[i] = (uint16_t)i;
    float *wide = new_device_array(COUNT * sizeof *wide);
    uint16_t *back = new_device_array(COUNT * sizeof *back);
    from_bfloat16(wide, to_device(all, COUNT * sizeof *all), COUNT, stream);
    to_bfloat16(back, wide, COUNT, stream);
    const uint16_t *got = to_host(back, COUNT * sizeof *got);
    const float *x = to_host(wide, COUNT * sizeof *x);
    assert_true(x[0x3f80] == 1 && x[0xc049] == -3.140625f && isinf(x[0x7f80]) && x[1] == 0x1p-133f);
    for (unsigned i = 0; i < COUNT; i++)
        if ((i & 0x7fff) > 0x7f80)
            assert_true(isnan(x[i]) && (got[i] & 0x7fff) > 0x7f80);
        else
            assert_int_equal(got[i], i);
}

static void to_bfloat16_rounds_to_nearest_even(void **state) {
    (void)state;
    const float step = 0x1p-7f, little = 0x1p-23f; // of bfloat16 and of float, from 1 on
    const float x[] = {1 + step / 2,        1 + step / 2 + little,
                       1 + step * 3 / 2,    1 + step * 3 / 2 - little,
                       -1 - step / 2,       -1 - step * 3 / 2,
                       0x1.ffp127f,         0x1.fefffep127f,
                       -INFINITY,           0x1p-134f,
                       0x1.8p-133f,         -0.f,
                       nextafterf(2.f, 0.f)};
    const uint16_t want[] = {0x3f80, 0x3f81, 0x3f82, 0x3f81, 0xbf80, 0xbf82, 0x7f80,
                             0x7f7f, 0xff80, 0,      2,      0x8000, 0x4000};
    assert_unchanged(device_bfloat16(x, 13), want, sizeof want);
    uint32_t bits[] = {0x7f800001, 0xff800001, 0x7fffffff,
                       0xffffffff}; // whose upper halves alone may be none
    float nan[4];
    memcpy(nan, bits, sizeof nan);
    const uint16_t *got = to_host(device_bfloat16(nan, 4), 4 * sizeof *got);
    for (int i = 0; i < 4; i++)
        assert_true((got[i] & 0x7fff) > 0x7f80);
}

// A launch over no rows or elements succeeds on a GPU, even at the end of an array.
static void empty_arrays_are_allowed(void **state) {
    (void)state;
    float *x = new_device_array(8 * sizeof *x), *end = x + 8;
    uint8_t *bytes = new_device_array(8);
    struct stats *lanes = random_stats(), *stats = to_device(lanes, STATS_LANES * sizeof *lanes);
    struct dataset set = {2, {2, 2, 1}, 4, 1, 10, {0}, {1}, bytes, bytes};
    gather_batch(&set, NULL, 2, 0, x, bytes, stream);
    gather_batch(&set, (const uint32_t *)x, 8, 0, end, bytes, stream);
    softmax_cross_entropy(x, bytes, 0, 4, 1, x, stats, 0, stream);
    softmax_cross_entropy(end, bytes + 8, 0, 4, 1, NULL, stats, 0, stream);
    fill(end, 0, 1, stream);
    add_bias(end, x, 0, 4, 1, stream);
    add_relu(end, end, end, 0, stream);
    relu_backward(end, end, 0, stream);
    drop_values(end, end, 0, 0.5f, 1, 1, stream);
    sgd_step(end, end, end, 0, 1, 1, 1, stream);
    nesterov_step(end, end, end, 0, 1, 1, 1, stream);
    adam_step(end, end, end, end, 0, 1, 1, 1, 0.9, 0.999, 1, 1, stream);
    adadelta_step(end, end, end, end, 0, 1, 1, 0.9, 1, stream);
    add_to(end, end, 0, stream);
    to_bfloat16((uint16_t *)end, end, 0, stream);
    from_bfloat16(end, (uint16_t *)end, 0, stream);
    assert_unchanged(stats, lanes, STATS_LANES * sizeof *lanes);
    uint8_t untouched[8 * sizeof *x];
    memset(untouched, GUARD_BYTE, sizeof untouched);
    assert_unchanged(x, untouched, sizeof untouched);
    assert_unchanged(bytes, untouched, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rng_bits_are_splitmix64),
        cmocka_unit_test(rng_uniform_is_uniform),
        cmocka_unit_test_teardown(fill_uniform_is_exact, free_arrays),
        cmocka_unit_test_teardown(fill_uniform_does_not_depend_on_parts, free_arrays),
        cmocka_unit_test_teardown(fill_sets_each_value, free_arrays),
        cmocka_unit_test_teardown(gather_batch_normalises, free_arrays),
        cmocka_unit_test_teardown(add_bias_adds_and_applies_relu, free_arrays),
        cmocka_unit_test_teardown(add_bias_keeps_nan, free_arrays),
        cmocka_unit_test_teardown(add_relu_adds_and_applies_relu, free_arrays),
        cmocka_unit_test_teardown(add_relu_keeps_nan, free_arrays),
        cmocka_unit_test_teardown(relu_backward_masks_gradients, free_arrays),
        cmocka_unit_test_teardown(drop_values_drops_and_scales, free_arrays),
        cmocka_unit_test_teardown(sum_rows_adds_the_rows, free_arrays),
        cmocka_unit_test_teardown(loss_is_cross_entropy, free_arrays),
        cmocka_unit_test_teardown(smoothing_divides_a_part_of_the_label, free_arrays),
        cmocka_unit_test_teardown(loss_does_not_overflow, free_arrays),
        cmocka_unit_test_teardown(loss_keeps_nan, free_arrays),
        cmocka_unit_test_teardown(loss_repeats_its_bits, free_arrays),
        cmocka_unit_test_teardown(sgd_step_has_momentum_and_decay, free_arrays),
        cmocka_unit_test_teardown(zero_decay_changes_no_bit, free_arrays),
        cmocka_unit_test_teardown(adam_step_is_adam_and_adamw, free_arrays),
        cmocka_unit_test_teardown(adadelta_step_is_adadelta, free_arrays),
        cmocka_unit_test_teardown(add_to_adds, free_arrays),
        cmocka_unit_test_teardown(sum_squares_is_exact_on_integers, free_arrays),
        cmocka_unit_test_teardown(sum_squares_repeats_its_bits, free_arrays),
        cmocka_unit_test_teardown(clip_to_norm_clips, free_arrays),
        cmocka_unit_test_teardown(clip_to_norm_keeps_nan, free_arrays),
        cmocka_unit_test_teardown(every_bfloat16_survives_a_round_trip, free_arrays),
        cmocka_unit_test_teardown(to_bfloat16_rounds_to_nearest_even, free_arrays),
        cmocka_unit_test_teardown(empty_arrays_are_allowed, free_arrays),
    };
    setenv("OMP_NUM_THREADS", "3",
           0); // the CPU device shares large arrays out even where there is one core
    return cmocka_run_group_tests(tests, make_stream, destroy_stream);
}
