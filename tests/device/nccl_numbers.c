#include "tests/device/nccl_numbers.h"
#include <math.h>

const struct type types[TYPES] = {
    {"int8", ncclInt8, 1, SIGNED},       {"half", ncclFloat16, 2, HALF},
    {"float", ncclFloat32, 4, FLOAT},    {"uint64", ncclUint64, 8, UNSIGNED},
    {"uint8", ncclUint8, 1, UNSIGNED},   {"int32", ncclInt32, 4, SIGNED},
    {"uint32", ncclUint32, 4, UNSIGNED}, {"int64", ncclInt64, 8, SIGNED},
    {"double", ncclFloat64, 8, DOUBLE},  {"bfloat16", ncclBfloat16, 2, BFLOAT},
};

const char *const op_names[OPS] = {"sum", "prod", "max", "min", "avg"};

uint64_t mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93;
    return x ^ x >> 32;
}

static double value_of_half[1 << 16], value_of_bfloat[1 << 16];

void fill_tables(void) {
    for (int bits = 0; bits < 1 << 16; bits++) {
        double sign = bits >> 15 ? -1 : 1;
        int exponent = bits >> 10 & 31, fraction = bits & 1023;
        value_of_half[bits] =
            sign * ldexp(exponent ? 1024 + fraction : fraction, (exponent ? exponent : 1) - 25);
        exponent = bits >> 7 & 255, fraction = bits & 127;
        value_of_bfloat[bits] =
            sign * ldexp(exponent ? 128 + fraction : fraction, (exponent ? exponent : 1) - 134);
    }
}

const double *values_of_16_bits(const struct type *t) {
    return t->kind == HALF ? value_of_half : value_of_bfloat;
}

int is_finite_16(const struct type *t, uint64_t bits) {
    return t->kind == HALF ? (bits >> 10 & 31) != 31 : (bits >> 7 & 255) != 255;
}

uint64_t draw(const struct type *t, int op, uint64_t salt, int rank, size_t i) {
    static const uint64_t most_to_add[9] = {
        [1] = 31, [4] = (1 << 29) - 1, [8] = (UINT64_C(1) << 61) - 1};
    static const uint64_t most_to_multiply[9] = {[1] = 3, [4] = 200, [8] = 50000};
    uint64_t random = mix(mix(salt * MOST_RANKS + (uint64_t)rank) + i);
    uint64_t most = op == ncclProd ? most_to_multiply[t->size] : most_to_add[t->size];
    uint64_t all = t->size == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * t->size) - 1;
    uint64_t narrow = op == ncclProd, exponent;
    switch (t->kind) {
    case SIGNED:
        return (op == ncclMin || op == ncclMax ? random : random % (2 * most + 1) - most) & all;
    case UNSIGNED:
        return op == ncclAvg ? (random & all) / MOST_RANKS : random & all;
    case HALF:
        exponent = narrow ? 13 + random % 4 : 11 + random % 8;
        return (random >> 40 & 0x83ff) | exponent << 10;
    case BFLOAT:
        exponent = narrow ? 125 + random % 4 : 123 + random % 8;
        return (random >> 40 & 0x807f) | exponent << 7;
    case FLOAT:
        exponent = narrow ? 125 + random % 4 : 119 + random % 16;
        return (random >> 32 & 0x807fffff) | exponent << 23;
    default:
        exponent = narrow ? 1021 + random % 4 : 1007 + random % 32;
        return (random & 0x800fffffffffffff) | exponent << 52;
    }
}

uint64_t load(const struct type *t, const void *array, size_t i) {
    uint8_t bytes_1;
    uint16_t bytes_2;
    uint32_t bytes_4;
    uint64_t bytes_8;
    const char *at = (const char *)array + i * t->size;
    switch (t->size) {
    case 1:
        return memcpy(&bytes_1, at, 1), bytes_1;
    case 2:
        return memcpy(&bytes_2, at, 2), bytes_2;
    case 4:
        return memcpy(&bytes_4, at, 4), bytes_4;
    default:
        return memcpy(&bytes_8, at, 8), bytes_8;
    }
}

void store(const struct type *t, void *array, size_t i, uint64_t bits) {
    char *at = (char *)array + i * t->size;
    switch (t->size) {
    case 1:
        memcpy(at, &(uint8_t){(uint8_t)bits}, 1);
        break;
    case 2:
        memcpy(at, &(uint16_t){(uint16_t)bits}, 2);
        break;
    case 4:
        memcpy(at, &(uint32_t){(uint32_t)bits}, 4);
        break;
    default:
        memcpy(at, &bits, 8);
    }
}

static int64_t as_signed(const struct type *t, uint64_t bits) {
    int unused = 64 - 8 * (int)t->size;
    return (int64_t)(bits << unused) >> unused;
}

static float as_float(uint64_t bits) {
    float value;
    memcpy(&value, &(uint32_t){(uint32_t)bits}, sizeof value);
    return value;
}

static double as_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double value(const struct type *t, uint64_t bits) {
    switch (t->kind) {
    case SIGNED:
        return (double)as_signed(t, bits);
    case UNSIGNED:
        return (double)bits;
    case FLOAT:
        return (double)as_float(bits);
    case DOUBLE:
        return as_double(bits);
    default:
        return values_of_16_bits(t)[bits];
    }
}

int is_rounded(const struct type *t, uint64_t bits, double exact, double slack) {
    const double *values = values_of_16_bits(t);
    uint64_t most = t->kind == HALF ? 0x7c00 : 0x7f80, magnitude = bits & 0x7fff;
    if (magnitude > most)
        return 0;
    double error = fabs(values[bits] - exact);
    double above = magnitude < most ? fabs(values[bits + 1] - exact) : INFINITY;
    double below = magnitude ? fabs(values[bits - 1] - exact) : INFINITY;
    if (magnitude == most && fabs(exact) > fabs(values[bits]))
        return (exact < 0) == (values[bits] < 0);
    if (magnitude == 0 && exact != 0 && (exact < 0) != (bits >> 15))
        return 0; // the sign of what was rounded to zero
    return error <= above + slack && error <= below + slack &&
           ((error != above && error != below) || slack > 0 || bits % 2 == 0);
}

int is_reduced(const struct type *t, int op, const uint64_t *element, int n, uint64_t got,
               double *wanted) {
    uint64_t all = t->size == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * t->size) - 1;
    if (t->kind == SIGNED || t->kind == UNSIGNED) {
        int negative = t->kind == SIGNED;
        uint64_t result = negative ? (uint64_t)as_signed(t, element[0]) : element[0];
        for (int r = 1; r < n; r++) {
            uint64_t x = negative ? (uint64_t)as_signed(t, element[r]) : element[r];
            int less = negative ? (int64_t)x < (int64_t)result : x < result;
            if (op == ncclSum || op == ncclAvg)
                result += x;
            else if (op == ncclProd)
                result *= x;
            else if (less == (op == ncclMin))
                result = x;
        }
        if (op == ncclAvg)
            result = negative ? (uint64_t)((int64_t)result / n) : result / (uint64_t)n;
        *wanted = value(t, result & all);
        return got == (result & all);
    }
    double exact = value(t, element[0]);
    float in_float = (float)exact;
    for (int r = 1; r < n; r++) {
        double x = value(t, element[r]);
        if (op == ncclSum || op == ncclAvg)
            in_float += (float)x, exact += x;
        else if (op == ncclProd)
            in_float *= (float)x, exact *= x;
        else if ((x < exact) == (op == ncclMin))
            in_float = (float)x, exact = x;
    }
    double result = t->kind == DOUBLE ? exact : (double)in_float;
    if (op == ncclAvg)
        result /= n;
    *wanted = result;
    int rounds = op == ncclProd || op == ncclAvg;
    double slack = rounds ? fabs(result) * (t->kind == DOUBLE ? 0x1p-50 : 0x1p-21) : 0;
    if (t->kind == HALF || t->kind == BFLOAT)
        return is_rounded(t, got, result, slack);
    return fabs(value(t, got) - result) <= slack;
}
