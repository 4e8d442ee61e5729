// Arrays of a test, in host or device memory. Each array lies between guards: bytes that no kernel
// may use. The end of the test finds a write to them, and a read gives a number (or an index) that
// is far from all others. New arrays are filled with the same bytes.
#pragma once
#include "random.h"
#include "test.h"
#include <cuda_runtime.h>

enum {
    GUARD = 256,
    GUARD_BYTE = 0xc5
}; // 256 keeps cudaMalloc's alignment; four such bytes are -6328.7f

struct array {
    uint8_t *start; // of the guard before it
    size_t bytes;
    int on_device;
    struct array *next;
};

static struct array *arrays;

static inline void *keep_array(uint8_t *start, size_t bytes, int on_device) {
    struct array *a = malloc(sizeof *a);
    assert_non_null(a);
    assert_non_null(start);
    *a = (struct array){start, bytes, on_device, arrays};
    arrays = a;
    return start + GUARD;
}

static inline void *new_array(size_t bytes) {
    uint8_t *start = malloc(bytes + 2 * GUARD);
    assert_non_null(start);
    memset(start, GUARD_BYTE, bytes + 2 * GUARD);
    return keep_array(start, bytes, 0);
}

static inline void *new_device_array(size_t bytes) {
    uint8_t *start;
    OK(cudaMalloc((void **)&start, bytes + 2 * GUARD));
    OK(cudaMemset(start, GUARD_BYTE, bytes + 2 * GUARD));
    return keep_array(start, bytes, 1);
}

static inline void *to_device(const void *values, size_t bytes) {
    void *device = new_device_array(bytes);
    OK(cudaMemcpy(device, values, bytes, cudaMemcpyDefault));
    return device;
}

// Waits for all queued work.
static inline void *to_host(const void *device, size_t bytes) {
    void *values = new_array(bytes);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(values, device, bytes, cudaMemcpyDefault));
    return values;
}

static inline int guards_are_whole(const struct array *a) {
    uint8_t guards[2][GUARD];
    OK(cudaMemcpy(guards[0], a->start, GUARD, cudaMemcpyDefault));
    OK(cudaMemcpy(guards[1], a->start + GUARD + a->bytes, GUARD, cudaMemcpyDefault));
    for (int i = 0; i < 2 * GUARD; i++)
        if (guards[i / GUARD][i % GUARD] != GUARD_BYTE)
            return 0;
    return 1;
}

// The teardown of every test that makes arrays.
static inline int free_arrays(void **state) {
    int damaged = 0;
    OK(cudaDeviceSynchronize());
    while (arrays) {
        struct array *a = arrays;
        if (!guards_are_whole(a)) {
            print_error("an array of %zu bytes on the %s was overrun\n", a->bytes,
                        a->on_device ? "device" : "host");
            damaged = -1;
        }
        if (a->on_device)
            OK(cudaFree(a->start));
        else
            free(a->start);
        arrays = a->next;
        free(a);
    }
    return damaged;
}

static inline float *random_floats(size_t count, float bound, uint64_t seed) {
    float *values = new_array(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = bound * (2 * random_uniform(seed, i) - 1);
    return values;
}

static inline double *widen(const float *values, size_t count) {
    double *wide = new_array(count * sizeof *wide);
    for (size_t i = 0; i < count; i++)
        wide[i] = values[i];
    return wide;
}

static inline void check_close(const float *got, const float *want, size_t count, double tolerance,
                               const char *name, const char *file, int line) {
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - want[i]) <=
              tolerance * fmax(1, fabs(want[i])))) { // NaN is not close
            print_error("%s[%zu] of %zu is %.9g, not %.9g\n", name, i, count, got[i], want[i]);
            _fail(file, line);
        }
}

// Relative tolerance for numbers above 1, absolute for those below.
#define assert_close(got, want, count, tolerance)                                                  \
    check_close(got, want, count, tolerance, #got, __FILE__, __LINE__)

#define assert_unchanged(device, values, bytes)                                                    \
    assert_memory_equal(to_host(device, bytes), values, bytes)
