// Tests of NCCL's reductions against wider types: integers in 128 bits, and floats in doubles that
// are rounded after each operation, which gives the same result as one rounding.
#include "arrays.h"
#include "numbers.h"
#include <float.h>

enum { MAX_INPUTS = 200 };

// precision 0: an integer; else bits of the significand, exponent of the smallest number, largest
// number.
static const struct format {
    const char *name;
    size_t bytes;
    int is_signed, precision, smallest;
    double largest;
} formats[] = {
    [ncclInt8] = {"int8", 1, 1, 0, 0, 0},
    [ncclUint8] = {"uint8", 1, 0, 0, 0, 0},
    [ncclInt32] = {"int32", 4, 1, 0, 0, 0},
    [ncclUint32] = {"uint32", 4, 0, 0, 0, 0},
    [ncclInt64] = {"int64", 8, 1, 0, 0, 0},
    [ncclUint64] = {"uint64", 8, 0, 0, 0, 0},
    [ncclFloat32] = {"float", 4, 1, 24, -149, FLT_MAX},
    [ncclFloat64] = {"double", 8, 1, 53, -1074, DBL_MAX},
    [ncclBfloat16] = {"bfloat16", 2, 1, 8, -133, 0x1.fep127},
};
static const char *const op_names[] = {"sum", "prod", "max", "min", "avg"};

static uint64_t load_bits(const void *array, size_t i, size_t bytes) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)array + i * bytes, bytes);
    return bits;
}

static __int128 signed_or_not(const struct format *f, unsigned __int128 wide) {
    unsigned __int128 range = (unsigned __int128)1 << 8 * f->bytes, low = wide % range;
    return f->is_signed && low >= range / 2 ? (__int128)low - (__int128)range : (__int128)low;
}

static double load_float(const struct format *f, const void *array, size_t i) {
    uint64_t bits = load_bits(array, i, f->bytes), hidden = (uint64_t)1 << (f->precision - 1);
    uint64_t sign = (uint64_t)1 << (8 * f->bytes - 1), magnitude = bits & (sign - 1);
    int exponent = (int)(magnitude / hidden);
    uint64_t fraction = magnitude % hidden + (exponent ? hidden : 0);
    double x = ldexp((double)fraction, (exponent ? exponent - 1 : 0) + f->smallest);
    if (exponent == (int)((sign - 1) / hidden))
        x = magnitude % hidden ? NAN : INFINITY;
    return bits & sign ? -x : x;
}

// To the nearest number of the format, ties to even.
static double rounded(const struct format *f, double x) {
    int exponent, last;
    if (!isfinite(x) || x == 0 || f->precision == DBL_MANT_DIG)
        return x;
    frexp(x, &exponent);
    last = exponent - f->precision > f->smallest ? exponent - f->precision : f->smallest;
    double r = ldexp(nearbyint(ldexp(x, -last)), last);
    return fabs(r) > f->largest ? copysign(INFINITY, x) : r;
}

static int same(double a, double b) {
    return isnan(a) ? isnan(b) : a == b;
}

static __int128 reduced_integers(const struct format *f, ncclRedOp_t op, const __int128 *values,
                                 int n) {
    unsigned __int128 sum = 0, product = 1;
    __int128 max = values[0], min = values[0];
    for (int i = 0; i < n; i++) {
        sum += (unsigned __int128)values[i];
        product *= (unsigned __int128)values[i];
        max = values[i] > max ? values[i] : max;
        min = values[i] < min ? values[i] : min;
    }
    const __int128 results[] = {signed_or_not(f, sum), signed_or_not(f, product), max, min,
                                signed_or_not(f, sum) / n};
    return results[op];
}

static double reduced_floats(const struct format *f, ncclRedOp_t op, const double *values, int n) {
    const struct format *computed = f->bytes == 2 ? &formats[ncclFloat32] : f;
    double sum = values[0], product = values[0], max = values[0], min = values[0];
    for (int i = 1; i < n; i++) {
        sum = rounded(computed, sum + values[i]);
        product = rounded(computed, product * values[i]);
        max = isnan(max) || isnan(values[i]) ? NAN : fmax(max, values[i]);
        min = isnan(min) || isnan(values[i]) ? NAN : fmin(min, values[i]);
    }
    const double results[] = {sum, product, max, min, rounded(computed, sum / n)};
    return rounded(f, results[op]);
}

static int is_right(const struct format *f, ncclRedOp_t op, const void *got, void *const *in, int n,
                    size_t i) {
    __int128 integers[MAX_INPUTS];
    double floats[MAX_INPUTS];
    for (int k = 0; k < n; k++)
        if (f->precision)
            floats[k] = load_float(f, in[k], i);
        else
            integers[k] = signed_or_not(f, load_bits(in[k], i, f->bytes));
    return f->precision ? same(load_float(f, got, i), reduced_floats(f, op, floats, n))
                        : signed_or_not(f, load_bits(got, i, f->bytes)) ==
                              reduced_integers(f, op, integers, n);
}

// A few floats have random bits, which may be infinite or NaN.
static void *random_values(ncclDataType_t type, size_t count, uint64_t seed) {
    const struct format *f = &formats[type];
    char *values = new_array(count * f->bytes);
    random_numbers(type, values, count, seed);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_bits(seed + 1, i);
        if (bits >> 58 == 0)
            memcpy(values + i * f->bytes, &bits, f->bytes);
    }
    return values;
}

// The result goes to a separate array (place -1) or over an input.
static void check(ncclDataType_t type, ncclRedOp_t op, int n, size_t count, int place) {
    const struct format *f = &formats[type];
    void *in[MAX_INPUTS], *given[MAX_INPUTS];
    for (int k = 0; k < n; k++) {
        in[k] = random_values(type, count, (uint64_t)k * 1000);
        given[k] = new_array(count * f->bytes);
        memcpy(given[k], in[k], count * f->bytes);
    }
    void *out = place < 0 ? new_array(count * f->bytes) : given[place];
    cpu_reduce(type, op, out, (const void *const *)given, n, count);
    for (size_t i = 0; i < count; i++)
        if (!is_right(f, op, out, in, n, i))
            fail_msg("%s of %d x %zu %s, in place of input %d: element %zu is wrong", op_names[op],
                     n, count, f->name, place, i);
    for (int k = 0; k < n; k++)
        if (k != place)
            assert_memory_equal(given[k], in[k], count * f->bytes);
    assert_int_equal(free_arrays(NULL), 0);
}

TEST(reductions_are_right) {
    const int inputs[] = {1, 2, 3, 4, 7};
    const size_t counts[] = {0, 1, 5, 1023, 1024, 1025, 5000};
    for (int type = 0; type < TYPES; type++)
        for (int op = 0; op < ncclNumOps; op++)
            for (size_t n = 0; n < 5; n++)
                for (size_t c = 0; c < 7; c++)
                    for (int place = -1; place < inputs[n]; place++)
                        if (place < 1 || place == inputs[n] / 2 || place == inputs[n] - 1)
                            check(types[type], (ncclRedOp_t)op, inputs[n], counts[c], place);
}

TEST(averages_of_more_inputs_than_a_small_type_can_count) {
    for (int type = 0; type < TYPES; type++)
        check(types[type], ncclAvg, MAX_INPUTS, 100, 3);
}

TEST(types_have_their_sizes) {
    for (int type = 0; type < TYPES; type++)
        assert_int_equal(cpu_type_size(types[type]), formats[types[type]].bytes);
    assert_int_equal(cpu_type_size(ncclFloat16), 0);
    assert_int_equal(cpu_type_size((ncclDataType_t)10), 0);
    assert_int_equal(cpu_type_size((ncclDataType_t)-1), 0);
}

static void check_rounding(float x) {
    uint16_t bfloat16 = float_to_bfloat16(x);
    if (!same(load_float(&formats[ncclBfloat16], &bfloat16, 0),
              rounded(&formats[ncclBfloat16], x)) ||
        (!isnan(x) && bfloat16 >> 15 != !!signbit(x)))
        fail_msg("%a became bfloat16 %04x", x, bfloat16);
}

// Tests each 16-bit number, the midpoint to the next one and its neighbours, and then random
// numbers.
TEST(floats_are_rounded_to_nearest_even) {
    for (unsigned bits = 0; bits < 0xffff; bits++) {
        float x = bfloat16_to_float((uint16_t)bits), next = bfloat16_to_float((uint16_t)(bits + 1));
        float middle = x / 2 + next / 2;
        assert_true(same(x, load_float(&formats[ncclBfloat16], &(uint16_t){(uint16_t)bits}, 0)));
        check_rounding(x);
        check_rounding(middle);
        check_rounding(nextafterf(middle, x));
        check_rounding(nextafterf(middle, next));
    }
    for (size_t i = 0; i < 1000000; i++)
        check_rounding(bits_to_float((uint32_t)random_bits(5, i)));
}

int main(void) {
    return run_all_tests((struct around){.end = free_arrays});
}
