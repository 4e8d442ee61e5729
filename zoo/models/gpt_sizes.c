#include "zoo/models/models.h"
#include "zoo/zoo_options.h"
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

struct gpt_size gpt_size(void) {
    struct gpt_size size = sizes[0];
    for (int i = 0; i < SIZES; i++)
        if (!strcmp(zoo_opt.size, sizes[i].name))
            size = sizes[i];
    if (zoo_opt.layers)
        size.layers = (int)zoo_opt.layers;
    if (zoo_opt.heads)
        size.heads = (int)zoo_opt.heads;
    if (zoo_opt.width)
        size.width = (int)zoo_opt.width;
    if (zoo_opt.context)
        size.context = (int)zoo_opt.context;
    return size;
}
