// The models, one per file of this folder. A new model needs a new file, a line here, and a row in
// the table in model.c. Its settings are options of all steps (training_options.c).
#pragma once
#include "common/data/data.h"
#include "common/models/model.h"
#include "common/training/training_options.h"

// Appends a model's layers to the empty list m, for the samples of the set. The last layer has
// targets * classes outputs. Also writes the shape, and the text if it differs from the shape.
// Returns 0, or -1 with the reason in why.
typedef int build_model(struct model *m, const struct training_options *options,
                        const struct dataset *set, char why[WHY_SIZE]);

// Dense layers with ReLU, of the widths in --hidden, each followed by dropout if --dropout is set.
// Layers 1 and 2 are a pair, 3 and 4, and so on.
build_model build_mlp;

// The convolutional network of PyTorch's MNIST example
// (https://github.com/pytorch/examples/blob/main/mnist/main.py). Its dropout has the rates 0.25 and
// 0.5, unless --dropout sets both.
build_model build_cnn;

// A residual network of --depth layers, with --width channels after the first one, for small images
// (He et al., "Deep residual learning for image recognition", 2016, section 4.2; depth 18 is the
// network of section 4.1 with its first convolution changed for small images). It has group
// normalisation instead of batch normalisation; layers.h says why.
build_model build_resnet;

// A transformer with the layers of GPT-2 (Radford et al., "Language models are unsupervised
// multitask learners", 2019): embeddings of tokens and places; blocks of causal self-attention and
// a perceptron of 4 * width hidden values with GELU, each behind a layer normalisation and added to
// its input; a last normalisation; a dense layer for the logits, called the head. All weights are
// initially normal with deviation 0.02, and those in front of a sum with 0.02 / sqrt(2 * layers).
// A block has two pairs of dense layers, one around attention and one around GELU. For
// backward, it keeps 18 * width + 4 floats of each token: the outputs of its inner layers,
// and the statistics of its two normalisations.
//
// The head has parameters of its own. GPT-2's head is the table of the first layer. If a model is
// divided, a part with one of them must hold both, and gradients of both have to be added up. With
// 256 tokens, a table is small, so the course keeps each parameter in one layer.
build_model build_gpt;

// Builds the transformer that has this shape, for sequences of this many tokens, 0: as many as the
// shape says. So a program can use the model of a snapshot without the options of its training.
// Returns 0, or -1 with the reason in why, such as the shape of another model.
int build_gpt_of(struct model *m, const char *shape, int context, char why[WHY_SIZE]);

// The transformers of --model gpt. Numbers that are options of their own replace those of the size.
struct gpt_size {
    const char *name;
    int layers, heads, width, context; // width: values per token; context: tokens of a sample
};

// Returns the size that the options name, with the numbers that they set themselves.
struct gpt_size gpt_size(const struct training_options *options);

// Returns the name of size number i, or NULL after the last one.
const char *gpt_size_name(int i);
