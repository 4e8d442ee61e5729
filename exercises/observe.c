// At its end, each process adds lines to the file that the variable OBSERVE names. A line such as
// "ncclAllReduce float 20 80000 2 20" holds a function, a type or -, the calls, the bytes of the
// arrays that they were given, the stream, and how many of the calls the watchdog watches. Streams
// are numbered in the order of their first use; 0 is no stream. The lines "time - 4013",
// "awake - 52" and "asleep - 3940" have the milliseconds from the start of the process to its end,
// and those in which its first thread ran and slept; in the others, it waited for a processor. For
// each batch that a process gathers, it adds a line such as "train rank first rows" at once.
#include "exercises/observe.h"
#include "04_multinode/watchdog.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_KINDS = 32 };
static struct {
    const char *function;
    int type, stream;
    long calls, watched;
    long open; // calls in the COLLECTIVE that has not ended
    double bytes;
} seen[MOST_KINDS];

static int in_collective;
int observed_groups;

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
    seen[i].open += in_collective;
    seen[i].bytes += (double)values * (type == NO_TYPE ? 1 : types[type].size);
}

// The parts of the macro COLLECTIVE, another wait of the host, and connect. Only programs with a
// watchdog are linked with --wrap for them.
__attribute__((weak)) __typeof__(begin_collective) __real_begin_collective;
__attribute__((weak)) __typeof__(end_collective) __real_end_collective;
__attribute__((weak)) __typeof__(wait_for) __real_wait_for;
__attribute__((weak)) int __real_connect(int fd, const struct sockaddr *address, socklen_t bytes);
__typeof__(begin_collective) __wrap_begin_collective;
__typeof__(end_collective) __wrap_end_collective;
__typeof__(wait_for) __wrap_wait_for;
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);

void __wrap_begin_collective(const char *call, const char *file, int line) {
    observe("begin_collective", 0, NO_TYPE, NULL);
    in_collective = 1;
    __real_begin_collective(call, file, line);
}

// The watchdog watches the calls in this stream. Those of a group are in it when the group ends.
void __wrap_end_collective(ncclResult_t result, cudaStream_t stream) {
    for (int i = 0; i < MOST_KINDS; i++) {
        if (!observed_groups && seen[i].stream == number_of(stream))
            seen[i].watched += seen[i].open;
        seen[i].open = 0;
    }
    in_collective = 0;
    __real_end_collective(result, stream);
}

void __wrap_wait_for(cudaStream_t stream) {
    observe("wait_for", 0, NO_TYPE, stream);
    __real_wait_for(stream);
}

void observe_barrier(cudaStream_t stream) {
    if (!stream)
        observe("barrier", 0, NO_TYPE, NULL);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes) {
    observe("connect", 0, NO_TYPE, NULL);
    return __real_connect(fd, address, bytes);
}

static double began;

static void write_times(FILE *to) {
    double time = ((seconds)() - began) * 1e3, running = 0, waiting = 0; // in nanoseconds
    FILE *file = fopen("/proc/self/schedstat", "r");
    if (file && fscanf(file, "%lf %lf", &running, &waiting) != 2)
        running = waiting = 0;
    if (file)
        fclose(file);
    fprintf(to, "time - %.0f\nawake - %.0f\nasleep - %.0f\n", time, running / 1e6,
            fmax(0, time - (running + waiting) / 1e6));
}

__attribute__((constructor)) static void begin(void) {
    began = (seconds)();
}

__attribute__((destructor)) static void write_counts(void) {
    const char *path = getenv("OBSERVE");
    if (!path)
        return;
    FILE *file = fopen(path, "a");
    if (file)
        setvbuf(file, NULL, _IOFBF, 4096); // one write, so that the lines of processes do not mix
    for (int i = 0; file && i < MOST_KINDS && seen[i].function; i++)
        fprintf(file, "%s %s %ld %.0f %d %ld\n", seen[i].function,
                seen[i].type == NO_TYPE ? "-" : types[seen[i].type].name, seen[i].calls,
                seen[i].bytes, seen[i].stream, seen[i].watched);
    if (file)
        write_times(file);
    if (!file || fclose(file)) { // without its lines, a check would believe that there was no call
        fprintf(stderr, "error: cannot write %s\n", path);
        fflush(NULL);
        _exit(1);
    }
}

int observe_rank(void) {
    int rank = 0;
    sscanf(error_name, "rank %d", &rank);
    return rank;
}

void observe_samples(const uint32_t *order, size_t first, int rows) {
    static FILE *file;
    const char *path = getenv("OBSERVE");
    if (!path || (!file && !(file = fopen(path, "a"))))
        return;
    fprintf(file, "%s %d %zu %d\n", order ? "train" : "test", observe_rank(), first, rows);
    fflush(file); // a whole line at once
}

uint64_t observe_seed(uint64_t seed) {
    return getenv("OBSERVE_SEED") ? seed + observe_rank() : seed;
}

static double clock_speed(void) {
    const char *times = getenv("OBSERVE_CLOCK");
    return times ? atof(times) : 1;
}

double observe_seconds(void) {
    return (seconds)() * clock_speed();
}

int observe_poll(struct pollfd *fds, nfds_t count, int milliseconds) {
    return (poll)(fds, count, milliseconds < 0 ? -1 : milliseconds / clock_speed());
}
