#include "common/base/rng.h"
#include "common/data/data.h"
#include "common/device/device.h"
#include "zoo/layers/kinds.h"
#include <string.h>

static void augmentation_forward(const struct layer *l, const struct pass *pass,
                                 const void *parameters, const float *x, float *y, int b) {
    (void)parameters;
    if (pass->training)
        augment_images(x, y, b, &settings_of(l)->augmentation, rng_bits(pass->seed, 0),
                       pass->first_sample, pass->stream);
    else
        CUDA_CHECK(cudaMemcpyAsync(y, x, (size_t)b * l->outputs * sizeof *y,
                                   cudaMemcpyDeviceToDevice, pass->stream));
}

// The inputs of a model need no gradients.
static void augmentation_backward(const struct layer *l, const struct pass *pass,
                                  const void *parameters, const float *x, float *y, float *dy,
                                  float *dx, float *gradients, int b) {
    (void)l, (void)pass, (void)parameters, (void)x, (void)y, (void)dy, (void)dx, (void)gradients;
    (void)b;
}

const struct layer_kind augmentation = {"augmentation", initialise_nothing, augmentation_forward,
                                        augmentation_backward};

// Sets the flags of the words in the text. Returns 0, or -1 if there is another word.
static int parse_words(const char *text, int *crop, int *flip) {
    for (const char *word = text;; word++) {
        size_t length = strcspn(word, ",");
        if (length == 4 && !strncmp(word, "crop", 4))
            *crop = 1;
        else if (length == 4 && !strncmp(word, "flip", 4))
            *flip = 1;
        else
            return -1;
        word += length;
        if (!*word)
            return 0;
    }
}

int append_augmentation(struct model *m, const char *words, const struct dataset *set,
                        char why[WHY_SIZE]) {
    enum { MOST_SHIFT = 4 };
    int crop = 0, flip = 0;
    if (parse_words(words, &crop, &flip))
        return refuse(why, "--augment %s: want none, crop, flip, or crop,flip", words);
    if (crop && (m->out.height <= MOST_SHIFT || m->out.width <= MOST_SHIFT))
        return refuse(
            why,
            "--augment %s: shifts of %d pixels need images of at least %d x %d pixels, and "
            "these have %d x %d",
            words, MOST_SHIFT, MOST_SHIFT + 1, MOST_SHIFT + 1, m->out.width, m->out.height);
    struct augmentation a = {.in = m->out, .most_shift = crop ? MOST_SHIFT : 0, .flip = flip};
    for (int c = 0; c < m->out.channels; c++)
        a.black[c] = -set->mean[c] / set->deviation[c];
    settings_of(append_layer(m, &augmentation, m->out, 0, 0))->augmentation = a;
    return 0;
}
