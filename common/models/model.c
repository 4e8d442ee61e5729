#include "common/models/model.h"
#include "common/base/minmax.h"
#include "common/base/say.h"
#include "common/device/device.h"
#include "common/device/spans.h"
#include "common/training/catalogue.h"
#include "common/training/training_options.h"
#include <stdio.h>
#include <string.h>

const char *model_name(int i) {
    return catalogue->models[i] ? catalogue->models[i]->name : NULL;
}

int model_build(struct model *m, const struct training_options *options, const struct dataset *set,
                char why[WHY_SIZE]) {
    int i = 0;
    *m = (struct model){.out = set->shape};
    while (catalogue->models[i] && strcmp(options->model, catalogue->models[i]->name))
        i++;
    const struct model_kind *kind = catalogue->models[i];
    if (!kind)
        return refuse(why, "--model %s: there is no such model", options->model);
    if (kind->tokens != set->tokens)
        return refuse(why, "--model %s reads %s", kind->name,
                      set->tokens ? "images, and the data are a text: use --model gpt"
                                  : "a text, and the data are images: use --data text");
    return catalogue->build_model ? catalogue->build_model(m, kind, options, set, why)
                                  : kind->build(m, options, set, why);
}

struct layer *model_append(struct model *m, const struct layer_kind *kind, struct shape out,
                           int workspace, size_t parameters) {
    if (m->count == MOST_LAYERS)
        fail("the model has too many layers: raise MOST_LAYERS in common/models/model.h");
    struct layer *l = &m->layers[m->count++];
    model_add(m, l, kind, out, workspace, parameters);
    return l;
}

void model_add(struct model *m, struct layer *l, const struct layer_kind *kind, struct shape out,
               int workspace, size_t parameters) {
    *l = (struct layer){.kind = kind,
                        .in = m->out,
                        .out = out,
                        .inputs = shape_size(m->out),
                        .outputs = shape_size(out),
                        .workspace = workspace,
                        .first = m->parameters,
                        .parameters = parameters};
    snprintf(l->names[0], sizeof l->names[0], "forward %d %s", m->count, kind->name);
    snprintf(l->names[1], sizeof l->names[1], "backward %d %s", m->count, kind->name);
    m->parameters += parameters;
    m->out = out;
}

void open_pass(struct pass *pass, cudaStream_t stream, int tf32) {
    pass->stream = stream;
    CUBLAS_CHECK(cublasCreate(&pass->blas));
    CUBLAS_CHECK(cublasSetStream(pass->blas, stream));
    if (tf32)
        CUBLAS_CHECK(cublasSetMathMode(pass->blas, CUBLAS_TF32_TENSOR_OP_MATH));
}

void begin_step(struct pass *pass, uint64_t seed) {
    pass->training = 1;
    pass->seed = seed;
    if (watcher)
        watcher->step(pass->stream);
}

void layer_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                   const float *x, float *y, int b) {
    span_begin(PHASE_FORWARD, l->names[0], pass->stream);
    l->kind->forward(l, pass, parameters, x, y, b);
    span_end();
}

void layer_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                    const float *x, float *y, float *dy, float *dx, float *gradients, int b) {
    span_begin(PHASE_BACKWARD, l->names[1], pass->stream);
    l->kind->backward(l, pass, parameters, x, y, dy, dx, gradients, b);
    span_end();
}

size_t model_scratch(const struct model *m, cudaDataType type, int b) {
    size_t most = 0;
    for (const struct layer *l = m->layers; l < m->layers + m->count; l++)
        if (l->kind->scratch)
            most = max_size(most, l->kind->scratch(l, type, b));
    return most;
}

void print_model(const struct model *m) {
    say("model     %s%s, %zu parameters\n", m->shape, m->settings, m->parameters);
    if (catalogue->describe_model)
        catalogue->describe_model(m);
}
