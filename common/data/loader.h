// Brings the samples of a set to the device, batch by batch. If the set fits into a quarter of the
// free device memory, all of it is copied there once. Otherwise, or with --load stream, it stays in
// its files:
//
//   reader threads          files -> a batch in pinned memory      while the GPU computes with
//   streams of the readers  pinned memory -> a batch on the device the batches before
//   training                waits for the event of the copy, and computes
//
// A batch has a slot of a ring: a pinned buffer and a buffer on the device. A reader fills a slot
// again when the event "copied" has freed its pinned buffer, and the copy waits for the event
// "used", which training records behind its last kernel that reads the buffer on the device. Which
// samples a batch has never depends on threads, so training computes the same bits in each way.
#pragma once
#include "common/data/data.h"
#include <cuda_runtime.h>

// The words of --load.
enum { LOAD_AUTO, LOAD_DEVICE, LOAD_STREAM };
const char *load_word(int i);

// So many samples of a set on the device: order[first], order[first + 1] and so on. If order is
// NULL, they are first, first + 1, ...
struct samples {
    const struct dataset *set;
    const uint32_t *order;
    size_t first, count;
};

// Call it once for a set, when the device is chosen. A batch has at most rows samples. stride: from
// the first sample of a batch to that of the next batch of this process, in a shuffled order; 0:
// the batches follow each other in the order of the set. Ends the program if it lacks memory or
// threads.
void loader_open(struct dataset *set, int rows, size_t stride);

// Begins an epoch: shuffles the order of the samples (data.h). The stream must be empty.
void loader_shuffle(struct dataset *set, uint64_t seed, uint64_t epoch, cudaStream_t stream);

// Returns the batch whose first sample has the place first in the order, and that ends before the
// place end. In a shuffled order, the samples after the last complete batch of all processes are
// left out. It is valid for work on this stream until the next call. The readers go on with the
// batches after it. Any batch may follow, but one that they do not expect must be waited for. Ends
// the program if the samples cannot be read, or if it is told to stop and a read does not end.
struct samples load_samples(struct dataset *set, size_t first, size_t end, cudaStream_t stream);

// Returns the samples from this number of them on, at most count.
struct samples some_of(struct samples s, size_t from, size_t count);

// Prints the banner's line about a set that is not kept on the device.
void print_loader(const struct dataset *set);
