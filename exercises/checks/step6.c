// The attendee's allreduce.c with a probe, for the checks of step 6. When the program has done its
// work, each rank runs the operation that PROBE names once more, and adds lines to the file
// PROBE_FILE:
//   send RANK PEER FLOATS GROUP    a call of ncclSend; group 0: outside of a group
//   receive RANK PEER FLOATS GROUP
//   sum RANK FIRST LAST VALUE      the result in the elements FIRST to LAST
// Before, rank r has 10^r in each element, so the digits of a sum count the vectors of the ranks.
// The clock of this program advances by a microsecond each time it is read.
#include "common/device/device.h"
#include <nccl.h>
#include <stdio.h>

struct world;
static void probe(struct world *w);
static FILE *probe_file; // NULL: the probe does not run
static int group, groups, rank_of_probe;
static double microseconds;

#define PROBE_MESSAGE(kind, floats, peer)                                                          \
    (probe_file ? fprintf(probe_file, "%s %d %d %zu %d\n", kind, rank_of_probe, peer,              \
                          (size_t)(floats), group)                                                 \
                : 0)
#undef ncclSend
#define ncclSend(from, n, type, peer, comm, stream)                                                \
    (PROBE_MESSAGE("send", n, peer), ncclSend(from, n, type, peer, comm, stream))
#undef ncclRecv
#define ncclRecv(to, n, type, peer, comm, stream)                                                  \
    (PROBE_MESSAGE("receive", n, peer), ncclRecv(to, n, type, peer, comm, stream))
#undef ncclGroupStart
#define ncclGroupStart() (group = ++groups, ncclGroupStart())
#define ncclGroupEnd() (group = 0, ncclGroupEnd())
#define ncclCommDestroy(comm) (probe(&w), ncclCommDestroy(comm))
#define device_seconds(stream) (device_seconds(stream), 1e-6 * microseconds++)

#include "06_allreduce_demo/allreduce.c" // the check puts the attendee's file in its place

static void probe(struct world *w) {
    const char *name = getenv("PROBE"), *path = getenv("PROBE_FILE");
    const struct operation *o = operations;
    size_t bytes = opt.count * sizeof(float);
    while (name && o < operations + OPERATIONS && strcmp(o->name, name))
        o++;
    if (!name || !path || o == operations + OPERATIONS)
        return;
    for (long i = 0; i < opt.count; i++)
        w->host[i] = pow(10, w->rank);
    CUDA_CHECK(cudaMemset(w->out, 0xff, bytes)); // NaN
    CUDA_CHECK(cudaMemcpy(w->in, w->host, bytes, cudaMemcpyHostToDevice));
    rank_of_probe = w->rank;
    probe_file = fopen(path, "a");
    if (!probe_file)
        fail("%s: %s", path, strerror(errno));
    setvbuf(probe_file, NULL, _IOLBF, 0); // whole lines, because the ranks share the file
    o->run(w, w->in, w->out, opt.count);
    CUDA_CHECK(cudaMemcpy(w->host, w->out, bytes, cudaMemcpyDeviceToHost));
    for (long i = 0, first = 0; i < opt.count; i++)
        if (i + 1 == opt.count || memcmp(&w->host[i], &w->host[i + 1], sizeof(float))) {
            fprintf(probe_file, "sum %d %ld %ld %.9g\n", w->rank, first, i, w->host[i]);
            first = i + 1;
        }
    fclose(probe_file);
    probe_file = NULL;
    sum_over_ranks(w, 0); // waits for all ranks, because rank 0 ends the others if a sum is wrong
}
