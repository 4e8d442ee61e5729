#include "common/layers/layers.h"
#include "common/models/models.h"
#include <math.h>
#include <stdio.h>

static void add_dropout(struct model *m, const struct training_options *options, double usual) {
    double rate = isnan(options->dropout) ? usual : options->dropout; // auto is NAN
    if (rate > 0)
        append_dropout(m, (float)rate);
}

int build_cnn(struct model *m, const struct training_options *options, const struct dataset *set,
              char why[WHY_SIZE]) {
    struct shape in = set->shape;
    if (in.height < 6 || in.width < 6)
        return refuse(why, "--model cnn: images have %d x %d pixels, and the model needs 6 x 6",
                      in.width, in.height);
    snprintf(m->shape, sizeof m->shape, "cnn %dx%dx%d", in.channels, in.height, in.width);
    append_convolution(m, &convolution_relu, 32, 3, 1, 0, 1);
    append_convolution(m, &convolution_relu, 64, 3, 1, 0, 1);
    append_max_pooling(m, 2);
    add_dropout(m, options, 0.25);
    append_dense(m, &dense_relu, 128);
    add_dropout(m, options, 0.5);
    append_dense(m, &dense, set->targets * set->classes);
    if (isnan(options->dropout))
        snprintf(m->text, sizeof m->text, "%s, dropout 0.25 and 0.5", m->shape);
    else if (options->dropout > 0)
        snprintf(m->text, sizeof m->text, "%s, dropout %g", m->shape, options->dropout);
    return 0;
}
