// Tests of the kernels, on the GPU or on the CPU device: random numbers, batches, the loss,
// optimizers and the norm against the same formula in double precision. test_layers.c tests the
// kernels of layers. test_kernels_cu is the same program with the GPU's kernels, which host_cuda.h
// builds for the host.
#include "common/data/data.h"
#include "common/device/device.h"
#include "common/kernels/divisor.h"
#include "common/kernels/kernels.h"
#include "cpu_device/tests/arrays.h"
#include "zoo/kernels/attention_kernels.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/kernels/image_kernels.h"
#include "zoo/kernels/norm_kernels.h"
#include "zoo/kernels/sequence_kernels.h"
#include "zoo/kernels/value_kernels.h"
#include <zlib.h>

static cudaStream_t stream;

static int make_stream(void **state) {
    CUDA_CHECK(cudaStreamCreate(&stream));
    return 0;
}

static int destroy_stream(void **state) {
    CUDA_CHECK(cudaStreamDestroy(stream));
    return 0;
}

// On a CPU, threads share the larger sizes. On a GPU, the last size is larger than one grid.
static const struct matrix {
    int rows, cols;
} shapes[] = {{1, 1}, {1, 7}, {5, 1}, {3, 31}, {64, 10}, {37, 515}, {260, 129}, {1031, 677}};
enum { SHAPES = sizeof shapes / sizeof *shapes - SANITIZED };
#ifdef CPU_DEFAULT // a macro of the CPU device's headers
enum { LARGE = 40001 };
#else
enum { LARGE = 700001 };
#endif
enum { MOST_ARRAYS = 4, MOST_CASES = 6, SETTINGS = 6 }; // of an elementwise kernel

static void check_split(unsigned i, unsigned n) {
    unsigned quotient = i, remainder = split(&quotient, divisor(n));
    assert_true(quotient == i / n && remainder == i % n);
}

// Numbers beside the multiples of each divisor, where a wrong factor shows, up to the largest ones.
TEST(a_factor_and_a_shift_divide) {
    for (unsigned n = 1; n < 1u << 31; n += n / 7 + 1)
        for (unsigned k = 0; k <= 1000; k++) {
            unsigned most = ((1u << 31) - 1) / n,
                     multiple = (unsigned)((uint64_t)most * k / 1000) * n;
            check_split(multiple, n);
            check_split(multiple ? multiple - 1 : 0, n);
            check_split((1u << 31) - 1 - k, n);
        }
}

TEST(rng_bits_are_splitmix64) {
    const uint64_t of_0[] = {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f,
                             0xf88bb8a8724c81ec};
    const uint64_t of_1234567[] = {0x599ed017fb08fc85, 0x2c73f08458540fa5, 0x883ebce5a3f27c77};
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(rng_bits(0, i), of_0[i]);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(rng_bits(1234567, i), of_1234567[i]);
}

// uniform: mean 0, variance 1/3 and fourth moment 1/5 in [-1, 1). normal: the sum of four parts,
// whose fourth moment is 3 - 1.2 / 4.
TEST(random_numbers_have_the_moments_of_their_distribution) {
    enum { COUNT = 1 << 20 };
    double uniform[5] = {0}, normal[5] = {0}, product = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double u = 2. * rng_uniform(42, i) - 1, x = rng_normal(42, i);
        assert_true(u >= -1 && u < 1 && fabs(x) < sqrt(12));
        for (int k = 1; k <= 4; k++) {
            uniform[k] += pow(u, k) / COUNT;
            normal[k] += pow(x, k) / COUNT;
        }
        product += x * rng_normal(42, i + 1) / COUNT;
    }
    const double want_uniform[] = {0, 0, 1. / 3, 0, 0.2}, want_normal[] = {0, 0, 1, 0, 2.7};
    for (int k = 1; k <= 4; k++) { // within seven standard deviations
        assert_true(fabs(uniform[k] - want_uniform[k]) < 0.004);
        assert_true(fabs(normal[k] - want_normal[k]) < (k < 4 ? 0.025 : 0.05));
    }
    assert_true(fabs(product) < 0.007);
}

// A call of a kernel whose results at place i depend only on the values at place i of its arrays.
struct call {
    float *a[MOST_ARRAYS]; // on the device
    size_t count;
    uint64_t place; // of the first value in the whole arrays, or of the value of the formula
    const float *set;
    long step; // from 1
};

// Settings: bound or deviation, number of the first value (-1: the last number), and 1 for normal.
static uint64_t random_number(const struct call *c) {
    return c->place + (c->set[1] < 0 ? UINT64_MAX - 1 : (uint64_t)c->set[1]);
}

static void run_fill(const struct call *c) {
    (c->set[2] ? fill_normal : fill_uniform)(c->a[0], c->count, c->set[0], 7, random_number(c),
                                             stream);
}

static void fill_formula(double *a, const struct call *c) {
    uint64_t number = random_number(c);
    a[0] = c->set[0] * (c->set[2] ? rng_normal(7, number) : 2. * rng_uniform(7, number) - 1);
}

// Arrays: parameters, velocity, gradients. Settings: lr, momentum, weight decay, and 1 for
// Nesterov's momentum.
static void run_sgd(const struct call *c) {
    const float *s = c->set;
    (s[3] ? nesterov_step : sgd_step)(c->a[0], c->a[2], c->a[1], c->count, s[0], s[1], s[2],
                                      stream);
}

static void sgd_formula(double *a, const struct call *c) {
    const float *s = c->set;
    double gradient = a[2] + s[2] * a[0];
    a[1] = s[1] * a[1] + gradient;
    a[0] -= s[0] * (s[3] ? gradient + s[1] * a[1] : a[1]);
}

// Arrays: parameters, two moments, gradients. Settings: lr, weight decay, 1 if it is decoupled,
// beta1, beta2, epsilon.
static void run_adam(const struct call *c) {
    const float *s = c->set;
    adam_step(c->a[0], c->a[3], c->a[1], c->a[2], c->count, s[0], s[1], s[2] != 0, s[3], s[4], s[5],
              c->step, stream);
}

static void adam_formula(double *a, const struct call *c) {
    double lr = c->set[0], decay = c->set[1], beta1 = c->set[3], beta2 = c->set[4];
    int decoupled = c->set[2] != 0;
    double gradient = decoupled ? a[3] : a[3] + decay * a[0];
    a[0] *= decoupled ? 1 - lr * decay : 1;
    a[1] = beta1 * a[1] + (1 - beta1) * gradient;
    a[2] = beta2 * a[2] + (1 - beta2) * gradient * gradient;
    a[0] -= lr * a[1] / (1 - pow(beta1, (double)c->step)) /
            (sqrt(a[2] / (1 - pow(beta2, (double)c->step))) + c->set[5]);
}

// Arrays: parameters, squares, changes, gradients. Settings: lr, weight decay, rho, epsilon.
static void run_adadelta(const struct call *c) {
    const float *s = c->set;
    adadelta_step(c->a[0], c->a[3], c->a[1], c->a[2], c->count, s[0], s[1], s[2], s[3], stream);
}

static void adadelta_formula(double *a, const struct call *c) {
    double rho = c->set[2], epsilon = c->set[3], gradient = a[3] + c->set[1] * a[0];
    a[1] = rho * a[1] + (1 - rho) * gradient * gradient;
    double change = gradient * sqrt((a[2] + epsilon) / (a[1] + epsilon));
    a[2] = rho * a[2] + (1 - rho) * change * change;
    a[0] -= c->set[0] * change;
}

typedef const float settings[MOST_CASES][SETTINGS];

static settings fill_cases = {{0.3f, 123, 0}, {2, -1, 0}, {2, 0x1p40f, 1}, {0.02f, -1, 1}};
static settings sgd_cases = {
    {0.05f, 0, 0, 0}, {0.05f, 0.9f, 0.7f, 0}, {0.05f, 0.9f, 0, 1}, {0.05f, 0.9f, 0.7f, 1}};
static settings adam_cases = {
    {0.01f, 0, 0, 0.9f, 0.999f, 1e-8f},
    {0.01f, 0.3f, 0, 0.9f, 0.999f, 1e-3f}, // a gradient near 0 has a large error
    {0.01f, 0.9f, 1, 0.9f, 0.999f, 1e-8f}};
// Here the second moments are larger, and so are their errors.
static settings other_adam_cases = {{0.01f, 0.3f, 1, 0.5f, 0.98f, 0.01f},
                                    {0.01f, 0, 0, 0, 0.9f, 1e-4f}};
static settings adadelta_cases = {
    {0.8f, 0, 0.9f, 1e-6f}, {0.8f, 0.9f, 0.9f, 1e-6f}, {0.8f, 0.3f, 0.5f, 0.01f}};

static const struct elementwise {
    const char *name;
    void (*run)(const struct call *c);
    void (*formula)(double *a, const struct call *c); // replaces a value of each array
    int arrays;
    int changed; // the arrays that come first. All but array 0 begin with zeros, as states do
    int steps;   // calls after each other, with new values in the arrays that are not changed
    double tolerance[3]; // of each changed array
    int relative;        // not 0: the array whose numbers are compared relative to their size
    int cases;
    settings *set;
} elementwise[] = {
    {"fill", run_fill, fill_formula, 1, 1, 1, {0}, 0, 4, &fill_cases},
    {"SGD", run_sgd, sgd_formula, 3, 2, 3, {1e-5, 1e-5}, 0, 4, &sgd_cases},
    {"Adam", run_adam, adam_formula, 4, 3, 3, {2e-6, 1e-6, 1e-8}, 0, 3, &adam_cases},
    {"other Adam", run_adam, adam_formula, 4, 3, 3, {2e-6, 1e-6, 2e-7}, 0, 2, &other_adam_cases},
    {"Adadelta",
     run_adadelta,
     adadelta_formula,
     4,
     3,
     3,
     {2e-6, 1e-6, 1e-5},
     2,
     3,
     &adadelta_cases},
};
enum { ELEMENTWISE = sizeof elementwise / sizeof *elementwise };

static void check_values(const struct elementwise *k, int array, const float *got,
                         const double *want, size_t count) {
    double tolerance = array < k->changed ? k->tolerance[array] : 0;
    for (size_t i = 0; i < count; i++) {
        double size = array && array == k->relative ? fabs(want[i]) : fmax(1, fabs(want[i]));
        if (!(fabs((double)got[i] - (float)want[i]) <= tolerance * size))
            fail_msg("%s: value %zu of %zu of array %d is %.9g, not %.9g", k->name, i, count, array,
                     got[i], want[i]);
    }
}

static void apply_formula(const struct elementwise *k, double *const *values, struct call c) {
    for (c.place = 0; c.place < c.count; c.place++) {
        double at_place[MOST_ARRAYS];
        for (int a = 0; a < k->arrays; a++)
            at_place[a] = values[a][c.place];
        k->formula(at_place, &c);
        for (int a = 0; a < k->changed; a++)
            values[a][c.place] = at_place[a];
    }
}

static void run_parts(const struct elementwise *k, struct call c) {
    const size_t cuts[] = {0, c.count / 7, c.count / 2, c.count};
    for (int i = 0; i < 3; i++) {
        c.place = cuts[i];
        c.count = cuts[i + 1] - cuts[i];
        k->run(&c);
        for (int a = 0; a < k->arrays; a++)
            c.a[a] += c.count;
    }
}

// Compares one call for the whole arrays with the formula, and with the bits of calls for parts.
static void check_elementwise(const struct elementwise *k, const float *set, size_t count) {
    size_t bytes = count * sizeof(float);
    struct call whole = {.count = count, .set = set}, parts = whole;
    double *want[MOST_ARRAYS];
    for (int step = 1; step <= k->steps; step++) {
        for (int a = step == 1 ? 0 : k->changed; a < k->arrays; a++) {
            int is_state = a > 0 && a < k->changed;
            float *values =
                random_floats(count, is_state ? 0 : 1, (uint64_t)(MOST_ARRAYS * step + a));
            whole.a[a] = to_device(values, bytes);
            parts.a[a] = to_device(values, bytes);
            want[a] = widen(values, count);
        }
        whole.step = parts.step = step;
        k->run(&whole);
        run_parts(k, parts);
        apply_formula(k, want, whole);
    }
    for (int a = 0; a < k->arrays; a++) {
        const float *got = to_host(whole.a[a], bytes);
        check_values(k, a, got, want[a], count);
        assert_unchanged(parts.a[a], got, bytes);
    }
}

TEST(elementwise_kernels_are_their_formulas) {
    const size_t counts[] = {0, 1, 13, 20001, LARGE};
    for (int k = 0; k < ELEMENTWISE; k++)
        for (int i = 0; i < elementwise[k].cases * 5; i++) {
            check_elementwise(&elementwise[k], (*elementwise[k].set)[i / 5], counts[i % 5]);
            assert_int_equal(free_arrays(NULL), 0);
        }
}

static uint8_t *random_bytes(size_t count, int below, uint64_t seed) {
    uint8_t *values = new_array(count);
    for (size_t i = 0; i < count; i++)
        values[i] = (uint8_t)(rng_bits(seed, i) % (uint64_t)below);
    return values;
}

// The data set ends with the last sample of the batch, so guards follow it directly.
static void check_gather(struct dataset set, int rows, size_t first, int with_order) {
    size_t visited = first + (size_t)rows, inputs = (size_t)set.inputs;
    size_t targets = (size_t)set.targets, batch = (size_t)rows * inputs;
    set.count = with_order ? 300 : visited;
    uint8_t *values = random_bytes(set.count * inputs, 256, 1),
            *labels = random_bytes(set.count * targets, 10, 2);
    uint32_t *order = new_array((visited + 1) * sizeof *order);
    for (size_t i = 0; i < visited; i++)
        order[i] =
            i < visited - 1 ? (uint32_t)(rng_bits(3, i) % set.count) : (uint32_t)set.count - 1;
    set.values = to_device(values, set.count * inputs);
    set.labels = to_device(labels, set.count * targets);
    float *x = new_device_array(batch * sizeof *x), *want = new_array(batch * sizeof *want);
    uint8_t *y = new_device_array((size_t)rows * targets),
            *want_y = new_array((size_t)rows * targets);
    gather_batch(&set, with_order ? to_device(order, visited * sizeof *order) : NULL, first, rows,
                 x, y, stream);
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
    assert_close((float *)to_host(x, batch * sizeof *x), want, batch, 1e-6);
    assert_unchanged(y, want_y, (size_t)rows * targets);
}

// Images of one channel, and samples of several channels and labels.
TEST(gather_batch_normalises) {
    struct dataset set = {.mean = {0.1307f, 0.5f, 0}, .deviation = {0.3081f, 0.2f, 1 / 255.f}};
    check_gather((struct dataset){.shape = {1, 1, 1}, .inputs = 1, .targets = 1}, 0, 2, 0);
    for (int s = 0; s < SHAPES; s++)
        for (size_t first = 0; first < 60; first += 53)
            for (int with_order = 0; with_order < 2; with_order++)
                for (int channels = 1; channels <= 3; channels++) {
                    set.shape.channels = set.targets = channels;
                    set.inputs = channels * shapes[s].cols;
                    check_gather(set, shapes[s].rows, first, with_order);
                }
}

// A token that became 64.99999 would be looked up as 64.
// Sums of integers are exact. On a GPU, all warps of a block find rows of an entry.
TEST(look_up_backward_adds_up_all_rows_of_an_entry) {
    enum { ROWS = 3000, COLUMNS = 131, ENTRIES = 3 };
    float *tokens = new_array(ROWS * sizeof *tokens), *dy = random_floats(ROWS * COLUMNS, 99, 1);
    float want[ENTRIES * COLUMNS] = {0};
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        tokens[i / COLUMNS] = (float)(i / COLUMNS % 7 / 3); // 0, 1 or, rarely, 2
        dy[i] = roundf(dy[i]);
        want[(int)tokens[i / COLUMNS] * COLUMNS + i % COLUMNS] += dy[i];
    }
    float *dtable = new_device_array(sizeof want);
    look_up_backward(to_device(tokens, ROWS * sizeof *tokens),
                     to_device(dy, ROWS * COLUMNS * sizeof *dy), dtable, ROWS, COLUMNS, ENTRIES,
                     stream);
    assert_close(to_host(dtable, sizeof want), want, ENTRIES * COLUMNS, 0);
}

TEST(gather_batch_keeps_tokens_exact) {
    uint8_t bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    struct dataset set = {.count = 2, .shape = {128, 1, 1}, .inputs = 128, .targets = 128};
    set.deviation[0] = 1 / 255.f;
    set.values = set.labels = to_device(bytes, sizeof bytes);
    float *x = new_device_array(sizeof bytes * sizeof *x);
    uint8_t *y = new_device_array(sizeof bytes);
    gather_batch(&set, NULL, 0, 2, x, y, stream);
    const float *got = to_host(x, sizeof bytes * sizeof *got);
    for (int i = 0; i < 256; i++)
        assert_true(got[i] == (float)i);
    assert_unchanged(y, bytes, sizeof bytes);
}

enum { SAMPLES = 2, HEADS = 3, TOKENS = 70, HEAD_WIDTH = 8, WIDTH = HEADS * HEAD_WIDTH };

// Returns the outputs [SAMPLES, queries, WIDTH] of the last tokens of qkv [SAMPLES, TOKENS, 3,
// WIDTH].
static const float *attended(const float *qkv, int queries, int tf32) {
    struct attention_inputs a = {.tf32 = tf32,
                                 .samples = SAMPLES,
                                 .heads = HEADS,
                                 .width = HEAD_WIDTH,
                                 .queries = queries,
                                 .keys = TOKENS,
                                 .before = TOKENS - queries,
                                 .q_pitch = WIDTH,
                                 .key_pitch = 3 * WIDTH};
    size_t bytes = (size_t)(SAMPLES * queries * WIDTH) * sizeof *qkv;
    float *q = new_array(bytes), *y = new_device_array(bytes);
    for (int i = 0; i < SAMPLES * queries; i++)
        memcpy(q + i * WIDTH, qkv + (i / queries * TOKENS + a.before + i % queries) * 3 * WIDTH,
               WIDTH * sizeof *q);
    a.q = to_device(q, bytes);
    a.k = (float *)to_device(qkv, SAMPLES * TOKENS * 3 * WIDTH * sizeof *qkv) + WIDTH;
    a.v = (const float *)a.k + WIDTH;
    attend(&a, y, new_device_array(bytes / HEAD_WIDTH), stream);
    return to_host(y, bytes);
}

// A program with a cache asks for the newest token only.
TEST(the_last_queries_have_the_results_of_all) {
    const float *qkv = random_floats(SAMPLES * TOKENS * 3 * WIDTH, 3, 1);
    const float *all = attended(qkv, TOKENS, 0);
    for (int queries = 1; queries < TOKENS; queries += 20) {
        const float *last = attended(qkv, queries, 0);
        for (int i = 0; i < SAMPLES; i++)
            assert_memory_equal(last + i * queries * WIDTH,
                                all + ((i + 1) * TOKENS - queries) * WIDTH,
                                (size_t)queries * WIDTH * sizeof *all);
    }
}

// A GPU reads and writes 16 bytes at a time only where the address allows it.
static void compare_results_of_attention(int tf32) {
    enum { COUNT = TOKENS * 3 * WIDTH };
    const float *qkv = to_device(random_floats(COUNT, 1, 1), COUNT * sizeof *qkv), *results[3][2];
    struct attention_inputs a = {.tf32 = tf32, .samples = 1, .heads = HEADS, .width = HEAD_WIDTH};
    a.queries = a.keys = TOKENS;
    a.q_pitch = a.key_pitch = 3 * WIDTH;
    a.q = qkv, a.k = qkv + WIDTH, a.v = qkv + 2 * WIDTH;
    for (int skew = 0; skew < 3; skew++) {
        float *y = (float *)new_device_array(COUNT * sizeof *y) + skew % 2;
        float *dqkv = (float *)new_device_array((COUNT + 1) * sizeof *y) + skew / 2;
        float *logs = new_device_array(COUNT * sizeof *y),
              *sums = new_device_array(COUNT * sizeof *y);
        attend(&a, y, logs, stream);
        attend_backward(&a, y, qkv, logs, sums, dqkv, dqkv + WIDTH, dqkv + 2 * WIDTH, stream);
        results[skew][0] = to_host(y, TOKENS * WIDTH * sizeof *y);
        results[skew][1] = to_host(dqkv, COUNT * sizeof *y);
    }
    for (int skew = 1; skew < 3; skew++) {
        assert_memory_equal(results[0][0], results[skew][0], TOKENS * WIDTH * sizeof **results[0]);
        assert_memory_equal(results[0][1], results[skew][1], COUNT * sizeof **results[0]);
    }
}

TEST(results_of_attention_may_begin_at_any_float) {
    compare_results_of_attention(0);
    compare_results_of_attention(1);
}

TEST(results_of_values_may_begin_at_any_float) {
    enum { COLS = 16, COUNT = 3 * COLS };
    float *x = random_floats(COUNT, 1, 1), *bias = to_device(x, COLS * sizeof *x);
    const float *results[2];
    for (int skew = 0; skew < 2; skew++) {
        float *y = (float *)new_device_array((COUNT + 1) * sizeof *y) + skew;
        bias_gelu(to_device(x, COUNT * sizeof *x), bias, y, 3, COLS, CUDA_R_32F, stream);
        results[skew] = to_host(y, COUNT * sizeof *y);
    }
    assert_memory_equal(results[0], results[1], COUNT * sizeof *x);
}

TEST(results_of_norms_may_begin_at_any_float) {
    enum { CHANNELS = 24, COUNT = 3 * 5 * CHANNELS };
    const float *x = to_device(random_floats(COUNT, 1, 1), COUNT * sizeof *x), *results[2][3];
    struct norm n = {3, 5, CHANNELS, .groups = 2, .x = x, .parameters = x};
    for (int skew = 0; skew < 2; skew++) {
        float *y = (float *)new_device_array((COUNT + 1) * sizeof *y) + skew;
        float *dx = (float *)new_device_array((COUNT + 1) * sizeof *y) + skew;
        float *gradients = new_device_array(2 * CHANNELS * sizeof *y);
        n.statistics = new_device_array(3 * 2 * 2 * sizeof *y);
        normalise(&n, y, stream);
        normalise_backward(&n, x, NULL, dx, gradients,
                           new_device_array(norm_slices(3) * 2 * CHANNELS * sizeof *y), stream);
        results[skew][0] = to_host(y, COUNT * sizeof *y);
        results[skew][1] = to_host(dx, COUNT * sizeof *y);
        results[skew][2] = to_host(gradients, 2 * CHANNELS * sizeof *y);
    }
    assert_memory_equal(results[0][0], results[1][0], COUNT * sizeof *x);
    assert_memory_equal(results[0][1], results[1][1], COUNT * sizeof *x);
    assert_memory_equal(results[0][2], results[1][2], 2 * CHANNELS * sizeof *x);
}

TEST(attention_in_tf32_is_near_fp32) {
    const float *qkv = random_floats(SAMPLES * TOKENS * 3 * WIDTH, 1, 1);
    assert_close(attended(qkv, TOKENS, 1), attended(qkv, TOKENS, 0), SAMPLES * TOKENS * WIDTH,
                 1e-3);
}

// Where GELU is nearly x, its gradient is 1 and a small difference of nearly equal numbers.
TEST(gradients_of_gelu_keep_their_digits) {
    enum { COUNT = 101 };
    float x[COUNT], ones[COUNT], want[COUNT];
    for (int i = 0; i < COUNT; i++) {
        double z = x[i] = 3 + 0.05f * (float)i, c = sqrt(2 / acos(-1)), a = 0.044715;
        double t = tanh(c * (z + a * z * z * z));
        want[i] = (float)((1 + t) / 2 + z / 2 * (1 - t * t) * c * (1 + 3 * a * z * z));
        ones[i] = 1;
    }
    float zero[COUNT] = {0}, *dx = new_device_array(sizeof x);
    bias_gelu_backward(to_device(x, sizeof x), to_device(zero, sizeof zero),
                       to_device(ones, sizeof ones), dx, CUDA_R_32F, new_device_array(sizeof x),
                       new_device_array(sizeof x), 1, COUNT, stream);
    assert_close(to_host(dx, sizeof x), want, COUNT, 5e-7);
}

TEST(all_changes_of_images_are_equally_likely) {
    enum { IMAGES = 16200, CHANGES = 2 * 9 * 9 };
    const struct augmentation a = {.most_shift = 4, .flip = 1};
    int counts[CHANGES] = {0};
    double chi_squared = 0, expected = (double)IMAGES / CHANGES;
    for (uint64_t i = 0; i < IMAGES; i++) {
        struct image_change c = image_change(&a, 7, i);
        assert_true(abs(c.shift_y) <= 4 && abs(c.shift_x) <= 4);
        counts[(c.mirrored * 9 + c.shift_y + 4) * 9 + c.shift_x + 4]++;
    }
    for (int i = 0; i < CHANGES; i++)
        chi_squared += pow(counts[i] - expected, 2) / expected;
    // 161 degrees of freedom: 99.99 % of random tables are between these.
    assert_true(chi_squared > 101 && chi_squared < 239);
}

static void check_augment_images(int images, struct shape in, int flip) {
    struct augmentation a = {in, 4, flip, {0.5f, 0.25f, -1, 2}};
    size_t values = (size_t)shape_size(in), bytes = (size_t)images * values * sizeof(float);
    float *x = random_floats(bytes / 4, 1, 1), *want = new_array(bytes), *to = want;
    float *y = new_device_array(bytes);
    augment_images(to_device(x, bytes), y, images, &a, 3, 1ull << 40, stream);
    for (int image = 0; image < images; image++) {
        struct image_change change = image_change(&a, 3, (1ull << 40) + (uint64_t)image);
        for (int i = 0; i < in.height * in.width; i++)
            for (int c = 0; c < in.channels; c++) {
                int row = i / in.width + change.shift_y, column = i % in.width;
                column = (change.mirrored ? in.width - 1 - column : column) + change.shift_x;
                int inside = row >= 0 && row < in.height && column >= 0 && column < in.width;
                int from = (row * in.width + column) * in.channels + c;
                *to++ = inside ? x[(size_t)image * values + (size_t)from] : a.black[c];
            }
    }
    assert_unchanged(y, want, bytes);
}

TEST(augment_images_shifts_and_mirrors) {
    const struct shape sizes[] = {{1, 1, 1}, {28, 28, 1}, {5, 17, 4}, {32, 32, 3}};
    for (int s = 0; s < 4; s++)
        for (int images = 0; images < 20; images += 6)
            check_augment_images(images, sizes[s], images % 4);
}

// Adds to stats in the same way as the kernel.
static void reference_loss(const float *logits, const uint8_t *labels, int rows, int classes,
                           double scale, float *dlogits, struct stats *stats, double smoothing) {
    for (int r = 0; r < rows; r++) {
        const float *z = logits + r * classes;
        int largest = 0; // the first of equal ones
        double sum = 0;
        for (int c = 1; c < classes; c++)
            largest = z[c] > z[largest] ? c : largest;
        for (int c = 0; c < classes; c++)
            sum += exp((double)z[c] - z[largest]);
        for (int c = 0; c < classes; c++) { // share: of label c in the loss
            double share = (1 - smoothing) * (c == labels[r]) + smoothing / classes;
            double below = (double)z[c] - z[largest];
            dlogits[r * classes + c] = (float)((exp(below) / sum - share) * scale);
            stats->loss += share * (log(sum) - below);
        }
        stats->correct += largest == labels[r];
        stats->samples++;
    }
}

// Makes lanes with the values of earlier batches, which the kernel adds to, and their sums.
static struct stats *new_stats(struct stats *sums) {
    struct stats *lanes = new_array(STATS_LANES * sizeof *lanes);
    for (size_t i = 0; i < STATS_LANES; i++) {
        lanes[i] = (struct stats){rng_uniform(7, i), (double)(rng_bits(8, i) % 9), (double)(i % 9)};
        sums->loss += lanes[i].loss;
        sums->correct += lanes[i].correct;
        sums->samples += lanes[i].samples;
    }
    return to_device(lanes, STATS_LANES * sizeof *lanes);
}

static struct stats sum_of(const struct stats *lanes) {
    struct stats *sums = new_device_array(sizeof *sums);
    sum_stats(lanes, sums, stream);
    return *(struct stats *)to_host(sums, sizeof *sums);
}

static void check_loss(const float *logits, const uint8_t *labels, int rows, int classes,
                       float scale, float smoothing) {
    size_t count = (size_t)rows * (size_t)classes, bytes = count * sizeof(float);
    float *device_logits = to_device(logits, bytes), *want = new_array(bytes);
    uint8_t *device_labels = to_device(labels, (size_t)rows);
    for (int gradients = 0; gradients < 2; gradients++) {
        struct stats sums = {0}, *stats = new_stats(&sums);
        float *dlogits = gradients ? new_device_array(bytes) : NULL;
        softmax_cross_entropy(device_logits, device_labels, rows, classes, scale, dlogits, stats,
                              smoothing, stream);
        reference_loss(logits, labels, rows, classes, scale, want, &sums, smoothing);
        if (gradients)
            assert_close((float *)to_host(dlogits, bytes), want, count, 1e-6);
        struct stats got = sum_of(stats);
        assert_true(fabs(got.loss - sums.loss) <= 1e-5 * sums.loss);
        assert_true(got.correct == sums.correct && got.samples == sums.samples);
    }
}

TEST(loss_is_cross_entropy) {
    const struct matrix batches[] = {
        {0, 4}, {1, 1}, {1, 10}, {2, 2}, {129, 10}, {65, 256}, {SANITIZED ? 1100 : 5000, 10}};
    // The spread of the logits, and the smoothing of the labels. All logits are equal with spread
    // 0, and the exponentials of those with 1e4 are too large even for a double.
    const float cases[][2] = {{1, 0}, {0, 0}, {100, 0}, {1e4f, 0}, {5, 0.1f}, {5, 0.4f}, {5, 1}};
    for (int b = 0; b < 7; b++)
        for (int c = 0; c < 7; c++) {
            int rows = batches[b].rows, classes = batches[b].cols;
            float *logits = random_floats((size_t)(rows * classes), cases[c][0], 1);
            check_loss(logits, random_bytes((size_t)rows, classes, 2), rows, classes,
                       c == 0 ? 1 : 1.f / (float)rows, cases[c][1]);
        }
}

TEST(loss_keeps_nan) {
    for (int at = 0; at < 5; at++) {
        float logits[5] = {1, 2, 3, 4, 5};
        const uint8_t label = 2;
        struct stats sums = {0}, *stats = new_stats(&sums);
        logits[at] = NAN;
        softmax_cross_entropy(to_device(logits, sizeof logits), to_device(&label, 1), 1, 5, 1, NULL,
                              stats, 0, stream);
        assert_true(isnan(sum_of(stats).loss));
    }
}

// Sums of integers are exact.
TEST(clip_to_norm_limits_the_root_of_the_sum_of_squares) {
    const size_t counts[] = {0, 1, 1000, SQUARES_LANES, 3 * SQUARES_LANES + 1, LARGE};
    for (int c = 0; c < 6; c++)
        for (float share = 0.25f; share <= 4; share *= 16) { // of the norm that is allowed
            float *x = random_floats(counts[c], 1000, 1);
            double want = 0, *sums = new_device_array(SQUARES_LANES * sizeof *sums);
            for (size_t i = 0; i < counts[c]; i++) {
                x[i] = roundf(x[i]);
                want += x[i] * x[i];
            }
            float *device_x = to_device(x, counts[c] * sizeof *x);
            sum_squares(device_x, counts[c], sums, stream);
            assert_true(*(double *)to_host(sums, sizeof *sums) == want);
            double norm = sqrt(want) + 1e-6, most = share * norm;
            clip_to_norm(device_x, counts[c], sums, (float)most, stream);
            for (size_t i = 0; i < counts[c] && share < 1; i++)
                x[i] = (float)(x[i] * ((float)most / norm));
            assert_close((float *)to_host(device_x, counts[c] * sizeof *x), x, counts[c],
                         share < 1 ? 2e-7 : 0);
        }
}

TEST(clip_to_norm_keeps_nan) {
    const double sum = NAN;
    const float x = 1;
    float *device_x = to_device(&x, sizeof x);
    clip_to_norm(device_x, 1, to_device(&sum, sizeof sum), 1, stream);
    assert_true(isnan(*(float *)to_host(device_x, sizeof x)));
}

// All bfloat16s, and floats between each of them and the next one. Upper halves of a NaN alone may
// be none.
TEST(bfloat16_is_rounded_to_nearest_even) {
    static const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { COUNT = 6 << 16 };
    uint32_t *bits = new_array(COUNT * sizeof *bits);
    for (uint32_t i = 0; i < COUNT; i++)
        bits[i] = i / 6 << 16 | lower[i % 6];
    uint16_t *y = new_device_array(COUNT * sizeof *y);
    float *wide = new_device_array(COUNT * sizeof *wide);
    to_bfloat16(y, to_device(bits, COUNT * sizeof *bits), COUNT, stream);
    from_bfloat16(wide, y, COUNT, stream);
    const uint16_t *got = to_host(y, COUNT * sizeof *y);
    const uint32_t *back = to_host(wide, COUNT * sizeof *back);
    for (uint32_t i = 0; i < COUNT; i++)
        if ((bits[i] & 0x7fffffff) > 0x7f800000) {
            assert_true((got[i] & 0x7fff) > 0x7f80 && (back[i] & 0x7fffffff) > 0x7f800000);
        } else {
            assert_int_equal(got[i], (bits[i] + 0x7fff + (bits[i] >> 16 & 1)) >> 16);
            assert_int_equal(back[i], (uint32_t)got[i] << 16);
        }
}

TEST(checksums_are_those_of_zlib) {
    static const size_t counts[] = {0, 1, 65535, 65536, 65537, 200000};
    for (int i = 0; i < 6; i++) {
        size_t bytes = counts[i] * sizeof(float);
        const float *x = random_floats(counts[i], 1, 1);
        assert_int_equal(device_checksum(to_device(x, bytes), counts[i], stream),
                         crc32_z(0, (const unsigned char *)x, bytes));
    }
}

int main(void) {
    // The CPU device shares large arrays out even where there is one core.
    setenv("OMP_NUM_THREADS", "3", 0);
    return run_all_tests((struct around){make_stream, destroy_stream, .end = free_arrays});
}
