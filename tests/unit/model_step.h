// Training steps of the tests of models: forward and backward passes over all layers, on device
// arrays with guards around them.
#pragma once
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "common/models/model.h"
#include "cpu_device/tests/arrays.h"
#include "zoo/layers/inner.h"

// Each thread has its own.
static _Thread_local struct pass pass = {.training = 1, .seed = 17, .first_sample = 5};

// Makes scratch memory for passes of the current type. The guards show whether it is enough.
static inline void new_scratch(const struct model *m, int b) {
    size_t bytes = model_scratch(m, pass.type, b);
    pass.scratch = bytes ? new_device_array(bytes) : NULL;
}

// Arrays on the device as a training step holds them.
struct step {
    void *parameters; // of the pass's type
    float *gradients, *activations[MOST_LAYERS + 1], *dy, *dx;
};

static inline struct step new_step(const struct model *m, const float *parameters, const float *x,
                                   int b) {
    size_t batch = (size_t)b * sizeof(float), widest = (size_t)m->layers[0].inputs;
    struct step s = {.parameters = to_device(parameters, m->parameters * sizeof(float)),
                     .gradients = new_device_array(m->parameters * sizeof(float))};
    store_values((struct model *)m, pass.type);
    s.activations[0] = to_device(x, batch * (size_t)m->layers[0].inputs);
    for (int i = 0; i < m->count; i++) {
        const struct layer *l = &m->layers[i];
        widest = (size_t)l->outputs > widest ? (size_t)l->outputs : widest;
        s.activations[i + 1] = new_device_array(batch * (size_t)(l->outputs + l->workspace));
    }
    new_scratch(m, b);
    s.dy = new_device_array(batch * widest);
    s.dx = new_device_array(batch * widest);
    return s;
}

static inline const void *parameters_of(const struct step *s, const struct layer *l) {
    return (char *)s->parameters + l->first * type_size(pass.type);
}

static inline void forward(const struct step *s, const struct model *m, int b) {
    for (int i = 0; i < m->count; i++) {
        const struct layer *l = &m->layers[i];
        l->kind->forward(l, &pass, parameters_of(s, l), s->activations[i], s->activations[i + 1],
                         b);
    }
}

// Stores the gradient of the first layer's inputs in s->dy, if the caller asks for it.
static inline void backward(struct step *s, const struct model *m, int b, int want_dx) {
    for (int i = m->count - 1; i >= 0; i--) {
        const struct layer *l = &m->layers[i];
        l->kind->backward(l, &pass, parameters_of(s, l), s->activations[i], s->activations[i + 1],
                          s->dy, i > 0 || want_dx ? s->dx : NULL, s->gradients + l->first, b);
        float *swap = s->dy;
        s->dy = s->dx;
        s->dx = swap;
    }
}

static inline int free_arrays_and_reset_type(void **state) {
    pass.type = CUDA_R_32F;
    pass.scratch = NULL;
    return free_arrays(state);
}

// The results of a training step with this type, copied to the host.
struct results {
    float *y, *gradients, *dx;
};

// In bfloat16, the gradients overwrite the parameters, which take half of the same memory.
static inline struct results run_step(const struct model *m, cudaDataType type,
                                      const float *parameters, const float *x, const float *dy,
                                      int b) {
    size_t outputs = (size_t)b * (size_t)m->layers[m->count - 1].outputs * sizeof *dy;
    pass.type = type;
    struct step s = new_step(m, parameters, x, b);
    if (type == CUDA_R_16BF) {
        const float *wide = s.parameters;
        s.parameters = new_device_array(m->parameters * sizeof(float));
        to_bfloat16(s.parameters, wide, m->parameters, pass.stream);
        s.gradients = s.parameters;
    }
    forward(&s, m, b);
    struct results r = {.y = to_host(s.activations[m->count], outputs)};
    CUDA_CHECK(cudaMemcpy(s.dy, dy, outputs, cudaMemcpyHostToDevice));
    backward(&s, m, b, 1);
    r.gradients = to_host(s.gradients, m->parameters * sizeof(float));
    r.dx = to_host(s.dy, (size_t)b * (size_t)m->layers[0].inputs * sizeof(float));
    return r;
}

static inline float *initialised(const struct model *m, uint64_t seed) {
    float *parameters = new_device_array(m->parameters * sizeof *parameters);
    for (int i = 0; i < m->count; i++) {
        const struct layer *l = &m->layers[i];
        l->kind->initialise(l, parameters + l->first, 0, l->parameters, seed, pass.stream);
    }
    return to_host(parameters, m->parameters * sizeof *parameters);
}

static inline int open_device(void **state) {
    CUDA_CHECK(cudaStreamCreate(&pass.stream));
    open_pass(&pass, pass.stream, 0);
    return 0;
}

static inline int close_device(void **state) {
    CUBLAS_CHECK(cublasDestroy(pass.blas));
    CUDA_CHECK(cudaStreamDestroy(pass.stream));
    return 0;
}
