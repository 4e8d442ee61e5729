// Prints what the vector of each rank holds before each round of the ring of step 6, and after the
// last one, for the animation on the web site (tools/author/timelines.py). The ring is that of step
// 6: only the begin of a group of calls is replaced, by a function that first records the vector.
#include <nccl.h>

static ncclResult_t record_and_start(void);
#define ncclGroupStart record_and_start
#define main demo
#include "06_allreduce_demo/allreduce.c"
#undef main
#undef ncclGroupStart

// A vector has one element for each chunk. All elements of rank r begin as 10^r, so the digits of a
// sum tell which ranks are in it.
static struct world world;

static void record(void) {
    int n = world.size;
    float vectors[n * n];
    cudaStream_t stream = world.stream;
    NCCL_CHECK(ncclAllGather(world.out, world.in, n, ncclFloat, world.comm, stream));
    CUDA_CHECK(cudaMemcpyAsync(vectors, world.in, sizeof vectors, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    for (int rank = 0; rank < n; rank++)
        for (int i = 0; i < n; i++)
            say("%s%.0f", i ? "," : rank ? "],[" : "[[", vectors[rank * n + i]);
    say("]]\n");
}

static ncclResult_t record_and_start(void) {
    record();
    return ncclGroupStart();
}

int main(int argc, char **argv) {
    struct world *w = &world;
    options_parse(tables, "Records the rounds of the ring of step 6.", argc, argv);
    become_rank(opt.nproc, opt.join_timeout, &w->rank, &w->size, &w->comm);
    CUDA_CHECK(cudaStreamCreate(&w->stream));
    size_t bytes = w->size * sizeof(float);
    DEVICE_ALLOC(w->in, "vectors of all ranks", w->size * bytes);
    DEVICE_ALLOC(w->out, "vector", bytes);
    DEVICE_ALLOC(w->incoming, "vector", bytes);
    float elements[w->size];
    for (int i = 0; i < w->size; i++)
        elements[i] = pow(10, w->rank);
    CUDA_CHECK(cudaMemcpy(w->out, elements, bytes, cudaMemcpyHostToDevice));
    ring(w, w->out, w->out, w->size);
    record();
    NCCL_CHECK(ncclCommDestroy(w->comm));
}
