#include "03_multigpu_launcher/meet_by_file.h"
#include "common/clock.h"
#include "common/error.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder_path[PATH_MAX]; // of this run, so that an attempt clears up after a killed one
static int folder, id_file = -1;   // id_file: rank 0's

// It must be this user's alone: who can write there can lead the ranks astray.
static void open_folder(const struct place *p) {
    struct stat s;
    const char *parent = getenv("TMPDIR");
    char name[sizeof p->run];
    snprintf(name, sizeof name, "%s", p->run);
    if (!*name) // ranks without a name in common have a parent in common
        snprintf(name, sizeof name, "-%d", p->world > 1 ? getppid() : getpid());
    for (char *slash = name; (slash = strchr(slash, '/'));)
        *slash = '_';
    snprintf(folder_path, PATH_MAX, "%s/ranks-%d%s", parent && *parent ? parent : "/tmp", geteuid(),
             name);
    if (mkdir(folder_path, 0700) && errno != EEXIST)
        fail("cannot make the folder %s: %m", folder_path);
    folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &s))
        fail("cannot open the folder %s: %m", folder_path);
    if (s.st_uid != geteuid() || (s.st_mode & 077))
        fail("%s must be a folder that nobody but this user can write to", folder_path);
}

// Rank 0 holds its file locked as long as it lives, so one that a killed run has left is never
// taken for it.
static int read_id(ncclUniqueId *id) {
    int file = openat(folder, "id", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int locked = file >= 0 && flock(file, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    int found = locked && read(file, id, sizeof *id) == sizeof *id;
    close(file);
    return found;
}

void forget_id(void) {
    if (id_file >= 0 && !unlinkat(folder, "id", 0))
        id_file = -1;
    rmdir(folder_path); // not while there is an id in it
    *folder_path = 0;   // another run may have one of that name soon
}

static void leave_early(int signal) {
    forget_id();
    _exit(128 + signal);
}

void meet_by_file(const struct place *p, ncclUniqueId *id, double timeout) {
    ncclUniqueId other;
    open_folder(p);
    if (p->rank == 0 && read_id(&other))
        fail("another rank 0 of this run has left its id in %s", folder_path);
    atexit(forget_id);
    signal(SIGTERM, leave_early);
    if (p->rank == 0) {
        int file = openat(folder, "new", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0 || flock(file, LOCK_EX | LOCK_NB) || ftruncate(file, 0) ||
            write(file, id, sizeof *id) != sizeof *id ||
            renameat(folder, "new", folder, "id")) // whole or not at all
            fail("cannot write %s/id: %m", folder_path);
        id_file = file;
    }
    for (double end = seconds() + timeout; p->rank > 0 && !read_id(id); usleep(1000))
        if (seconds() > end)
            fail("waited %.0f s (--join-timeout) for rank 0 to write %s/id", timeout, folder_path);
}
