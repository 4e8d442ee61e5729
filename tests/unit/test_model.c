// Layers and models against a forward pass in double precision and its finite differences; and a
// kind of layer made up here, which must fit into the loops of a training step as it is.
#include "common/data/data.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "common/layers/layers.h"
#include "tests/unit/default_options.h"
#include "tests/unit/model_step.h"
#include <stdio.h>

// The kind made_up: y = x + branch(x). The branch is a dense_relu, whose outputs are in the
// workspace. Backward stores a copy of dy after them, because the branch overwrites dy.
static struct layer branch_of(const struct layer *l) {
    struct layer branch = *l;
    branch.kind = &dense_relu;
    return branch;
}

static void made_up_initialise(const struct layer *l, float *parameters, size_t first_value,
                               size_t count, uint64_t seed, cudaStream_t stream) {
    dense_relu.initialise(l, parameters, first_value, count, seed, stream);
}

static void made_up_forward(const struct layer *l, const struct pass *p, const void *parameters,
                            const float *x, float *y, int b) {
    size_t count = (size_t)b * (size_t)l->outputs;
    struct layer branch = branch_of(l);
    dense_relu.forward(&branch, p, parameters, x, y + count, b);
    CUDA_CHECK(cudaMemcpyAsync(y, x, count * sizeof *y, cudaMemcpyDeviceToDevice, p->stream));
    add_bias(y, y + count, 1, (int)count, 0, p->stream);
}

static void made_up_backward(const struct layer *l, const struct pass *p, const void *parameters,
                             const float *x, float *y, float *dy, float *dx, float *gradients,
                             int b) {
    size_t count = (size_t)b * (size_t)l->outputs;
    struct layer branch = branch_of(l);
    float *kept = y + 2 * count;
    CUDA_CHECK(cudaMemcpyAsync(kept, dy, count * sizeof *dy, cudaMemcpyDeviceToDevice, p->stream));
    dense_relu.backward(&branch, p, parameters, x, y + count, dy, dx, gradients, b);
    if (dx)
        add_bias(dx, kept, 1, (int)count, 0, p->stream);
}

static size_t made_up_scratch(const struct layer *l, cudaDataType type, int b) {
    return dense_relu.scratch(l, type, b);
}

static const struct layer_kind made_up = {"made up", made_up_initialise, made_up_forward,
                                          made_up_backward, made_up_scratch};

// Computes the outputs of a layer for x in double precision.
static void reference_layer(const struct model *m, const struct layer *l, const double *parameters,
                            const double *x, double *y, int b) {
    for (int i = 0; i < b * l->outputs; i++) {
        int r = i / l->outputs, c = i % l->outputs;
        if (l->kind == &dropout) {
            uint64_t index = pass.first_sample * (uint64_t)l->outputs + (uint64_t)i;
            float random = rng_uniform(rng_bits(pass.seed, (uint64_t)(l - m->layers)), index);
            y[i] = random < l->dropout.rate ? 0 : x[i] / (1. - l->dropout.rate);
            continue;
        }
        double sum = parameters[l->outputs * l->inputs + c];
        for (int k = 0; k < l->inputs; k++)
            sum += parameters[c * l->inputs + k] * x[r * l->inputs + k];
        y[i] = l->kind == &dense ? sum : fmax(sum, 0);
        if (l->kind == &made_up)
            y[i] += x[i];
    }
}

// values: the model's parameters, then its inputs. Returns its outputs in room that the next call
// reuses.
static const double *reference_forward(const struct model *m, const double *values, int b) {
    static double room[2][1 << 17];
    const double *x = values + m->parameters;
    for (int i = 0; i < m->count; i++) {
        assert_true(b * m->layers[i].outputs <= 1 << 17);
        reference_layer(m, &m->layers[i], values + m->layers[i].first, x, room[i % 2], b);
        x = room[i % 2];
    }
    return x;
}

// Returns d(sum of outputs * dy) / d(values[i]). The sum is linear in each value, except where a
// ReLU switches.
static double slope(const struct model *m, double *values, const float *dy, int b, size_t i) {
    const double h = 1e-6, value = values[i];
    double sums[2] = {0};
    for (int side = 0; side < 2; side++) {
        values[i] = side ? value + h : value - h;
        const double *y = reference_forward(m, values, b);
        for (int k = 0; k < b * m->layers[m->count - 1].outputs; k++)
            sums[side] += y[k] * dy[k];
    }
    values[i] = value;
    return (sums[1] - sums[0]) / (2 * h);
}

static void check_outputs(const struct step *s, const struct model *m, double *values, int b) {
    size_t count = (size_t)b * (size_t)m->layers[m->count - 1].outputs;
    const double *y = reference_forward(m, values, b);
    float *got = to_host(s->activations[m->count], count * sizeof *got),
          *want = new_array(count * sizeof *want);
    for (size_t i = 0; i < count; i++)
        want[i] = (float)y[i];
    assert_close(got, want, count, 1e-4);
}

static void check_model(const struct model *m, int b, int want_dx) {
    size_t inputs = (size_t)b * (size_t)m->layers[0].inputs, count = m->parameters + inputs;
    size_t outputs = (size_t)b * (size_t)m->layers[m->count - 1].outputs;
    float *values = random_floats(count, 1, 1), *x = values + m->parameters;
    float *dy = random_floats(outputs, 1, 2), *want = new_array(count * sizeof *want);
    double *wide = widen(values, count);
    struct step s = new_step(m, values, x, b);
    forward(&s, m, b);
    check_outputs(&s, m, wide, b);
    CUDA_CHECK(cudaMemcpy(s.dy, dy, outputs * sizeof *dy, cudaMemcpyHostToDevice));
    backward(&s, m, b, want_dx);
    for (size_t i = 0; i < count; i++)
        want[i] = (float)slope(m, wide, dy, b, i);
    float *gradients = to_host(s.gradients, m->parameters * sizeof *gradients);
    assert_close(gradients, want, m->parameters, 1e-4);
    if (want_dx) {
        float *dx = to_host(s.dy, inputs * sizeof *dx);
        assert_close(dx, want + m->parameters, inputs, 1e-4);
    }
    assert_unchanged(s.parameters, values, m->parameters * sizeof *values);
    assert_unchanged(s.activations[0], x, inputs * sizeof *x);
}

static void dense_gradients_match_differences_of_the_loss(void **state) {
    (void)state;
    const struct {
        int inputs, outputs, b;
    } shapes[] = {{1, 1, 1}, {7, 3, 1}, {3, 7, 5}, {50, 20, 8}, {33, 65, 17}};
    for (int s = 0; s < 5; s++)
        for (int relu = 0; relu < 2; relu++)
            for (int want_dx = 0; want_dx < 2; want_dx++) {
                struct model m = {.out = {1, 1, shapes[s].inputs}};
                append_dense(&m, relu ? &dense_relu : &dense, shapes[s].outputs);
                check_model(&m, shapes[s].b, want_dx);
            }
}

static void build(struct model *m, const char *hidden, int inputs) {
    char why[WHY_SIZE] = "";
    struct training_options options = default_options();
    options.hidden = hidden;
    struct dataset set = {.shape = {1, 1, inputs}, .inputs = inputs, .targets = 1, .classes = 10};
    assert_int_equal(model_build(m, &options, &set, why), 0);
    assert_string_equal(m->text, m->shape);
}

static void mlp_gradients_match_differences_of_the_loss(void **state) {
    (void)state;
    struct model m;
    build(&m, "9,8", 12);
    for (int b = 1; b <= 20; b += 19)
        check_model(&m, b, 0);
}

static void mlp_of_full_size_matches_double_precision(void **state) {
    (void)state;
    enum { BATCH = 130 };
    struct model m;
    build(&m, "512,512", 784);
    float *values = random_floats(m.parameters + BATCH * 784, 0.05f, 1);
    struct step s = new_step(&m, values, values + m.parameters, BATCH);
    forward(&s, &m, BATCH);
    check_outputs(&s, &m, widen(values, m.parameters + BATCH * 784), BATCH);
}

static void new_kinds_of_layers_work(void **state) {
    (void)state;
    struct model m = {.out = {1, 1, 6}};
    append_dense(&m, &dense_relu, 5);
    append_dropout(&m, 0.5f);
    model_append(&m, &made_up, m.out, 2 * 5, 5 * (5 + 1));
    append_dropout(&m, 0.3f);
    append_dense(&m, &dense, 3);
    const float *parameters = initialised(&m, 1);
    for (size_t i = 0; i < m.parameters; i++)
        assert_true(fabsf(parameters[i]) < 0.5f); // 1/sqrt(5)
    for (int b = 1; b <= 9; b += 4)
        for (int want_dx = 0; want_dx < 2; want_dx++)
            check_model(&m, b, want_dx);
}

// A rank with rows 3 to 7 of a batch of 8 must drop the same outputs as a rank with all rows.
static void dropout_depends_on_the_sample(void **state) {
    (void)state;
    enum { WIDTH = 6, ROWS = 8, FIRST = 3 };
    struct model m = {.out = {1, 1, WIDTH}};
    append_dropout(&m, 0.4f);
    const float *x = random_floats(ROWS * WIDTH, 1, 1);
    struct step whole = new_step(&m, NULL, x, ROWS);
    struct step part = new_step(&m, NULL, x + FIRST * WIDTH, ROWS - FIRST);
    const uint64_t first_sample = pass.first_sample;
    forward(&whole, &m, ROWS);
    pass.first_sample += FIRST;
    forward(&part, &m, ROWS - FIRST);
    pass.first_sample = first_sample;
    size_t bytes = (ROWS - FIRST) * WIDTH * sizeof *x;
    assert_unchanged(part.activations[1], to_host(whole.activations[1] + FIRST * WIDTH, bytes),
                     bytes);

    pass.training = 0;
    forward(&whole, &m, ROWS);
    pass.training = 1;
    assert_unchanged(whole.activations[1], x, ROWS * WIDTH * sizeof *x);
}

// Returns the fraction of zeros for inputs of 1, and stores the other value in *y.
static double share_of_zeros(uint64_t seed, float rate, const float **outputs) {
    enum { WIDTH = 100, ROWS = 1000, COUNT = WIDTH * ROWS };
    struct model m = {.out = {1, 1, WIDTH}};
    append_dropout(&m, rate);
    float *ones = new_array(COUNT * sizeof *ones);
    for (int i = 0; i < COUNT; i++)
        ones[i] = 1;
    struct step s = new_step(&m, NULL, ones, ROWS);
    const uint64_t before = pass.seed;
    pass.seed = seed;
    forward(&s, &m, ROWS);
    pass.seed = before;
    const float *y = *outputs = to_host(s.activations[1], COUNT * sizeof *y);
    int zeros = 0;
    for (int i = 0; i < COUNT; i++) {
        zeros += y[i] == 0;
        assert_true(y[i] == 0 || y[i] == 1 / (1 - rate));
    }
    return (double)zeros / COUNT;
}

static void dropout_drops_the_given_fraction(void **state) {
    (void)state;
    const float rates[] = {0, 0.1f, 0.5f, 0.9f, 1}, *y, *others;
    for (int i = 0; i < 5; i++)
        for (uint64_t seed = 1; seed < 4; seed++)
            assert_true(fabs(share_of_zeros(seed, rates[i], &y) - rates[i]) < 0.008); // five sigma
    share_of_zeros(1, 0.5f, &y);
    share_of_zeros(2, 0.5f, &others);
    size_t equal = 0;
    for (int i = 0; i < 100000; i++)
        equal += y[i] == others[i];
    assert_true(equal > 49000 && equal < 51000);
}

static void dropout_follows_hidden_layers(void **state) {
    (void)state;
    struct model m;
    char why[WHY_SIZE];
    struct training_options options = default_options();
    options.hidden = "30,20";
    options.dropout = 0.25;
    struct dataset set = {.shape = {1, 1, 12}, .inputs = 12, .targets = 2, .classes = 5};
    const struct layer_kind *kinds[] = {&dense_relu, &dropout, &dense_relu, &dropout, &dense};
    const int widths[] = {12, 30, 30, 20, 20, 10};
    assert_int_equal(model_build(&m, &options, &set, why), 0);
    assert_int_equal(m.count, 5);
    for (int i = 0; i < m.count; i++) {
        assert_ptr_equal(m.layers[i].kind, kinds[i]);
        assert_int_equal(m.layers[i].inputs, widths[i]);
        assert_int_equal(m.layers[i].outputs, widths[i + 1]);
        assert_true(kinds[i] != &dropout || m.layers[i].dropout.rate == 0.25f);
    }
    assert_string_equal(m.shape, "mlp 12-30-20-10"); // as without, so that snapshots fit
    assert_string_equal(m.text, "mlp 12-30-20-10, dropout 0.25");
    assert_int_equal(m.parameters, 13 * 30 + 31 * 20 + 21 * 10);
    for (int b = 1; b <= 7; b += 6)
        check_model(&m, b, 1);
}

// The rates of the dropout layers, which are 0 without one.
static void build_with_dropout(struct model *m, const char *name, double rate, float found[2]) {
    char why[WHY_SIZE];
    struct training_options options = default_options();
    options.model = name;
    options.hidden = "30";
    options.depth = 8;
    options.dropout = rate;
    struct dataset set = {.shape = {28, 28, 1}, .inputs = 784, .targets = 1, .classes = 10};
    int count = 0;
    found[0] = found[1] = 0;
    assert_int_equal(model_build(m, &options, &set, why), 0);
    for (int i = 0; i < m->count; i++)
        if (m->layers[i].kind == &dropout)
            found[count++] = m->layers[i].dropout.rate;
}

static void each_model_has_its_own_dropout(void **state) {
    const struct {
        const char *name;
        double rate;
        float found[2];
        int layers;
        const char *text;
    } cases[] = {
        {"mlp", NAN, {0, 0}, 2, "mlp 784-30-10"},
        {"cnn", NAN, {0.25f, 0.5f}, 7, "cnn 1x28x28, dropout 0.25 and 0.5"},
        {"cnn", 0, {0, 0}, 5, "cnn 1x28x28"},
        {"cnn", 0.1, {0.1f, 0.1f}, 7, "cnn 1x28x28, dropout 0.1"},
        {"resnet", NAN, {0, 0}, 7, "resnet8 width 16, 1x28x28"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m;
        float found[2];
        build_with_dropout(&m, cases[i].name, cases[i].rate, found);
        assert_memory_equal(found, cases[i].found, sizeof found);
        assert_int_equal(m.count, cases[i].layers);
        assert_string_equal(m.text, cases[i].text);
        if (!strcmp(cases[i].name, "cnn"))
            assert_int_equal(m.parameters, 1199882);
    }
}

static size_t count_equal(const float *a, const float *b, size_t count) {
    size_t equal = 0;
    for (size_t i = 0; i < count; i++)
        equal += a[i] == b[i];
    return equal;
}

static void initial_values_depend_on_seed_and_layer(void **state) {
    (void)state;
    struct model m;
    build(&m, "30,30,30", 30);
    const float *parameters = initialised(&m, 1), *others = initialised(&m, 2),
                *again = initialised(&m, 1);
    assert_memory_equal(again, parameters, m.parameters * sizeof *parameters);
    assert_true(count_equal(parameters, others, m.parameters) < m.parameters / 100);
    size_t one = m.layers[0].parameters;
    assert_true(count_equal(parameters, parameters + m.layers[1].first, one) < one / 100);
    assert_true(count_equal(parameters + m.layers[1].first, parameters + m.layers[2].first, one) <
                one / 100);
}

static void hidden_widths_make_an_mlp(void **state) {
    (void)state;
    const struct {
        const char *hidden, *shape;
        int layers;
        size_t parameters;
    } cases[] = {
        {"512,512", "mlp 784-512-512-10", 3, 669706}, // the default
        {"1,65536,7", "mlp 784-1-65536-7-10", 4, 785 + 2 * 65536 + 65537 * 7 + 8 * 10},
    };
    for (int i = 0; i < 2; i++) {
        struct model m;
        build(&m, cases[i].hidden, 784);
        assert_string_equal(m.shape, cases[i].shape);
        assert_int_equal(m.count, cases[i].layers);
        assert_int_equal(m.parameters, cases[i].parameters);
        for (int k = 0; k < m.count; k++) {
            assert_ptr_equal(m.layers[k].kind, k < m.count - 1 ? &dense_relu : &dense);
            assert_int_equal(m.layers[k].workspace, 0);
        }
    }
}

// A model with more parameters than an int can count, and with the longest name.
static void model_build_allows_16_widths(void **state) {
    (void)state;
    char hidden[200] = "65536";
    struct model m;
    for (int i = 1; i < 16; i++)
        strcat(hidden, ",65536");
    build(&m, hidden, 784);
    assert_int_equal(m.count, 17);
    assert_int_equal(m.parameters, 785 * 65536LL + 15 * 65537LL * 65536 + 65537LL * 10);
    assert_string_equal(m.shape + strlen(m.shape) - 9, "-65536-10");
    assert_int_equal(strlen(m.shape), strlen("mlp 784-") + strlen(hidden) + strlen("-10"));
}

// Checks that the reason contains this text.
static void refused(const struct training_options *options, struct shape shape, const char *text) {
    struct dataset set = {.shape = shape, .inputs = shape_size(shape), .targets = 1, .classes = 10};
    struct model m;
    char why[WHY_SIZE] = "";
    assert_int_equal(model_build(&m, options, &set, why), -1);
    if (!strstr(why, text))
        fail_msg("\"%s\" does not contain \"%s\"", why, text);
}

static void model_build_refuses_wrong_models(void **state) {
    (void)state;
    const char *bad[] = {"",
                         ",",
                         "512,",
                         ",512",
                         "512,,512",
                         "abc",
                         "512x",
                         "512,12a",
                         "0",
                         "-5",
                         "65537",
                         "1.5",
                         "512;512",
                         "512 512",
                         "0x10",
                         "1e3,",
                         "--",
                         "99999999999999999999",
                         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct training_options options = default_options();
        char text[100];
        options.hidden = bad[i];
        snprintf(text, sizeof text, "--hidden %s: ", bad[i]);
        refused(&options, (struct shape){28, 28, 1}, text);
    }
    const char *unknown[] = {"", "CNN", "MLP", "mlp "};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        struct training_options options = default_options();
        options.model = unknown[i];
        refused(&options, (struct shape){28, 28, 1}, "--model");
    }
}

// got: bias + sum of a[k * step_a] * b[k * step_b] over k, of numbers rounded to 8 bits.
static void check_product(float got, float fp32, int relu, float bias, const float *a, int step_a,
                          const float *b, int step_b, int count) {
    double want = to_8_bits(bias), size = fabs(bias);
    for (int k = 0; k < count; k++) {
        want += to_8_bits(a[k * step_a]) * to_8_bits(b[k * step_b]);
        size += fabs((double)a[k * step_a] * b[k * step_b]);
    }
    check_sum(got, fp32, relu ? fmax(want, 0) : want, size, count);
}

static void check_bfloat16(const struct layer_kind *kind, int inputs, int outputs, int b) {
    struct model m = {.out = {1, 1, inputs}};
    append_dense(&m, kind, outputs);
    size_t weights = (size_t)(inputs * outputs);
    float *w = random_floats(m.parameters, 1, 1), *x = random_floats((size_t)(b * inputs), 1, 2);
    float *dy = random_floats((size_t)(b * outputs), 1, 3);
    struct results fp32 = run_step(&m, CUDA_R_32F, w, x, dy, b, 0),
                   bf16 = run_step(&m, CUDA_R_16BF, w, x, dy, b, 0);
    for (int r = 0; r < b; r++)
        for (int c = 0; c < outputs; c++)
            check_product(bf16.y[r * outputs + c], fp32.y[r * outputs + c], kind == &dense_relu,
                          w[weights + (size_t)c], w + c * inputs, 1, x + r * inputs, 1, inputs);
    if (kind == &dense_relu)
        return; // outputs near 0 may have moved past it, and their gradients come and go
    for (int r = 0; r < b; r++)
        for (int i = 0; i < inputs; i++)
            check_product(bf16.dx[r * inputs + i], fp32.dx[r * inputs + i], 0, 0, dy + r * outputs,
                          1, w + i, inputs, outputs);
    for (int c = 0; c < outputs; c++)
        for (int i = 0; i < inputs; i++)
            check_product(bf16.gradients[c * inputs + i], fp32.gradients[c * inputs + i], 0, 0,
                          dy + c, outputs, x + i, inputs, b);
    assert_memory_equal(bf16.gradients + weights, fp32.gradients + weights,
                        (size_t)outputs * sizeof *w);
}

static void bfloat16_errors_stay_within_rounding(void **state) {
    (void)state;
    const int shapes[][3] = {{1, 1, 1},   {7, 3, 1},    {3, 7, 5},
                             {50, 20, 8}, {33, 65, 17}, {300, 257, 130}};
    for (int s = 0; s < 6; s++) {
        check_bfloat16(&dense, shapes[s][0], shapes[s][1], shapes[s][2]);
        check_bfloat16(&dense_relu, shapes[s][0], shapes[s][1], shapes[s][2]);
    }
}

static void gradients_may_overwrite_parameters(void **state) {
    (void)state;
    struct model m = {.out = {1, 1, 40}};
    append_dense(&m, &dense_relu, 65);
    model_append(&m, &made_up, m.out, 2 * 65, 65 * (65 + 1));
    append_dense(&m, &dense, 9);
    for (int b = 1; b <= 40; b += 13)
        for (int i = 0; i < 2; i++) {
            cudaDataType type = i ? CUDA_R_16BF : CUDA_R_32F;
            float *parameters = random_floats(m.parameters, 0.2f, 1);
            float *x = random_floats((size_t)b * 40, 1, 2),
                  *dy = random_floats((size_t)b * 9, 1, 3);
            struct results apart = run_step(&m, type, parameters, x, dy, b, 0),
                           over = run_step(&m, type, parameters, x, dy, b, 1);
            assert_memory_equal(over.y, apart.y, (size_t)b * 9 * sizeof *x);
            assert_memory_equal(over.gradients, apart.gradients, m.parameters * sizeof *x);
            assert_memory_equal(over.dx, apart.dx, (size_t)b * 40 * sizeof *x);
        }
}

// That it is enough the guards around it show, wherever it is used.
static void scratch_holds_a_layers_inputs_and_outputs(void **state) {
    (void)state;
    struct model m;
    build(&m, "512,512", 784);
    assert_int_equal(model_scratch(&m, CUDA_R_32F, 128), 0);
    assert_int_equal(model_scratch(&m, CUDA_R_16BF, 128), (784 + 512) * 128 * 2);
    assert_int_equal(model_scratch(&m, CUDA_R_16BF, 0), 512 * 4);
    build(&m, "65536,65536", 784);
    assert_int_equal(model_scratch(&m, CUDA_R_16BF, 1 << 20), 65536LL * 2 * (1 << 20) * 2);
}

// The sizes of layers are ints, so larger layers are refused before their sizes are computed.
static void model_build_refuses_images_that_are_too_large(void **state) {
    (void)state;
    const struct {
        const char *model;
        struct shape shape;
    } cases[] = {{"cnn", {5000, 5000, 1}},
                 {"cnn", {6, 1 << 28, 1}},
                 {"resnet", {30000, 30000, 1}},
                 {"resnet", {3000, 3000, 1}}};
    for (int i = 0; i < 4; i++) {
        struct training_options options = default_options();
        options.model = cases[i].model;
        options.depth = 18;
        refused(&options, cases[i].shape, " pixels are too large");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ARRAYS_TEST(dense_gradients_match_differences_of_the_loss),
        ARRAYS_TEST(mlp_gradients_match_differences_of_the_loss),
        ARRAYS_TEST(mlp_of_full_size_matches_double_precision),
        ARRAYS_TEST(new_kinds_of_layers_work),
        ARRAYS_TEST(dropout_depends_on_the_sample),
        ARRAYS_TEST(dropout_drops_the_given_fraction),
        ARRAYS_TEST(dropout_follows_hidden_layers),
        cmocka_unit_test(each_model_has_its_own_dropout),
        ARRAYS_TEST(initial_values_depend_on_seed_and_layer),
        ARRAYS_TEST(bfloat16_errors_stay_within_rounding),
        ARRAYS_TEST(gradients_may_overwrite_parameters),
        cmocka_unit_test(scratch_holds_a_layers_inputs_and_outputs),
        cmocka_unit_test(hidden_widths_make_an_mlp),
        cmocka_unit_test(model_build_allows_16_widths),
        cmocka_unit_test(model_build_refuses_wrong_models),
        cmocka_unit_test(model_build_refuses_images_that_are_too_large),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
