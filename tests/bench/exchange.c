// exchange RANKS: an all-reduce between processes with private buffers, as bare as it can be: no
// streams, no types, no errors. It is the bound to what the CPU device's NCCL can reach through
// shared memory. Each rank sums one part of a chunk for all (reduce-scatter), and then fetches the
// parts of the others (all-gather): one copy into shared memory and one out of it.
#include "tests/bench/allreduce.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// In floats. A chunk lies behind the one before in the staging memory and not in the same place:
// the lines that the other core has just used are slower to get than those that went back into the
// cache that all share.
enum { CHUNK = 256 * 1024, PIECE = 2048, MOST_RANKS = 8, SPINS = 100 };

// What one rank shows the others: its values for them, and its sums.
static struct shown {
    _Alignas(128) atomic_size_t offered; // chunks of which all values lie there
    _Alignas(128) atomic_size_t summed;  // chunks of which the sums do
    _Alignas(4096) float values[4 * CHUNK], sums[4 * CHUNK];
} * shown;

static int me, all, crowded;
static size_t longest = CHUNK; // of the chunks; the staging memory in use is that of four

struct chunk {
    float *data;
    size_t count, place, number; // place in the staging memory; numbers start at 1
};

static void wait_for_all(size_t counter, size_t number) {
    for (int r = 0; r < all; r++) {
        atomic_size_t *value = (void *)((char *)&shown[r] + counter);
        for (int spins = 0; atomic_load_explicit(value, memory_order_acquire) < number; spins++) {
            if (crowded || spins > SPINS)
                sched_yield();
#if defined __x86_64__
            else
                __builtin_ia32_pause();
#endif
        }
    }
}

// Where the part of a chunk begins that rank r sums.
static size_t part(int r, size_t count) {
    return r == all ? count : count * r / all / 16 * 16;
}

static void offer(const struct chunk *c) {
    size_t from = part(me, c->count), to = part(me + 1, c->count);
    float *values = shown[me].values + c->place;
    memcpy(values, c->data, from * sizeof *values);
    memcpy(values + to, c->data + to, (c->count - to) * sizeof *values);
    atomic_store_explicit(&shown[me].offered, c->number, memory_order_release);
}

static void sum_part(const struct chunk *c) {
    size_t from = part(me, c->count), to = part(me + 1, c->count);
    for (size_t end; from < to;
         from = end) { // in pieces that stay in the cache until all ranks are in
        end = from + PIECE < to ? from + PIECE : to;
        for (int r = 0; r < all; r++) {
            const float *values = shown[r].values + c->place;
            float *data = c->data, *sums = shown[me].sums + c->place;
            for (size_t i = from; r != me && i < end; i++)
                sums[i] = data[i] += values[i];
        }
    }
    atomic_store_explicit(&shown[me].summed, c->number, memory_order_release);
}

static void fetch(const struct chunk *c) {
    for (int r = 0; r < all; r++) {
        size_t from = part(r, c->count), to = part(r + 1, c->count);
        if (r != me)
            memcpy(c->data + from, shown[r].sums + c->place + from, (to - from) * sizeof *c->data);
    }
}

// The chunk after c: what lies from data to end, or the first part of it.
static struct chunk next_chunk(struct chunk c, float *data, const float *end) {
    size_t left = end - data;
    c.place += (c.count + 15) / 16 * 16;
    c.number++;
    c.data = data;
    c.count = left < longest ? left : longest;
    if (c.place + c.count > 4 * longest)
        c.place = 0;
    return c;
}

// A chunk is offered while the others still sum the one before, so those two must not overlap in
// the staging memory: three chunks must fit. That is enough: who sees that all have summed chunk n
// knows that its values of n are no longer read; and who sees that all offer n + 2 knows that its
// sums of n are not, as they fetched them before that.
static void sum(float *buffer, size_t count, int times) {
    static struct chunk last;
    for (int i = 0; i < times; i++) {
        struct chunk now = next_chunk(last, buffer, buffer + count);
        offer(&now);
        while (now.count) {
            struct chunk next = next_chunk(now, now.data + now.count, buffer + count);
            wait_for_all(offsetof(struct shown, offered), now.number);
            sum_part(&now);
            if (next.count)
                offer(&next);
            wait_for_all(offsetof(struct shown, summed), now.number);
            fetch(&now);
            last = now;
            now = next;
        }
    }
}

static float *new_buffer(size_t count) {
    return aligned_alloc(4096, (count * sizeof(float) + 4095) / 4096 * 4096);
}

static void copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

static void run(int rank, int ranks) {
    me = rank;
    all = ranks;
    crowded = ranks > sysconf(_SC_NPROCESSORS_ONLN);
    if (crowded)
        longest /= 4; // as the ranks on a core share its cache
    // All pages are to be here before the time runs.
    for (size_t i = 0; i < ranks * sizeof *shown; i += 4096)
        (void)((volatile char *)shown)[i];
    measure(&(struct all_reduce){new_buffer, copy, sum}, rank, ranks);
}

int main(int argc, char **argv) {
    int ranks = argc == 2 ? atoi(argv[1]) : 0;
    if (ranks < 1 || ranks > MOST_RANKS) {
        fprintf(stderr, "usage: %s RANKS, up to %d\n", argv[0], MOST_RANKS);
        return 2;
    }
    shown = shared_memory(ranks * sizeof *shown);
    return run_ranks(ranks, run);
}
