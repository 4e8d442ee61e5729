#include "03_multigpu_launcher/meet_by_file.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/signals.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char
    folder_path[PATH_MAX];       // all attempts of a run use it, so nothing is left of a killed one
static int folder, id_file = -1; // descriptors; id_file: only on rank 0

// The folder must belong to this user alone. Otherwise another user could write a wrong id.
static void open_folder(const struct place *p) {
    struct stat s;
    char name[sizeof p->run];
    const char *parent = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s", p->run);
    if (!*name) // if the run has no name, all ranks have the same parent
        snprintf(name, sizeof name, "-%d", p->world > 1 ? getppid() : getpid());
    for (char *slash = name; (slash = strchr(slash, '/'));)
        *slash = '_';
    snprintf(folder_path, sizeof folder_path, "%s/ranks-%d%s", parent && *parent ? parent : "/tmp",
             geteuid(), name);
    if (mkdir(folder_path, 0700) && errno != EEXIST)
        fail("cannot create the folder %s: %m", folder_path);
    folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &s))
        fail("cannot open the folder %s: %m", folder_path);
    if (s.st_uid != geteuid() || (s.st_mode & 077))
        fail("%s must be a folder to which only this user has access", folder_path);
}

// Returns 1 if the file of a running rank 0 is there. Rank 0 locks its file until it ends, so the
// file that a killed rank 0 has left does not count.
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
    rmdir(folder_path); // fails while another rank 0 has an id there
    *folder_path = 0;   // later, the folder may belong to another run
}

// Until training begins, a signal ends this rank as if it had no handler.
static void leave_early(int number) {
    forget_id();
    signal(number, SIG_DFL);
    raise(number);
}

void meet_by_file(const struct place *p, ncclUniqueId *id, double timeout) {
    ncclUniqueId other;
    open_folder(p);
    if (p->rank == 0 && read_id(&other))
        fail("another rank 0 of this run is alive, with its id in %s", folder_path);
    atexit(forget_id);
    handle_stop_signals(leave_early);
    if (p->rank == 0) {
        int file = openat(folder, "new", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0 || flock(file, LOCK_EX | LOCK_NB) || ftruncate(file, 0) ||
            write(file, id, sizeof *id) != sizeof *id ||
            renameat(folder, "new", folder, "id")) // no rank sees half an id
            fail("cannot write %s/id: %m", folder_path);
        id_file = file;
    }
    for (double end = seconds() + timeout; p->rank > 0 && !read_id(id); usleep(1000))
        if (seconds() > end)
            fail("waited %.0f s (--join-timeout) for rank 0 to write %s/id", timeout, folder_path);
}
