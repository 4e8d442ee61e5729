#include "zoo/data/text_files.h"
#include "common/base/minmax.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char index_name[] = "index.cksum";

// Continues the checksum of the command cksum (POSIX), a CRC with the polynomial 0x04c11db7.
static uint32_t add_to_crc(uint32_t crc, const uint8_t *bytes, size_t size) {
    static uint32_t table[256];
    for (uint32_t i = 0; !table[255] && i < 256; i++) {
        table[i] = i << 24;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] << 1 ^ (table[i] >> 31 ? 0x04c11db7 : 0);
    }
    while (size--)
        crc = crc << 8 ^ table[crc >> 24 ^ *bytes++];
    return crc;
}

static int verify(const struct data_file *f, uint32_t wanted, char why[WHY_SIZE]) {
    static uint8_t bytes[1 << 20];
    uint32_t crc = 0;
    for (size_t at = 0; at < f->size; at += sizeof bytes) {
        size_t size = min_size(sizeof bytes, f->size - at);
        if (data_read(f, at, bytes, size, why))
            return -1;
        crc = add_to_crc(crc, bytes, size);
    }
    for (size_t size = f->size; size > 0; size >>= 8)
        crc = add_to_crc(crc, &(uint8_t){(uint8_t)size}, 1);
    if (~crc != wanted)
        return refuse(why, "%s: its checksum is %u, and the index says %u: copy it again", f->path,
                      ~crc, wanted);
    return 0;
}

// Compares the files with the lines of the index, which have the same order.
static int compare(const struct text *text, FILE *index, const char *name, int all,
                   char why[WHY_SIZE]) {
    const struct text_file *f = text->files, *end = f + text->count;
    char *line = NULL;
    size_t room = 0, size;
    uint32_t crc;
    int result = 0, at;
    while (!result && getline(&line, &room, index) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%u %zu %n", &crc, &size, &at) != 2) {
            result = refuse(why, "%s: want lines of the command cksum: CHECKSUM BYTES NAME", name);
            break;
        }
        const char *shard = basename(line + at);
        int order = f < end ? strcmp(basename(f->file.path), shard) : 1;
        if (!strcmp(shard, index_name)) // "cksum *" found the empty index that it was writing
            continue;
        if (order > 0)
            result = refuse(why, "%s: %s is missing: copy it again", name, shard);
        else if (order < 0)
            result =
                refuse(why, "%s: is not in %s, or not in the order of names", f->file.path, name);
        else if (f->file.size != size)
            result = refuse(why, "%s: has %zu bytes, and %s says %zu: copy it again", f->file.path,
                            f->file.size, name, size);
        else
            result = all ? verify(&f->file, crc, why) : 0;
        f++;
    }
    if (!result && f < end)
        result = refuse(why, "%s: is not in %s", f->file.path, name);
    free(line);
    return result;
}

static int is_shard(const struct dirent *entry) {
    return entry->d_name[0] != '.' && strcmp(entry->d_name, index_name) != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int open_files(struct text *text, const char *path, int is_folder, char why[WHY_SIZE]) {
    struct dirent **entries = NULL;
    char name[PATH_MAX];
    int count = is_folder ? scandir(path, &entries, is_shard, by_name) : 1;
    if (count < 1)
        return refuse(why, "%s: %s", path, count ? strerror(errno) : "is an empty folder");
    text->files = data_files((size_t)count, sizeof *text->files);
    for (int i = 0; i < count; i++) {
        struct text_file *f = &text->files[text->count++];
        snprintf(name, sizeof name, "%s%s%s", path, is_folder ? "/" : "",
                 is_folder ? entries[i]->d_name : "");
        if (data_open_plain(&f->file, name, why))
            return -1;
        f->begin = text->size;
        text->size += f->file.size;
    }
    for (int i = 0; is_folder && i < count; i++)
        free(entries[i]);
    free(entries);
    return 0;
}

int text_open(struct text *text, const char *path, int verify, char why[WHY_SIZE]) {
    char name[PATH_MAX];
    struct stat status;
    int is_folder = !stat(path, &status) && S_ISDIR(status.st_mode);
    snprintf(name, sizeof name, "%s%s", path, is_folder ? "/index.cksum" : ".cksum");
    if (open_files(text, path, is_folder, why))
        return -1;
    FILE *index = fopen(name, "re");
    if (!index && verify)
        return refuse(why, "%s: %s; --verify compares with it, and cksum makes it", name,
                      strerror(errno));
    int result = index ? compare(text, index, name, verify, why) : 0;
    if (index)
        fclose(index);
    return result;
}

// Returns the number of the file that has this byte.
static size_t file_of(const struct text *text, size_t offset) {
    size_t least = 0, most = text->count;
    while (most - least > 1) {
        size_t middle = (least + most) / 2;
        *(text->files[middle].begin <= offset ? &least : &most) = middle;
    }
    return least;
}

int text_read(const struct text *text, size_t offset, uint8_t *bytes, size_t size,
              char why[WHY_SIZE]) {
    for (size_t i = file_of(text, offset); size > 0; i++) {
        const struct text_file *f = &text->files[i];
        size_t part = min_size(size, f->begin + f->file.size - offset);
        if (data_read(&f->file, offset - f->begin, bytes, part, why))
            return -1;
        offset += part;
        bytes += part;
        size -= part;
    }
    return 0;
}
