#include "common/data/loader.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/minmax.h"
#include "common/base/say.h"
#include "common/data/datasets.h"
#include "common/device/device.h"
#include "common/device/spans.h"
#include "common/training/requests.h"
#include "common/training/training_options.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if __has_include(<cpu_device.h>)
#include <cpu_device.h>
#else // a GPU's clock is the real one
#define cpu_moment() seconds()
#define cpu_host_moves_to(time) (void)(time)
#endif

enum { NOTE_SECONDS = 10, STOP_SECONDS = 2 };

struct slot {
    struct loader *loader;
    struct dataset set;  // the batch on the device: its values, and then its labels
    uint8_t *pinned;     // the same in pinned memory
    cudaStream_t stream; // of the reader
    cudaEvent_t copied, used;
    size_t next;         // number of the batch that a reader puts here next
    double freed, ready; // modelled times: of training, and of the reader
    double began, ended; // times of the read
};

struct loader {
    struct dataset *set;
    size_t rows, stride, bytes;   // bytes: of a batch
    uint32_t *host_order, *order; // NULL: the order of the set
    int device, slots;
    struct slot *ring, *current; // ring NULL: all samples are on the device

    // The lock guards all below, and the slots. Batch n begins at first + n * stride.
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t first, end, taken; // taken: batches that training has got
    int busy;                 // readers that read
    char why[WHY_SIZE];       // not empty: a reader has failed
};

const char *load_word(int i) {
    static const char *const words[] = {"auto", "device", "stream"};
    return i <= LOAD_STREAM ? words[i] : NULL;
}

static int read_samples(struct slot *s, size_t first, size_t count, char why[WHY_SIZE]) {
    const struct loader *l = s->loader;
    const struct dataset *set = l->set;
    size_t together = l->host_order ? 1 : count;
    uint8_t *values = s->pinned, *labels = s->pinned + l->rows * set->inputs;
    s->began = cpu_moment();
    *values = 0; // for CPU_DEVICE_CHECK, which sees no write by pread
    for (size_t i = 0; i < count; i += together) {
        size_t sample = l->host_order ? l->host_order[first + i] : first + i;
        if (set->source->read(set, sample, together, values + i * set->inputs,
                              labels + i * set->targets, why))
            return -1;
        if (i % 8 == 0) // computing goes on where this thread shares its core
            sched_yield();
    }
    if (data_unchanged(why))
        return -1;
    // A modelled clock does not see the host work: 1 us for a call, and 5 GB/s from the page cache.
    cpu_host_moves_to(cpu_moment() + 1e-6 * (count / together) +
                      count * (set->inputs + set->targets) / 5e9);
    s->ended = cpu_moment();
    return 0;
}

// Fills the pinned buffer of a slot, and queues the copy to the device.
static int fill(struct slot *s, size_t first, size_t count, char why[WHY_SIZE]) {
    cudaError_t error = cudaEventSynchronize(s->copied); // the buffer is free
    if (!error && read_samples(s, first, count, why))
        return -1;
    if (!error)
        error = cudaStreamWaitEvent(s->stream, s->used, 0);
    if (!error)
        error = cudaMemcpyAsync(s->set.values, s->pinned, s->loader->bytes, cudaMemcpyHostToDevice,
                                s->stream);
    if (!error)
        error = cudaEventRecord(s->copied, s->stream);
    return error ? refuse(why, "a reader of samples: %s", cudaGetErrorString(error)) : 0;
}

// The reader of slot i fills each batch whose number has the remainder i, so modelled times do not
// depend on which thread is faster. It leaves errors to training, because the program may be
// ending.
static void *read_ahead(void *argument) {
    struct slot *own = argument;
    struct loader *l = own->loader;
    char why[WHY_SIZE];
    cpu_host_moves_to(own->freed);
    cudaSetDevice(l->device);
    pthread_mutex_lock(&l->lock);
    for (;;) {
        struct slot *s = own->next < own[opt.workers].next ? own : own + opt.workers;
        size_t n = s->next, first = l->first + n * l->stride;
        if (n + 1 >= l->taken + l->slots || first >= l->end) { // training has one of the slots
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        size_t count = min_size(l->rows, l->end - first);
        l->busy++;
        pthread_mutex_unlock(&l->lock);
        cpu_host_moves_to(s->freed);
        int failed = fill(s, first, count, why);
        pthread_mutex_lock(&l->lock);
        l->busy--;
        s->ready = cpu_moment();
        s->next += l->slots;
        if (failed && !*l->why)
            memcpy(l->why, why, sizeof why);
        pthread_cond_broadcast(&l->changed);
    }
    return NULL;
}

// Waits for a change by a reader. The caller began to wait at this time.
static void await_reader(struct loader *l, double since, double *noted) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_cond_timedwait(&l->changed, &l->lock, &until);
    if (*l->why)
        fail("%s", l->why);
    double now = seconds();
    if (current_requests().stop && now > since + STOP_SECONDS)
        fail("this run must stop, but a read of --data %s has not ended; the next run goes on from "
             "the last snapshot",
             opt.data);
    if (now > *noted + NOTE_SECONDS) {
        fprintf(stderr, "note (%s): training waits for data: no batch of --data %s for %.0f s\n",
                error_origin(), opt.data, now - since);
        *noted = now;
    }
}

// Lets the readers end what they read, and read nothing more.
static void pause_readers(struct loader *l) {
    double since = seconds(), noted = since;
    l->end = 0;
    while (l->busy)
        await_reader(l, since, &noted);
}

static struct slot *take(struct loader *l, size_t first, size_t end) {
    double since = seconds(), noted = since;
    pthread_mutex_lock(&l->lock);
    if (first != l->first + l->taken * l->stride || end != l->end) {
        pause_readers(l);
        for (int i = 0; i < l->slots; i++) {
            l->ring[i].next = i;
            l->ring[i].freed = cpu_moment();
        }
        l->first = first;
        l->end = end;
        l->taken = 0;
        pthread_cond_broadcast(&l->changed);
    }
    struct slot *s = &l->ring[l->taken % l->slots];
    while (s->next != l->taken + l->slots || *l->why)
        await_reader(l, since, &noted);
    cpu_host_moves_to(s->ready);
    l->taken++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return s;
}

struct samples load_samples(struct dataset *set, size_t first, size_t end, cudaStream_t stream) {
    struct loader *l = set->loader;
    if (l->host_order)
        end -= end % l->stride; // an incomplete batch is never trained
    size_t count = first < end ? min_size(l->rows, end - first) : 0;
    if (!l->ring || count == 0)
        return (struct samples){set, l->order, first, count};
    if (l->current) {
        CUDA_CHECK(cudaEventRecord(l->current->used, stream));
        l->current->freed = cpu_moment();
    }
    span_begin(PHASE_DATA, __func__, stream);
    if (opt.workers) {
        l->current = take(l, first, end);
    } else {
        l->current = l->ring;
        CUDA_CHECK(cudaStreamSynchronize(stream)); // nothing runs while this thread reads
        if (fill(l->current, first, count, l->why))
            fail("%s", l->why);
    }
    CUDA_CHECK(cudaStreamWaitEvent(stream, l->current->copied, 0));
    span_end();
    span_read(1 + (l->current - l->ring) % max_size(opt.workers, 1), l->current->began,
              l->current->ended);
    return (struct samples){&l->current->set, NULL, 0, count};
}

struct samples some_of(struct samples s, size_t from, size_t count) {
    from = min_size(from, s.count);
    return (struct samples){s.set, s.order, s.first + from, min_size(count, s.count - from)};
}

static void open_ring(struct loader *l) {
    struct dataset *set = l->set;
    pthread_t thread;
    l->slots = opt.workers ? 2 * opt.workers : 1;
    l->bytes = l->rows * (set->inputs + set->targets);
    l->ring = calloc(l->slots, sizeof *l->ring);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    for (int i = 0; i < l->slots; i++) {
        struct slot *s = &l->ring[i];
        *s = (struct slot){.loader = l, .set = *set, .freed = cpu_moment()};
        DEVICE_ALLOC(s->set.values, "data", l->bytes);
        s->set.labels = s->set.values + l->rows * set->inputs;
        CUDA_CHECK(cudaMallocHost((void **)&s->pinned, l->bytes));
        CUDA_CHECK(
            cudaEventCreateWithFlags(&s->copied, cudaEventDisableTiming | cudaEventBlockingSync));
        CUDA_CHECK(cudaEventCreateWithFlags(&s->used, cudaEventDisableTiming));
        if (opt.workers && i >= opt.workers)
            s->stream = s[-opt.workers].stream;
        else
            CUDA_CHECK(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    }
    for (int i = 0; i < opt.workers; i++)
        if ((errno = pthread_create(&thread, NULL, read_ahead, &l->ring[i])))
            fail("cannot start a thread that reads samples: %m; --workers 0 needs none");
}

void loader_open(struct dataset *set, int rows, size_t stride) {
    size_t free_bytes, all, order = set->count * sizeof(uint32_t);
    struct loader *l = set->loader = calloc(1, sizeof *l);
    *l = (struct loader){.set = set, .rows = rows, .stride = stride ? stride : (size_t)rows};
    CUDA_CHECK(cudaGetDevice(&l->device));
    CUDA_CHECK(cudaMemGetInfo(&free_bytes, &all));
    int streamed =
        opt.load == LOAD_STREAM || (opt.load == LOAD_AUTO && data_bytes(set) > free_bytes / 4);
    if (streamed || set->unread) {
        free(set->values);
        free(set->labels);
        set->values = set->labels = NULL;
    }
    if (set->unread)
        return;
    if (stride)
        CUDA_CHECK(cudaMallocHost((void **)&l->host_order, order));
    if (streamed)
        open_ring(l);
    else
        data_to_device(set);
    if (!streamed && stride)
        DEVICE_ALLOC(l->order, "data", order);
}

void loader_shuffle(struct dataset *set, uint64_t seed, uint64_t epoch, cudaStream_t stream) {
    struct loader *l = set->loader;
    if (!l->host_order)
        return;
    if (l->ring && opt.workers) {
        pthread_mutex_lock(&l->lock);
        pause_readers(l);
        pthread_mutex_unlock(&l->lock);
    }
    shuffle(l->host_order, set->count, seed, epoch);
    if (l->order)
        CUDA_CHECK(cudaMemcpyAsync(l->order, l->host_order, set->count * sizeof *l->order,
                                   cudaMemcpyHostToDevice, stream));
}

void print_loader(const struct dataset *set) {
    const struct loader *l = set->loader;
    if (l && l->ring)
        say("loader    streams samples%s: %ld worker%s, %d batch%s of %.1f KB\n",
            data_unpacked ? " of .gz files, which are unpacked in memory" : "", opt.workers,
            PLURAL(opt.workers), l->slots, l->slots == 1 ? "" : "es", l->bytes / 1e3);
}
