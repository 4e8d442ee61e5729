// What the tests of data sets share: a folder with files, and the sets that data_load reads from
// it.
#pragma once
#include "common/data/data.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h> // after error.h, whose fail() its macro of that name would break

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

static void free_sets(void) {
    struct dataset *sets[] = {&train, &test};
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
    free_sets();
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

// "auto" must choose this folder, whose files are no complete set.
static inline void finds(const char *found) {
    char why[WHY_SIZE];
    const char *from = "auto";
    free_sets();
    assert_int_equal(data_load(&train, &test, &from, why), -1);
    assert_string_equal(from, found);
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

static inline void folder_is_refused(const char *name, const char *reason) {
    unlink(path_of(name));
    assert_int_equal(mkdir(path_of(name), 0700), 0);
    refused(name, reason);
    assert_int_equal(rmdir(path_of(name)), 0);
}

// Compresses the bytes into this file, and damages it at every length and place, or at those that
// are a number of bytes apart, and at the last ones: gzip's checksum and size. Some damage to the
// ten bytes of gzip's header has no effect, such as another time. The file is whole in the end.
static inline void damaged_gzip_is_refused(const char *name, const void *bytes, size_t bytes_size,
                                           size_t apart, const char *reason) {
    enum { GZIP_HEADER = 10, TRAILER = 8 };
    uint8_t *packed = malloc(bytes_size + 1000);
    assert_non_null(packed);
    put(name, bytes, bytes_size, "wb");
    FILE *file = fopen(path_of(name), "rb");
    assert_non_null(file);
    size_t size = fread(packed, 1, bytes_size + 1000, file);
    fclose(file);
    assert_true(size > GZIP_HEADER + TRAILER && size < bytes_size + 1000);
    for (size_t at = GZIP_HEADER; at < size; at += at + TRAILER < size ? apart : 1) {
        packed[at] ^= 0xff;
        put(name, packed, size, "wbT");
        refused(name, reason);
        packed[at] ^= 0xff;
    }
    for (size_t length = 0; length < size; length += length + TRAILER < size ? apart : 1) {
        put(name, packed, length, "wbT");
        refused(name, "truncated or corrupt");
    }
    put(name, packed, size, "wbT");
    free(packed);
}
