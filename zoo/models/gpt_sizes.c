#include "common/models/models.h"
#include <string.h>

// tiny learns something visible in two minutes on two cores, and small in an hour. gpt2 has the
// layers of the smallest GPT-2. 1b and 8b are named after their billions of parameters.
static const struct gpt_size sizes[] = {
    {"tiny", 2, 4, 64, 64},     {"small", 6, 6, 384, 256},  {"gpt2", 12, 12, 768, 1024},
    {"1b", 20, 16, 2048, 2048}, {"8b", 40, 32, 4096, 8192},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

const char *gpt_size_name(int i) {
    return i < SIZES ? sizes[i].name : NULL;
}

struct gpt_size gpt_size(const struct training_options *options) {
    struct gpt_size size = sizes[0];
    for (int i = 0; i < SIZES; i++)
        if (!strcmp(options->size, sizes[i].name))
            size = sizes[i];
    if (options->layers)
        size.layers = (int)options->layers;
    if (options->heads)
        size.heads = (int)options->heads;
    if (options->width)
        size.width = (int)options->width;
    if (options->context)
        size.context = (int)options->context;
    return size;
}
