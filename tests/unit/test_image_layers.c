// The layers of images and the models that consist of them, against a forward pass in double
// precision and its finite differences. test_image_layers_in_parts.c runs the same tests with so
// little room for patches that convolutions compute a batch in several parts.
#include "common/data/data.h"
#include "common/layers/layers.h"
#include "common/models/models.h"
#include "tests/unit/model_step.h"
#include <stdio.h>

// How near the reference came to a point where a slope changes: an input of a ReLU to 0, or the
// largest value of a window to the next one. Differences across such a point are no gradients.
static double nearest_kink;

static double relu_of(double x) {
    nearest_kink = fmin(nearest_kink, fabs(x));
    return fmax(x, 0);
}

static size_t pixel_at(struct shape s, int image, int y, int x) {
    return (((size_t)image * (size_t)s.height + (size_t)y) * (size_t)s.width + (size_t)x) *
           (size_t)s.channels;
}

// Returns one output of a convolution, without the bias: that of filter w at the window (wy, wx).
static double filter_output(const struct layer *l, const double *w, const double *x, int image,
                            int wy, int wx) {
    const struct windows *windows = &l->convolution.windows;
    double sum = 0;
    for (int k = 0; k < windows->size * windows->size; k++) {
        int row = wy * windows->stride + k / windows->size - windows->padding;
        int column = wx * windows->stride + k % windows->size - windows->padding;
        if (row < 0 || row >= l->in.height || column < 0 || column >= l->in.width)
            continue;
        for (int c = 0; c < l->in.channels; c++)
            sum += w[k * l->in.channels + c] * x[pixel_at(l->in, image, row, column) + (size_t)c];
    }
    return sum;
}

static void reference_convolution(const struct layer *l, const double *w, const double *x,
                                  double *y, int b) {
    int patch = l->convolution.windows.size * l->convolution.windows.size * l->in.channels;
    for (int i = 0; i < b * l->outputs; i++) {
        int c = i % l->out.channels, window = i / l->out.channels;
        double sum = filter_output(l, w + c * patch, x, window / l->out.width / l->out.height,
                                   window / l->out.width % l->out.height, window % l->out.width);
        if (l->convolution.has_bias)
            sum += w[patch * l->out.channels + c];
        y[i] = l->kind == &convolution_relu ? relu_of(sum) : sum;
    }
}

static double largest_of(const struct layer *l, const double *x, int image, int wy, int wx, int c) {
    double best = -INFINITY, second = -INFINITY;
    for (int k = 0; k < l->pool.size * l->pool.size; k++) {
        int row = wy * l->pool.size + k / l->pool.size;
        int column = wx * l->pool.size + k % l->pool.size;
        double value = x[pixel_at(l->in, image, row, column) + (size_t)c];
        second = fmax(second, fmin(best, value));
        best = fmax(best, value);
    }
    if (best > 0) // Two zeros behind a ReLU may be equal: neither of them changes.
        nearest_kink = fmin(nearest_kink, best - second);
    return best;
}

static void reference_pooling(const struct layer *l, const double *x, double *y, int b) {
    for (int i = 0; i < b * l->outputs; i++) {
        int c = i % l->out.channels, window = i / l->out.channels;
        int image = window / l->out.width / l->out.height, pixels = l->in.height * l->in.width;
        if (l->kind == &max_pooling) {
            y[i] = largest_of(l, x, image, window / l->out.width % l->out.height,
                              window % l->out.width, c);
            continue;
        }
        y[i] = 0;
        for (int p = 0; p < pixels; p++)
            y[i] += x[(image * pixels + p) * l->in.channels + c] / pixels;
    }
}

static void reference_norm(const struct layer *l, const double *scale, const double *x, double *y,
                           int b) {
    int channels = l->in.channels, width = channels / l->norm.groups;
    int pixels = l->in.height * l->in.width, count = pixels * width;
    for (int group = 0; group < b * l->norm.groups; group++) {
        size_t first =
            (size_t)(group / l->norm.groups * l->inputs + group % l->norm.groups * width);
        double mean = 0, variance = 0;
        for (int i = 0; i < count; i++)
            mean += x[first + (size_t)(i / width * channels + i % width)] / count;
        for (int i = 0; i < count; i++)
            variance +=
                pow(x[first + (size_t)(i / width * channels + i % width)] - mean, 2) / count;
        for (int i = 0; i < count; i++) {
            size_t at = first + (size_t)(i / width * channels + i % width);
            int c = (int)(at % (size_t)channels);
            double value = (x[at] - mean) / sqrt(variance + 1e-5) * scale[c] + scale[channels + c];
            y[at] = l->kind == &group_normalisation_relu ? relu_of(value) : value;
        }
    }
}

static void reference_dense(const struct layer *l, const double *w, const double *x, double *y,
                            int b) {
    for (int i = 0; i < b * l->outputs; i++) {
        int c = i % l->outputs, row = i / l->outputs;
        double sum = w[l->inputs * l->outputs + c];
        for (int k = 0; k < l->inputs; k++)
            sum += w[c * l->inputs + k] * x[row * l->inputs + k];
        y[i] = l->kind == &dense_relu ? relu_of(sum) : sum;
    }
}

static void reference_dropout(const struct layer *l, const double *x, double *y, int b) {
    for (int i = 0; i < b * l->outputs; i++) {
        uint64_t index = pass.first_sample * (uint64_t)l->outputs + (uint64_t)i;
        float random = rng_uniform(rng_bits(pass.seed, (uint64_t)l->dropout.number), index);
        y[i] = !pass.training ? x[i] : random < l->dropout.rate ? 0 : x[i] / (1. - l->dropout.rate);
    }
}

static const double *reference_list(const struct layer *from, const struct layer *end,
                                    const double *parameters, const double *x, size_t count, int b);

// parameters: of the whole model.
static void reference_residual(const struct layer *l, const double *parameters, const double *x,
                               double *y, int b) {
    const struct layer *shortcut = l->residual.shortcut;
    size_t count = (size_t)b * (size_t)l->inputs;
    const double *body = reference_list(l->residual.body, shortcut, parameters, x, count, b);
    const double *other = reference_list(shortcut, l->residual.end, parameters, x, count, b);
    for (int i = 0; i < b * l->outputs; i++)
        y[i] = l->residual.relu ? relu_of(body[i] + other[i]) : body[i] + other[i];
    free((void *)body);
    free((void *)other);
}

// Returns the outputs of the layers from to end, or a copy of x [count] if there is none. The
// caller frees them.
static const double *reference_list(const struct layer *from, const struct layer *end,
                                    const double *parameters, const double *x, size_t count,
                                    int b) {
    double *copy = malloc((count + 1) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, x, count * sizeof *copy);
    for (const struct layer *l = from; l < end; l++) {
        double *y = malloc(((size_t)b * (size_t)l->outputs + 1) * sizeof *y);
        const double *w = parameters + l->first;
        assert_non_null(y);
        if (l->kind == &convolution || l->kind == &convolution_relu)
            reference_convolution(l, w, copy, y, b);
        else if (l->kind == &max_pooling || l->kind == &mean_pooling)
            reference_pooling(l, copy, y, b);
        else if (l->kind == &group_normalisation || l->kind == &group_normalisation_relu)
            reference_norm(l, w, copy, y, b);
        else if (l->kind == &dropout)
            reference_dropout(l, copy, y, b);
        else if (l->kind == &residual)
            reference_residual(l, parameters, copy, y, b);
        else
            reference_dense(l, w, copy, y, b);
        free(copy);
        copy = y;
    }
    return copy;
}

static size_t outputs_of(const struct model *m, int b) {
    return (size_t)b * (size_t)m->layers[m->count - 1].outputs;
}

static size_t inputs_of(const struct model *m, int b) {
    return (size_t)b * (size_t)m->layers[0].inputs;
}

// values: the model's parameters, then its inputs. The caller frees the outputs.
static const double *reference_forward(const struct model *m, const double *values, int b) {
    nearest_kink = INFINITY;
    return reference_list(m->layers, m->layers + m->count, values, values + m->parameters,
                          inputs_of(m, b), b);
}

// Returns the sum of outputs * dy.
static double weighted_sum(const struct model *m, const double *values, const float *dy, int b) {
    const double *y = reference_forward(m, values, b);
    double sum = 0;
    for (size_t i = 0; i < outputs_of(m, b); i++)
        sum += y[i] * dy[i];
    free((void *)y);
    return sum;
}

// Returns d(sum of outputs * dy) / d(values[i]).
static double slope(const struct model *m, double *values, const float *dy, int b, size_t i) {
    const double h = 1e-6, value = values[i];
    values[i] = value + h;
    double after = weighted_sum(m, values, dy, b);
    values[i] = value - h;
    double before = weighted_sum(m, values, dy, b);
    values[i] = value;
    return (after - before) / (2 * h);
}

// Returns random parameters and inputs with which no kink is near.
static float *new_values(const struct model *m, int b) {
    size_t count = m->parameters + inputs_of(m, b);
    for (uint64_t seed = 1; seed < 100; seed++) {
        float *values = random_floats(count, 0.5f, seed);
        double *wide = widen(values, count);
        free((void *)reference_forward(m, wide, b));
        if (nearest_kink > 1e-4)
            return values;
    }
    fail_msg("all values are near a kink");
    return NULL;
}

// Compares the elements from to end of an array of gradients with the slopes at values + first, or
// a random sample of them if there are many.
static void check_slopes(const struct model *m, double *values, const float *dy, int b,
                         const float *got, size_t first, size_t count) {
    enum { SAMPLE = SANITIZED ? 3 : 60 };
    for (size_t i = 0; i < count && i < SAMPLE; i++) {
        size_t k = count <= SAMPLE ? i : i == 0 ? count - 1 : rng_bits(9, i) % count;
        float want = (float)slope(m, values, dy, b, first + k);
        assert_close(got + k, &want, 1, 2e-4);
    }
}

// Checks the gradients of these layers, and of those that they consist of.
static void check_gradients(const struct model *m, const struct layer *from,
                            const struct layer *end, double *values, const float *dy, int b,
                            const float *gradients) {
    for (const struct layer *l = from; l < end; l++)
        if (l->kind == &residual)
            check_gradients(m, l->residual.body, l->residual.end, values, dy, b, gradients);
        else
            check_slopes(m, values, dy, b, gradients + l->first, l->first, l->parameters);
}

static void check_outputs(const struct step *s, const struct model *m, const double *values,
                          int b) {
    const double *y = reference_forward(m, values, b);
    size_t count = outputs_of(m, b);
    float *want = new_array(count * sizeof *want);
    for (size_t i = 0; i < count; i++)
        want[i] = (float)y[i];
    free((void *)y);
    assert_close((float *)to_host(s->activations[m->count], count * sizeof *want), want, count,
                 1e-4);
}

// In training and in evaluation, and with and without the gradient of the inputs.
static void check_model(const struct model *m, int b) {
    float *values = new_values(m, b), *x = values + m->parameters;
    double *wide = widen(values, m->parameters + inputs_of(m, b));
    float *dy = random_floats(outputs_of(m, b), 1, 2);
    for (int want_dx = 0; want_dx < 2; want_dx++) {
        struct step s = new_step(m, values, x, b);
        pass.training = 0;
        forward(&s, m, b);
        check_outputs(&s, m, wide, b);
        pass.training = 1;
        forward(&s, m, b);
        check_outputs(&s, m, wide, b);
        CUDA_CHECK(cudaMemcpy(s.dy, dy, outputs_of(m, b) * sizeof *dy, cudaMemcpyHostToDevice));
        backward(&s, m, b, want_dx);
        float *gradients = to_host(s.gradients, m->parameters * sizeof *gradients);
        check_gradients(m, m->layers, m->layers + m->count, wide, dy, b, gradients);
        if (want_dx)
            check_slopes(m, wide, dy, b, to_host(s.dy, inputs_of(m, b) * sizeof *x), m->parameters,
                         inputs_of(m, b));
        assert_unchanged(s.parameters, values, m->parameters * sizeof *values);
        assert_unchanged(s.activations[0], x, inputs_of(m, b) * sizeof *x);
    }
    assert_int_equal(free_arrays_and_reset_type(NULL), 0);
}

// The settings of a convolution.
struct filters {
    struct shape in;
    int outputs, size, stride, padding;
};

static const struct filters filters[] = {
    {{1, 1, 1}, 1, 1, 1, 0}, {{1, 1, 3}, 4, 3, 1, 1}, {{4, 5, 3}, 2, 3, 1, 0},
    {{5, 4, 2}, 3, 3, 2, 1}, {{7, 6, 1}, 5, 5, 3, 2}, {{6, 6, 4}, 3, 1, 2, 0},
    {{5, 5, 3}, 2, 2, 2, 1}, {{3, 3, 2}, 2, 3, 1, 2}, {{4, 4, 2}, 3, 2, 3, 0},
    {{3, 2, 2}, 9, 1, 1, 0}, // more outputs than elements of a patch
};
enum { FILTERS = sizeof filters / sizeof *filters };

static void append_filters(struct model *m, const struct filters *f, const struct layer_kind *kind,
                           int has_bias) {
    *m = (struct model){.out = f->in};
    append_convolution(m, kind, f->outputs, f->size, f->stride, f->padding, has_bias);
}

static void convolution_gradients_match_differences_of_the_loss(void **state) {
    (void)state;
    for (int i = 0; i < FILTERS * 4; i++) {
        struct model m;
        append_filters(&m, &filters[i / 4], i % 2 ? &convolution_relu : &convolution, i / 2 % 2);
        check_model(&m, 1 + i % 3);
        check_model(&m, 7);
    }
}

static void convolutions_have_the_shapes_of_pytorch(void **state) {
    (void)state;
    const int want[FILTERS][3] = {{1, 1, 1}, {1, 1, 4}, {2, 3, 2}, {3, 2, 3}, {3, 2, 5},
                                  {3, 3, 3}, {3, 3, 2}, {5, 5, 2}, {1, 1, 3}, {3, 2, 9}};
    for (int i = 0; i < FILTERS; i++) {
        const struct filters *f = &filters[i];
        struct model m;
        append_filters(&m, f, &convolution, i % 2);
        const struct layer *l = m.layers;
        assert_int_equal(l->out.height, want[i][0]);
        assert_int_equal(l->out.width, want[i][1]);
        assert_int_equal(l->out.channels, want[i][2]);
        assert_int_equal(l->parameters, f->outputs * (f->size * f->size * f->in.channels + i % 2));
        assert_true(l->flops == 2. * l->outputs * f->size * f->size * f->in.channels);
    }
}

static void pooling_gradients_match_differences_of_the_loss(void **state) {
    (void)state;
    const struct shape shapes[] = {{1, 1, 1}, {2, 2, 3}, {5, 7, 2}, {9, 8, 1}};
    for (int i = 0; i < 4; i++)
        for (int size = 0; size <= 3; size++) {
            struct model m = {.out = shapes[i]};
            if (size > shapes[i].height)
                continue;
            if (size == 0)
                append_mean_pooling(&m);
            else
                append_max_pooling(&m, size);
            check_model(&m, 1);
            check_model(&m, 4);
        }
}

static void group_norm_gradients_match_differences_of_the_loss(void **state) {
    (void)state;
    const struct groups norms[] = {{{1, 1, 4}, 2}, {{3, 3, 6}, 1}, {{3, 3, 6}, 2},
                                   {{3, 3, 6}, 6}, {{4, 2, 8}, 4}, {{17, 9, 2}, 1}};
    for (int i = 0; i < 12; i++) {
        struct model m = {.out = norms[i / 2].in};
        append_group_norm(&m, i % 2 ? &group_normalisation_relu : &group_normalisation,
                          norms[i / 2].groups);
        check_model(&m, 1);
        check_model(&m, 3);
    }
}

// projection: the shortcut is a convolution and a norm, otherwise the inputs themselves.
static void append_block(struct model *m, int channels, int stride, int projection) {
    begin_residual(m, !projection || stride > 1);
    append_convolution(m, &convolution_relu, channels, 3, stride, 1, 1);
    append_dropout(m, 0.3f);
    append_convolution(m, &convolution, channels, 3, 1, 1, 0);
    append_group_norm(m, &group_normalisation_relu, 2);
    append_dropout(m, 0.3f);
    append_convolution(m, &convolution, channels, 1, 1, 0, 1);
    begin_shortcut(m);
    if (projection) {
        append_convolution(m, &convolution, channels, 1, stride, 0, 0);
        append_group_norm(m, &group_normalisation, 2);
    }
    end_residual(m);
}

static void residual_gradients_match_differences_of_the_loss(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct model m = {.out = {3, 4, 4}};
        if (i != 1)
            append_block(&m, 4, 1, 0);
        if (i != 0)
            append_block(&m, 6, 2, 1);
        if (i == 3)
            append_block(&m, 6, 1, 1);
        check_model(&m, 1);
        check_model(&m, 3);
    }
}

// The inputs are many more than the outputs, and dx needs room for two gradients of them.
static void a_residual_block_may_be_the_first_layer(void **state) {
    (void)state;
    struct model m = {.out = {6, 6, 4}};
    begin_residual(&m, 0);
    append_mean_pooling(&m);
    begin_shortcut(&m);
    append_max_pooling(&m, 6);
    end_residual(&m);
    assert_true(m.layers[0].outputs + m.layers[0].workspace >= 2 * m.layers[0].inputs);
    check_model(&m, 3);
}

static void build(struct model *m, const char *name, int depth, int width, struct shape shape) {
    char why[WHY_SIZE] = "";
    struct training_options options = {
        .model = name, .hidden = "9", .depth = depth, .width = width, .dropout = NAN};
    struct dataset set = {.shape = shape, .inputs = shape_size(shape), .targets = 1, .classes = 10};
    if (model_build(m, &options, &set, why))
        fail_msg("%s", why);
}

static void cnn_gradients_match_differences_of_the_loss(void **state) {
    (void)state;
    struct model m;
    build(&m, "cnn", 0, 0, (struct shape){6, 7, 1});
    check_model(&m, 2);
    build(&m, "cnn", 0, 0, (struct shape){7, 8, 3});
    check_model(&m, 3);
}

static void resnet_gradients_match_differences_of_the_loss(void **state) {
    (void)state;
    struct model m;
    build(&m, "resnet", 8, 8, (struct shape){5, 6, 3});
    check_model(&m, 2);
    build(&m, "resnet", 14, 8, (struct shape){4, 4, 1});
    check_model(&m, 1);
}

// The models, and a block with all kinds of layers.
static void for_each_model(void (*check)(const struct model *m)) {
    struct model m;
    build(&m, "mlp", 0, 0, (struct shape){3, 4, 1});
    check(&m);
    build(&m, "cnn", 0, 0, (struct shape){6, 7, 3});
    check(&m);
    build(&m, "resnet", 8, 8, (struct shape){5, 6, 3});
    check(&m);
    build(&m, "resnet", 18, 8, (struct shape){8, 8, 1});
    check(&m);
    m = (struct model){.out = {5, 4, 4}};
    append_block(&m, 6, 2, 1);
    append_block(&m, 6, 1, 0);
    append_max_pooling(&m, 2);
    append_dense(&m, &dense_relu, 7);
    check(&m);
}

static void check_overwriting(const struct model *m) {
    for (int i = 0; i < 4; i++) {
        cudaDataType type = i % 2 ? CUDA_R_16BF : CUDA_R_32F;
        int b = i < 2 ? 1 : 5;
        float *values = random_floats(m->parameters, 0.2f, 1),
              *x = random_floats(inputs_of(m, b), 1, 2);
        float *dy = random_floats(outputs_of(m, b), 1, 3);
        struct results apart = run_step(m, type, values, x, dy, b, 0),
                       over = run_step(m, type, values, x, dy, b, 1);
        assert_memory_equal(over.y, apart.y, outputs_of(m, b) * sizeof *x);
        assert_memory_equal(over.gradients, apart.gradients, m->parameters * sizeof *x);
        assert_memory_equal(over.dx, apart.dx, inputs_of(m, b) * sizeof *x);
        assert_int_equal(free_arrays_and_reset_type(NULL), 0);
    }
}

static void gradients_may_overwrite_parameters(void **state) {
    (void)state;
    for_each_model(check_overwriting);
}

static void check_empty_batch(const struct model *m) {
    const float nothing[1] = {0}, *values = random_floats(m->parameters, 1, 1);
    for (int i = 0; i < 2; i++) {
        struct results r =
            run_step(m, i ? CUDA_R_16BF : CUDA_R_32F, values, nothing, nothing, 0, 0);
        for (size_t k = 0; k < m->parameters; k++)
            assert_true(r.gradients[k] == 0);
    }
}

static void gradients_of_empty_batches_are_0(void **state) {
    (void)state;
    for_each_model(check_empty_batch);
}

// Returns the numbers with the significand of a bfloat16, or their sizes.
static double *rounded_values(const float *x, size_t count, int sizes) {
    double *y = new_array(count * sizeof *y);
    for (size_t i = 0; i < count; i++)
        y[i] = sizes ? fabs(x[i]) : to_8_bits(x[i]);
    return y;
}

static float *to_floats(const double *x, size_t count) {
    float *y = new_array(count * sizeof *y);
    for (size_t i = 0; i < count; i++)
        y[i] = (float)x[i];
    return y;
}

// A convolution is linear in its parameters and in its inputs, so its slopes are sums of products.
static void check_bfloat16(const struct model *m, int b) {
    const struct layer *l = m->layers;
    size_t count = m->parameters + inputs_of(m, b), outputs = outputs_of(m, b);
    size_t weights = m->parameters - (size_t)(l->convolution.has_bias * l->out.channels);
    float *values = random_floats(count, 1, 1), *x = values + m->parameters;
    float *dy = random_floats(outputs, 1, 2);
    double *near = rounded_values(values, count, 0), *sizes = rounded_values(values, count, 1);
    float *dy_near = to_floats(rounded_values(dy, outputs, 0), outputs),
          *dy_sizes = to_floats(rounded_values(dy, outputs, 1), outputs);
    struct results fp32 = run_step(m, CUDA_R_32F, values, x, dy, b, 0),
                   bf16 = run_step(m, CUDA_R_16BF, values, x, dy, b, 0);
    const double *y = reference_forward(m, near, b), *y_sizes = reference_forward(m, sizes, b);
    int terms = l->convolution.windows.size * l->convolution.windows.size * l->in.channels + 1;
    for (size_t i = 0; i < outputs; i++)
        check_sum(bf16.y[i], fp32.y[i], y[i], y_sizes[i], terms);
    for (size_t i = 0; i < weights; i++)
        check_sum(bf16.gradients[i], fp32.gradients[i], slope(m, near, dy_near, b, i),
                  slope(m, sizes, dy_sizes, b, i) + 1e-6, b * l->outputs);
    for (size_t i = 0; i < inputs_of(m, b); i++)
        check_sum(bf16.dx[i], fp32.dx[i], slope(m, near, dy_near, b, m->parameters + i),
                  slope(m, sizes, dy_sizes, b, m->parameters + i) + 1e-6, terms * l->outputs);
    assert_memory_equal(bf16.gradients + weights, fp32.gradients + weights,
                        (m->parameters - weights) * sizeof *x);
    free((void *)y);
    free((void *)y_sizes);
    assert_int_equal(free_arrays_and_reset_type(NULL), 0);
}

static void bfloat16_errors_of_convolutions_stay_within_rounding(void **state) {
    (void)state;
    for (int i = 0; i < FILTERS * 2; i++) {
        struct model m;
        append_filters(&m, &filters[i / 2], &convolution, i % 2);
        check_bfloat16(&m, 1 + i % 5);
    }
}

// It computes in floats, so only its parameters are rounded.
static void check_norm_in_bfloat16(struct shape in) {
    enum { B = 3 };
    struct model m = {.out = in};
    append_group_norm(&m, &group_normalisation_relu, 2);
    float *w = random_floats(m.parameters, 1, 1), *x = random_floats(inputs_of(&m, B), 1, 2);
    float *dy = random_floats(outputs_of(&m, B), 1, 3);
    float *near = to_floats(rounded_values(w, m.parameters, 0), m.parameters);
    struct results bf16 = run_step(&m, CUDA_R_16BF, w, x, dy, B, 0),
                   fp32 = run_step(&m, CUDA_R_32F, near, x, dy, B, 0);
    assert_memory_equal(bf16.y, fp32.y, outputs_of(&m, B) * sizeof *x);
    assert_memory_equal(bf16.gradients, fp32.gradients, m.parameters * sizeof *x);
    assert_memory_equal(bf16.dx, fp32.dx, inputs_of(&m, B) * sizeof *x);
}

// With one pixel, the parameters as floats need more scratch memory than anything else.
static void group_norm_in_bfloat16_rounds_its_parameters(void **state) {
    (void)state;
    check_norm_in_bfloat16((struct shape){3, 5, 6});
    check_norm_in_bfloat16((struct shape){1, 1, 128});
}

// Returns the size of a - b as a share of the size of b.
static double difference(const float *a, const float *b, size_t count) {
    double squares = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        squares += pow((double)a[i] - b[i], 2);
        all += pow(b[i], 2);
    }
    return sqrt(squares / all);
}

// Rounding by 2^-8 adds up over the layers: to 0.01 of the outputs and, because some ReLUs switch,
// to 0.32 of dx of the deepest model. Wrong numbers are farther away than their own size.
static void check_near_fp32(const struct model *m) {
    enum { B = 5 };
    const float *values = initialised(m, 3), *x = random_floats(inputs_of(m, B), 1, 2);
    const float *dy = random_floats(outputs_of(m, B), 1, 3);
    struct results fp32 = run_step(m, CUDA_R_32F, values, x, dy, B, 0),
                   bf16 = run_step(m, CUDA_R_16BF, values, x, dy, B, 0);
    double of_y = difference(bf16.y, fp32.y, outputs_of(m, B)),
           of_gradients = difference(bf16.gradients, fp32.gradients, m->parameters),
           of_dx = difference(bf16.dx, fp32.dx, inputs_of(m, B));
    if (!(of_y < 0.03 && of_gradients < 0.4 && of_dx < 0.4)) // NaN is not near
        fail_msg("%g, %g and %g away", of_y, of_gradients, of_dx);
    assert_int_equal(free_arrays_and_reset_type(NULL), 0);
}

static void bfloat16_results_of_models_are_near_those_of_fp32(void **state) {
    (void)state;
    for_each_model(check_near_fp32);
}

// Each value depends only on the seed and on its place in the model, as PyTorch's defaults: uniform
// in +-1/sqrt(inputs of an output) for weights and biases, and 1 and 0 in norms.
static void check_initial_values(const struct layer *l, const struct layer *end,
                                 const float *parameters) {
    for (; l < end; l++) {
        if (l->kind == &residual) {
            check_initial_values(l->residual.body, l->residual.end, parameters);
            continue;
        }
        int norm = l->kind == &group_normalisation || l->kind == &group_normalisation_relu;
        int filter = l->kind == &convolution || l->kind == &convolution_relu;
        int size = filter ? l->convolution.windows.size : 1;
        float bound = (float)(1 / sqrt(filter ? size * size * l->in.channels : l->inputs));
        for (size_t i = 0; i < l->parameters; i++) {
            float want =
                norm ? i < (size_t)l->in.channels : bound * (2 * rng_uniform(1, l->first + i) - 1);
            assert_close(parameters + l->first + i, &want, 1, 1e-7);
        }
    }
}

static void check_initialised(const struct model *m) {
    check_initial_values(m->layers, m->layers + m->count, initialised(m, 1));
}

static void initial_values_are_those_of_pytorch(void **state) {
    (void)state;
    for_each_model(check_initialised);
}

// Parts begin and end anywhere, such as within the scales of a norm in a block.
static void check_parts(const struct model *m) {
    const float *whole = initialised(m, 1);
    for (int i = 0; i < m->count; i++)
        for (int round = 0; round < 20; round++) {
            const struct layer *l = &m->layers[i];
            float *parts = new_device_array(l->parameters * sizeof *parts);
            for (size_t from = 0, end; from < l->parameters; from = end) {
                size_t left = l->parameters - from, most = round < 10 ? left : 40;
                size_t length = 1 + rng_bits((uint64_t)round, from) % (most < left ? most : left);
                end = from + length;
                l->kind->initialise(l, parts + from, from, length, 1, pass.stream);
            }
            assert_unchanged(parts, whole + l->first, l->parameters * sizeof *parts);
        }
    assert_int_equal(free_arrays_and_reset_type(NULL), 0);
}

static void initialising_in_parts_gives_the_same_values(void **state) {
    (void)state;
    for_each_model(check_parts);
}

// Layers, and those within a block, lie behind each other.
static size_t check_places(const struct layer *l, const struct layer *end, size_t first) {
    for (; l < end; l++) {
        assert_int_equal(l->first, first);
        assert_int_equal(l->inputs, shape_size(l->in));
        assert_int_equal(l->outputs, shape_size(l->out));
        if (l->kind == &residual) {
            size_t after = check_places(l->residual.body, l->residual.end, first);
            assert_int_equal(after, first + l->parameters);
        }
        first += l->parameters;
    }
    return first;
}

static void check_contiguous(const struct model *m) {
    assert_int_equal(check_places(m->layers, m->layers + m->count, 0), m->parameters);
}

static void layers_are_contiguous(void **state) {
    (void)state;
    for_each_model(check_contiguous);
}

// Dropout of two layers must not drop the same values.
static void dropout_numbers_differ(void **state) {
    (void)state;
    struct model m = {.out = {3, 3, 2}};
    int numbers[100] = {0};
    append_dropout(&m, 0.5f);
    append_block(&m, 2, 1, 0);
    append_block(&m, 4, 2, 1);
    append_dropout(&m, 0.5f);
    const struct layer *lists[][2] = {{m.layers, m.layers + m.count},
                                      {m.inner, m.inner + m.inner_count}};
    int found = 0;
    for (int i = 0; i < 2; i++)
        for (const struct layer *l = lists[i][0]; l < lists[i][1]; l++)
            if (l->kind == &dropout) {
                assert_true(l->dropout.number >= 0 && l->dropout.number < 100);
                assert_int_equal(numbers[l->dropout.number]++, 0);
                found++;
            }
    assert_int_equal(found, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ARRAYS_TEST(convolution_gradients_match_differences_of_the_loss),
        ARRAYS_TEST(convolutions_have_the_shapes_of_pytorch),
        ARRAYS_TEST(pooling_gradients_match_differences_of_the_loss),
        ARRAYS_TEST(group_norm_gradients_match_differences_of_the_loss),
        ARRAYS_TEST(residual_gradients_match_differences_of_the_loss),
        ARRAYS_TEST(a_residual_block_may_be_the_first_layer),
        ARRAYS_TEST(cnn_gradients_match_differences_of_the_loss),
        ARRAYS_TEST(resnet_gradients_match_differences_of_the_loss),
        ARRAYS_TEST(gradients_may_overwrite_parameters),
        ARRAYS_TEST(gradients_of_empty_batches_are_0),
        ARRAYS_TEST(bfloat16_errors_of_convolutions_stay_within_rounding),
        ARRAYS_TEST(bfloat16_results_of_models_are_near_those_of_fp32),
        ARRAYS_TEST(group_norm_in_bfloat16_rounds_its_parameters),
        ARRAYS_TEST(initial_values_are_those_of_pytorch),
        ARRAYS_TEST(initialising_in_parts_gives_the_same_values),
        ARRAYS_TEST(layers_are_contiguous),
        ARRAYS_TEST(dropout_numbers_differ),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
