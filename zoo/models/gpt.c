#include "common/training/training_options.h"
#include "zoo/data/sources.h"
#include "zoo/layers/inner.h"
#include "zoo/models/models.h"
#include "zoo/zoo_options.h"
#include <math.h>
#include <stdio.h>

static const float deviation = 0.02f;

// The shape, to print and to scan.
#define SHAPE "gpt %d layers, %d heads, width %d, context %d"

static void append_biased(struct model *m, int outputs, float deviation_of_weights) {
    append_linear(m, outputs, deviation_of_weights);
    append_bias(m);
}

static void append_block(struct model *m, const struct gpt_size *size, double dropout) {
    float before_sum = deviation / sqrtf(2.f * (float)size->layers);
    begin_block(m);
    begin_sublayer(m);
    append_biased(m, 3 * size->width, deviation);
    append_attention(m, size->heads, (float)dropout);
    append_biased(m, size->width, before_sum);
    append_dropout(m, (float)dropout);
    end_inner(m);
    begin_sublayer(m);
    append_linear(m, 4 * size->width, deviation);
    append_gelu(m); // with the bias of the linear layer
    append_biased(m, size->width, before_sum);
    append_dropout(m, (float)dropout);
    end_inner(m);
    end_inner(m);
}

static int build(struct model *m, const struct training_options *options, const struct dataset *set,
                 char why[WHY_SIZE]) {
    (void)options;
    struct gpt_size size = gpt_size();
    double dropout = isnan(zoo_opt.dropout) ? 0 : zoo_opt.dropout;
    if (size.width % size.heads)
        return refuse(why, "--width %d: want a multiple of the %d heads", size.width, size.heads);
    if (size.width / size.heads > MOST_HEAD_WIDTH)
        return refuse(why, "--width %d: want at most %d for each of the %d heads", size.width,
                      MOST_HEAD_WIDTH, size.heads);
    if (size.width > MOST_NORM_CHANNELS)
        return refuse(why, "--width %d: want at most %d", size.width, MOST_NORM_CHANNELS);
    snprintf(m->shape, sizeof m->shape, SHAPE, size.layers, size.heads, size.width, set->inputs);
    append_embedding(m, set->classes, size.width);
    append_dropout(m, (float)dropout);
    for (int i = 0; i < size.layers; i++)
        append_block(m, &size, dropout);
    append_layer_norm(m);
    begin_block(m);
    append_biased(m, set->classes, deviation);
    end_inner(m);
    if (dropout > 0)
        snprintf(m->settings, sizeof m->settings, ", dropout %g", dropout);
    return 0;
}

const struct model_kind gpt = {"gpt", build, 1};

int build_gpt_of(struct model *m, const char *shape, int context, char why[WHY_SIZE]) {
    int layers, heads, width, own;
    if (sscanf(shape, SHAPE, &layers, &heads, &width, &own) != 4 || layers < 1 || heads < 1 ||
        width < 1 || own < 1)
        return refuse(why, "%s is no model of --model gpt", shape);
    int tokens = context ? context : own;
    zoo_opt = (struct zoo_options){.augment = "none",
                                   .size = gpt_size_name(0),
                                   .layers = layers,
                                   .heads = heads,
                                   .width = width,
                                   .dropout = NAN};
    struct dataset set = {.shape = {tokens, 1, 1},
                          .inputs = tokens,
                          .targets = tokens,
                          .classes = text_bytes.classes,
                          .tokens = 1};
    return model_build(m, &(struct training_options){.model = gpt.name}, &set, why);
}
