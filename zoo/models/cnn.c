#include "common/data/data.h"
#include "zoo/layers/kinds.h"
#include "zoo/models/models.h"
#include "zoo/zoo_options.h"
#include <math.h>
#include <stdio.h>

static void add_dropout(struct model *m, double usual) {
    append_dropout(m, (float)(isnan(zoo_opt.dropout) ? usual : zoo_opt.dropout)); // auto is NAN
}

static int build(struct model *m, const struct training_options *options, const struct dataset *set,
                 char why[WHY_SIZE]) {
    (void)options;
    struct shape in = set->shape;
    if (in.height < 6 || in.width < 6)
        return refuse(why, "--model cnn: images have %d x %d pixels, and the model needs 6 x 6",
                      in.width, in.height);
    snprintf(m->shape, sizeof m->shape, "cnn %dx%dx%d", in.channels, in.height, in.width);
    append_convolution(m, &convolution_relu, 32, 3, 1, 0, 1);
    append_convolution(m, &convolution_relu, 64, 3, 1, 0, 1);
    append_max_pooling(m, 2);
    add_dropout(m, 0.25);
    append_dense(m, &dense_relu, 128);
    add_dropout(m, 0.5);
    append_dense(m, &dense, set->targets * set->classes);
    if (isnan(zoo_opt.dropout))
        snprintf(m->settings, sizeof m->settings, ", dropout 0.25 and 0.5");
    else if (zoo_opt.dropout > 0)
        snprintf(m->settings, sizeof m->settings, ", dropout %g", zoo_opt.dropout);
    return 0;
}

const struct model_kind cnn = {"cnn", build, 0};
