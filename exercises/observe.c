// At its end, each process adds lines to the file that the variable OBSERVE names. A line such as
// "ncclAllReduce float 20 80000 2 1 20" holds a function, a type or -, the calls, the bytes of the
// arrays (or the number of samples) that they were given, the stream, the communicator, and how
// many of the calls the watchdog watches. Streams are numbered in the order of their first use; 0
// is no stream. Communicator 1 is the first that ncclCommSplit has made; 0 is another one, or none.
// For each batch that a process gathers, it adds a line such as "train rank first rows" at once,
// and for each ncclCommSplit "split rank communicator color".
#include "exercises/observe.h"
#include "04_multinode/watchdog.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_KINDS = 32 };
static struct {
    const char *function;
    int type, stream, comm;
    long calls, watched;
    long open; // calls in the COLLECTIVE that has not ended
    double bytes;
} seen[MOST_KINDS];

static ncclComm_t splits[MOST_KINDS + 1]; // [n]: communicator n
static int split_count, comm_of_call, in_collective;

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
           (strcmp(seen[i].function, function) || seen[i].type != type ||
            seen[i].stream != number || seen[i].comm != comm_of_call))
        i++;
    if (observe_call)
        observe_call(function);
    seen[i].function = function;
    seen[i].type = type;
    seen[i].stream = number;
    seen[i].comm = comm_of_call;
    comm_of_call = 0;
    seen[i].calls++;
    seen[i].open += in_collective;
    seen[i].bytes += (double)values * (type == NO_TYPE ? 1 : types[type].size);
}

// The parts of the macro COLLECTIVE, and another wait of the host. Only programs with a watchdog
// are linked with --wrap for them.
__attribute__((weak)) __typeof__(begin_collective) __real_begin_collective;
__attribute__((weak)) __typeof__(end_collective) __real_end_collective;
__attribute__((weak)) __typeof__(wait_for) __real_wait_for;
__typeof__(begin_collective) __wrap_begin_collective;
__typeof__(end_collective) __wrap_end_collective;
__typeof__(wait_for) __wrap_wait_for;

void __wrap_begin_collective(const char *call, const char *file, int line) {
    in_collective = 1;
    __real_begin_collective(call, file, line);
}

// The watchdog watches the calls in this stream.
void __wrap_end_collective(ncclResult_t result, cudaStream_t stream) {
    for (int i = 0; i < MOST_KINDS; i++) {
        seen[i].watched += seen[i].stream == number_of(stream) ? seen[i].open : 0;
        seen[i].open = 0;
    }
    in_collective = 0;
    __real_end_collective(result, stream);
}

void __wrap_wait_for(cudaStream_t stream) {
    observe("wait_for", 0, NO_TYPE, stream);
    __real_wait_for(stream);
}

enum { MOST_PINNED = 64 };
static struct { const char *begin, *end; } pinned[MOST_PINNED];

cudaError_t observe_pinned(cudaError_t result, void **pointer, size_t bytes) {
    static int count;
    if (result == cudaSuccess && count < MOST_PINNED) {
        pinned[count].begin = *pointer;
        pinned[count++].end = (char *)*pointer + bytes;
    }
    return result;
}

// The largest array that was copied to the device in a stream. That is t->order.
static const uint32_t *copied;
static size_t copied_bytes;

cudaError_t observe_copy(cudaError_t result, const void *to, size_t bytes, enum cudaMemcpyKind kind,
                         cudaStream_t stream) {
    const char *first = to;
    if (kind == cudaMemcpyHostToDevice && bytes > copied_bytes) {
        copied = to;
        copied_bytes = bytes;
    }
    if (kind != cudaMemcpyDeviceToHost || result != cudaSuccess)
        return result;
    for (int i = 0; i < MOST_PINNED && pinned[i].begin; i++)
        if (first >= pinned[i].begin && first < pinned[i].end)
            return result;
    observe("cudaMemcpyAsync-to-pageable-memory", bytes, NO_TYPE, stream);
    return getenv("OBSERVE_PAGEABLE") ? (cudaStreamSynchronize)(stream) : result;
}

__attribute__((destructor)) static void write_counts(void) {
    const char *path = getenv("OBSERVE");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    setvbuf(file, NULL, _IOFBF, 4096); // one write, so that the lines of processes do not mix
    for (int i = 0; i < MOST_KINDS && seen[i].function; i++)
        fprintf(file, "%s %s %ld %.0f %d %d %ld\n", seen[i].function,
                seen[i].type == NO_TYPE ? "-" : types[seen[i].type].name, seen[i].calls,
                seen[i].bytes, seen[i].stream, seen[i].comm, seen[i].watched);
    fclose(file);
}

int observe_rank(void) {
    int rank = 0;
    sscanf(error_name, "rank %d", &rank);
    return rank;
}

void observe_comm(ncclComm_t comm) {
    comm_of_call = split_count;
    while (comm_of_call && splits[comm_of_call] != comm)
        comm_of_call--;
}

ncclResult_t observe_split(ncclResult_t result, const ncclComm_t *comm, int color) {
    const char *path = getenv("OBSERVE");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (split_count < MOST_KINDS)
        splits[++split_count] = *comm;
    if (file) {
        fprintf(file, "split %d %d %d\n", observe_rank(), split_count, color);
        fclose(file);
    }
    return result;
}

// The index in t->order, also if a rank passes a part of it.
static size_t index_of(const uint32_t *order, size_t first) {
    return order >= copied && order < copied + copied_bytes / 4 ? order - copied + first : first;
}

void observe_samples(const uint32_t *order, size_t first, int rows) {
    static FILE *file;
    const char *path = getenv("OBSERVE");
    first = index_of(order, first);
    if (!order)
        observe("gather_batch", rows, NO_TYPE, NULL);
    if (!path || (!file && !(file = fopen(path, "a"))))
        return;
    fprintf(file, "%s %d %zu %d\n", order ? "train" : "test", observe_rank(), first, rows);
    fflush(file); // a whole line at once
}

void observe_slow(const uint32_t *order, size_t first, cudaStream_t stream) {
    enum { TIMES = 400 }; // on a modelled GPU, they take ten times as long as a small model
    static void *memory;
    static size_t epoch, last;
    const char *slow = getenv("OBSERVE_SLOW");
    first = index_of(order, first);
    if (!slow || !order)
        return;
    epoch += first < last;
    last = first;
    if (epoch >= strlen(slow) || slow[epoch] - '0' != observe_rank() ||
        (!memory && cudaMalloc(&memory, 1)))
        return;
    for (int i = 0; i < TIMES; i++)
        cudaMemsetAsync(memory, 0, 1, stream);
}

uint64_t observe_seed(uint64_t seed) {
    return getenv("OBSERVE_SEED") ? seed + observe_rank() : seed;
}

#undef device_bytes
size_t observe_device_bytes(const char *kind) {
    const char *more = getenv("OBSERVE_MEASURED");
    return device_bytes(kind) + (more ? atol(more) : 0);
}

void observe_pause(void) {
    if (getenv("OBSERVE_PAUSE"))
        (usleep)(300000);
}

int observe_sleeps(void) {
    return !getenv("OBSERVE_PAUSE");
}

double observe_seconds(void) {
    const char *times = getenv("OBSERVE_CLOCK");
    return (seconds)() * (times ? atof(times) : 1);
}
