#include "common/data/datasets.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const endings[] = {"", ".gz"};

int data_exists(const char *folder, const char *name) {
    char path[PATH_MAX];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s%s", folder, name, endings[i]);
        if (!access(path, F_OK))
            return 1;
    }
    return 0;
}

gzFile data_open(const char *folder, const char *name, const char *target, char path[PATH_MAX],
                 char why[WHY_SIZE]) {
    for (int i = 0; i < 2; i++) {
        snprintf(path, PATH_MAX, "%s/%s%s", folder, name, endings[i]);
        gzFile file = gzopen(path, "rb"); // reads plain files as they are
        if (file)
            return file;
    }
    const char *error = strerror(errno);
    int missing = access(folder, F_OK), elsewhere = access("tools/data.sh", F_OK);
    refuse(why, "%s: %s; %s%s fetches the images, --data synthetic needs none",
           missing ? folder : path, missing ? "there is no such folder" : error,
           elsewhere ? "run this in the folder of the course, where " : "", target);
    return NULL;
}

long data_read(gzFile file, void *bytes, size_t size) {
    int error;
    size_t count = gzfread(bytes, 1, size, file);
    gzerror(file, &error);
    return error == Z_OK ? (long)count : -1;
}

int data_allocate(struct dataset *set, size_t count, struct shape shape, char why[WHY_SIZE]) {
    set->count = count;
    set->shape = shape;
    set->values = malloc(count * (size_t)shape_size(shape));
    set->labels = malloc(count * (size_t)set->targets);
    if (!set->values || !set->labels)
        return refuse(why, "no memory for %zu %s", count, data_samples);
    return 0;
}
