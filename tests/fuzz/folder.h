// The folder of a fuzzer's data set, whose files are FILES in number. Include it after FILES.
#pragma once
#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[PATH_MAX], paths[FILES][PATH_MAX + 32];

static void remove_folder(void) {
    for (int i = 0; i < FILES; i++)
        unlink(paths[i]);
    rmdir(folder);
}

static void put(const char *path, const uint8_t *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert(file && fwrite(bytes, 1, size, file) == size);
    assert(fclose(file) == 0);
}

// Makes the folder, which the program removes when it ends. name: of the fuzzer.
static void make_folder(const char *name) {
    snprintf(folder, sizeof folder, "%s/%s-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
             name);
    assert(mkdtemp(folder));
    assert(atexit(remove_folder) == 0);
}
