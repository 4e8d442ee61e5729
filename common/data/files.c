#include "common/base/error.h"
#include "common/data/datasets.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

int data_exists(const char *folder, const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!access(path, F_OK))
        return 1;
    snprintf(path, sizeof path, "%s/%s.gz", folder, name);
    return !access(path, F_OK);
}

void *data_files(size_t count, size_t size) {
    void *files = calloc(count, size);
    if (!files)
        fail("no memory for the names of %zu files", count);
    return files;
}

// The files that this thread has read since it last looked whether they have changed.
static _Thread_local struct {
    const struct data_file *files[8];
    int count;
} seen;

int data_know(struct data_file *file, char why[WHY_SIZE]) {
    struct stat status;
    if (fstat(file->descriptor, &status))
        return refuse(why, "%s: %s", file->path, strerror(errno));
    if (!S_ISREG(status.st_mode)) // a pipe can be read only once
        return refuse(why, "%s: is a folder, a pipe or a device", file->path);
    seen.count = 0; // no sample has been read yet
    file->size = status.st_size;
    file->changed = status.st_mtim;
    return 0;
}

// Writes why this file cannot be opened, and returns -1.
static int refuse_to_open(const char *path, int error, char why[WHY_SIZE]) {
    return refuse(why, "%s: %s%s", path, strerror(error),
                  error == EMFILE ? "; raise the limit of open files with 'ulimit -n 4096'" : "");
}

int data_open_plain(struct data_file *file, const char *path, char why[WHY_SIZE]) {
    snprintf(file->path, sizeof file->path, "%s", path);
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe lets it wait forever
    if (file->descriptor < 0)
        return refuse_to_open(path, errno, why);
    return data_know(file, why);
}

int data_unpacked;

static int unpack(struct data_file *file, gzFile packed, const char *target, char why[WHY_SIZE]) {
    char bytes[1 << 16];
    int size, error;
    data_unpacked = 1;
    file->descriptor = memfd_create("unpacked", MFD_CLOEXEC);
    if (file->descriptor < 0)
        return refuse_to_open(file->path, errno, why);
    do {
        size = gzread(packed, bytes, sizeof bytes);
        gzerror(packed, &error); // zlib 1.3.2 tells this once, perhaps with all the bytes
        if (size < 0 || error != Z_OK)
            return refuse(why, "%s: truncated or corrupt; delete the file, and %s fetches it again",
                          file->path, target);
        if (write(file->descriptor, bytes, size) != size)
            return refuse(why, "%s: no memory to unpack it: %s; gunzip it", file->path,
                          strerror(errno));
    } while (size > 0);
    return data_know(file, why);
}

int data_open(struct data_file *file, const char *folder, const char *name, const char *target,
              char why[WHY_SIZE]) {
    char path[PATH_MAX - 3];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (data_open_plain(file, path, why) == 0)
        return 0;
    if (!access(path, F_OK)) // it is there, so why has the reason
        return -1;
    snprintf(file->path, sizeof file->path, "%s.gz", path);
    gzFile packed = gzopen(file->path, "rbe");
    if (packed) {
        int result = unpack(file, packed, target, why);
        gzclose(packed);
        return result;
    }
    int error = errno, missing = access(folder, F_OK), elsewhere = access("tools/data.sh", F_OK);
    if (error != ENOENT && error != ENOTDIR)
        return refuse_to_open(file->path, error, why);
    return refuse(why, "%s: %s; %s%s fetches the images, and --data synthetic needs none",
                  missing ? folder : path, missing ? "there is no such folder" : strerror(error),
                  elsewhere ? "run this in the folder of the course, where " : "", target);
}

int data_unchanged(char why[WHY_SIZE]) {
    struct stat now;
    while (seen.count > 0) {
        const struct data_file *f = seen.files[--seen.count];
        if (fstat(f->descriptor, &now) || now.st_size != (off_t)f->size ||
            now.st_mtim.tv_sec != f->changed.tv_sec || now.st_mtim.tv_nsec != f->changed.tv_nsec)
            return refuse(why, "%s: another program has changed it while this one read it",
                          f->path);
    }
    return 0;
}

int data_read(const struct data_file *file, size_t offset, void *bytes, size_t size,
              char why[WHY_SIZE]) {
    enum { MOST_SEEN = sizeof seen.files / sizeof *seen.files };
    int i = 0;
    for (size_t done = 0; done < size;) {
        ssize_t count =
            pread(file->descriptor, (char *)bytes + done, size - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return refuse(why, "%s: cannot read byte %zu: %s", file->path, offset + done,
                          strerror(errno));
        if (count == 0)
            return refuse(why, "%s: ends at byte %zu; it had %zu bytes when training began",
                          file->path, offset + done, file->size);
        done += count;
    }
    while (i < seen.count && seen.files[i] != file)
        i++;
    if (i < seen.count)
        return 0;
    if (i == MOST_SEEN && data_unchanged(why)) // which makes room
        return -1;
    seen.files[seen.count++] = file;
    return 0;
}
