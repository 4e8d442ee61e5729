#include "common/data/datasets.h"
#include "common/models/models.h"
#include "common/training/training_options.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HELD_OUT = 10, MOST_BYTES = 1 << 30 }; // the last tenth is held out for the test

static const char word[] = "text", prefix[] = "text:", course[] = "/build/course.txt";

// Sets path to the file to read. Make writes the sources of the course to build/course.txt, and the
// program is in a folder inside build/.
static int find_file(const char *folder, char path[PATH_MAX], char why[WHY_SIZE]) {
    if (strcmp(folder, word)) {
        int named = !strncmp(folder, prefix, strlen(prefix));
        snprintf(path, PATH_MAX, "%s%s", named ? folder + strlen(prefix) : folder,
                 named ? "" : "/input.txt");
        return 0;
    }
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - sizeof course);
    path[length > 0 ? length : 0] = 0;
    for (char *end; (end = strrchr(path, '/')); *end = 0) {
        strcpy(end, course);
        if (!access(path, F_OK))
            return 0;
    }
    return refuse(why, "--data text: no folder above this program has build/course.txt, which make "
                       "writes: make step1 in the folder of the course, or use --data text:FILE");
}

static int found(const char *folder) {
    char path[PATH_MAX], why[WHY_SIZE];
    return !strcmp(folder, word) || !strncmp(folder, prefix, strlen(prefix)) ||
           (!find_file(folder, path, why) && !access(path, F_OK));
}

static int read_at(FILE *file, size_t first, uint8_t *bytes, size_t count) {
    return fseeko(file, (off_t)first, SEEK_SET) || fread(bytes, 1, count, file) != count;
}

static int read_split(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    int context = gpt_size(&opt).context;
    char path[PATH_MAX];
    struct stat status;
    if (find_file(folder, path, why))
        return -1;
    if (stat(path, &status))
        return refuse(why, "%s: %s; --data text:FILE wants a file", path, strerror(errno));
    size_t size = status.st_size, tenth = size / HELD_OUT;
    if (!S_ISREG(status.st_mode)) // a pipe can be read only once
        return refuse(why, "%s: is a folder, a pipe or a device; --data text:FILE wants a file",
                      path);
    if (size > MOST_BYTES)
        return refuse(why, "%s: has %zu bytes; want at most %d: head -c 1G makes it shorter", path,
                      size, MOST_BYTES);
    if (tenth < context + 1u)
        return refuse(why,
                      "%s: has %zu bytes; want at least %d, so that the held-out tenth has a "
                      "sequence of --context %d: use a longer text or a smaller --context",
                      path, size, HELD_OUT * (context + 1), context);
    size_t first = test ? size - tenth : 0, bytes = test ? tenth : size - tenth;
    set->tokens = 1;
    set->targets = context;
    if (data_allocate(set, (bytes - 1) / context, (struct shape){context, 1, 1}, why))
        return -1;
    FILE *file = fopen(path, "rbe");
    errno = 0;
    int failed = !file || read_at(file, first, set->values, set->count * context) ||
                 read_at(file, first + 1, set->labels, set->count * context);
    if (failed)
        refuse(why, "%s: %s", path, errno ? strerror(errno) : "became shorter, run again");
    if (file)
        fclose(file);
    return -failed;
}

const struct data_source text_bytes = {found, read_split, 1, 256, "sequences", "text[:FILE]"};
