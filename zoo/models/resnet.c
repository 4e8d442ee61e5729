#include "common/data/data.h"
#include "zoo/layers/kinds.h"
#include "zoo/models/models.h"
#include "zoo/zoo_options.h"
#include <stdio.h>

enum { GROUPS = 8, WIDEST = 512 };

static void append_convolution_and_norm(struct model *m, const struct layer_kind *norm,
                                        int channels, int size, int stride) {
    append_convolution(m, &convolution, channels, size, stride, size / 2, 0);
    append_group_norm(m, norm, GROUPS);
}

// Two convolutions. The first one has this stride, and the shortcut is a convolution of one pixel
// where the shape of the image changes.
static void append_block(struct model *m, int channels, int stride) {
    int same_shape = stride == 1 && m->out.channels == channels;
    begin_residual(m);
    append_convolution_and_norm(m, &group_normalisation_relu, channels, 3, stride);
    append_convolution_and_norm(m, &group_normalisation, channels, 3, 1);
    begin_shortcut(m);
    if (!same_shape)
        append_convolution_and_norm(m, &group_normalisation, channels, 1, stride);
    end_residual(m);
}

static int build(struct model *m, const struct training_options *options, const struct dataset *set,
                 char why[WHY_SIZE]) {
    (void)options;
    int depth = zoo_opt.depth, stages = depth == 18 ? 4 : 3, blocks = (depth - 2) / (2 * stages);
    int width = zoo_opt.width ? zoo_opt.width : depth == 18 ? 64 : 16;
    if (depth != 8 && depth != 14 && depth != 18 && depth != 20)
        return refuse(why, "--depth %d: want 8, 14, 18 or 20", depth);
    if (width % GROUPS || width > WIDEST)
        return refuse(why, "--width %d: want a multiple of %d up to %d", width, GROUPS, WIDEST);
    if (set->shape.height >> (stages - 1) == 0 || set->shape.width >> (stages - 1) == 0)
        return refuse(why, "--model resnet: images have %d x %d pixels, and depth %d needs %d x %d",
                      set->shape.width, set->shape.height, depth, 1 << (stages - 1),
                      1 << (stages - 1));
    if (zoo_opt.dropout > 0)
        return refuse(why, "--dropout %g: a resnet has no dropout, want 0", zoo_opt.dropout);
    snprintf(m->shape, sizeof m->shape, "resnet%d width %d, %dx%dx%d", depth, width,
             set->shape.channels, set->shape.height, set->shape.width);
    append_convolution_and_norm(m, &group_normalisation_relu, width, 3, 1);
    for (int stage = 0; stage < stages; stage++)
        for (int block = 0; block < blocks; block++)
            append_block(m, width << stage, stage > 0 && block == 0 ? 2 : 1);
    append_mean_pooling(m);
    append_dense(m, &dense, set->targets * set->classes);
    return 0;
}

const struct model_kind resnet = {"resnet", build, 0};
