// At its end, each process adds lines to the file that the variable OBSERVE names: for each
// function and type, such as "ncclAllReduce float", the calls and the bytes of the arrays that they
// were given.
#include "exercises/observe.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KINDS = 32 };
static struct {
    const char *function;
    ncclDataType_t type;
    long calls;
    double bytes;
} seen[MOST_KINDS];

// Of the types that the course sends.
static const struct {
    const char *name;
    size_t size;
} types[] = {
    [ncclInt8] = {"char", 1},    [ncclUint8] = {"byte", 1},    [ncclInt32] = {"int", 4},
    [ncclUint32] = {"uint", 4},  [ncclInt64] = {"long", 8},    [ncclUint64] = {"ulong", 8},
    [ncclFloat16] = {"half", 2}, [ncclFloat32] = {"float", 4}, [ncclFloat64] = {"double", 8}};

void observe(const char *function, size_t values, ncclDataType_t type) {
    int i = 0;
    while (seen[i].function && (strcmp(seen[i].function, function) || seen[i].type != type))
        i++;
    seen[i].function = function;
    seen[i].type = type;
    seen[i].calls++;
    seen[i].bytes += (double)values * types[type].size;
}

__attribute__((destructor)) static void write_counts(void) {
    const char *path = getenv("OBSERVE");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    setvbuf(file, NULL, _IOFBF, 4096); // one write, so that the lines of processes do not mix
    for (int i = 0; i < MOST_KINDS && seen[i].function; i++)
        fprintf(file, "%s %s %ld %.0f\n", seen[i].function, types[seen[i].type].name, seen[i].calls,
                seen[i].bytes);
    fclose(file);
}
