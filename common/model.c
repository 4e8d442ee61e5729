#include "common/model.h"
#include "common/minmax.h"
#include "common/models/models.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    build_model *build;
} models[] = {
    {"mlp", build_mlp},
};
enum { MODELS = sizeof models / sizeof *models };

const char *model_name(int i) {
    return i < MODELS ? models[i].name : NULL;
}

int model_build(struct model *m, const struct training_options *options, const struct dataset *set,
                char why[WHY_SIZE]) {
    *m = (struct model){.count = 0};
    for (int i = 0; i < MODELS; i++) {
        if (strcmp(options->model, models[i].name))
            continue;
        int failed = models[i].build(m, options, set, why);
        if (!*m->text)
            snprintf(m->text, sizeof m->text, "%s", m->shape);
        return failed;
    }
    return refuse(why, "--model %s: there is no such model", options->model);
}

struct layer *model_append(struct model *m, const struct layer_kind *kind, int inputs, int outputs,
                           int workspace, size_t parameters) {
    struct layer *l = &m->layers[m->count++];
    *l = (struct layer){.kind = kind,
                        .inputs = inputs,
                        .outputs = outputs,
                        .workspace = workspace,
                        .first = m->parameters,
                        .parameters = parameters};
    m->parameters += parameters;
    return l;
}

size_t model_scratch(const struct model *m, cudaDataType type, int b) {
    size_t most = 0;
    for (int i = 0; i < m->count && type != CUDA_R_32F; i++) {
        size_t in = (size_t)m->layers[i].inputs, out = (size_t)m->layers[i].outputs;
        size_t bias = out * sizeof(float), x_and_dy = (in + out) * b * sizeof(uint16_t);
        most = max_size(most, max_size(bias, x_and_dy));
    }
    return most;
}
