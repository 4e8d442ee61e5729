// What the tests of data sets share: a folder with files, and the sets that data_load reads from
// it.
#pragma once
#include "common/data/data.h"
#include "tests/test.h"
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char folder[PATH_MAX];
static struct dataset train, test;

static const char *path_of(const char *name) {
    static char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

// mode: "wb" compresses, "wbT" writes the bytes as they are.
static void put(const char *name, const void *bytes, size_t size, const char *mode) {
    gzFile file = gzopen(path_of(name), mode);
    assert_non_null(file);
    assert_int_equal(gzfwrite(bytes, 1, size, file), size);
    assert_int_equal(gzclose(file), Z_OK);
}

// A program closes no file of its data, but a test opens many sets.
static void free_sets(void) {
    static int first;
    struct dataset *sets[] = {&train, &test};
    for (int file = first; first && file < first + 16; file++)
        close(file);
    first = dup(0); // data_load opens this one and those after it
    close(first);
    for (int i = 0; i < 2; i++) {
        free(sets[i]->values);
        free(sets[i]->labels);
        *sets[i] = (struct dataset){0};
    }
}

static int new_folder(void) {
    snprintf(folder, sizeof folder, "%s/test_data-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

// Removes these files, plain and compressed, and folders in their places.
static int delete_folder(const char *const names[], int count) {
    for (int i = 0; i < count; i++) {
        char packed[64];
        snprintf(packed, sizeof packed, "%s.gz", names[i]);
        remove(path_of(packed));
        remove(path_of(names[i]));
    }
    return rmdir(folder);
}

static void load(const char *from) {
    char why[WHY_SIZE] = "";
    free_sets();
    if (data_load(&train, &test, &from, why))
        fail_msg("refused: %s", why);
}

// The folder must be refused with one line that contains both texts.
static inline void refused(const char *name, const char *reason) {
    char why[WHY_SIZE] = "";
    const char *from = folder;
    free_sets();
    if (!data_load(&train, &test, &from, why))
        fail_msg("loaded, but should have been refused: %s %s", name, reason);
    if (!strstr(why, name) || !strstr(why, reason) || strchr(why, '\n'))
        fail_msg("refused with \"%s\", not with %s %s", why, name, reason);
}
