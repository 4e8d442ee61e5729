// Tests of common/kernels/kernels.cu, which host_cuda.h builds for the host. They compare each call
// on host arrays with the same call on device arrays. On the CPU device, the latter run the plain
// loops.
#include "common/data/data.h"
#include "common/kernels/kernels.h"
#include "tests/unit/device_arrays.h"

__typeof__(fill_uniform) cu_fill_uniform;
__typeof__(fill) cu_fill;
__typeof__(gather_batch) cu_gather_batch;
__typeof__(add_bias) cu_add_bias;
__typeof__(add_relu) cu_add_relu;
__typeof__(relu_backward) cu_relu_backward;
__typeof__(drop_values) cu_drop_values;
__typeof__(sum_rows) cu_sum_rows;
__typeof__(augment_images) cu_augment_images;
__typeof__(softmax_cross_entropy) cu_softmax_cross_entropy;
__typeof__(sum_stats) cu_sum_stats;
__typeof__(sgd_step) cu_sgd_step;
__typeof__(nesterov_step) cu_nesterov_step;
__typeof__(adam_step) cu_adam_step;
__typeof__(adadelta_step) cu_adadelta_step;
__typeof__(add_to) cu_add_to;
__typeof__(sum_squares) cu_sum_squares;
__typeof__(clip_to_norm) cu_clip_to_norm;
__typeof__(to_bfloat16) cu_to_bfloat16;
__typeof__(from_bfloat16) cu_from_bfloat16;

// A compiler may round a product and a sum once in one version, and twice in the other.
static const double ROUNDING = 1e-6;

static void check_fill_uniform(int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    float *host = new_array(bytes), *device = new_device_array(bytes);
    fill_uniform(device, count, 0.25f, 5, 77, NULL);
    cu_fill_uniform(host, count, 0.25f, 5, 77, NULL);
    assert_close(host, (float *)to_host(device, bytes), count, ROUNDING);
}

static void check_fill(int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    float *host = new_array(bytes), *device = new_device_array(bytes);
    fill(device, count, 0.3f, NULL);
    cu_fill(host, count, 0.3f, NULL);
    assert_unchanged(device, host, bytes);
}

static void check_gather_batch(int rows, int inputs) {
    enum { SAMPLES = 2200, FIRST = 11 };
    struct dataset set = {SAMPLES,
                          {1, inputs % 3 ? inputs : inputs / 3, inputs % 3 ? 1 : 3},
                          inputs,
                          3,
                          10,
                          {0.3f, 0.5f},
                          {0.2f, 1, 2},
                          random_bytes(SAMPLES * (size_t)inputs, 256, 1),
                          random_bytes(SAMPLES * 3, 10, 2)};
    size_t batch = (size_t)rows * (size_t)inputs, visited = FIRST + (size_t)rows;
    uint32_t *order = new_array(visited * sizeof *order);
    for (size_t i = 0; i < visited; i++)
        order[i] = (uint32_t)(rng_bits(3, i) % SAMPLES);
    struct dataset on_device = set;
    on_device.values = to_device(set.values, SAMPLES * (size_t)inputs);
    on_device.labels = to_device(set.labels, SAMPLES * 3);
    uint32_t *device_order = to_device(order, visited * sizeof *order);
    for (int with_order = 0; with_order < 2; with_order++) {
        float *x = new_array(batch * sizeof *x), *device_x = new_device_array(batch * sizeof *x);
        uint8_t *y = new_array((size_t)rows * 3), *device_y = new_device_array((size_t)rows * 3);
        gather_batch(&on_device, with_order ? device_order : NULL, FIRST, rows, device_x, device_y,
                     NULL);
        cu_gather_batch(&set, with_order ? order : NULL, FIRST, rows, x, y, NULL);
        assert_close(x, (float *)to_host(device_x, batch * sizeof *x), batch, ROUNDING);
        assert_unchanged(device_y, y, (size_t)rows * 3);
    }
}

static void check_add_bias(int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    for (int relu = 0; relu < 2; relu++) {
        float *y = random_floats(count, 1, 1), *bias = random_floats((size_t)cols, 1, 2);
        float *device_y = to_device(y, bytes);
        add_bias(device_y, to_device(bias, (size_t)cols * sizeof *bias), rows, cols, relu, NULL);
        cu_add_bias(y, bias, rows, cols, relu, NULL);
        assert_close(y, (float *)to_host(device_y, bytes), count, ROUNDING);
    }
}

static void add_bias_keeps_nan(void **state) {
    (void)state;
    for (int relu = 0; relu < 2; relu++) {
        float y[] = {NAN, -1};
        const float bias[] = {0, 0};
        cu_add_bias(y, bias, 1, 2, relu, NULL);
        assert_true(isnan(y[0]));
        assert_true(y[1] == (relu ? 0 : -1));
    }
}

static void check_add_relu(int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    float *a = random_floats(count, 1, 1), *b = random_floats(count, 1, 2), *y = new_array(bytes);
    float *device_y = new_device_array(bytes);
    a[0] = NAN;
    add_relu(to_device(a, bytes), to_device(b, bytes), device_y, count, NULL);
    cu_add_relu(a, b, y, count, NULL);
    assert_true(isnan(y[0]));
    assert_close(y + 1, (float *)to_host(device_y + 1, bytes - sizeof *y), count - 1, 0);
}

void cu_warp_sums(const float *x, float *y, int count);

static void warps_and_fast_functions_work(void **state) {
    (void)state;
    for (int count = 32; count <= 1024; count *= 2) {
        float *x = random_floats((size_t)count, 1, 5), *y = new_array((size_t)count * sizeof *y);
        double sum = 0;
        for (int i = 0; i < count; i++)
            sum += x[i] += 2; // far from 0, so is the sum
        cu_warp_sums(x, y, count);
        for (int i = 0; i < count; i++)
            assert_true(fabs(y[i] - (exp(x[i]) / sum + log(2) / 2)) < 1e-6);
    }
}

static void check_relu_backward(int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    float *dy = random_floats(count, 1, 1), *y = random_floats(count, 1, 2);
    y[0] = 0;
    float *device_dy = to_device(dy, bytes);
    relu_backward(device_dy, to_device(y, bytes), count, NULL);
    cu_relu_backward(dy, y, count, NULL);
    assert_close(dy, (float *)to_host(device_dy, bytes), count, 0);
}

static void check_drop_values(int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    float *x = random_floats(count, 1, 1), *y = new_array(bytes);
    float *device_y = new_device_array(bytes);
    drop_values(to_device(x, bytes), device_y, count, 0.3f, 5, 77, NULL);
    cu_drop_values(x, y, count, 0.3f, 5, 77, NULL);
    assert_close(y, (float *)to_host(device_y, bytes), count, ROUNDING);
}

static void check_sum_rows(int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols, bytes = (size_t)cols * sizeof(float);
    float *x = random_floats(count, 1, 1), *sums = new_array(bytes),
          *device_sums = new_device_array(bytes);
    sum_rows(to_device(x, count * sizeof *x), device_sums, rows, cols, NULL);
    cu_sum_rows(x, sums, rows, cols, NULL);
    assert_close(sums, (float *)to_host(device_sums, bytes), (size_t)cols, 1e-5);
}

// Calls the kernel on host arrays and on device arrays, starting with the same sums.
static void compare_losses(const float *logits, const uint8_t *labels, int rows, int classes,
                           int gradients, float smoothing) {
    size_t count = (size_t)rows * (size_t)classes, bytes = count * sizeof(float);
    struct stats *host = random_stats(), *device = to_device(host, STATS_LANES * sizeof *host);
    float *dlogits = gradients ? new_array(bytes) : NULL;
    float *device_dlogits = gradients ? new_device_array(bytes) : NULL;
    softmax_cross_entropy(to_device(logits, bytes), to_device(labels, (size_t)rows), rows, classes,
                          0.5f, device_dlogits, device, smoothing, NULL);
    cu_softmax_cross_entropy(logits, labels, rows, classes, 0.5f, dlogits, host, smoothing, NULL);
    if (gradients)
        assert_close(dlogits, (float *)to_host(device_dlogits, bytes), count, ROUNDING);
    device = to_host(device, STATS_LANES * sizeof *host);
    for (int lane = 0; lane < STATS_LANES; lane++) {
        assert_true(fabs(host[lane].loss - device[lane].loss) <= 1e-6 * device[lane].loss);
        assert_true(host[lane].correct == device[lane].correct);
        assert_true(host[lane].samples == device[lane].samples);
    }
}

static void check_loss(int rows, int classes) {
    uint8_t *labels = random_bytes((size_t)rows, classes < 256 ? classes : 256, 2);
    for (float spread = 1; spread < 1e5f; spread *= 100)
        for (int gradients = 0; gradients < 2; gradients++)
            for (float smoothing = 0; smoothing < 0.5f; smoothing += 0.3f)
                compare_losses(random_floats((size_t)rows * (size_t)classes, spread, 1), labels,
                               rows, classes, gradients, smoothing);
}

static void loss_keeps_nan(void **state) {
    (void)state;
    for (int at = 0; at < 3; at++) {
        float logits[] = {1, 2, 3};
        const uint8_t label = 1;
        struct stats *stats = random_stats();
        logits[at] = NAN;
        cu_softmax_cross_entropy(logits, &label, 1, 3, 1, NULL, stats, 0, NULL);
        assert_true(isnan(stats->loss));
    }
}

// The order of additions is the same, so the bits are the same.
static void sums_of_stats_agree(void **state) {
    (void)state;
    struct stats *host = random_stats(), sums;
    struct stats *device = to_device(host, STATS_LANES * sizeof *host),
                 *device_sums = new_device_array(sizeof sums);
    sum_stats(device, device_sums, NULL);
    cu_sum_stats(host, &sums, NULL);
    assert_unchanged(device_sums, &sums, sizeof sums);
}

static void check_sgd_step(int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    for (float decay = 0; decay < 1; decay += 0.75f) {
        float *p = random_floats(count, 1, 1), *g = random_floats(count, 1, 2),
              *v = random_floats(count, 1, 3);
        float *device_p = to_device(p, bytes), *device_v = to_device(v, bytes);
        sgd_step(device_p, to_device(g, bytes), device_v, count, 0.1f, 0.9f, decay, NULL);
        cu_sgd_step(p, g, v, count, 0.1f, 0.9f, decay, NULL);
        nesterov_step(device_p, to_device(g, bytes), device_v, count, 0.1f, 0.8f, decay, NULL);
        cu_nesterov_step(p, g, v, count, 0.1f, 0.8f, decay, NULL);
        assert_close(p, (float *)to_host(device_p, bytes), count, ROUNDING);
        assert_close(v, (float *)to_host(device_v, bytes), count, ROUNDING);
    }
}

static void check_adam_step(int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    for (int decoupled = 0; decoupled < 2; decoupled++) {
        float *p = random_floats(count, 1, 1), *g = random_floats(count, 1, 2);
        float *moments[] = {random_floats(count, 1, 3), random_floats(count, 1, 4)};
        for (size_t i = 0; i < count; i++)
            moments[1][i] = fabsf(moments[1][i]);
        float *device_p = to_device(p, bytes), *device_m = to_device(moments[0], bytes),
              *device_v = to_device(moments[1], bytes);
        adam_step(device_p, to_device(g, bytes), device_m, device_v, count, 0.01f, 0.1f, decoupled,
                  0.8, 0.95, 1e-5f, 7, NULL);
        cu_adam_step(p, g, moments[0], moments[1], count, 0.01f, 0.1f, decoupled, 0.8, 0.95, 1e-5f,
                     7, NULL);
        assert_close(p, (float *)to_host(device_p, bytes), count, ROUNDING);
        assert_close(moments[0], (float *)to_host(device_m, bytes), count, ROUNDING);
        assert_close(moments[1], (float *)to_host(device_v, bytes), count, ROUNDING);
    }
}

static void check_adadelta_step(int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    float *p = random_floats(count, 1, 1), *g = random_floats(count, 1, 2),
          *squares = random_floats(count, 1, 3), *changes = random_floats(count, 1, 4);
    for (size_t i = 0; i < count; i++) {
        squares[i] = fabsf(squares[i]);
        changes[i] = fabsf(changes[i]);
    }
    float *device_p = to_device(p, bytes), *device_squares = to_device(squares, bytes),
          *device_changes = to_device(changes, bytes);
    adadelta_step(device_p, to_device(g, bytes), device_squares, device_changes, count, 0.7f, 0.1f,
                  0.85, 1e-4f, NULL);
    cu_adadelta_step(p, g, squares, changes, count, 0.7f, 0.1f, 0.85, 1e-4f, NULL);
    assert_close(p, (float *)to_host(device_p, bytes), count, ROUNDING);
    assert_close(squares, (float *)to_host(device_squares, bytes), count, ROUNDING);
    assert_close(changes, (float *)to_host(device_changes, bytes), count, ROUNDING);
}

static void check_add_to(int rows, int cols) {
    size_t count = (size_t)rows * (size_t)cols, bytes = count * sizeof(float);
    float *sums = random_floats(count, 1, 1), *x = random_floats(count, 1, 2);
    float *device_sums = to_device(sums, bytes);
    add_to(device_sums, to_device(x, bytes), count, NULL);
    cu_add_to(sums, x, count, NULL);
    assert_unchanged(device_sums, sums, bytes);
}

// The order of additions is the same and the products are exact in doubles, so the bits are the
// same.
static void norms_agree(void **state) {
    (void)state;
    const size_t counts[] = {0, 1, 7, SQUARES_LANES - 1, SQUARES_LANES, 5 * SQUARES_LANES + 77};
    for (int c = 0; c < 6; c++) {
        size_t count = counts[c], bytes = count * sizeof(float);
        float *x = random_floats(count, 1, 1), *device_x = to_device(x, bytes);
        double *sums = new_array(SQUARES_LANES * sizeof *sums),
               *device_sums = new_device_array(SQUARES_LANES * sizeof *sums);
        sum_squares(device_x, count, device_sums, NULL);
        cu_sum_squares(x, count, sums, NULL);
        assert_unchanged(device_sums, sums, sizeof *sums);
        clip_to_norm(device_x, count, device_sums, 0.5f, NULL);
        cu_clip_to_norm(x, count, sums, 0.5f, NULL);
        assert_unchanged(device_x, x, bytes);
    }
}

static void clip_to_norm_keeps_nan(void **state) {
    (void)state;
    const double sum = NAN;
    float x = 1;
    cu_clip_to_norm(&x, 1, &sum, 1, NULL);
    assert_true(isnan(x));
}

// Every bfloat16, and three numbers between it and the next one: a little above it, halfway, and a
// little above halfway.
static void bfloat16_agrees(void **state) {
    (void)state;
    enum { COUNT = 0x10000 * 4 };
    const uint32_t between[] = {0, 0x7fff, 0x8000, 0x8001};
    uint32_t *bits = new_array(COUNT * sizeof *bits);
    for (uint32_t i = 0; i < COUNT; i++)
        bits[i] = i / 4 << 16 | between[i % 4];
    float *x = (float *)bits, *wide = new_array(COUNT * sizeof *wide),
          *device_wide = new_device_array(COUNT * sizeof *wide);
    uint16_t *y = new_array(COUNT * sizeof *y), *device_y = new_device_array(COUNT * sizeof *y);
    to_bfloat16(device_y, to_device(x, COUNT * sizeof *x), COUNT, NULL);
    cu_to_bfloat16(y, x, COUNT, NULL);
    assert_unchanged(device_y, y, COUNT * sizeof *y);
    from_bfloat16(device_wide, device_y, COUNT, NULL);
    cu_from_bfloat16(wide, y, COUNT, NULL);
    assert_unchanged(device_wide, wide, COUNT * sizeof *wide);
}

static void augment_images_agrees(void **state) {
    (void)state;
    const struct shape shapes[] = {{1, 1, 1}, {28, 28, 1}, {5, 17, 4}, {32, 32, 3}};
    for (int s = 0; s < 4; s++)
        for (int images = 0; images < 20; images += 6) {
            struct augmentation a = {shapes[s], 4, 1, {0.5f, 0.25f, -1, 2}};
            size_t count = (size_t)images * (size_t)shape_size(shapes[s]);
            size_t bytes = count * sizeof(float);
            float *x = random_floats(count, 1, 1), *host = new_array(bytes);
            float *device = new_device_array(bytes);
            augment_images(to_device(x, bytes), device, images, &a, 3, 1ull << 40, NULL);
            cu_augment_images(x, host, images, &a, 3, 1ull << 40, NULL);
            assert_unchanged(device, host, bytes);
        }
}

// A test for each kernel that takes a matrix or an array.
static const struct comparison {
    const char *name;
    void (*check)(int rows, int cols);
} comparisons[] = {
    {"fill_uniform_agrees", check_fill_uniform},
    {"fill_agrees", check_fill},
    {"gather_batch_agrees", check_gather_batch},
    {"add_bias_agrees", check_add_bias},
    {"add_relu_agrees", check_add_relu},
    {"relu_backward_agrees", check_relu_backward},
    {"drop_values_agrees", check_drop_values},
    {"sum_rows_agrees", check_sum_rows},
    {"loss_agrees", check_loss},
    {"sgd_step_agrees", check_sgd_step},
    {"adam_step_agrees", check_adam_step},
    {"adadelta_step_agrees", check_adadelta_step},
    {"add_to_agrees", check_add_to},
};
enum { COMPARISONS = sizeof comparisons / sizeof *comparisons };

// Sizes below, equal to and above the number of threads in the grid of host_cuda.h.
static void kernel_agrees(void **state) {
    const struct comparison *c = *state;
    const int shapes[][2] = {{1, 1},   {1, 5},    {2, 3},     {7, 1},
                             {64, 10}, {33, 127}, {130, 257}, {2100, 3}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        c->check(shapes[s][0], shapes[s][1]);
}

int main(void) {
    struct CMUnitTest agree[COMPARISONS];
    for (int i = 0; i < COMPARISONS; i++)
        agree[i] = (struct CMUnitTest){comparisons[i].name, kernel_agrees, NULL, free_arrays,
                                       (void *)&comparisons[i]};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_bias_keeps_nan),
        cmocka_unit_test_teardown(warps_and_fast_functions_work, free_arrays),
        cmocka_unit_test_teardown(loss_keeps_nan, free_arrays),
        cmocka_unit_test_teardown(sums_of_stats_agree, free_arrays),
        cmocka_unit_test_teardown(norms_agree, free_arrays),
        cmocka_unit_test(clip_to_norm_keeps_nan),
        cmocka_unit_test_teardown(bfloat16_agrees, free_arrays),
        cmocka_unit_test_teardown(augment_images_agrees, free_arrays),
    };
    return cmocka_run_group_tests(agree, NULL, NULL) + cmocka_run_group_tests(tests, NULL, NULL);
}
