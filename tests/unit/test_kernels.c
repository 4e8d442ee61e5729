// Tests of the kernels, on the GPU or on the CPU device. They compare elementwise kernels, the loss
// and the norm with the same formula in double precision. test_layers.c does so with the kernels of
// layers. test_kernels_cu is the same program with the GPU's kernels, which host_cuda.h builds for
// the host.
#include "common/data/data.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "tests/unit/device_arrays.h"
#include "tests/unit/test_stream.h"
#include "zoo/kernels/attention_kernels.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/kernels/image_change.h"
#include "zoo/kernels/image_kernels.h"
#include "zoo/kernels/sequence_kernels.h"
#include "zoo/kernels/value_kernels.h"

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
enum { MOST_ARRAYS = 4 }; // of an elementwise kernel

// Numbers beside the multiples of each divisor, where a wrong factor shows, up to the largest ones.
// Only test_kernels_cu has the function, which is in splits.cu.
int cu_splits(unsigned i, unsigned n) __attribute__((weak));

TEST(a_factor_and_a_shift_divide) {
    for (unsigned n = 1; cu_splits && n < 1u << 31; n += n / 7 + 1)
        for (unsigned k = 0; k <= 1000; k++) {
            unsigned most = ((1u << 31) - 1) / n,
                     multiple = (unsigned)((uint64_t)most * k / 1000) * n;
            assert_true(cu_splits(multiple, n));
            assert_true(cu_splits(multiple ? multiple - 1 : 0, n));
            assert_true(cu_splits((1u << 31) - 1 - k, n));
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

TEST(rng_uniform_is_uniform) {
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

// Its sum of four parts is at most sqrt(12) deviations from 0, and its fourth moment 3 - 1.2 / 4.
TEST(rng_normal_is_nearly_normal) {
    enum { COUNT = 1 << 20 };
    double moments[5] = {0}, product = 0, largest = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = rng_normal(42, i);
        for (int k = 1; k <= 4; k++)
            moments[k] += pow(x, k) / COUNT;
        product += x * rng_normal(42, i + 1) / COUNT;
        largest = fmax(largest, fabs(x));
    }
    assert_true(fabs(moments[1]) < 0.007); // seven standard deviations, as the others
    assert_true(fabs(moments[2] - 1) < 0.009);
    assert_true(fabs(moments[3]) < 0.025);
    assert_true(fabs(moments[4] - 2.7) < 0.05);
    assert_true(fabs(product) < 0.007);
    assert_true(largest > 3 && largest < sqrt(12));
}

// A call of a kernel whose results at place i depend only on the values at place i of its arrays.
struct call {
    float *a[MOST_ARRAYS]; // on the device
    size_t count;
    uint64_t place; // of the first value in the whole arrays, or of the value of the formula
    const float *set;
    long step; // from 1
};

// Such a kernel. To test another one, add a function that calls it, its formula, a description, and
// its settings to elementwise_cases.
struct elementwise {
    const char *name;
    void (*run)(const struct call *c);
    void (*formula)(double *a, const struct call *c); // replaces a value of each array
    int arrays;
    int changed; // the arrays that come first. All but array 0 begin with zeros, as states do
    int steps;   // calls after each other, with new values in the arrays that are not changed
    double tolerance[3]; // of each changed array
    int relative;        // not 0: the array whose numbers are compared relative to their size
    int special;         // 1: zeros, infinities and NaN are tried, too
    float bound;         // of the values; 0: 1
};

static void run_fill(const struct call *c) {
    fill(c->a[0], c->count, c->set[0], stream);
}

static void fill_formula(double *a, const struct call *c) {
    a[0] = c->set[0];
}

static const struct elementwise fill_test = {"fill", run_fill, fill_formula, 1, 1, 1, {0}};

static uint64_t random_number(const struct call *c) {
    return c->place + (c->set[1] < 0 ? UINT64_MAX - 1 : (uint64_t)c->set[1]);
}

static void run_fill_uniform(const struct call *c) {
    fill_uniform(c->a[0], c->count, c->set[0], 7, random_number(c), stream);
}

static void fill_uniform_formula(double *a, const struct call *c) {
    a[0] = c->set[0] * (2. * rng_uniform(7, random_number(c)) - 1);
}

static const struct elementwise fill_uniform_test = {
    "fill_uniform", run_fill_uniform, fill_uniform_formula, 1, 1, 1, {0}};

static void run_fill_normal(const struct call *c) {
    fill_normal(c->a[0], c->count, c->set[0], 7, random_number(c), stream);
}

static void fill_normal_formula(double *a, const struct call *c) {
    a[0] = c->set[0] * rng_normal(7, random_number(c));
}

static const struct elementwise fill_normal_test = {
    "fill_normal", run_fill_normal, fill_normal_formula, 1, 1, 1, {0}};

// With set[2], the values are columns of a larger array: set[2] of each set[3], from value 5 on.
static void run_drop_values(const struct call *c) {
    struct numbers numbers = {.first = random_number(c)};
    if (c->set[2] > 0)
        numbers = (struct numbers){random_number(c) - c->place, 5 + c->place, (uint64_t)c->set[2],
                                   (uint64_t)c->set[3]};
    drop_values(c->a[1], c->a[0], CUDA_R_32F, c->count, c->set[0], 7, numbers, stream);
}

static void drop_values_formula(double *a, const struct call *c) {
    uint64_t number = random_number(c), value = 5 + c->place, width = (uint64_t)c->set[2];
    if (width)
        number += value / width * (uint64_t)c->set[3] + value % width - c->place;
    a[0] = rng_uniform(7, number) < c->set[0] ? 0 : a[1] / (1 - c->set[0]);
}

static const struct elementwise drop_values_test = {
    "drop_values", run_drop_values, drop_values_formula, 2, 1, 1, {1e-6}};

static void run_add_relu(const struct call *c) {
    add_relu(c->a[1], c->a[2], c->a[0], c->count, stream);
}

static void add_relu_formula(double *a, const struct call *c) {
    a[0] = a[1] + a[2] < 0 ? 0 : a[1] + a[2]; // a ReLU must not hide a NaN
}

static const struct elementwise add_relu_test = {"add_relu", run_add_relu, add_relu_formula, 3, 1,
                                                 1,          {0},          .special = 1};

static void run_relu_backward(const struct call *c) {
    relu_backward(c->a[0], c->a[1], c->count, stream);
}

static void relu_backward_formula(double *a, const struct call *c) {
    a[0] = a[1] <= 0 ? 0 : a[0];
}

static const struct elementwise relu_backward_test = {
    "relu_backward", run_relu_backward, relu_backward_formula, 2, 1, 1, {0}, .special = 1};

static void run_add_to(const struct call *c) {
    add_to(c->a[0], c->a[1], c->count, stream);
}

static void add_to_formula(double *a, const struct call *c) {
    a[0] += a[1];
}

static const struct elementwise add_to_test = {"add_to", run_add_to, add_to_formula, 2, 1,
                                               1,        {0},        .special = 1};

// The values are a row, so that each has a bias of its own: the last array.
static void run_gelu(const struct call *c) {
    bias_gelu(c->a[1], c->a[2], c->a[0], 1, (int)c->count, CUDA_R_32F, stream);
}

static void gelu_formula(double *a, const struct call *c) {
    double z = a[1] + a[2];
    a[0] = z / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (z + 0.044715 * pow(z, 3))));
}

static const struct elementwise gelu_test = {"bias_gelu", run_gelu, gelu_formula, 3,
                                             1,           1,        {2e-6},       .bound = 40};

static void run_gelu_backward(const struct call *c) {
    size_t bytes = c->count * sizeof(float);
    bias_gelu_backward(c->a[1], c->a[3], c->a[2], c->a[0], CUDA_R_32F, new_device_array(bytes),
                       new_device_array(bytes), 1, (int)c->count, stream);
}

static void gelu_backward_formula(double *a, const struct call *c) {
    double slope = sqrt(2 / acos(-1)), x = a[1] + a[3],
           t = tanh(slope * (x + 0.044715 * pow(x, 3)));
    a[0] = a[2] * ((1 + t) / 2 + x / 2 * (1 - t * t) * slope * (1 + 3 * 0.044715 * x * x));
}

static const struct elementwise gelu_backward_test = {
    "bias_gelu_backward", run_gelu_backward, gelu_backward_formula, 4, 1, 1, {2e-5}, .bound = 40};

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

static const struct elementwise sgd_test = {"SGD", run_sgd, sgd_formula, 3, 2, 3, {1e-5, 1e-5}};

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

static const struct elementwise adam_test = {"Adam", run_adam, adam_formula,      4,
                                             3,      3,        {2e-6, 1e-6, 1e-8}};
// Here the second moments are larger, and so are their errors.
static const struct elementwise adam_betas_test = {
    "Adam with other betas", run_adam, adam_formula, 4, 3, 3, {2e-6, 1e-6, 2e-7}};

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

static const struct elementwise adadelta_test = {
    "Adadelta", run_adadelta, adadelta_formula, 4, 3, 3, {2e-6, 1e-6, 1e-5}, .relative = 2};

static const struct elementwise_case {
    const struct elementwise *kernel;
    float set[6];
} elementwise_cases[] = {
    {&fill_test, {0.3f}},
    {&fill_uniform_test, {0.3f, 0}},
    {&fill_uniform_test, {0.3f, 123}},
    {&fill_uniform_test, {2, 0x1p40f}},
    {&fill_uniform_test, {2, -1}},
    {&fill_normal_test, {0.02f, 123}},
    {&fill_normal_test, {2, 0x1p40f}},
    {&fill_normal_test, {2, -1}},
    {&drop_values_test, {0, 0x1p40f}},
    {&drop_values_test, {0.2f, 0x1p40f}},
    {&drop_values_test, {1, 0x1p40f}},
    {&drop_values_test, {0.2f, 0x1p40f, 3, 7}},
    {&add_relu_test, {0}},
    {&relu_backward_test, {0}},
    {&add_to_test, {0}},
    {&gelu_test, {0}},
    {&gelu_backward_test, {0}},
    {&sgd_test, {0.05f, 0, 0, 0}},
    {&sgd_test, {0.05f, 0.9f, 0, 0}},
    {&sgd_test, {0.05f, 0, 0.7f, 0}},
    {&sgd_test, {0.05f, 0.9f, 0.7f, 0}},
    {&sgd_test, {0.05f, 0.9f, 0, 1}},
    {&sgd_test, {0.05f, 0.9f, 0.7f, 1}},
    {&adam_test, {0.01f, 0, 0, 0.9f, 0.999f, 1e-8f}},
    {&adam_test, {0.01f, 0.3f, 0, 0.9f, 0.999f, 1e-3f}}, // a gradient near 0 has a large error
    {&adam_test, {0.01f, 0.9f, 1, 0.9f, 0.999f, 1e-8f}},
    {&adam_betas_test, {0.01f, 0.3f, 1, 0.5f, 0.98f, 0.01f}},
    {&adam_betas_test, {0.01f, 0, 0, 0, 0.9f, 1e-4f}},
    {&adadelta_test, {0.8f, 0, 0.9f, 1e-6f}},
    {&adadelta_test, {0.8f, 0.3f, 0.9f, 1e-6f}},
    {&adadelta_test, {0.8f, 0.9f, 0.9f, 1e-6f}},
    {&adadelta_test, {0.8f, 0, 0.5f, 0.01f}},
};
enum { CASES = sizeof elementwise_cases / sizeof *elementwise_cases };

static void check_values(const struct elementwise_case *e, int array, const float *got,
                         const double *wanted, size_t count) {
    const struct elementwise *k = e->kernel;
    double tolerance = array < k->changed ? k->tolerance[array] : 0;
    for (size_t i = 0; i < count; i++) {
        float want = (float)wanted[i];
        double size = array && array == k->relative ? fabs(want) : fmax(1, fabs(want));
        int near = isfinite(want) ? fabs((double)got[i] - want) <= tolerance * size
                                  : got[i] == want || (isnan(got[i]) && isnan(want));
        if (!near)
            fail_msg("case %d, %s: value %zu of %zu of array %d is %.9g, not %.9g",
                     (int)(e - elementwise_cases), k->name, i, count, array, got[i], want);
    }
}

// The values of an array at the beginning of a step. Special values of one array meet those of the
// next one in all combinations.
static float *new_values(const struct elementwise *k, int array, size_t count, int step) {
    const float special[] = {0, -0.f, 1e-45f, -1e-45f, INFINITY, -INFINITY, NAN};
    float bound = k->bound ? k->bound : 1;
    float *values = random_floats(count, bound, (uint64_t)(MOST_ARRAYS * step + array));
    for (size_t i = 0; k->special && i < 49 && i < count; i++)
        values[i] = special[(array % 2 ? i : i / 7) % 7];
    for (size_t i = 0; array > 0 && array < k->changed && i < count; i++)
        values[i] = 0;
    return values;
}

// Replaces the values at all places.
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

// Calls the kernel for parts of the arrays.
static void run_parts(const struct elementwise *k, struct call c) {
    const size_t cuts[] = {0, c.count / 7, c.count / 2, c.count - c.count / 3, c.count};
    for (int i = 0; i < 4; i++) {
        c.place = cuts[i];
        c.count = cuts[i + 1] - cuts[i];
        k->run(&c);
        for (int a = 0; a < k->arrays; a++)
            c.a[a] += c.count;
    }
}

// Compares one call for the whole arrays with the formula, and with the bits of calls for parts.
static void check_elementwise(const struct elementwise_case *e, size_t count) {
    const struct elementwise *k = e->kernel;
    size_t bytes = count * sizeof(float);
    struct call whole = {.count = count, .set = e->set}, parts = whole;
    double *want[MOST_ARRAYS];
    for (int step = 1; step <= k->steps; step++) {
        for (int a = step == 1 ? 0 : k->changed; a < k->arrays; a++) {
            float *values = new_values(k, a, count, step);
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
        check_values(e, a, got, want[a], count);
        assert_unchanged(parts.a[a], got, bytes);
    }
}

TEST(elementwise_kernels_are_their_formulas) {
    const size_t counts[] = {0, 1, 13, 20001, LARGE};
    for (int i = 0; i < CASES * 5; i++) {
        check_elementwise(&elementwise_cases[i / 5], counts[i % 5]);
        assert_int_equal(free_arrays(NULL), 0);
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
TEST(gather_batch_normalises) {
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

// A token that became 64.99999 would be looked up as 64.
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

// A sum of floats in the order of the rows has the same bits on each device. test_layers.c compares
// it with the formula.
TEST(look_up_backward_adds_rows_in_their_order) {
    enum { ROWS = 5003, WIDTH = 289, ENTRIES = 65 };
    float *tokens = new_array(ROWS * sizeof *tokens), *dy = random_floats(ROWS * WIDTH, 1, 2);
    static float want[ENTRIES * WIDTH];
    float *dtable = new_device_array(sizeof want);
    for (size_t row = 0; row < ROWS; row++) {
        tokens[row] = (float)(rng_bits(1, row) % (ENTRIES - 1)); // the last entry has no row
        for (size_t c = 0; c < WIDTH; c++)
            want[(size_t)tokens[row] * WIDTH + c] += dy[row * WIDTH + c];
    }
    look_up_backward(to_device(tokens, ROWS * sizeof *tokens),
                     to_device(dy, ROWS * WIDTH * sizeof *dy), dtable, ROWS, WIDTH, ENTRIES,
                     stream);
    assert_unchanged(dtable, want, sizeof want);
}

// Other values of a window get no gradient. NaN is the largest of all.
TEST(max_pool_finds_the_first_largest_value) {
    const struct windows w = {{2, 2, 1}, 2, 2, 0, 1, 1};
    const float x[4][4] = {{1, 1, 1, 1}, {0, 2, 2, 1}, {5, NAN, 9, NAN}, {-INFINITY, -9, -9, -9}};
    const int first[4] = {0, 1, 1, 1};
    const float dy[4] = {1, 2, 3, 4};
    float want_y[4], want_dx[4][4] = {{0}};
    float *device_x = to_device(x, sizeof x), *y = new_device_array(sizeof want_y),
          *dx = new_device_array(sizeof x);
    for (int i = 0; i < 4; i++) {
        want_y[i] = x[i][first[i]];
        want_dx[i][first[i]] = dy[i];
    }
    max_pool(device_x, y, 4, &w, stream);
    max_pool_backward(device_x, to_device(dy, sizeof dy), dx, 4, &w, stream);
    assert_unchanged(y, want_y, sizeof want_y);
    assert_unchanged(dx, want_dx, sizeof want_dx);
}

enum { SAMPLES = 2, HEADS = 3, TOKENS = 70, HEAD_WIDTH = 8, WIDTH = HEADS * HEAD_WIDTH };

struct attended {
    const float *y, *logs; // [SAMPLES, queries, WIDTH], [SAMPLES, HEADS, queries]
};

// Queries are the last tokens, and see the keys begin..end of qkv [SAMPLES, TOKENS, 3, WIDTH].
static struct attended attended(const float *qkv, int queries, int begin, int end, int tf32) {
    struct attention_inputs a = {.tf32 = tf32,
                                 .samples = SAMPLES,
                                 .heads = HEADS,
                                 .width = HEAD_WIDTH,
                                 .queries = queries,
                                 .keys = end - begin,
                                 .before = TOKENS - queries - begin,
                                 .q_pitch = WIDTH,
                                 .key_pitch = 2 * WIDTH};
    size_t rows = SAMPLES * (size_t)queries, keys = SAMPLES * (size_t)(end - begin);
    float *q = new_array(rows * WIDTH * sizeof *q), *k = new_array(keys * 2 * WIDTH * sizeof *k);
    for (size_t i = 0; i < rows; i++) {
        size_t token =
            i / (size_t)queries * TOKENS + TOKENS - (size_t)queries + i % (size_t)queries;
        memcpy(q + i * WIDTH, qkv + token * 3 * WIDTH, WIDTH * sizeof *q);
    }
    for (size_t i = 0; i < keys; i++) {
        size_t token = i / (size_t)a.keys * TOKENS + (size_t)begin + i % (size_t)a.keys;
        memcpy(k + i * 2 * WIDTH, qkv + (token * 3 + 1) * WIDTH, 2 * WIDTH * sizeof *k);
    }
    float *device_k = to_device(k, keys * 2 * WIDTH * sizeof *k);
    float *y = new_device_array(rows * WIDTH * sizeof *y);
    float *logs = new_device_array(rows * HEADS * sizeof *logs);
    a.q = to_device(q, rows * WIDTH * sizeof *q);
    a.k = device_k;
    a.v = device_k + WIDTH;
    attend(&a, y, logs, stream);
    return (struct attended){to_host(y, rows * WIDTH * sizeof *y),
                             to_host(logs, rows * HEADS * sizeof *logs)};
}

// A program with a cache asks for the newest token only.
TEST(the_last_queries_have_the_results_of_all) {
    const float *qkv = random_floats(SAMPLES * TOKENS * 3 * WIDTH, 3, 1);
    struct attended all = attended(qkv, TOKENS, 0, TOKENS, 0);
    for (int queries = 1; queries < TOKENS; queries += 20) {
        struct attended last = attended(qkv, queries, 0, TOKENS, 0);
        for (int i = 0; i < SAMPLES; i++)
            assert_memory_equal(last.y + i * queries * WIDTH,
                                all.y + ((i + 1) * TOKENS - queries) * WIDTH,
                                (size_t)queries * WIDTH * sizeof *all.y);
    }
}

// The ranks of context parallelism would combine results for their own keys in this way.
TEST(results_for_parts_of_the_keys_combine) {
    enum { QUERIES = 20, FIRST = 43 };
    const float *qkv = random_floats(SAMPLES * TOKENS * 3 * WIDTH, 3, 1);
    struct attended all = attended(qkv, QUERIES, 0, TOKENS, 0),
                    a = attended(qkv, QUERIES, 0, FIRST, 0),
                    b = attended(qkv, QUERIES, FIRST, TOKENS, 0);
    for (int i = 0; i < SAMPLES * QUERIES * WIDTH; i++) {
        int token = i / WIDTH, head = i % WIDTH / HEAD_WIDTH;
        int log = (token / QUERIES * HEADS + head) * QUERIES + token % QUERIES;
        float share = 1 / (1 + expf(b.logs[log] - a.logs[log]));
        float y = share * a.y[i] + (1 - share) * b.y[i];
        assert_close(&y, &all.y[i], 1, 1e-5);
    }
}

TEST(attention_in_tf32_is_near_fp32) {
    const float *qkv = random_floats(SAMPLES * TOKENS * 3 * WIDTH, 1, 1);
    struct attended fp32 = attended(qkv, TOKENS, 0, TOKENS, 0),
                    tf32 = attended(qkv, TOKENS, 0, TOKENS, 1);
    assert_close(tf32.y, fp32.y, SAMPLES * TOKENS * WIDTH, 1e-3);
}

// test_augmentation.c tests which changes there are, and how often.
static void check_augment_images(int images, struct shape in, int flip) {
    struct augmentation a = {in, 4, flip, {0.5f, 0.25f, -1, 2}};
    size_t values = (size_t)shape_size(in), bytes = (size_t)images * values * sizeof(float);
    float *x = random_floats(bytes / 4, 1, 1), *want = new_array(bytes), *to = want;
    float *device_x = to_device(x, bytes), *y = new_device_array(bytes);
    augment_images(device_x, y, images, &a, 3, 1ull << 40, stream);
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
    assert_unchanged(device_x, x, bytes);
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
    struct stats *before = to_host(lanes, STATS_LANES * sizeof *lanes);
    sum_stats(lanes, sums, stream);
    assert_unchanged(lanes, before, STATS_LANES * sizeof *lanes);
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

TEST(loss_is_cross_entropy) {
    const struct matrix batches[] = {{1, 1},    {1, 10},   {2, 2},
                                     {129, 10}, {65, 256}, {SANITIZED ? 1100 : 5000, 10}};
    const struct {
        float spread, smoothing; // of the logits, and of the labels
    } cases[] = {{1, 0}, {10, 0}, {100, 0}, {5, 0.1f}, {5, 0.4f}, {5, 0.7f}, {5, 1}};
    for (int b = 0; b < 6; b++)
        for (int c = 0; c < 7; c++) {
            int rows = batches[b].rows, classes = batches[b].cols;
            float *logits = random_floats((size_t)(rows * classes), cases[c].spread, 1);
            check_loss(logits, random_bytes((size_t)rows, classes, 2), rows, classes,
                       c == 0 ? 1 : 1.f / (float)rows, cases[c].smoothing);
        }
}

// exp(1e4) is too large even for a double.
TEST(loss_does_not_overflow) {
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

TEST(loss_takes_the_first_of_equal_logits) {
    const float logits[64] = {[5] = 1, [37] = 1, [40] = 1};
    const uint8_t label = 5;
    struct stats none = {0}, *stats = new_stats(&none), *sums = new_device_array(sizeof *sums);
    softmax_cross_entropy(to_device(logits, sizeof logits), to_device(&label, 1), 1, 64, 1, NULL,
                          stats, 0, stream);
    sum_stats(stats, sums, stream);
    assert_true(((struct stats *)to_host(sums, sizeof *sums))->correct == none.correct + 1);
}

TEST(loss_keeps_nan) {
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
TEST(loss_repeats_its_bits) {
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

// Even the sign of a zero must not change, so runs without weight decay keep their bits.
TEST(zero_decay_changes_no_bit) {
    const float g[] = {-0.f, -0.f, 0, 0, -0.f, 1}, v[] = {-0.f, 0, -0.f, 0, -0.f, -0.f};
    float p[] = {1, 1, 1, -1, -1, INFINITY}, want[6];
    float *device_p = to_device(p, sizeof p), *device_v = to_device(v, sizeof v);
    for (int i = 0; i < 6; i++)
        want[i] = 0.9f * v[i] + g[i];
    sgd_step(device_p, to_device(g, sizeof g), device_v, 6, 0.5f, 0.9f, 0, stream);
    assert_unchanged(device_v, want, sizeof want);
}

static double device_sum_squares(const float *device_x, size_t count) {
    double *sums = new_device_array(SQUARES_LANES * sizeof *sums);
    sum_squares(device_x, count, sums, stream);
    return *(double *)to_host(sums, sizeof *sums);
}

static const size_t norm_counts[] = {0, 1, 1000, SQUARES_LANES, 3 * SQUARES_LANES + 1, LARGE};

// The sum has the order of the header, with any number of threads. Sums of integers are exact.
TEST(sum_squares_repeats_its_bits) {
    for (int c = 0; c < 12; c++) {
        size_t count = norm_counts[c / 2];
        float *x = random_floats(count, 1, 1);
        double want = 0;
        for (size_t i = 0; i < count; i++) {
            x[i] = c % 2 ? roundf(1000 * x[i]) : x[i];
            want += (double)x[i] * x[i];
        }
        float *device_x = to_device(x, count * sizeof *x);
        double first = device_sum_squares(device_x, count);
        assert_true(fabs(first - want) <= (c % 2 ? 0 : 1e-12 * want));
        for (int again = 0; again < 10; again++)
            assert_true(device_sum_squares(device_x, count) == first);
        assert_unchanged(device_x, x, count * sizeof *x);
    }
}

TEST(clip_to_norm_clips) {
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
TEST(clip_to_norm_keeps_nan) {
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

TEST(every_bfloat16_survives_a_round_trip) {
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

TEST(to_bfloat16_rounds_to_nearest_even) {
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

// A launch over no rows succeeds on a GPU, even at the end of an array.
TEST(empty_batches_are_allowed) {
    float *x = new_device_array(8 * sizeof *x), *end = x + 8;
    uint8_t *bytes = new_device_array(8), untouched[8 * sizeof *x];
    struct stats *lanes = random_stats(), *stats = to_device(lanes, STATS_LANES * sizeof *lanes);
    struct dataset set = {.count = 2, {2, 2, 1}, .inputs = 4, .targets = 1, .classes = 10};
    set.values = set.labels = bytes;
    gather_batch(&set, NULL, 2, 0, x, bytes, stream);
    gather_batch(&set, (const uint32_t *)x, 8, 0, end, bytes, stream);
    softmax_cross_entropy(x, bytes, 0, 4, 1, x, stats, 0, stream);
    softmax_cross_entropy(end, bytes + 8, 0, 4, 1, NULL, stats, 0, stream);
    add_bias(end, x, 0, 4, 1, stream);
    to_bfloat16((uint16_t *)end, end, 0, stream);
    from_bfloat16(end, (uint16_t *)end, 0, stream);
    assert_unchanged(stats, lanes, STATS_LANES * sizeof *lanes);
    memset(untouched, GUARD_BYTE, sizeof untouched);
    assert_unchanged(x, untouched, sizeof untouched);
    assert_unchanged(bytes, untouched, 8);
}

int main(void) {
    // The CPU device shares large arrays out even where there is one core.
    setenv("OMP_NUM_THREADS", "3", 0);
    return run_all_tests((struct around){make_stream, destroy_stream, .end = free_arrays});
}
