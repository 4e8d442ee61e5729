// The lock of a snapshot is a POSIX record lock of a file beside it. Such a lock also holds on NFS,
// and it ends with its process, however that ends. The text of the file says whose it is.
#include "common/base/clock.h"
#include "common/base/say.h"
#include "common/snapshots/snapshot_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char lock_path[PATH_SIZE];
static pid_t holder;

// A child of fork calls this at its exit, too, but the lock is its parent's.
static void release(void) {
    if (getpid() == holder)
        unlink(lock_path);
}

// The lock failed, for the reason in errno. Returns 0 if the file system has no locks.
static int explain(const char *path, int file, char why[WHY_SIZE]) {
    if (errno == EACCES || errno == EAGAIN) {
        char owner[128] = "another run";
        ssize_t size = read(file, owner, sizeof owner - 1);
        return refuse(why,
                      "snapshot %.200s: %.*s saves there, too; wait for its end, or choose another "
                      "--snapshot; if that machine has crashed, delete %.200s",
                      path, size > 0 ? (int)size : (int)strlen(owner), owner, lock_path);
    }
    say("note      this file system has no locks (%s): start no second run with --snapshot %s\n",
        strerror(errno), path);
    return 0;
}

int snapshot_lock(const char *path, char why[WHY_SIZE]) {
    struct flock whole_file = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat opened, named;
    follow_links(lock_path, path);
    add_text(lock_path, sizeof lock_path, ".lock");
    for (;;) {
        // O_SYNC: a run on another node can read the text.
        int file = open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_SYNC, 0666);
        if (file < 0)
            return refuse(why, "cannot write snapshot %.300s: %s", path, strerror(errno));
        if (fcntl(file, F_SETLK, &whole_file) && explain(path, file, why)) {
            close(file);
            return -1;
        }
        // A run that ended between the two calls has removed the file.
        if (!fstat(file, &opened) && !stat(lock_path, &named) && opened.st_ino == named.st_ino) {
            if (!ftruncate(file, 0))
                dprintf(file, "process %ld (%s)", (long)getpid(), error_origin());
            holder = getpid();
            atexit(release);
            return 0; // the file stays open, because close would end the lock
        }
        close(file);
    }
}

long snapshot_locked_by(const char *path, double patience) {
    char name[PATH_SIZE];
    long process = 0;
    if (holder == getpid())
        return holder; // if it opened and closed the file, this would end the lock
    follow_links(name, path);
    add_text(name, sizeof name, ".lock");
    for (double end = seconds() + patience; !process && seconds() < end; usleep(10000)) {
        FILE *file = fopen(name, "r");
        if (file && fscanf(file, "process %ld", &process) != 1)
            process = 0;
        if (file)
            fclose(file);
    }
    return process;
}
