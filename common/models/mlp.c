#include "common/base/say.h"
#include "common/data/data.h"
#include "common/layers/layers.h"
#include "common/training/catalogue.h"
#include "common/training/training_options.h"
#include <stdio.h>
#include <stdlib.h>

static void append(struct model *m, const struct layer_kind *kind, int outputs) {
    append_dense(m, kind, outputs);
    add_text(m->shape, sizeof m->shape, "-%d", outputs);
}

static int build(struct model *m, const struct training_options *options, const struct dataset *set,
                 char why[WHY_SIZE]) {
    enum { MOST_HIDDEN = 16, WIDEST = 65536 };
    snprintf(m->shape, sizeof m->shape, "mlp %d", set->inputs);
    int widths = 0;
    for (const char *text = options->hidden, *end = ","; *end; text = end + 1) {
        long width = strtol(text, (char **)&end, 10);
        if (width < 1 || width > WIDEST || (*end && *end != ',') || widths++ == MOST_HIDDEN)
            return refuse(why, "--hidden %s: want up to %d widths from 1 to %d, such as 512,512",
                          options->hidden, MOST_HIDDEN, WIDEST);
        append(m, &dense_relu, (int)width);
    }
    append(m, &dense, set->targets * set->classes);
    return 0;
}

const struct model_kind mlp = {"mlp", build, 0};
