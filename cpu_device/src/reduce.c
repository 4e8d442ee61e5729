// A reduction works block by block, so its partial results stay in the L1 cache. It writes the
// output only together with the last input, because the output may be one of the inputs.
#include "reduce.h"
#include "floats.h"
#include <string.h>

enum { BLOCK = 1024 }; // elements

// One operation on two arrays. to may be one of them.
typedef void combine_function(void *to, const void *left, const void *right, size_t count);

#define COMBINE(NAME, T, EXPRESSION)                                                               \
    static void NAME(void *to, const void *left, const void *right, size_t count) {                \
        for (size_t i = 0; i < count; i++) {                                                       \
            T a = ((const T *)left)[i], b = ((const T *)right)[i];                                 \
            ((T *)to)[i] = (T)(EXPRESSION);                                                        \
        }                                                                                          \
    }

// The functions for type T. Sums and products use the type WRAP, which is unsigned for integers,
// because signed overflow is undefined. max and min must return NaN if a or b is NaN. Comparisons
// with NaN are false: a NaN in b is chosen anyway, and a != a finds a NaN in a. The operator |
// makes no branch, so gcc can vectorise the loop; || would make one.
#define FUNCTIONS(T, WRAP)                                                                         \
    COMBINE(sum_##T, T, (WRAP)a + b)                                                               \
    COMBINE(product_##T, T, ((WRAP)a * b))                                                         \
    COMBINE(max_##T, T, ((a > b) | (a != a)) ? a : b)                                              \
    COMBINE(min_##T, T, ((a < b) | (a != a)) ? a : b)                                              \
    static void divide_##T(void *sums, int n, size_t count) {                                      \
        for (size_t i = 0; i < count; i++)                                                         \
            ((T *)sums)[i] = (T)(((T *)sums)[i] / n);                                              \
    }

FUNCTIONS(int8_t, uint8_t)
FUNCTIONS(uint8_t, uint8_t)
FUNCTIONS(int32_t, uint32_t)
FUNCTIONS(uint32_t, uint32_t)
FUNCTIONS(int64_t, uint64_t)
FUNCTIONS(uint64_t, uint64_t)
FUNCTIONS(float, float)
FUNCTIONS(double, double)

static void widen_bfloat16(float *to, const uint16_t *from, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = bfloat16_to_float(from[i]);
}

static void narrow_bfloat16(uint16_t *to, const float *from, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = float_to_bfloat16(from[i]);
}

// Types with widen and narrow are converted to floats for the computation.
struct arithmetic {
    size_t bytes;
    combine_function *combine[ncclNumOps];
    void (*divide)(void *sums, int n, size_t count);
    void (*widen)(float *to, const uint16_t *from, size_t count);
    void (*narrow)(uint16_t *to, const float *from, size_t count);
};

#define COMPUTED_AS(T) {sum_##T, product_##T, max_##T, min_##T, sum_##T}, divide_##T
static const struct arithmetic types[] = {
    [ncclInt8] = {1, COMPUTED_AS(int8_t), NULL, NULL},
    [ncclUint8] = {1, COMPUTED_AS(uint8_t), NULL, NULL},
    [ncclInt32] = {4, COMPUTED_AS(int32_t), NULL, NULL},
    [ncclUint32] = {4, COMPUTED_AS(uint32_t), NULL, NULL},
    [ncclInt64] = {8, COMPUTED_AS(int64_t), NULL, NULL},
    [ncclUint64] = {8, COMPUTED_AS(uint64_t), NULL, NULL},
    [ncclFloat32] = {4, COMPUTED_AS(float), NULL, NULL},
    [ncclFloat64] = {8, COMPUTED_AS(double), NULL, NULL},
    [ncclBfloat16] = {2, COMPUTED_AS(float), widen_bfloat16, narrow_bfloat16},
};

size_t cpu_type_size(ncclDataType_t type) {
    return (size_t)type < sizeof types / sizeof *types ? types[type].bytes : 0;
}

// Returns the elements from..from + count of an input, converted to floats in buffer if needed.
static const void *operand(const struct arithmetic *type, const void *in, size_t from, size_t count,
                           float *buffer) {
    const void *elements = (const char *)in + from * type->bytes;
    if (!type->widen)
        return elements;
    type->widen(buffer, elements, count);
    return buffer;
}

static void reduce_block(const struct arithmetic *type, ncclRedOp_t op, void *out,
                         const void *const *in, int n, size_t from, size_t count) {
    _Alignas(64) char so_far[BLOCK * sizeof(double)];
    _Alignas(64) float first[BLOCK], next[BLOCK];
    void *result = (char *)out + from * type->bytes, *to = so_far;
    const void *left = operand(type, in[0], from, count, first);
    for (int i = 1; i < n; i++) {
        if (i == n - 1 && !type->narrow)
            to = result;
        type->combine[op](to, left, operand(type, in[i], from, count, next), count);
        left = to;
    }
    if (op == ncclAvg)
        type->divide(to, n, count);
    if (type->narrow)
        type->narrow(result, (const float *)to, count);
}

void cpu_reduce(ncclDataType_t type, ncclRedOp_t op, void *out, const void *const *in, int n,
                size_t count) {
    if (n == 1) {
        memmove(out, in[0], count * types[type].bytes);
        return;
    }
    for (size_t from = 0; from < count; from += BLOCK)
        reduce_block(&types[type], op, out, in, n, from,
                     count - from < BLOCK ? count - from : BLOCK);
}
