// Linked into step 1 with --wrap for two kernels. Adds a line such as "train 0 first rows" for each
// batch that is gathered to the file that the variable OBSERVE names. With PROBE set, gather_batch
// of training and the loss also write to the same byte. If no event orders the batch of one step
// and the loss of another, the checker of ordering of the CPU device then reports this byte: the
// two may run at the same time.
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include <stdio.h>
#include <stdlib.h>

__typeof__(gather_batch) __real_gather_batch, __wrap_gather_batch;
__typeof__(softmax_cross_entropy) __real_softmax_cross_entropy, __wrap_softmax_cross_entropy;

static void write_probe(cudaStream_t stream) {
    static char *probe;
    if (!getenv("PROBE"))
        return;
    if (!probe)
        DEVICE_ALLOC(probe, "data", 1);
    CUDA_CHECK(cudaMemsetAsync(probe, 0, 1, stream));
}

void __wrap_gather_batch(const struct dataset *set, const uint32_t *order, size_t first, int rows,
                         float *x, uint8_t *y, cudaStream_t stream) {
    const char *path = getenv("OBSERVE");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s 0 %zu %d\n", order ? "train" : "test", first, rows);
        fclose(file);
    }
    if (order)
        write_probe(stream);
    __real_gather_batch(set, order, first, rows, x, y, stream);
}

void __wrap_softmax_cross_entropy(const float *logits, const uint8_t *labels, int rows, int classes,
                                  float scale, float *dlogits, struct stats *stats, float smoothing,
                                  cudaStream_t stream) {
    if (dlogits)
        write_probe(stream);
    __real_softmax_cross_entropy(logits, labels, rows, classes, scale, dlogits, stats, smoothing,
                                 stream);
}
