#include "zoo/data/sources.h"
#include "zoo/data/story.h"
#include "zoo/models/models.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HELD_OUT = 10, MOST_BYTES = 1 << 30 }; // the last tenth is held out for the test

static const char word[] = "text", prefix[] = "text:";

// Sets path to the file that the folder of --data names.
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

// Opens the text that the folder of --data names, and sets its size in bytes, and the name that
// messages have for it. Returns NULL with the reason in why.
static FILE *open_text(const char *folder, char name[PATH_MAX], size_t *size, char why[WHY_SIZE]) {
    static char story[STORY_BYTES];
    struct stat status;
    if (!strcmp(folder, word)) {
        snprintf(name, PATH_MAX, "--data %s", word);
        write_stories(story);
        *size = sizeof story;
        return fmemopen(story, sizeof story, "r");
    }
    find_file(folder, name);
    if (stat(name, &status)) {
        refuse(why, "--data %s: %s; --data text:FILE wants a file", folder, strerror(errno));
        return NULL;
    }
    if (!S_ISREG(status.st_mode)) { // a pipe can be read only once
        refuse(why, "%s: is a folder, a pipe or a device; --data text:FILE wants a file", name);
        return NULL;
    }
    *size = status.st_size;
    FILE *file = fopen(name, "rbe");
    if (!file)
        refuse(why, "%s: %s", name, strerror(errno));
    return file;
}

static int read_at(FILE *file, size_t first, uint8_t *bytes, size_t count) {
    return fseeko(file, (off_t)first, SEEK_SET) || fread(bytes, 1, count, file) != count;
}

// Reads a part of the file that has this name and size.
static int read_split(struct dataset *set, FILE *file, const char *name, size_t size, int test,
                      char why[WHY_SIZE]) {
    int context = gpt_size().context;
    size_t tenth = size / HELD_OUT;
    if (size > MOST_BYTES)
        return refuse(why, "%s: has %zu bytes; want at most %d: head -c 1G makes it shorter", name,
                      size, MOST_BYTES);
    if (tenth < context + 1u)
        return refuse(why,
                      "%s: has %zu bytes; want at least %d, so that the held-out tenth has a "
                      "sequence of --context %d: use a longer text or a smaller --context",
                      name, size, HELD_OUT * (context + 1), context);
    size_t first = test ? size - tenth : 0, bytes = test ? tenth : size - tenth;
    set->tokens = 1;
    set->deviation[0] = 1 / 255.f; // the model reads the bytes themselves
    set->targets = context;
    if (data_allocate(set, (bytes - 1) / context, (struct shape){context, 1, 1}, why))
        return -1;
    errno = 0;
    int failed = read_at(file, first, set->values, set->count * context) ||
                 read_at(file, first + 1, set->labels, set->count * context);
    if (failed)
        refuse(why, "%s: %s", name, errno ? strerror(errno) : "became shorter, run again");
    return -failed;
}

static int read_text(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    char name[PATH_MAX];
    size_t size;
    FILE *file = open_text(folder, name, &size, why);
    if (!file)
        return -1;
    int result = read_split(set, file, name, size, test, why);
    fclose(file);
    return result;
}

const struct data_source text_bytes = {found, read_text, 1, 256, "sequences", "text[:FILE]"};
