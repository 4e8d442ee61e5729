// What a language model predicts: a logit for each possible next token. There are two ways to
// compute the same logits, without a cache and with one.
#pragma once
#include "common/models/model.h"

// A model that runs forward only, for a batch of one sample.
struct run {
    struct model model;
    float *activations[MOST_LAYERS + 1]; // [0]: the tokens, [i + 1]: the outputs of layer i
    void *scratch;
};

struct predictor {
    struct pass pass;
    int context;       // tokens of a window, at most
    int classes;       // kinds of tokens
    float *parameters; // of the model, on the device
    struct run whole;  // the model for a window of tokens
    struct run single; // the same model for a single token, with a cache
    int cached;        // the first tokens of the window that are in the cache; 0: none
    float *tokens;     // of the window, in host memory
    float *logits;     // [classes], in host memory
};

// Builds the model of this shape, which a snapshot names. This does not need the GPU. Returns 0, or
// -1 with the reason in why.
int predictor_build(struct predictor *p, const char *shape, char why[WHY_SIZE]);

// Opens the device, and copies the parameters to it. cache 0: only predict_whole will be called.
void predictor_start(struct predictor *p, const float *parameters, int cache);

// Computes the logits of the token after the window, which has count tokens, 1 to context of them.
// Waits for them, and returns p->logits.
typedef const float *predict(struct predictor *p, const uint8_t *window, int count);

// All tokens of the window go through the model.
predict predict_whole;

// Only tokens that are not in the cache yet go through the model. The caller sets p->cached to 0 if
// the window begins at a different token from that of the last call.
predict predict_cached;

// Calls both, and fails if a logit differs by more than rounding explains.
predict predict_checked;
