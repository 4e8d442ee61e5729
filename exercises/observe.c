// At its end, each process adds lines to the file that the variable OBSERVE names. A line such as
// "ncclAllReduce float 20 80000 2" holds a function, a type or -, the calls, the bytes of the
// arrays (or the number of samples) that they were given, and the stream. Streams are numbered in
// the order of their first use; 0 is no stream.
#include "exercises/observe.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KINDS = 32 };
static struct {
    const char *function;
    int type, stream;
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

static int number_of(cudaStream_t stream) {
    static cudaStream_t streams[MOST_KINDS]; // [0]: NULL
    int i = 0;
    while (streams[i] != stream && i < MOST_KINDS - 1 && (i == 0 || streams[i]))
        i++;
    streams[i] = stream;
    return i;
}

void observe(const char *function, size_t values, int type, cudaStream_t stream) {
    int i = 0, number = number_of(stream);
    while (i < MOST_KINDS - 1 && seen[i].function &&
           (strcmp(seen[i].function, function) || seen[i].type != type || seen[i].stream != number))
        i++;
    seen[i].function = function;
    seen[i].type = type;
    seen[i].stream = number;
    seen[i].calls++;
    seen[i].bytes += (double)values * (type == NO_TYPE ? 1 : types[type].size);
}

__attribute__((destructor)) static void write_counts(void) {
    const char *path = getenv("OBSERVE");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    setvbuf(file, NULL, _IOFBF, 4096); // one write, so that the lines of processes do not mix
    for (int i = 0; i < MOST_KINDS && seen[i].function; i++)
        fprintf(file, "%s %s %ld %.0f %d\n", seen[i].function,
                seen[i].type == NO_TYPE ? "-" : types[seen[i].type].name, seen[i].calls,
                seen[i].bytes, seen[i].stream);
    fclose(file);
}
