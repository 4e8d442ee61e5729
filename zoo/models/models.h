// The models, one per file of this folder. A new model needs a new file, a line here, and its place
// in the list in zoo/zoo.c. Its settings are options (zoo/zoo_options.c).
#pragma once
#include "common/training/catalogue.h"

// The convolutional network of PyTorch's MNIST example
// (https://github.com/pytorch/examples/blob/main/mnist/main.py). Its dropout has the rates 0.25 and
// 0.5, unless --dropout sets both.
extern const struct model_kind cnn;

// A residual network of --depth layers, with --width channels after the first one, for small images
// (He et al., "Deep residual learning for image recognition", 2016, section 4.2; depth 18 is the
// network of section 4.1 with its first convolution changed for small images). It has group
// normalisation instead of batch normalisation; kinds.h says why.
extern const struct model_kind resnet;

// A transformer with the layers of GPT-2 (Radford et al., "Language models are unsupervised
// multitask learners", 2019): embeddings of tokens and places; blocks of causal self-attention and
// a perceptron of 4 * width hidden values with GELU, each after a layer normalisation and added to
// its input; a last normalisation; a dense layer for the logits, called the head. All weights are
// initially normal with deviation 0.02, and those in front of a sum with 0.02 / sqrt(2 * layers).
// A block has two pairs of linear layers, one around attention and one around GELU. For
// backward, it keeps 16 * width + 4 floats of each token: the outputs of its inner layers,
// and the statistics of its two normalisations. In bfloat16, 14 * width of them take half of it.
//
// The head has parameters of its own. GPT-2's head is the table of the first layer. If a model is
// divided, a part with one of them must hold both, and gradients of both have to be added up. With
// 256 tokens, a table is small, so the course keeps each parameter in one layer.
extern const struct model_kind gpt;

// Builds the transformer that has this shape, for sequences of this many tokens, 0: as many as the
// shape says. So a program can use the model of a snapshot without the options of its training.
// Sets the options to this shape. Returns 0, or -1 with the reason in why, such as the shape of
// another model.
int build_gpt_of(struct model *m, const char *shape, int context, char why[WHY_SIZE]);

// The transformers of --model gpt. Numbers that are options of their own replace those of the size.
struct gpt_size {
    const char *name;
    int layers, heads, width, context; // width: values per token; context: tokens of a sample
};

// Returns the size that the options name, with the numbers that they set themselves.
struct gpt_size gpt_size(void);

// Returns the name of size number i, or NULL after the last one.
const char *gpt_size_name(int i);
