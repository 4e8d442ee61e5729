#include "zoo/data/sources.h"
#include "zoo/data/story.h"
#include "zoo/data/text_files.h"
#include "zoo/models/models.h"
#include "zoo/zoo_options.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HELD_OUT = 10 }; // the last tenth is held out for the test

static const char word[] = "text", prefix[] = "text:";

// Sets path to the file or folder that the folder of --data names.
static void find_file(const char *folder, char path[PATH_MAX]) {
    int named = !strncmp(folder, prefix, strlen(prefix));
    snprintf(path, PATH_MAX, "%s%s", named ? folder + strlen(prefix) : folder,
             named ? "" : "/input.txt");
}

static int found(const char *folder) {
    char path[PATH_MAX];
    find_file(folder, path);
    return !strcmp(folder, word) || !strncmp(folder, prefix, strlen(prefix)) || !access(path, F_OK);
}

// The stories become a file in memory.
static int open_stories(struct text *text, char why[WHY_SIZE]) {
    static char story[STORY_BYTES];
    struct text_file *f = text->files = data_files(1, sizeof *f);
    text->count = 1;
    text->size = f->file.size = sizeof story;
    snprintf(f->file.path, sizeof f->file.path, "--data %s", word);
    f->file.descriptor = memfd_create("stories", MFD_CLOEXEC);
    write_stories(story);
    if (write(f->file.descriptor, story, sizeof story) != sizeof story)
        return refuse(why, "--data %s: no memory for the stories: %s", word, strerror(errno));
    return data_know(&f->file, why);
}

static int open_text(struct text *text, const char *folder, int verify, char why[WHY_SIZE]) {
    char path[PATH_MAX], reason[WHY_SIZE];
    find_file(folder, path);
    if (!strcmp(folder, word))
        return open_stories(text, why);
    if (text_open(text, path, verify, reason))
        return refuse(why, "--data %s: %.800s; text:FILE wants a file, or a folder of files",
                      folder, reason);
    return 0;
}

static int open_split(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    const struct text *training = set->files;
    struct text *text = set->files = data_files(1, sizeof *text);
    int context = gpt_size().context;
    if (test) // it has the same files
        *text = *training;
    else if (open_text(text, folder, zoo_opt.verify, why))
        return -1;
    const char *name = text->count > 1 ? folder : text->files[0].file.path;
    size_t size = text->size, tenth = size / HELD_OUT, train = size - tenth;
    if (tenth < context + 1u)
        return refuse(why,
                      "%s: has %zu bytes; want at least %d, so that the held-out tenth has a "
                      "sequence of --context %d: use a longer text or a smaller --context",
                      name, size, HELD_OUT * (context + 1), context);
    if (train / context > UINT32_MAX)
        return refuse(why, "%s: has %zu bytes, and with --context %d more than 2^32 sequences",
                      name, size, context);
    set->tokens = 1;
    set->deviation[0] = 1 / 255.f; // the model reads the bytes themselves
    set->targets = context;
    set->shape = (struct shape){context, 1, 1};
    set->count = ((test ? tenth : train) - 1) / context;
    text->first = test ? train : 0;
    return 0;
}

static int read_sequences(const struct dataset *set, size_t first, size_t count, uint8_t *values,
                          uint8_t *labels, char why[WHY_SIZE]) {
    const struct text *text = set->files;
    size_t offset = text->first + first * set->inputs, size = count * set->inputs;
    if (text_read(text, offset, values, size, why))
        return -1;
    return text_read(text, offset + 1, labels, size, why);
}

const struct data_source text_bytes = {found, open_split,  read_sequences, 1,
                                       256,   "sequences", "text[:FILE]"};
