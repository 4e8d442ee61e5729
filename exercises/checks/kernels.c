// Compares the attendee's kernels with their formulas: "kernels loss", "kernels sgd", "kernels
// mask" and "kernels running". At the first difference, it prints what it found and what that
// means, and exits with 1.
#include "common/kernels/kernels.h"
#include "common/base/rng.h"
#include "common/device/device.h"
#include "zoo/kernels/attention_kernels.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *to_device(const void *values, size_t bytes) {
    void *copy;
    CUDA_CHECK(cudaMalloc(&copy, bytes));
    CUDA_CHECK(cudaMemcpy(copy, values, bytes, cudaMemcpyHostToDevice));
    return copy;
}

static void *to_host(void *values, size_t bytes) {
    void *copy = malloc(bytes);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(copy, values, bytes, cudaMemcpyDeviceToHost));
    return copy;
}

static float *random_floats(size_t count, float bound, uint64_t seed) {
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = bound * (2 * rng_uniform(seed, i) - 1);
    return values;
}

static int close_to(double a, double b) {
    return fabs(a - b) <= 1e-5 * fmax(1, fabs(b));
}

static float smoothing; // --label-smoothing

static double loss(const double *z, int classes, int label) {
    double largest = z[0], sum = 0, mean = 0;
    for (int c = 1; c < classes; c++)
        largest = fmax(largest, z[c]);
    for (int c = 0; c < classes; c++) {
        sum += exp(z[c] - largest);
        mean += z[c] / classes;
    }
    return log(sum) + largest - (1 - smoothing) * z[label] - smoothing * mean;
}

// The gradient of the loss with respect to z[c], by its definition: how much the loss changes if
// z[c] does.
static double slope(const float *row, int classes, int label, int c) {
    const double h = 1e-4;
    double z[256];
    for (int i = 0; i < classes; i++)
        z[i] = row[i];
    z[c] += h;
    double above = loss(z, classes, label);
    z[c] -= 2 * h;
    return (above - loss(z, classes, label)) / (2 * h);
}

static const char *explain_gradient(const float *z, int label, int classes, int c, double got,
                                    double want, double scale) {
    double largest = -INFINITY, sum = 0;
    for (int i = 0; i < classes; i++)
        largest = fmax(largest, z[i]);
    for (int i = 0; i < classes; i++)
        sum += exp(z[i] - largest);
    double softmax = exp(z[c] - largest) / sum;
    if (!isfinite(got) && largest > 80)
        return "exp of a large logit is infinite. Subtract the largest logit of the row first.";
    if (isnan(got))
        return "Nothing was written there, or it was added to memory that nobody has written yet.";
    if (got == 0)
        return "Every logit of a row changes the loss.";
    if (close_to(got * scale, want))
        return "It is not multiplied by the scale.";
    if (close_to(got, -want))
        return "It has the wrong sign: the update subtracts the gradient.";
    if (smoothing > 0)
        return "Without --label-smoothing, it is right. The lines below add what this option "
               "changes, so your line needs no smoothing.";
    if (c == label && close_to(got, softmax * scale))
        return "It is the softmax. A larger logit at the label lowers the loss: subtract 1 there.";
    return "The derivative of -log(softmax(z)[label]) with respect to z[c] is the softmax of c, "
           "minus 1 at the label.";
}

static int check_loss(int rows, int classes, float spread) {
    const float scale = 0.25f;
    size_t bytes = (size_t)rows * classes * sizeof(float);
    float *logits = random_floats((size_t)rows * classes, spread, 1);
    uint8_t *labels = malloc(rows);
    struct stats *lanes = calloc(STATS_LANES, sizeof *lanes);
    for (int row = 0; row < rows; row++)
        labels[row] = rng_bits(2, row) % classes;
    float *unwritten = malloc(bytes);
    memset(unwritten, 0xff, bytes); // NaN
    float *device_logits = to_device(logits, bytes), *dlogits = to_device(unwritten, bytes);
    uint8_t *device_labels = to_device(labels, rows);
    struct stats *stats = to_device(lanes, STATS_LANES * sizeof *lanes);
    softmax_cross_entropy(device_logits, device_labels, rows, classes, scale, dlogits, stats,
                          smoothing, 0);
    const float *got = to_host(dlogits, bytes);
    for (int row = 0; row < rows; row++)
        for (int c = 0; c < classes; c++) {
            const float *z = logits + (size_t)row * classes, value = got[row * classes + c];
            double want = slope(z, classes, labels[row], c) * scale;
            if (close_to(value, want))
                continue;
            printf("row %d, logit %d%s: the gradient is %.6g\n"
                   "Expected: %.6g, the change of the loss with this logit, which is %g, times "
                   "the scale.\n%s\n",
                   row, c, c == labels[row] ? " (the label)" : "", value, want, z[c],
                   explain_gradient(z, labels[row], classes, c, value, want, scale));
            return 1;
        }
    softmax_cross_entropy(device_logits, device_labels, rows, classes, scale, NULL, stats,
                          smoothing, 0);
    double samples = 0;
    lanes = to_host(stats, STATS_LANES * sizeof *lanes);
    for (int lane = 0; lane < STATS_LANES; lane++)
        samples += lanes[lane].samples;
    if (samples != 2 * rows)
        printf(
            "two calls for %d rows count %g rows\nThe sums in the lanes must stay as they were.\n",
            rows, samples);
    return samples != 2 * rows;
}

enum { COUNT = 1000, SGD_STEPS = 3 };

// A right or wrong update of one parameter.
enum update { RIGHT, NO_MOMENTUM, MEAN, RATE_INSIDE, NO_DECAY, DECAY_OUTSIDE, UPDATES };
static const char *const explanations[UPDATES] = {
    [NO_MOMENTUM] = "This is SGD without momentum.",
    [MEAN] = "This is an average: the gradient was multiplied by 1 - momentum. PyTorch's SGD adds "
             "the whole gradient.",
    [RATE_INSIDE] = "The velocity holds gradients that were already multiplied by lr. If lr "
                    "changes, old gradients must get the new lr.",
    [NO_DECAY] = "The weight decay is missing: weight_decay * parameter is a part of the gradient.",
    [DECAY_OUTSIDE] = "The weight decay is a part of the gradient, so it must go into the velocity "
                      "too."};

static void update(enum update kind, double *p, double *v, double g, double lr, double momentum,
                   double weight_decay) {
    double decay = weight_decay * *p;
    g += kind == NO_DECAY || kind == DECAY_OUTSIDE ? 0 : decay;
    if (kind == NO_MOMENTUM)
        *p -= lr * g;
    else {
        double factor = kind == MEAN ? 1 - momentum : kind == RATE_INSIDE ? lr : 1;
        *v = momentum * *v + factor * g;
        *p -= (kind == RATE_INSIDE ? 1 : lr) * *v + (kind == DECAY_OUTSIDE ? lr * decay : 0);
    }
}

static int check_sgd(float momentum, float weight_decay) {
    float *p = random_floats(COUNT, 1, 1), *v = random_floats(COUNT, 1, 2);
    float *device_p = to_device(p, COUNT * sizeof *p), *device_v = to_device(v, COUNT * sizeof *v);
    for (int step = 0; step < SGD_STEPS; step++) {
        float lr = 0.15f * (SGD_STEPS - 1 - step);
        float *g = random_floats(COUNT, 1, 3 + step), *device_g = to_device(g, COUNT * sizeof *g);
        double was_p = p[COUNT - 1], was_v = v[COUNT - 1];
        sgd_step(device_p, device_g, device_v, COUNT, lr, momentum, weight_decay, 0);
        const float *got_p = to_host(device_p, COUNT * sizeof *p);
        const float *got_v = to_host(device_v, COUNT * sizeof *v);
        for (int i = 0; i < COUNT; i++) {
            double new_p = p[i], new_v = v[i];
            was_p = p[i], was_v = v[i];
            update(RIGHT, &new_p, &new_v, g[i], lr, momentum, weight_decay);
            if (close_to(got_p[i], new_p) && close_to(got_v[i], new_v)) {
                p[i] = got_p[i];
                v[i] = got_v[i];
                continue;
            }
            printf("lr %g, momentum %g, weight decay %g, gradient %.4f: velocity %.4f becomes "
                   "%.4f, and parameter %.4f becomes %.4f\n"
                   "Expected: velocity %.4f, and parameter %.4f.\n",
                   lr, momentum, weight_decay, g[i], was_v, got_v[i], was_p, got_p[i], new_v,
                   new_p);
            for (enum update kind = NO_MOMENTUM; kind < UPDATES; kind++) {
                new_p = was_p, new_v = was_v;
                update(kind, &new_p, &new_v, g[i], lr, momentum, weight_decay);
                if (close_to(got_p[i], new_p) && (kind == NO_MOMENTUM || close_to(got_v[i], new_v)))
                    return puts(explanations[kind]), 1;
            }
            if (close_to(got_v[i], new_v = momentum * was_v + g[i] + weight_decay * was_p))
                puts("The velocity is right, but not what is subtracted from the parameter.");
            return 1;
        }
    }
    return 0;
}

static int is_running; // 1: the mask is right, but perhaps not the running maximum

// Explains a query whose shares are wrong. It sees this many tokens, itself last.
static const char *explain_shares(const float *shares, int seen, int queries, int tokens) {
    double sum = 0;
    if (is_running)
        return isnan(shares[seen - 1])
                   ? "Is the factor upside down? For the first block, it is e^-infinity, or 0."
                   : "A weight is e^(score - largest), and all blocks need the same largest score.";
    if (seen < tokens && shares[seen] > 0)
        return "It sees the next token, which it has to guess, so the loss falls far too low.";
    if (shares[seen - 1] == 0 || isnan(shares[seen - 1]))
        return queries == tokens ? "It does not see itself."
                                 : "The last query belongs to the last token.";
    for (int i = 0; i < seen; i++)
        sum += shares[i];
    if (!close_to(sum, 1))
        return "The shares of the tokens that it sees must have the sum 1.";
    return "It sees itself and all tokens before it.";
}

// The queries are the last tokens. The values are the identity matrix, so the outputs are the
// shares: those of 64 tokens in each head. All heads have the same queries and keys.
static int check_mask(int samples, int queries, int tokens) {
    enum { WIDTH = 64 };
    int heads = (tokens + WIDTH - 1) / WIDTH, pitch = heads * WIDTH;
    size_t of_queries = (size_t)samples * queries * pitch,
           of_keys = (size_t)samples * tokens * pitch;
    float *q = random_floats(of_queries, 3, 1), *k = random_floats(of_keys, 3, 2);
    float *v = calloc(of_keys, sizeof *v), *y, *logs;
    for (size_t i = 0; i < of_queries; i++)
        q[i] = q[i / pitch * pitch + i % WIDTH];
    for (size_t i = 0; i < of_keys; i++) {
        k[i] = k[i / pitch * pitch + i % WIDTH];
        v[i] = i % pitch == i / pitch % tokens;
    }
    CUDA_CHECK(cudaMalloc((void **)&y, of_queries * sizeof *y));
    CUDA_CHECK(cudaMalloc((void **)&logs, of_queries * sizeof *logs));
    struct attention_inputs a = {.samples = samples,
                                 .heads = heads,
                                 .width = WIDTH,
                                 .queries = queries,
                                 .keys = tokens,
                                 .before = tokens - queries,
                                 .q = to_device(q, of_queries * sizeof *q),
                                 .k = to_device(k, of_keys * sizeof *k),
                                 .v = to_device(v, of_keys * sizeof *v),
                                 .q_pitch = pitch,
                                 .key_pitch = pitch};
    attend(&a, y, logs, 0);
    const float *got = to_host(y, of_queries * sizeof *y);
    for (int r = 0; r < samples * queries; r++, got += pitch) {
        int token = tokens - queries + r % queries;
        double want[tokens], sum = 0;
        for (int i = 0; i < tokens; i++) {
            const float *key = k + ((size_t)(r / queries) * tokens + i) * pitch;
            double score = 0;
            for (int d = 0; d < WIDTH; d++)
                score += (double)q[(size_t)r * pitch + d] * key[d] / sqrt(WIDTH);
            want[i] = i <= token ? exp(score) : 0;
            sum += want[i];
        }
        for (int i = 0; i < tokens; i++) {
            if (close_to(got[i], want[i] / sum))
                continue;
            printf("%d queries and %d keys: token %d gets a share of %.4g of token %d\n"
                   "Expected: %.4g. %s\n",
                   queries, tokens, token, got[i], i, want[i] / sum,
                   explain_shares(got, token + 1, queries, tokens));
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "mask"))
        return check_mask(3, 5, 5) || check_mask(2, 1, 5) || check_mask(1, 300, 300);
    is_running = argc == 2 && !strcmp(argv[1], "running");
    if (is_running)
        return check_mask(1, 300, 300);
    if (argc == 2 && !strcmp(argv[1], "sgd"))
        return check_sgd(0.75f, 0) || check_sgd(0, 0) || check_sgd(0.75f, 0.125f) ||
               check_sgd(0, 0.125f);
    if (check_loss(3, 256, 1) || check_loss(STATS_LANES + 5, 10, 4) || check_loss(130, 10, 1000))
        return 1;
    smoothing = 0.125f;
    return check_loss(3, 4, 1);
}
