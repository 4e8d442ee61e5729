// At its end, each process adds lines to the file that the variable OBSERVE names. A line such as
// "ncclAllReduce float 20 80000 2 1" holds a function, a type or -, the calls, the bytes of the
// arrays (or the number of samples) that they were given, the stream and the communicator. Streams
// are numbered in the order of their first use; 0 is no stream. Communicator 1 is the first that
// ncclCommSplit has made; 0 is another one, or none. For each batch that a process gathers, it adds
// a line such as "train rank first rows" at once, and for each ncclCommSplit "split rank
// communicator color".
#include "exercises/observe.h"
#include "common/clock.h"
#include "common/error.h"
#include "exercises/observe_connect.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_KINDS = 32 };
static struct {
    const char *function;
    int type, stream, comm;
    long calls;
    double bytes;
} seen[MOST_KINDS];

static ncclComm_t splits[MOST_KINDS + 1]; // [n]: communicator n
static int split_count, comm_of_call;
static cudaStream_t computing; // the stream on which batches are gathered
static int sums;               // sums of floats in the first training step; MANY: it is over
enum { MANY = 1000 };

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
    seen[i].bytes += (double)values * (type == NO_TYPE ? 1 : types[type].size);
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

cudaError_t observe_copy(cudaError_t result, const void *to, size_t bytes, enum cudaMemcpyKind kind,
                         cudaStream_t stream) {
    const char *first = to;
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
        fprintf(file, "%s %s %ld %.0f %d %d\n", seen[i].function,
                seen[i].type == NO_TYPE ? "-" : types[seen[i].type].name, seen[i].calls,
                seen[i].bytes, seen[i].stream, seen[i].comm);
    fclose(file);
}

int observe_rank(void) {
    int rank = 0;
    sscanf(error_name, "rank %d", &rank);
    return rank;
}

void observe_computing(cudaStream_t stream) {
    computing = stream;
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

void observe_samples(const uint32_t *order, size_t first, int rows, cudaStream_t stream) {
    static FILE *file;
    const char *path = getenv("OBSERVE");
    computing = stream;
    if (!order)
        observe("gather_batch", rows, NO_TYPE, NULL);
    sums = sums > 0 ? MANY : 0;
    if (!path || (!file && !(file = fopen(path, "a"))))
        return;
    fprintf(file, "%s %d %zu %d\n", order ? "train" : "test", observe_rank(), first, rows);
    fflush(file); // a whole line at once
}

void observe_slow(const uint32_t *order, size_t first, cudaStream_t stream) {
    enum { BYTES = 96 << 20 }; // to write them takes longer than to compute a small model
    static void *memory;
    static size_t epoch, last;
    const char *slow = getenv("OBSERVE_SLOW");
    if (!slow || !order)
        return;
    epoch += first < last;
    last = first;
    if (epoch < strlen(slow) && slow[epoch] - '0' == observe_rank() &&
        (memory || !cudaMalloc(&memory, BYTES)))
        cudaMemsetAsync(memory, 0, BYTES, stream);
}

// Writes the first answer of a rank to the file.
static void answer(const char *path, int yes) {
    FILE *file = fopen(path, "wx");
    if (file && fputs(yes ? "yes\n" : "no\n", file) >= 0)
        fclose(file);
}

// Rank 1 is late for the first sum, that of the last layer. Meanwhile, can rank 0 compute the layer
// before? It looks when it has queued this layer and is about to sum it: then its stream becomes
// empty, unless it waits for the first sum. Rank 1 comes when there is an answer, or too late.
void observe_overlap(ncclDataType_t type) {
    const char *path = getenv("OBSERVE_OVERLAP");
    double start = seconds();
    if (!path || type != ncclFloat || sums++ > 1)
        return;
    if (observe_rank() == 1 && sums == 1) {
        while (access(path, F_OK) && seconds() < start + 4)
            usleep(1000);
        answer(path, 0);
    }
    if (observe_rank() == 0 && sums == 2) {
        while ((cudaStreamQuery)(computing) == cudaErrorNotReady && seconds() < start + 2)
            usleep(1000);
        answer(path, seconds() < start + 2);
    }
}

void observe_pause(void) {
    if (getenv("OBSERVE_PAUSE"))
        usleep(300000);
}

double observe_seconds(void) {
    const char *times = getenv("OBSERVE_CLOCK");
    return (seconds)() * (times ? atof(times) : 1);
}

int observe_connect(int socket, const struct sockaddr *address, socklen_t bytes) {
    const char *path = getenv("OBSERVE_CONNECT");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "connect %.3f\n", (seconds)());
        fclose(file);
    }
    int failed = (connect)(socket, address, bytes);
    if (!failed && getenv("OBSERVE_SLOW") && fcntl(socket, F_GETFL) & O_NONBLOCK) {
        errno = EINPROGRESS;
        failed = -1;
    }
    return failed;
}
