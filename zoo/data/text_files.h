// The files of a text: one file, or a folder of shards, which are one text in the order of their
// names (strcmp).
#pragma once
#include "common/data/datasets.h"

struct text {
    size_t size;  // bytes of all files
    size_t count; // of files
    struct text_file {
        size_t begin; // of its bytes in the text
        struct data_file file;
    } * files;
    size_t first; // where the samples of the set begin
};

// Opens the text. If the folder has a file index.cksum, as "cksum * >index.cksum" makes it, its
// names and sizes must be those of the shards. For FILE, that file is FILE.cksum. With verify 1,
// there must be one, and all bytes are read and compared with its checksums. Returns 0, or -1 with
// the reason in why, which names the shard.
int text_open(struct text *text, const char *path, int verify, char why[WHY_SIZE]);

// Reads this many bytes of the text. Returns 0, or -1 with the reason in why.
int text_read(const struct text *text, size_t offset, uint8_t *bytes, size_t size,
              char why[WHY_SIZE]);
