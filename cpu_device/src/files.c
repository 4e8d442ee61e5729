// Descriptors that stay open while the program runs. A program that closes all descriptors, as
// daemons do with closefrom(3), also closes these, and its next files get their numbers. So each
// use first compares the file behind the number with the one that was opened.
#include "internal.h"
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct cpu_file cpu_keep(int number) {
    struct stat s;
    if (number < 0 || fstat(number, &s))
        return CPU_NO_FILE;
    return (struct cpu_file){number, s.st_dev, s.st_ino};
}

int cpu_is_kept(const struct cpu_file *file) {
    struct cpu_file now = cpu_keep(file->number);
    return now.number >= 0 && now.device == file->device && now.inode == file->inode;
}

void cpu_need(const struct cpu_file *file) {
    if (cpu_is_kept(file))
        return;
    // Ends at once, because the exit handlers would wait for the thread that calls this.
    dprintf(STDERR_FILENO,
            "error: CPU device: the program has closed file descriptor %d, which the CPU device "
            "opened and needs; close only what the program has opened, or close all before the "
            "first call of CUDA or NCCL\n",
            file->number);
    _exit(1);
}

void cpu_close(struct cpu_file *file) {
    int error = errno;
    if (cpu_is_kept(file))
        close(file->number);
    *file = CPU_NO_FILE;
    errno = error;
}

int cpu_make_memory(const char *name, size_t bytes) {
    struct rlimit limit;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < bytes) {
        errno = EFBIG; // ftruncate would end the program with SIGXFSZ
        return -1;
    }
    int file = memfd_create(name, MFD_CLOEXEC);
    if (file < 0 || !ftruncate(file, (off_t)bytes))
        return file;
    int error = errno;
    close(file);
    errno = error;
    return -1;
}
