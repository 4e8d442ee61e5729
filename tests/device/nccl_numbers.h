// Numbers of all of NCCL's types as bits: drawn at random, and what their reduction must be.
#pragma once
#include "tests/device/nccl_ranks.h"

enum kind { SIGNED, UNSIGNED, FLOAT, DOUBLE, HALF, BFLOAT };
struct type {
    const char *name;
    ncclDataType_t type;
    size_t size;
    enum kind kind;
};
enum { TYPES = 10, OPS = 5 };
extern const struct type types[TYPES];
extern const char *const op_names[OPS];

// Makes the tables of 16-bit floats; comes first.
void fill_tables(void);

// A hash.
uint64_t mix(uint64_t x);

// Element i of the data of a rank, as bits. Signed sums and products fit, those without sign may
// wrap; the exponents of floats vary enough for the order of a sum to show.
uint64_t draw(const struct type *t, int op, uint64_t salt, int rank, size_t i);

uint64_t load(const struct type *t, const void *array, size_t i);
void store(const struct type *t, void *array, size_t i, uint64_t bits);
double value(const struct type *t, uint64_t bits);

// Values of all 16-bit floats. Infinity counts as the next power of two, as rounding sees it.
const double *values_of_16_bits(const struct type *t);
int is_finite_16(const struct type *t, uint64_t bits);

// Whether the 16-bit float is one that exact rounds to; with some slack where exact is not quite.
int is_rounded(const struct type *t, uint64_t bits, double exact, double slack);

// Whether got is the reduction of the ranks' elements, taken in the order of the ranks: exact for
// all but products and averages of floats.
int is_reduced(const struct type *t, int op, const uint64_t *element, int n, uint64_t got,
               double *wanted);
