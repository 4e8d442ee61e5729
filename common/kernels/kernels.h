// The kernels, functions that run on the device: the .cu files of this folder for a GPU, the files
// cpu_*.c for the CPU device. All pointers are device memory, and all matrices are row-major and
// dense. A call queues the kernel on the stream and returns. If the launch fails, it ends the
// program. On a GPU, so does a call of a kernel that divides the indices of its elements, such as
// image_to_patches, with 2^31 or more elements.
#pragma once
#include "common/base/rng.h"
#include "common/data/data.h"
#include "common/data/shape.h"
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

// Sums over all labels of all samples, computed by softmax_cross_entropy. All three are doubles, so
// one collective can add them over processes.
struct stats {
    double loss, correct, samples;
};

// The number of partial sums, called lanes. Row r of a batch is added to lane r % STATS_LANES, so
// many threads can add at the same time, and every run gets the same bits.
enum { STATS_LANES = 1 << 10 };

// values[i] = random number first + i of this seed, uniform in [-bound, bound), for i < count.
void fill_uniform(float *values, size_t count, float bound, uint64_t seed, uint64_t first,
                  cudaStream_t stream);

// values[i] = a nearly normal random number first + i of this seed, with mean 0 and this deviation:
// the sum of the four 16-bit parts of the generator's number. Unlike a formula with logarithms, it
// has the same bits on each device. It is at most 3.5 deviations from 0.
void fill_normal(float *values, size_t count, float deviation, uint64_t seed, uint64_t first,
                 cudaStream_t stream);

// values[i] = value for i < count.
void fill(float *values, size_t count, float value, cudaStream_t stream);

// Makes a batch from a data set on the device. Row r of the batch is sample s = order[first + r],
// or s = first + r if order is NULL. For r < rows, i < inputs and t < targets:
//   x[r, i] = (values[s, i] / 255 - mean) / deviation; y[r, t] = labels[s, t]
// with the mean and the deviation of the channel of value i. x or y may be NULL.
void gather_batch(const struct dataset *set, const uint32_t *order, size_t first, int rows,
                  float *x, uint8_t *y, cudaStream_t stream);

// y[r, c] += bias[c], then y[r, c] = max(y[r, c], 0) if relu.
void add_bias(float *y, const float *bias, int rows, int cols, int relu, cudaStream_t stream);

// y[i] = max(a[i] + b[i], 0).
void add_relu(const float *a, const float *b, float *y, size_t count, cudaStream_t stream);

// dy[i] = 0 if y[i] <= 0. This is the backward pass of y = relu(...).
void relu_backward(float *dy, const float *y, size_t count, cudaStream_t stream);

// y[i] = 0 if random number rng_number(numbers, i) of the seed is below rate, else
// x[i] / (1 - rate).
void drop_values(const float *x, float *y, size_t count, float rate, uint64_t seed,
                 struct numbers numbers, cudaStream_t stream);

// sums[c] = sum over r of x[r, c]. This is the gradient of a bias.
void sum_rows(const float *x, float *sums, int rows, int cols, cudaStream_t stream);

// The loss of sample r is -log softmax(logits[r])[labels[r]]. Adds three numbers to the lanes in
// stats: the losses, the number of correct rows, and the number of rows. A row is correct if its
// largest logit (the first of equal ones) is at its label. If dlogits is not NULL, it also gets the
// gradient of scale * (sum of losses): (softmax(logits[r]) - one-hot(labels[r])) * scale.
// smoothing, from 0 to 1, replaces that share of a loss by the mean loss of all labels, as
// label_smoothing of torch.nn.CrossEntropyLoss does.
void softmax_cross_entropy(const float *logits, const uint8_t *labels, int rows, int classes,
                           float scale, float *dlogits, struct stats *stats, float smoothing,
                           cudaStream_t stream);

// Adds the STATS_LANES partial sums in stats and writes the total to *sums.
void sum_stats(const struct stats *stats, struct stats *sums, cudaStream_t stream);

// One step of SGD with momentum, as in torch.optim.SGD:
//   velocity = momentum * velocity + (gradients + weight_decay * parameters)
//   parameters -= lr * velocity
void sgd_step(float *parameters, const float *gradients, float *velocity, size_t count, float lr,
              float momentum, float weight_decay, cudaStream_t stream);

// The same with Nesterov's momentum, as in torch.optim.SGD with nesterov=True. The update looks
// ahead:
//   velocity = momentum * velocity + g; parameters -= lr * (g + momentum * velocity)
// where g = gradients + weight_decay * parameters.
void nesterov_step(float *parameters, const float *gradients, float *velocity, size_t count,
                   float lr, float momentum, float weight_decay, cudaStream_t stream);

// One step of Adam (Kingma and Ba, "Adam: a method for stochastic optimization", 2015). step counts
// from 1. No element depends on another, so a call for a part of the arrays gives the same bits as
// a call for the whole arrays:
//   m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g^2;
//   p -= lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon)
// beta1 and beta2 are below 1. Weight decay comes first: g += weight_decay * p, as in
// torch.optim.Adam, or, if decoupled is 1, p *= 1 - lr * weight_decay, as in torch.optim.AdamW.
void adam_step(float *parameters, const float *gradients, float *first_moments,
               float *second_moments, size_t count, float lr, float weight_decay, int decoupled,
               double beta1, double beta2, float epsilon, long step, cudaStream_t stream);

// One step of Adadelta (Zeiler, "ADADELTA: an adaptive learning rate method", 2012), as in
// torch.optim.Adadelta. It divides a gradient by the size of earlier gradients, and multiplies it
// by the size of earlier changes:
//   g = gradients + weight_decay * p; squares = rho * squares + (1 - rho) * g^2;
//   change = g * sqrt(changes + epsilon) / sqrt(squares + epsilon);
//   changes = rho * changes + (1 - rho) * change^2; p -= lr * change
void adadelta_step(float *parameters, const float *gradients, float *squares, float *changes,
                   size_t count, float lr, float weight_decay, double rho, float epsilon,
                   cudaStream_t stream);

// sums[i] += x[i].
void add_to(float *sums, const float *x, size_t count, cudaStream_t stream);

// sums[0] = sum of x[i]^2. The order of the additions depends only on count, because replicas must
// get the same bits. sums has SQUARES_LANES doubles: sums[j] first adds the squares of the elements
// j, j + SQUARES_LANES, ...
enum { SQUARES_LANES = 1 << 18 };
void sum_squares(const float *x, size_t count, double *sums, cudaStream_t stream);

// x[i] *= min(1, max_norm / (sqrt(*sum_of_squares) + 1e-6)), as torch.nn.utils.clip_grad_norm_.
void clip_to_norm(float *x, size_t count, const double *sum_of_squares, float max_norm,
                  cudaStream_t stream);

// y[i] = x[i]. A bfloat16 is the upper half of a float. to_bfloat16 rounds to nearest, with ties to
// even, and keeps NaN.
void to_bfloat16(uint16_t *y, const float *x, size_t count, cudaStream_t stream);
void from_bfloat16(float *y, const uint16_t *x, size_t count, cudaStream_t stream);

// Square windows on an image, at rows and columns stride apart. The first one begins padding rows
// above and padding columns left of the image. Windows see zeros outside the image.
struct windows {
    struct shape in;
    int size, stride, padding;
    int height, width; // number of windows in a column and in a row
};

// Copies windows to rows of a matrix. With [ky, kx, c] an element of the window [wy, wx] and (y, x)
// = stride * (wy, wx) + (ky, kx) - padding:
//   patches[image, wy, wx, ky, kx, c] = x[image, y, x, c], or 0 outside the image
// An element has element_size bytes, 2 or 4.
void image_to_patches(const void *x, void *patches, int images, const struct windows *w,
                      size_t element_size, cudaStream_t stream);

// Returns how many bytes of patches a program should have at a time. On a GPU they are so many that
// their product with the weights keeps all multiprocessors busy, and on the CPU device so few that
// most of them are still in the caches when the product reads them.
size_t patch_workspace(void);

// The backward pass of image_to_patches: dx[image, y, x, c] = sum of the elements of dpatches to
// which the value was copied.
void patches_to_image(const float *dpatches, float *dx, int images, const struct windows *w,
                      cudaStream_t stream);

// y[image, wy, wx, c] = the largest value of channel c in the window. The windows must not overlap
// and have no padding. Backward gives dy to the largest value, the first of equal ones, and 0 to
// all others.
void max_pool(const float *x, float *y, int images, const struct windows *w, cudaStream_t stream);
void max_pool_backward(const float *x, const float *dy, float *dx, int images,
                       const struct windows *w, cudaStream_t stream);

// y[image, c] = mean of x[image, y, x, c] over all pixels, and its backward pass.
void mean_pool(const float *x, float *y, int images, struct shape in, cudaStream_t stream);
void mean_pool_backward(const float *dy, float *dx, int images, struct shape in,
                        cudaStream_t stream);

// Shifts and mirrors each image at random, as RandomCrop(size, padding=most_shift) and
// RandomHorizontalFlip of torchvision do. Image i has the random numbers first + i of the seed. Two
// shifts are uniform in -most_shift, ..., most_shift, and with flip, the image is mirrored with
// probability 1/2:
//   y[i, row, column, c] = x[i, row + shift, (mirrored ? width - 1 - column : column) + shift', c]
// or black[c] outside the image.
struct augmentation {
    struct shape in;
    int most_shift, flip;
    float black[MOST_CHANNELS]; // the value of a black pixel
};
void augment_images(const float *x, float *y, int images, const struct augmentation *a,
                    uint64_t seed, uint64_t first, cudaStream_t stream);

// Group normalisation (Wu and He, "Group normalization", 2018), as in torch.nn.GroupNorm. A group
// is channels / groups neighbouring channels of one image. With its mean and its variance (biased)
// over all pixels and channels of the group:
//   normalised = (x - mean) / sqrt(variance + 1e-5); y = normalised * scale[c] + shift[c]
// and y = max(y, 0) if relu. statistics [images, groups, 2] becomes mean and 1 / sqrt(...). There
// are at most MOST_NORM_CHANNELS channels.
enum { MOST_NORM_CHANNELS = 4096 };
struct groups {
    struct shape in;
    int groups;
};
void group_norm(const float *x, float *y, const float *scale, const float *shift, float *statistics,
                int images, struct groups g, int relu, cudaStream_t stream);

// dx from dy, with the statistics of forward.
void group_norm_backward(const float *x, const float *dy, float *dx, const float *scale,
                         const float *statistics, int images, struct groups g, cudaStream_t stream);

// dy *= normalised. The sum over images and pixels is then the gradient of scale.
void multiply_by_normalised(const float *x, float *dy, const float *statistics, int images,
                            struct groups g, cudaStream_t stream);

// Sequences of tokens. A token is a whole number below entries, stored as a float.

// y[r, c] = table[tokens[r], c] for r < rows and c < width. table is [entries, width].
void look_up(const float *tokens, const float *table, float *y, int rows, int width, int entries,
             cudaStream_t stream);

// dtable[e, c] = sum of dy[r, c] over all rows r whose token is e, in the order of the rows.
void look_up_backward(const float *tokens, const float *dy, float *dtable, int rows, int width,
                      int entries, cudaStream_t stream);

// y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), the approximation of GELU that GPT-2
// uses (Hendrycks and Gimpel, "Gaussian error linear units", 2016), as in torch.nn.GELU("tanh").
void gelu(const float *x, float *y, size_t count, cudaStream_t stream);
void gelu_backward(const float *x, const float *dy, float *dx, size_t count, cudaStream_t stream);

// Attention heads: each takes width neighbouring values of a token. Head number i of a batch is
// head i % heads of sample i / heads.
struct heads {
    int tokens, heads, width;
};

// Copies the values of count heads, from number first on, to matrices of their own. x has parts
// (such as 3: queries, keys and values) side by side in each token:
//   y[part, i, t, d] = x[sample, t, part, head, d], where first + i is this head of this sample
void split_heads(const float *x, float *y, int parts, size_t first, int count, struct heads h,
                 cudaStream_t stream);

// The way back: y[sample, t, part, head, d] = x[part, i, t, d]. Other values of y stay.
void merge_heads(const float *x, float *y, int parts, size_t first, int count, struct heads h,
                 cudaStream_t stream);

// Each matrix has a row for each of the last queries tokens, and a column for each of all tokens.
// The row of token t becomes softmax(scale * its first t + 1 elements), and its other elements 0: a
// token attends only to itself and to those before it. Backward is for square matrices. It
// overwrites dp, the gradient of the result p, with that of the matrices.
void causal_softmax(float *matrices, size_t count, int queries, int tokens, float scale,
                    cudaStream_t stream);
void causal_softmax_backward(const float *p, float *dp, size_t count, int tokens, float scale,
                             cudaStream_t stream);
