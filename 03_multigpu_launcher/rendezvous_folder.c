#include "03_multigpu_launcher/rendezvous_folder.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void rendezvous_path(char path[PATH_MAX], const char *run) {
    const char *parent = getenv("TMPDIR");
    int begin = snprintf(path, PATH_MAX, "%s/", parent && *parent ? parent : "/tmp");
    snprintf(path + begin, PATH_MAX - begin, "ranks-%d%s", geteuid(), run);
    for (char *slash = path + begin; (slash = strchr(slash, '/'));)
        *slash = '_';
}
