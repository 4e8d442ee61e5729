#include "common/trace.h"
#include "common/error.h"
#include <errno.h>
#include <string.h>

FILE *trace_create(const char *path, int process, int processes) {
    char name[4096];
    const char *dot = strrchr(path, '.');
    if (!dot || strchr(dot, '/'))
        dot = path + strlen(path);
    snprintf(name, sizeof name, "%s", path);
    if (processes > 1)
        snprintf(name, sizeof name, "%.*s.%d%s", (int)(dot - path), path, process, dot);
    FILE *file = fopen(name, "we");
    if (!file)
        fail("--trace %s: %s", name, strerror(errno));
    return file;
}
