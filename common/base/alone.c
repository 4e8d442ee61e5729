#include "common/base/alone.h"
#include "common/base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int open_alone(const char *option, const char *path, int goes_on) {
    struct stat s;
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0)
        fail("%s %s: %m", option, path);
    if (fstat(file, &s) || !S_ISREG(s.st_mode)) // /dev/null may have many writers
        return file;
    if (flock(file, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        fail("%s %s: another run writes this file: wait for its end, or choose another one", option,
             path);
    if (!goes_on && ftruncate(file, 0))
        fail("%s %s: %m", option, path);
    return file;
}
