// The layers, and the models that consist of them, against a forward pass in double precision and
// its finite differences. To test a new kind of layer, add its formula to references, its word to
// append_word, and rows with it to examples: every test below goes through these rows.
// test_layers_in_parts.c runs the same tests with so little room for patches that convolutions
// compute a batch in several parts, and test_layers_in_parts_cu does so with the GPU's kernels,
// which host_cuda.h builds for the host.
#include "common/data/data.h"
#include "tests/unit/model_step.h"
#include "tests/unit/options.h"
#include "zoo/layers/inner.h"

enum { SAMPLE = SANITIZED ? 3 : 60, SEED = 3, MOST_TOKENS = 100 };

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
    const struct windows *windows = &settings_of(l)->convolution.windows;
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
    int size = settings_of(l)->convolution.windows.size, patch = size * size * l->in.channels;
    for (int i = 0; i < b * l->outputs; i++) {
        int c = i % l->out.channels, window = i / l->out.channels;
        double sum = filter_output(l, w + c * patch, x, window / l->out.width / l->out.height,
                                   window / l->out.width % l->out.height, window % l->out.width);
        if (settings_of(l)->convolution.has_bias)
            sum += w[patch * l->out.channels + c];
        y[i] = l->kind == &convolution_relu ? relu_of(sum) : sum;
    }
}

static double largest_of(const struct layer *l, const double *x, int image, int wy, int wx, int c) {
    double best = -INFINITY, second = -INFINITY;
    int size = settings_of(l)->pool.size;
    for (int k = 0; k < size * size; k++) {
        size_t pixel = pixel_at(l->in, image, wy * size + k / size, wx * size + k % size);
        double value = x[pixel + (size_t)c];
        second = fmax(second, fmin(best, value));
        best = fmax(best, value);
    }
    if (best > 0) // Two zeros after a ReLU may be equal: neither of them changes.
        nearest_kink = fmin(nearest_kink, best - second);
    return best;
}

static void reference_pooling(const struct layer *l, const double *w, const double *x, double *y,
                              int b) {
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

static void reference_norm(const struct layer *l, const double *w, const double *x, double *y,
                           int b) {
    int of_tokens = l->kind == &layer_normalisation;
    int groups = of_tokens ? 1 : settings_of(l)->norm.groups;
    int channels = l->in.channels, width = channels / groups;
    int pixels = of_tokens ? 1 : l->in.height * l->in.width, count = pixels * width;
    int images = b * l->inputs / (pixels * channels); // or tokens
    for (int group = 0; group < images * groups; group++) {
        size_t first = (size_t)(group / groups * pixels * channels + group % groups * width);
        double mean = 0, variance = 0;
        for (int i = 0; i < count; i++)
            mean += x[first + (size_t)(i / width * channels + i % width)] / count;
        for (int i = 0; i < count; i++)
            variance +=
                pow(x[first + (size_t)(i / width * channels + i % width)] - mean, 2) / count;
        for (int i = 0; i < count; i++) {
            size_t at = first + (size_t)(i / width * channels + i % width);
            int c = (int)(at % (size_t)channels);
            double value = (x[at] - mean) / sqrt(variance + 1e-5) * w[c] + w[channels + c];
            y[at] = l->kind == &group_normalisation_relu ? relu_of(value) : value;
        }
    }
}

static void reference_dense(const struct layer *l, const double *w, const double *x, double *y,
                            int b) {
    int is_linear = l->kind == &linear; // of tokens, and without a bias
    int inputs = is_linear ? l->in.channels : l->inputs;
    int outputs = is_linear ? l->out.channels : l->outputs;
    for (int i = 0; i < b * l->outputs; i++) {
        int c = i % outputs, row = i / outputs;
        double sum = is_linear ? 0 : w[inputs * outputs + c];
        for (int k = 0; k < inputs; k++)
            sum += w[c * inputs + k] * x[row * inputs + k];
        y[i] = l->kind == &dense_relu ? relu_of(sum) : sum;
    }
}

static double random_of(struct dropping d, uint64_t index) {
    return rng_uniform(rng_bits(pass.seed, (uint64_t)d.number), index);
}

static void reference_dropout(const struct layer *l, const double *w, const double *x, double *y,
                              int b) {
    struct dropping d = settings_of(l)->dropout;
    for (int i = 0; i < b * l->outputs; i++) {
        double random = random_of(d, pass.first_sample * (uint64_t)l->outputs + (uint64_t)i);
        y[i] = !pass.training ? x[i] : random < d.rate ? 0 : x[i] / (1. - d.rate);
    }
}

static void reference_embedding(const struct layer *l, const double *w, const double *x, double *y,
                                int b) {
    int width = l->out.channels;
    for (int i = 0; i < b * l->outputs; i++)
        y[i] = w[(int)x[i / width] * width + i % width] +
               w[settings_of(l)->tokens * width + i % (l->inputs * width)];
}

static void reference_bias(const struct layer *l, const double *w, const double *x, double *y,
                           int b) {
    for (int i = 0; i < b * l->outputs; i++) {
        double z = x[i] + w[i % l->out.channels];
        double gelu = z / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (z + 0.044715 * pow(z, 3))));
        y[i] = l->kind == &gelu_layer ? gelu : z;
    }
}

// Sets p to the probabilities with which a token sees itself and those before it, in one head. q
// and k: the first values of the head's queries and keys, stride values from those of the next one.
static void reference_probabilities(const double *q, const double *k, int stride, int token,
                                    int width, double *p) {
    double sum = 0;
    for (int other = 0; other <= token; other++) {
        double score = 0;
        for (int d = 0; d < width; d++)
            score += q[token * stride + d] * k[other * stride + d];
        sum += p[other] = exp(score / sqrt(width));
    }
    for (int other = 0; other <= token; other++)
        p[other] /= sum;
}

static void reference_attention(const struct layer *l, const double *w, const double *x, double *y,
                                int b) {
    int t = l->in.height, heads = settings_of(l)->attention.heads;
    int width = l->out.channels / heads, stride = 3 * heads * width;
    struct dropping d = settings_of(l)->attention.dropout;
    double rate = pass.training ? d.rate : 0, p[MOST_TOKENS];
    for (int i = 0; i < b * heads * t; i++) {
        int token = i % t, sample = i / t / heads, head = i / t % heads;
        const double *q = x + sample * t * stride + head * width, *v = q + 2 * heads * width;
        double *outputs = y + ((sample * t + token) * heads + head) * width;
        reference_probabilities(q, q + heads * width, stride, token, width, p);
        memset(outputs, 0, (size_t)width * sizeof *outputs);
        for (int other = 0; other <= token; other++) {
            uint64_t row = (pass.first_sample * (uint64_t)heads * (uint64_t)t + (uint64_t)i);
            int dropped = random_of(d, row * (uint64_t)t + (uint64_t)other) < rate;
            for (int k = 0; k < width && !dropped; k++)
                outputs[k] += p[other] / (1 - rate) * v[other * stride + k];
        }
    }
}

static const double *reference_list(const struct layer *from, const struct layer *end,
                                    const double *parameters, const double *x, size_t count, int b);

static void reference_block(const struct layer *l, const double *w, const double *x, double *y,
                            int b) {
    const struct zoo_layer *z = zoo_layer(l);
    const double *end =
        reference_list(z->inner, z->inner_end, w - l->first, x, (size_t)b * (size_t)l->inputs, b);
    memcpy(y, end, (size_t)(b * l->outputs) * sizeof *y);
    free((void *)end);
}

static void reference_residual(const struct layer *l, const double *w, const double *x, double *y,
                               int b) {
    const struct layer *shortcut = settings_of(l)->residual.shortcut;
    const double *parameters = w - l->first; // of the whole model
    size_t count = (size_t)b * (size_t)l->inputs;
    const double *body = reference_list(zoo_layer(l)->inner, shortcut, parameters, x, count, b);
    const double *other =
        reference_list(shortcut, zoo_layer(l)->inner_end, parameters, x, count, b);
    for (int i = 0; i < b * l->outputs; i++)
        y[i] = relu_of(body[i] + other[i]);
    free((void *)body);
    free((void *)other);
}

static void reference_sublayer(const struct layer *l, const double *w, const double *x, double *y,
                               int b) {
    reference_block(l, w, x, y, b);
    for (int i = 0; i < b * l->outputs; i++)
        y[i] += x[i];
}

// Returns the layer after l in its list. Inner layers lie between two inner layers.
static const struct layer *next_layer(const struct layer *l) {
    return zoo_layer(l)->around ? layer_after(l) : l + 1;
}

// Each kind of layer in double precision: y from x, with the parameters w of the layer.
static const struct {
    const struct layer_kind *kind;
    void (*forward)(const struct layer *l, const double *w, const double *x, double *y, int b);
} references[] = {
    {&dense, reference_dense},
    {&dense_relu, reference_dense},
    {&linear, reference_dense},
    {&bias, reference_bias},
    {&convolution, reference_convolution},
    {&convolution_relu, reference_convolution},
    {&max_pooling, reference_pooling},
    {&mean_pooling, reference_pooling},
    {&group_normalisation, reference_norm},
    {&group_normalisation_relu, reference_norm},
    {&dropout, reference_dropout},
    {&residual, reference_residual},
    {&embedding, reference_embedding},
    {&layer_normalisation, reference_norm},
    {&gelu_layer, reference_bias},
    {&attention, reference_attention},
    {&block, reference_block},
    {&sublayer, reference_sublayer},
};

// Returns the outputs of the layers from to end, or a copy of x [count] if there is none. The
// caller frees them.
static const double *reference_list(const struct layer *from, const struct layer *end,
                                    const double *parameters, const double *x, size_t count,
                                    int b) {
    double *copy = malloc((count + 1) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, x, count * sizeof *copy);
    for (const struct layer *l = from; l < end; l = next_layer(l)) {
        double *y = malloc(((size_t)b * (size_t)l->outputs + 1) * sizeof *y);
        size_t i = 0;
        assert_non_null(y);
        while (references[i].kind != l->kind)
            i++;
        references[i].forward(l, parameters + l->first, copy, y, b);
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

static int reads_tokens(const struct model *m) {
    return m->layers[0].kind == &embedding;
}

static int is_norm(const struct layer *l) {
    return l->kind == &group_normalisation || l->kind == &group_normalisation_relu ||
           l->kind == &layer_normalisation;
}

static float *random_inputs(const struct model *m, int b, uint64_t seed) {
    float *x = random_floats(inputs_of(m, b), 1, seed);
    for (size_t i = 0; reads_tokens(m) && i < inputs_of(m, b); i++)
        x[i] = (float)(rng_bits(seed, i) % (uint64_t)settings_of(m->layers)->tokens);
    return x;
}

// Returns random parameters and inputs with which no kink is near.
static float *new_values(const struct model *m, int b) {
    size_t count = m->parameters + inputs_of(m, b);
    for (uint64_t seed = 1; seed < 100; seed++) {
        float *values = random_floats(count, 0.5f, seed);
        if (reads_tokens(m))
            memcpy(values + m->parameters, random_inputs(m, b, seed),
                   inputs_of(m, b) * sizeof *values);
        // The deviation of the first sample is so small that the 1e-5 of a norm matters, and the
        // exponentials of its scores in attention, and of its values in GELU, are no floats.
        float scale = is_norm(m->layers)                ? 0.01f
                      : m->layers[0].kind == &sublayer  ? 50
                      : m->layers[0].kind == &attention ? 20
                                                        : 1;
        for (int i = 0; i < m->layers[0].inputs && scale != 1; i++)
            values[m->parameters + (size_t)i] *= scale;
        double *wide = widen(values, count);
        free((void *)reference_forward(m, wide, b));
        if (nearest_kink > 1e-4)
            return values;
    }
    fail_msg("all values are near a kink");
    return NULL;
}

// Compares an array of gradients with the slopes at values + first, or a random sample of them if
// there are many.
static void check_slopes(const struct model *m, double *values, const float *dy, int b,
                         const float *got, size_t first, size_t count) {
    size_t sample = m->count > 2 ? SAMPLE / 3 : SAMPLE; // the layers of models are examples, too
    for (size_t i = 0; i < count && i < sample; i++) {
        size_t k = count <= sample ? i : i == 0 ? count - 1 : rng_bits(9, i) % count;
        float want = (float)slope(m, values, dy, b, first + k);
        assert_close(got + k, &want, 1, 1e-4);
    }
}

static void check_gradients(const struct model *m, const struct layer *from,
                            const struct layer *end, double *values, const float *dy, int b,
                            const float *gradients) {
    for (const struct layer *l = from; l < end; l = next_layer(l)) {
        const struct zoo_layer *z = zoo_layer(l);
        if (z->inner)
            check_gradients(m, z->inner, z->inner_end, values, dy, b, gradients);
        else
            check_slopes(m, values, dy, b, gradients + l->first, l->first, l->parameters);
    }
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

// Appends a layer, or begins or ends one that consists of others. n: the numbers after the word.
static void append_word(struct model *m, const char *word, const double *n) {
    const int i = (int)n[0];
#define WORD(name, call)                                                                           \
    if (!strcmp(word, name)) {                                                                     \
        call;                                                                                      \
        return;                                                                                    \
    }
#define CONVOLUTION(kind) append_convolution(m, kind, i, (int)n[1], (int)n[2], (int)n[3], (int)n[4])
    WORD("dense", append_dense(m, &dense, i))
    WORD("dense_relu", append_dense(m, &dense_relu, i))
    WORD("conv", CONVOLUTION(&convolution)) // outputs, size, stride, padding, 1 with a bias
    WORD("conv_relu", CONVOLUTION(&convolution_relu))
    WORD("max_pool", append_max_pooling(m, i))
    WORD("mean_pool", append_mean_pooling(m))
    WORD("norm", append_group_norm(m, &group_normalisation, i))
    WORD("norm_relu", append_group_norm(m, &group_normalisation_relu, i))
    WORD("dropout", append_dropout(m, (float)n[0]))
    WORD("embedding", append_embedding(m, 7, i))
    WORD("layer_norm", append_layer_norm(m))
    WORD("linear", append_linear(m, i, 0.3f))
    WORD("bias", append_bias(m))
    WORD("gelu", append_gelu(m))
    WORD("attention", append_attention(m, i, (float)n[1])) // heads, rate of dropout
    WORD("residual(", begin_residual(m))
    WORD("shortcut", begin_shortcut(m))
    WORD(")residual", end_residual(m))
    WORD("sublayer(", begin_sublayer(m))
    WORD(")sublayer", end_inner(m))
    WORD("block(", begin_block(m))
    WORD(")block", end_inner(m))
    fail_msg("no layer: %s", word);
}

// text: words of layers with their numbers, or the options of a model.
static void build(struct model *m, const char *text) {
    char word[20], why[WHY_SIZE] = "";
    if (text[0] == '-') {
        set_options(text);
        struct dataset set = set_of(m->out, 10);
        if (model_build(m, &opt, &set, why))
            fail_msg("%s", why);
        return;
    }
    for (int length; sscanf(text, "%19s%n", word, &length) == 1;) {
        double n[5] = {0};
        text += length;
        for (int i = 0; i < 5 && sscanf(text, "%lf%n", &n[i], &length) == 1; i++)
            text += length;
        append_word(m, word, n);
    }
}

// Residual blocks: the shortcut is a convolution and a norm, or the inputs themselves.
#define BODY(channels, stride)                                                                     \
    "residual( conv_relu " channels " 3 " stride " 1 1 dropout 0.3 conv " channels                 \
    " 3 1 1 0 norm_relu 2 dropout 0.3 conv " channels " 1 1 0 1 shortcut "
#define SAME(channels) BODY(channels, "1") ")residual "
#define PROJECTED(channels) BODY(channels, "2") "conv " channels " 1 2 0 0 norm 2 )residual "
// A block of a transformer of width 6, whose last inner layer is no sum.
#define TRANSFORMER                                                                                \
    "block( sublayer( linear 18 bias attention 3 0.2 dropout 0.2 )sublayer "                       \
    "sublayer( linear 7 gelu linear 6 bias )sublayer linear 5 "

static const struct example {
    int b; // batches of 1 and of b samples
    struct shape in;
    const char *text;
    struct shape out; // if it is known from PyTorch
} examples[] = {
    {1, {1, 1, 7}, "dense 3"},
    {8, {1, 1, 50}, "dense_relu 20"},
    {300, {1, 1, 33}, "dense 65"}, // several threads of the CPU device share such a batch
    {300, {1, 1, 33}, "dense_relu 65"},
    {7, {1, 1, 1}, "conv 1 1 1 0 0", {1, 1, 1}},
    {7, {4, 5, 3}, "conv_relu 2 3 1 0 0", {2, 3, 2}},
    {7, {5, 4, 2}, "conv 3 3 2 1 1", {3, 2, 3}},
    {7, {7, 6, 1}, "conv_relu 5 5 3 2 1", {3, 2, 5}},
    {7, {5, 5, 3}, "conv 2 2 2 1 0", {3, 3, 2}},
    {7, {3, 3, 2}, "conv_relu 2 3 1 2 0", {5, 5, 2}},
    {7, {4, 4, 2}, "conv 3 2 3 0 1", {1, 1, 3}},
    {4, {29, 31, 6}, "conv 2 3 2 1 0", {15, 16, 2}},
    {7, {3, 2, 2}, "conv_relu 9 1 1 0 1", {3, 2, 9}}, // more outputs than patch elements
    {4, {5, 7, 2}, "mean_pool", {1, 1, 2}},
    {4, {1, 1, 1}, "max_pool 1", {1, 1, 1}},
    {4, {5, 7, 2}, "max_pool 2", {2, 3, 2}},
    {4, {5, 7, 2}, "max_pool 3", {1, 2, 2}},
    {4, {29, 31, 6}, "mean_pool", {1, 1, 6}},
    {4, {29, 31, 6}, "max_pool 3", {9, 10, 6}},
    {2, {4, 5, 70}, "max_pool 2", {2, 2, 70}}, // more channels than the CPU device takes at a time
    {3, {1, 1, 4}, "norm 2"},
    {3, {3, 3, 6}, "norm_relu 2"},
    {3, {3, 3, 6}, "norm 6"},
    {3, {23, 13, 8}, "norm_relu 1"},
    {12, {16, 16, 8}, "norm 2"},
    {2, {2, 1, 522}, "norm 2"},
    {3, {1, 1, 128}, "norm 2"}, // in bfloat16, its parameters take most of the scratch
    {9, {1, 1, 6}, "dense_relu 5 dropout 0.5 dense_relu 6 dropout 0.3 dense 3"},
    {3, {3, 4, 4}, SAME("4")},
    {3, {3, 4, 4}, PROJECTED("6")},
    {3, {3, 4, 4}, SAME("4") PROJECTED("6") SAME("6")},
    // The inputs are many more than the outputs, and backward stores two gradients of them.
    {3, {6, 6, 4}, "residual( mean_pool shortcut max_pool 6 )residual"},
    {3, {1, 1, 1}, "embedding 1", {1, 1, 1}},
    {5, {9, 1, 1}, "embedding 6", {9, 1, 6}},
    {5, {65, 1, 1}, "embedding 65", {65, 1, 65}},
    {4, {1, 1, 5}, "layer_norm", {1, 1, 5}},
    {4, {7, 1, 33}, "layer_norm", {7, 1, 33}},
    {1, {520, 1, 132}, "layer_norm", {520, 1, 132}}, // a block of a GPU computes two tokens
    {1, {4100, 1, 2}, "layer_norm", {4100, 1, 2}},   // a warp does
    {2, {2, 1, 1028}, "layer_norm", {2, 1, 1028}},   // and a thread eight channels
    {4, {5, 1, 7}, "linear 3", {5, 1, 3}},
    {4, {2, 1, 3}, "linear 65", {2, 1, 65}},
    {2, {5, 1, 7}, "sublayer( linear 9 bias linear 7 )sublayer", {5, 1, 7}},
    {2, {5, 1, 7}, "sublayer( linear 9 bias linear 7 gelu )sublayer", {5, 1, 7}},
    {2, {5, 1, 12}, "sublayer( linear 20 bias linear 12 bias dropout 0.3 )sublayer", {5, 1, 12}},
    {1, {40, 1, 32}, "sublayer( linear 64 bias linear 32 bias )sublayer", {40, 1, 32}},
    {2, {1, 1, 12}, "attention 2 0", {1, 1, 4}},
    {2, {5, 1, 27}, "attention 3 0", {5, 1, 9}},
    {2, {7, 1, 12}, "attention 4 0.3", {7, 1, 4}},
    {1, {65, 1, 12}, "attention 2 0.3", {65, 1, 4}},
    {1, {35, 1, 216}, "attention 1 0", {35, 1, 72}},
    {2, {5, 4, 4}, PROJECTED("6") SAME("6") "max_pool 2 dense_relu 7"},
    {3, {5, 1, 6}, TRANSFORMER ")block layer_norm"},
    {3, {5, 1, 6}, TRANSFORMER "bias )block layer_norm"},
    {20, {3, 4, 1}, "--hidden 9"},
    {2, {6, 7, 1}, "--model cnn"},
    {3, {7, 8, 3}, "--model cnn"},
    {2, {5, 6, 3}, "--model resnet --depth 8 --width 8"},
    {1, {4, 4, 1}, "--model resnet --depth 14 --width 8"},
    {3, {6, 1, 1}, "--model gpt --layers 1 --heads 2 --width 8 --dropout 0.2"},
    {2, {5, 1, 1}, "--model gpt --layers 2 --heads 2 --width 6"},
};
enum { EXAMPLES = sizeof examples / sizeof *examples };

static const struct example *current; // the one that a test is at

static void for_each_example(void (*check)(const struct model *m, int b)) {
    for (current = examples; current < examples + EXAMPLES; current++) {
        struct model m = {.out = current->in};
        build(&m, current->text);
        check(&m, current->b);
        free(m.more);
        assert_int_equal(free_arrays_and_reset_type(NULL), 0);
    }
    current = NULL;
}

// The teardown of each test. It names the example that has failed.
static int end_of_test(void **state) {
    if (current)
        print_error("in the example of %s\n", current->text);
    current = NULL;
    return free_arrays_and_reset_type(state);
}

static void check_shape(const struct model *m, int b) {
    const struct shape want = current->out;
    if (want.height)
        assert_memory_equal(&m->out, &want, sizeof want);
}

TEST(shapes_are_those_of_pytorch) {
    for_each_example(check_shape);
}

// In evaluation and in training. Without the gradient of the inputs, the gradients overwrite the
// parameters, as in step 5.
static void check_model(const struct model *m, int b, int want_dx) {
    float *values = new_values(m, b), *x = values + m->parameters;
    double *wide = widen(values, m->parameters + inputs_of(m, b));
    float *dy = random_floats(outputs_of(m, b), 1, 2);
    struct step s = new_step(m, values, x, b);
    for (pass.training = 0; pass.training < 2; pass.training++) {
        forward(&s, m, b);
        check_outputs(&s, m, wide, b);
    }
    pass.training = 1;
    if (!want_dx)
        s.gradients = s.parameters;
    CUDA_CHECK(cudaMemcpy(s.dy, dy, outputs_of(m, b) * sizeof *dy, cudaMemcpyHostToDevice));
    backward(&s, m, b, want_dx);
    float *gradients = to_host(s.gradients, m->parameters * sizeof *gradients);
    check_gradients(m, m->layers, m->layers + m->count, wide, dy, b, gradients);
    if (want_dx) {
        assert_unchanged(s.parameters, values, m->parameters * sizeof *values);
        if (!reads_tokens(m))
            check_slopes(m, wide, dy, b, to_host(s.dy, inputs_of(m, b) * sizeof *x), m->parameters,
                         inputs_of(m, b));
    }
    assert_unchanged(s.activations[0], x, inputs_of(m, b) * sizeof *x);
}

static void check_both_batches(const struct model *m, int b) {
    check_model(m, 1, b == 1);
    for (int want_dx = 0; want_dx < 2 && b > 1; want_dx++)
        check_model(m, b, want_dx);
}

TEST(gradients_match_differences_of_the_loss) {
    for_each_example(check_both_batches);
}

static void check_empty_batch(const struct model *m, int b) {
    const float nothing[1] = {0}, *values = random_floats(m->parameters, 1, 1);
    for (int i = 0; i < 2; i++) {
        struct results r = run_step(m, i ? CUDA_R_16BF : CUDA_R_32F, values, nothing, nothing, 0);
        for (size_t k = 0; k < m->parameters; k++)
            assert_true(r.gradients[k] == 0);
    }
}

TEST(gradients_of_empty_batches_are_0) {
    for_each_example(check_empty_batch);
}

// A part of a batch has the outputs and the gradients of its inputs that the whole batch has, with
// the same random numbers. Attention computes each head apart, and so has the same bits.
static void check_slice(const struct model *m, int b) {
    int first = b / 2;
    size_t begin = outputs_of(m, first), begin_x = inputs_of(m, first);
    const float *values = random_floats(m->parameters, 0.2f, 1);
    const float *x = random_inputs(m, b, 2), *dy = random_floats(outputs_of(m, b), 1, 3);
    double tolerance = m->layers[0].kind == &attention ? 0 : 1e-5;
    struct results whole = run_step(m, CUDA_R_32F, values, x, dy, b);
    pass.first_sample += (uint64_t)first;
    struct results slice = run_step(m, CUDA_R_32F, values, x + begin_x, dy + begin, b - first);
    pass.first_sample -= (uint64_t)first;
    assert_close(slice.y, whole.y + begin, outputs_of(m, b) - begin, tolerance);
    if (!reads_tokens(m))
        assert_close(slice.dx, whole.dx + begin_x, inputs_of(m, b) - begin_x, tolerance);
}

TEST(slices_of_a_batch_have_its_results) {
    for_each_example(check_slice);
}

// No ReLU and no largest value hides it, and no other sample has it.
static void check_nan(const struct model *m, int b) {
    if (reads_tokens(m))
        return;
    int nans[2] = {0}; // of the other samples, and of the last one
    float *x = random_inputs(m, b, 2), *y;
    x[inputs_of(m, b - 1)] = NAN;
    struct step s = new_step(m, random_floats(m->parameters, 0.2f, 1), x, b);
    pass.training = 0;
    forward(&s, m, b);
    pass.training = 1;
    y = to_host(s.activations[m->count], outputs_of(m, b) * sizeof *y);
    for (size_t i = 0; i < outputs_of(m, b); i++)
        nans[i >= outputs_of(m, b - 1)] += !!isnan(y[i]);
    assert_true(nans[0] == 0 && nans[1] > 0);
}

TEST(a_nan_stays_visible_in_its_sample) {
    for_each_example(check_nan);
}

// Returns the size of a - b as a share of the size of b.
static double difference(const float *a, const float *b, size_t count) {
    double squares = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        squares += pow((double)a[i] - b[i], 2);
        all += pow(b[i], 2);
    }
    return all == 0 ? squares : sqrt(squares / all);
}

// Rounding by 2^-8 adds up over the layers. In models, some ReLUs switch, which changes dx of the
// deepest one by 0.32. A single layer may be all near the kink of a ReLU. Wrong numbers are farther
// away than their own size. The gradients in bfloat16 overwrite the parameters.
static void check_near_fp32(const struct model *m, int b) {
    enum { B = 5 };
    const float *values = initialised(m, SEED), *x = random_inputs(m, B, 2);
    const float *dy = random_floats(outputs_of(m, B), 1, 3);
    new_values(m, B);
    int has_kinks = isfinite(nearest_kink); // as new_values has found
    if (has_kinks && m->count < 3)
        return;
    struct results fp32 = run_step(m, CUDA_R_32F, values, x, dy, B),
                   bf16 = run_step(m, CUDA_R_16BF, values, x, dy, B);
    double of_y = difference(bf16.y, fp32.y, outputs_of(m, B)),
           of_gradients = difference(bf16.gradients, fp32.gradients, m->parameters),
           of_dx = reads_tokens(m) ? 0 : difference(bf16.dx, fp32.dx, inputs_of(m, B));
    double most = has_kinks ? 0.4 : 0.03;
    if (!(of_y < 0.03 && of_gradients < most && of_dx < most)) // NaN is not near
        fail_msg("%g, %g and %g away", of_y, of_gradients, of_dx);
}

TEST(bfloat16_results_are_near_those_of_fp32) {
    for_each_example(check_near_fp32);
}

// Each value depends only on the seed and on its place in the model. They are PyTorch's defaults:
// uniform in +-1/sqrt(inputs of an output) for weights and biases, and 1 and 0 in norms; or those
// of GPT-2: normal for weights and embeddings, and 0 for biases.
static float initial_value(const struct layer *l, size_t i) {
    int filter = l->kind == &convolution || l->kind == &convolution_relu;
    int size = filter ? settings_of(l)->convolution.windows.size : 1;
    float bound = (float)(1 / sqrt(filter ? size * size * l->in.channels : l->inputs));
    float deviation = l->kind == &embedding ? 0.02f
                      : l->kind == &linear  ? settings_of(l)->deviation
                                            : 0;
    if (is_norm(l))
        return i < (size_t)l->in.channels;
    if (zoo_layer(l)->elementwise)
        return 0;
    if (deviation != 0)
        return deviation * rng_normal(SEED, l->first + i);
    return bound * (2 * rng_uniform(SEED, l->first + i) - 1);
}

static void check_initial_values(const struct layer *l, const struct layer *end,
                                 const float *parameters) {
    for (; l < end; l = next_layer(l)) {
        const struct zoo_layer *z = zoo_layer(l);
        if (z->inner) {
            check_initial_values(z->inner, z->inner_end, parameters);
            continue;
        }
        for (size_t i = 0; i < l->parameters; i++) {
            float want = initial_value(l, i);
            assert_close(parameters + l->first + i, &want, 1, 1e-7);
        }
    }
}

// In parts, which begin and end anywhere, such as within the scales of a norm in a block.
static void check_initialised(const struct model *m, int b) {
    float *parameters = new_device_array(m->parameters * sizeof *parameters);
    check_initial_values(m->layers, m->layers + m->count, initialised(m, SEED));
    for (const struct layer *l = m->layers; l < m->layers + m->count; l++)
        for (size_t from = 0, length; from < l->parameters; from += length) {
            size_t left = l->parameters - from;
            length = 1 + rng_bits(SEED, from) % (left < 40 ? left : 40);
            l->kind->initialise(l, parameters + l->first + from, from, length, SEED, pass.stream);
        }
    check_initial_values(m->layers, m->layers + m->count,
                         to_host(parameters, m->parameters * sizeof *parameters));
}

TEST(initial_values_are_those_of_pytorch_and_gpt2) {
    for_each_example(check_initialised);
}

// Layers of a model must not drop the same values.
static void check_dropout_numbers(const struct model *m, int b) {
    int seen[100] = {0};
    const struct zoo_model *z = zoo_model(m);
    const struct layer *lists[][2] = {{m->layers, m->layers + m->count},
                                      {z ? z->inner : NULL, z ? z->inner + z->count : NULL}};
    for (int i = 0; i < 2; i++)
        for (const struct layer *l = lists[i][0]; l < lists[i][1]; l++)
            if (l->kind == &dropout)
                assert_int_equal(seen[settings_of(l)->dropout.number]++, 0);
            else if (l->kind == &attention)
                assert_int_equal(seen[settings_of(l)->attention.dropout.number]++, 0);
}

TEST(each_dropout_of_a_model_has_its_number) {
    for_each_example(check_dropout_numbers);
}

int main(void) {
    setenv("OMP_NUM_THREADS", "3", 0); // large arrays are shared out even where there is one core
    return run_all_tests((struct around){open_device, close_device, .end = end_of_test});
}
