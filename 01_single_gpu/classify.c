// Draws three test images in the terminal with the answers of a model that any step has trained,
// one of them wrong if there is one. To classify is to run forward only, as the evaluation of
// train.c does: the largest logit is the answer.
#include "common/base/minmax.h"
#include "common/data/datasets.h"
#include "common/data/loader.h"
#include "common/device/device.h"
#include "common/models/model.h"
#include "common/snapshots/snapshot.h"
#include "common/training/training_options.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 100, DRAWN = 3, EDGE = 2 };

static const struct option_table tables[] = {
    {"options of all steps", training_options},
    {0},
};

struct answer {
    size_t image; // its index in the test set
    int label, answer;
    double probability; // of the answer
};

static struct {
    struct dataset train, test;
    struct model model;
    struct pass pass;
    float *parameters, *activations[MOST_LAYERS + 1];
    uint8_t *labels;
} c;

// Reads the data and the snapshot, which the caller owns, and builds the model.
static struct snapshot *load(void) {
    char why[WHY_SIZE];
    struct snapshot run;
    if (!opt.snapshot)
        wrong_usage("--snapshot FILE is missing: a file that train has saved");
    if (data_load(&c.train, &c.test, &opt.data, why))
        fail("%s", why);
    if (c.test.tokens || c.test.targets > 1)
        wrong_usage("--data %s: want images with one label each", opt.data);
    if (model_build(&c.model, &opt, &c.train, why))
        wrong_usage("%s", why);
    int found = snapshot_identify(opt.snapshot, &run, why);
    if (found == 0)
        fail("--snapshot %s: no such file: train saves one", opt.snapshot);
    if (found < 0)
        fail("%s", why);
    if (strcmp(run.model, c.model.shape))
        fail("--snapshot %s: holds %s, not %s: give the options of that run", opt.snapshot,
             run.model, c.model.shape);
    if (run.parameters != c.model.parameters)
        fail("--snapshot %s: %zu parameters, want %zu", opt.snapshot, run.parameters,
             c.model.parameters);
    struct snapshot *s = snapshot_like(&run, run.parameters, run.state_size);
    if (snapshot_load(opt.snapshot, s, why) < 1)
        fail("%s", why);
    return s;
}

static void setup(const struct snapshot *s) {
    size_t bytes = c.model.parameters * sizeof *c.parameters;
    CUDA_CHECK(cudaStreamCreate(&c.pass.stream));
    open_pass(&c.pass, c.pass.stream, 0);
    loader_open(&c.test, BATCH, 0);
    DEVICE_ALLOC(c.parameters, "parameters", bytes);
    CUDA_CHECK(cudaMemcpy(c.parameters, s->values, bytes, cudaMemcpyHostToDevice));
    DEVICE_ALLOC(c.activations[0], "activations", BATCH * c.test.inputs * sizeof(float));
    for (int i = 0; i < c.model.count; i++) {
        const struct layer *l = &c.model.layers[i];
        DEVICE_ALLOC(c.activations[i + 1], "activations",
                     ((size_t)l->outputs + l->workspace) * BATCH * sizeof(float));
    }
    DEVICE_ALLOC(c.pass.scratch, "scratch", model_scratch(&c.model, c.pass.type, BATCH));
    DEVICE_ALLOC(c.labels, "activations", BATCH);
}

// Returns the answer of the row with these logits. Its probability is their softmax.
static struct answer answer_of(size_t image, const float *logits, int label) {
    struct answer a = {image, label, 0, 0};
    for (int i = 1; i < c.test.classes; i++)
        if (logits[i] > logits[a.answer])
            a.answer = i;
    for (int i = 0; i < c.test.classes; i++)
        a.probability += exp((double)logits[i] - logits[a.answer]);
    a.probability = 1 / a.probability;
    return a;
}

// Classifies the next images of the test set, at most BATCH. Returns how many.
static int classify(size_t first, struct answer answers[BATCH]) {
    int rows = (int)min_size(BATCH, c.test.count - first), classes = c.test.classes;
    float *logits = malloc((size_t)rows * classes * sizeof *logits);
    uint8_t labels[BATCH];
    struct samples s = load_samples(&c.test, first, c.test.count, c.pass.stream);
    gather_batch(s.set, s.order, s.first, s.count, c.activations[0], c.labels, c.pass.stream);
    for (int i = 0; i < c.model.count; i++) {
        const struct layer *l = &c.model.layers[i];
        layer_forward(l, &c.pass, c.parameters + l->first, c.activations[i], c.activations[i + 1],
                      rows);
    }
    CUDA_CHECK(cudaStreamSynchronize(c.pass.stream));
    CUDA_CHECK(cudaMemcpy(logits, c.activations[c.model.count], rows * classes * sizeof *logits,
                          cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(labels, c.labels, rows, cudaMemcpyDeviceToHost));
    for (int i = 0; i < rows; i++)
        answers[i] = answer_of(first + i, logits + (size_t)i * classes, labels[i]);
    free(logits);
    return rows;
}

// Chooses the first images with right answers, and as the last one the first image with a wrong
// answer. Returns how many there are.
static int choose(struct answer chosen[DRAWN]) {
    struct answer answers[BATCH];
    int right = 0;
    for (size_t first = 0; first < c.test.count; first += BATCH) {
        int rows = classify(first, answers);
        for (int i = 0; i < rows; i++) {
            if (answers[i].answer != answers[i].label) {
                right = right < DRAWN ? right : DRAWN - 1;
                chosen[right] = answers[i];
                return right + 1;
            }
            if (right < DRAWN)
                chosen[right++] = answers[i];
        }
    }
    return right;
}

// Draws two rows of pixels as one line, because a letter is about twice as high as it is wide. The
// pixels at the edges of MNIST's images are black.
static void draw_line(const uint8_t *pixels, int y) {
    static const char shades[] = " .:-=+*#%@";
    struct shape shape = c.test.shape;
    for (int x = EDGE; x < shape.width - EDGE; x++) {
        int sum = 0, count = 2 * shape.channels;
        for (int k = 0; k < count; k++) {
            int row = y + k / shape.channels;
            sum += pixels[(row * shape.width + x) * shape.channels + k % shape.channels];
        }
        putchar(shades[sum * (sizeof shades - 2) / (255 * count)]);
    }
}

static void draw(const struct answer *chosen, int count) {
    int size = c.test.inputs, width = c.test.shape.width - 2 * EDGE;
    uint8_t *pixels = malloc((size_t)count * size), right;
    char why[WHY_SIZE];
    for (int i = 0; i < count; i++)
        if (c.test.source->read(&c.test, chosen[i].image, 1, pixels + (size_t)i * size, &right,
                                why))
            fail("%s", why);
    for (int y = EDGE; y + 1 < c.test.shape.height - EDGE; y += 2) {
        for (int i = 0; i < count; i++) {
            draw_line(pixels + (size_t)i * size, y);
            printf("%s", i < count - 1 ? "  " : "\n");
        }
    }
    for (int i = 0; i < count; i++) {
        char text[64], label[32] = "";
        if (chosen[i].answer != chosen[i].label)
            snprintf(label, sizeof label, ", but the label is %d", chosen[i].label);
        snprintf(text, sizeof text, "says %d (%.1f%%)%s", chosen[i].answer,
                 100 * chosen[i].probability, label);
        printf("%-*s%s", width, text, i < count - 1 ? "  " : "\n");
    }
    free(pixels);
}

int main(int argc, char **argv) {
    struct answer chosen[DRAWN];
    options_parse(tables, "Draws three test images with the answers of a trained model.", argc,
                  argv);
    struct snapshot *s = load();
    CUDA_CHECK(cudaSetDevice(0));
    setup(s);
    free(s);
    draw(chosen, choose(chosen));
    return 0;
}
