// Tests of the kernels for sequences of tokens, which compare each kernel with the same formula in
// double precision. test_sequence_kernels_cu has the GPU's kernels.
#include "common/data/data.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "tests/unit/device_arrays.h"
#include "tests/unit/test_stream.h"
#include "zoo/kernels/sequence_kernels.h"

static float *random_tokens(size_t count, int entries, uint64_t seed) {
    float *tokens = new_array(count * sizeof *tokens);
    for (size_t i = 0; i < count; i++)
        tokens[i] = (float)(rng_bits(seed, i) % (uint64_t)entries);
    return tokens;
}

// Its sum of four parts is at most sqrt(12) deviations from 0, and its fourth moment 3 - 1.2 / 4.
TEST(rng_normal_is_nearly_normal) {
    enum { COUNT = 1 << 20 };
    double moments[5] = {0}, product = 0, largest = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = rng_normal(42, i);
        for (int k = 1; k <= 4; k++)
            moments[k] += pow(x, k) / COUNT;
        product += x * rng_normal(42, i + 1) / COUNT;
        largest = fmax(largest, fabs(x));
    }
    assert_true(fabs(moments[1]) < 0.007); // seven standard deviations, as the others
    assert_true(fabs(moments[2] - 1) < 0.009);
    assert_true(fabs(moments[3]) < 0.025);
    assert_true(fabs(moments[4] - 2.7) < 0.05);
    assert_true(fabs(product) < 0.007);
    assert_true(largest > 3 && largest < sqrt(12));
}

// A token that became 64.99999 would be looked up as 64.
TEST(gather_batch_keeps_tokens_exact) {
    uint8_t bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    struct dataset set = {.count = 2, .shape = {128, 1, 1}, .inputs = 128, .targets = 128};
    set.deviation[0] = 1 / 255.f;
    set.values = set.labels = to_device(bytes, sizeof bytes);
    float *x = new_device_array(sizeof bytes * sizeof *x);
    uint8_t *y = new_device_array(sizeof bytes);
    gather_batch(&set, NULL, 0, 2, x, y, stream);
    const float *got = to_host(x, sizeof bytes * sizeof *got);
    for (int i = 0; i < 256; i++)
        assert_true(got[i] == (float)i);
    assert_unchanged(y, bytes, sizeof bytes);
}

// Fewer rows than entries, so that some entries have no row, and more of them.
static const struct table {
    int rows, width, entries;
} tables[] = {{0, 3, 5}, {1, 1, 1}, {7, 3, 65}, {300, 33, 256}, {65, 64, 7}, {1031, 5, 130}};
enum { TABLES = sizeof tables / sizeof *tables };

TEST(look_up_copies_rows_of_the_table) {
    for (int i = 0; i < TABLES; i++) {
        size_t rows = (size_t)tables[i].rows, width = (size_t)tables[i].width;
        size_t entries = (size_t)tables[i].entries;
        float *tokens = random_tokens(rows, tables[i].entries, 1);
        float *table = random_floats(entries * width, 1, 2), *want = new_array(rows * width * 4);
        float *device_tokens = to_device(tokens, rows * sizeof *tokens);
        float *device_table = to_device(table, entries * width * sizeof *table);
        float *y = new_device_array(rows * width * sizeof *y);
        look_up(device_tokens, device_table, y, tables[i].rows, tables[i].width, tables[i].entries,
                stream);
        for (size_t k = 0; k < rows * width; k++)
            want[k] = table[(size_t)tokens[k / width] * width + k % width];
        assert_unchanged(y, want, rows * width * sizeof *y);
        assert_unchanged(device_tokens, tokens, rows * sizeof *tokens);
        assert_unchanged(device_table, table, entries * width * sizeof *table);
    }
}

// A sum of floats in the order of the rows has the same bits on each device.
TEST(look_up_backward_adds_rows_in_their_order) {
    for (int i = 0; i < TABLES; i++) {
        size_t rows = (size_t)tables[i].rows, width = (size_t)tables[i].width;
        size_t entries = (size_t)tables[i].entries;
        float *tokens = random_tokens(rows, tables[i].entries, 1);
        float *dy = random_floats(rows * width, 1, 2);
        float *want = new_array(entries * width * sizeof *want);
        float *device_tokens = to_device(tokens, rows * sizeof *tokens);
        float *device_dy = to_device(dy, rows * width * sizeof *dy);
        float *dtable = new_device_array(entries * width * sizeof *dtable);
        look_up_backward(device_tokens, device_dy, dtable, tables[i].rows, tables[i].width,
                         tables[i].entries, stream);
        memset(want, 0, entries * width * sizeof *want);
        for (size_t k = 0; k < rows * width; k++)
            want[(size_t)tokens[k / width] * width + k % width] += dy[k];
        assert_unchanged(dtable, want, entries * width * sizeof *dtable);
        assert_unchanged(device_tokens, tokens, rows * sizeof *tokens);
        assert_unchanged(device_dy, dy, rows * width * sizeof *dy);
    }
}

// From values near 0, of which a difference would leave little, to values where the slope is 0.
TEST(gelu_and_its_derivative) {
    const size_t counts[] = {0, 1, 13, 20001};
    for (int i = 0; i < 4; i++)
        for (int scale = 0; scale < 3; scale++) {
            size_t count = counts[i], bytes = count * sizeof(float);
            float *x = random_floats(count, (float[]){0.01f, 2, 40}[scale], 1);
            float *dy = random_floats(count, 1, 2);
            float *want_y = new_array(bytes), *want_dx = new_array(bytes);
            float *device_x = to_device(x, bytes), *device_dy = to_device(dy, bytes);
            float *y = new_device_array(bytes), *dx = new_device_array(bytes);
            if (count > 1)
                x[1] = NAN;
            CUDA_CHECK(cudaMemcpy(device_x, x, bytes, cudaMemcpyDefault));
            gelu(device_x, y, count, stream);
            gelu_backward(device_x, device_dy, dx, count, stream);
            for (size_t k = 0; k < count; k++) {
                double slope = sqrt(2 / acos(-1)), v = x[k];
                double t = tanh(slope * (v + 0.044715 * v * v * v));
                double inner = slope * (1 + 3 * 0.044715 * v * v);
                want_y[k] = (float)(v / 2 * (1 + t));
                want_dx[k] = (float)(dy[k] * ((1 + t) / 2 + v / 2 * (1 - t * t) * inner));
            }
            float *got_y = to_host(y, bytes), *got_dx = to_host(dx, bytes);
            for (size_t k = 0; k < count; k++)
                assert_true(isnan(x[k]) ? isnan(got_y[k]) && isnan(got_dx[k]) : k != 1);
            if (count > 1)
                got_y[1] = want_y[1] = got_dx[1] = want_dx[1] = 0;
            assert_close(got_y, want_y, count, 1e-6);
            assert_close(got_dx, want_dx, count, 2e-6);
            assert_unchanged(device_x, x, bytes);
            assert_unchanged(device_dy, dy, bytes);
        }
}

// Some heads begin and end within a sample.
static const struct part {
    struct heads h;
    int samples, parts, first, count;
} heads[] = {
    {{1, 1, 1}, 1, 1, 0, 1},  {{1, 1, 1}, 1, 3, 0, 1},  {{5, 3, 2}, 4, 3, 0, 12},
    {{5, 3, 2}, 4, 3, 4, 1},  {{5, 3, 2}, 4, 1, 2, 6},  {{5, 3, 2}, 4, 3, 11, 1},
    {{5, 3, 2}, 4, 3, 12, 0}, {{5, 3, 2}, 4, 3, 7, 0},  {{1, 4, 7}, 3, 3, 3, 7},
    {{9, 1, 5}, 3, 3, 1, 2},  {{33, 5, 9}, 3, 3, 2, 9}, {{64, 4, 16}, 3, 3, 1, 9},
};

static size_t index_in_batch(const struct part *p, size_t part, size_t i, size_t t, size_t d) {
    size_t head = (size_t)p->first + i, all = (size_t)p->h.heads;
    return (((head / all * (size_t)p->h.tokens + t) * (size_t)p->parts + part) * all + head % all) *
               (size_t)p->h.width +
           d;
}

// Splits the heads of a batch, and merges those matrices into another batch, in which all other
// values stay.
TEST(heads_are_split_and_merged) {
    for (size_t n = 0; n < sizeof heads / sizeof *heads; n++) {
        const struct part *p = &heads[n];
        size_t tokens = (size_t)p->h.tokens, width = (size_t)p->h.width;
        size_t batch =
            (size_t)(p->samples * p->parts * p->h.heads) * tokens * width * sizeof(float);
        size_t size = (size_t)(p->parts * p->count) * tokens * width * sizeof(float);
        float *x = random_floats(batch / 4, 1, 1), *before = random_floats(batch / 4, 1, 2);
        float *want = new_array(size), *want_back = new_array(batch), *device_x;
        float *matrices = new_device_array(size), *back = to_device(before, batch);
        memcpy(want_back, before, batch);
        for (size_t i = 0; i < size / 4; i++) {
            size_t d = i % width, t = i / width % tokens, matrix = i / width / tokens;
            size_t count = (size_t)p->count;
            size_t at = index_in_batch(p, matrix / count, matrix % count, t, d);
            want[i] = want_back[at] = x[at];
        }
        device_x = to_device(x, batch);
        split_heads(device_x, matrices, p->parts, (size_t)p->first, p->count, p->h, stream);
        assert_unchanged(matrices, want, size);
        merge_heads(matrices, back, p->parts, (size_t)p->first, p->count, p->h, stream);
        assert_unchanged(back, want_back, batch);
        assert_unchanged(matrices, want, size);
        assert_unchanged(device_x, x, batch);
    }
}

// Makes what causal_softmax must ignore: large numbers and NaN behind the diagonal.
static float *random_scores(size_t count, size_t tokens, float bound) {
    float *x = random_floats(count * tokens * tokens, bound, 1);
    for (size_t i = 0; i < count * tokens * tokens; i++)
        if (i % tokens > i / tokens % tokens)
            x[i] = i % 3 ? 1e30f : NAN;
    return x;
}

// p and dscores of a row. Both have the rows' first seen values.
static void reference_softmax(const float *x, const float *dp, size_t seen, double scale, float *p,
                              float *dscores) {
    double largest = -INFINITY, sum = 0, product = 0;
    for (size_t i = 0; i < seen; i++)
        largest = fmax(largest, x[i]);
    for (size_t i = 0; i < seen; i++)
        sum += exp((x[i] - largest) * scale);
    for (size_t i = 0; i < seen; i++) {
        p[i] = (float)(exp((x[i] - largest) * scale) / sum);
        product += (double)p[i] * dp[i];
    }
    for (size_t i = 0; i < seen; i++)
        dscores[i] = (float)(p[i] * (dp[i] - product) * scale);
}

static void check_softmax(size_t count, size_t tokens, float bound, float scale) {
    size_t size = count * tokens * tokens, bytes = size * sizeof(float);
    float *x = random_scores(count, tokens, bound), *dp = random_floats(size, 1, 2);
    float *want_p = new_array(bytes), *want_dscores = new_array(bytes);
    float *device_x = to_device(x, bytes), *device_dp = to_device(dp, bytes);
    memset(want_p, 0, bytes);
    memset(want_dscores, 0, bytes);
    for (size_t row = 0; row < count * tokens; row++)
        reference_softmax(x + row * tokens, dp + row * tokens, row % tokens + 1, scale,
                          want_p + row * tokens, want_dscores + row * tokens);
    causal_softmax(device_x, count, (int)tokens, (int)tokens, scale, stream);
    assert_close((float *)to_host(device_x, bytes), want_p, size, 1e-6);
    float *device_p = to_device(want_p, bytes);
    causal_softmax_backward(device_p, device_dp, count, (int)tokens, scale, stream);
    assert_close((float *)to_host(device_dp, bytes), want_dscores, size, 1e-6);
    assert_unchanged(device_p, want_p, bytes);
    free_arrays(NULL);
}

TEST(causal_softmax_sees_no_later_token) {
    const size_t shapes[][2] = {{0, 5}, {1, 1}, {3, 1}, {1, 2}, {7, 5}, {3, 33}, {2, 65}, {1, 300}};
    for (int i = 0; i < 8; i++) {
        check_softmax(shapes[i][0], shapes[i][1], 1, 1);
        check_softmax(shapes[i][0], shapes[i][1], 30, 0.25f);
        check_softmax(shapes[i][0], shapes[i][1], 1000, 1); // e^1000 is no float
    }
}

// Scores of the last tokens only, as a program with a cache computes them, are the last rows of
// the square matrices.
TEST(causal_softmax_of_the_last_tokens) {
    enum { COUNT = 3, TOKENS = 9, SIZE = TOKENS * TOKENS };
    for (int queries = 1; queries <= TOKENS; queries += 2) {
        size_t last = (size_t)queries * TOKENS, bytes = last * sizeof(float);
        float *x = random_scores(COUNT, TOKENS, 10), *rows = new_array(COUNT * bytes);
        for (int i = 0; i < COUNT; i++)
            memcpy(rows + i * last, x + (i + 1) * SIZE - last, bytes);
        float *square = to_device(x, COUNT * SIZE * sizeof *x);
        float *part = to_device(rows, COUNT * bytes);
        causal_softmax(square, COUNT, TOKENS, TOKENS, 0.5f, stream);
        causal_softmax(part, COUNT, queries, TOKENS, 0.5f, stream);
        const float *want = to_host(square, COUNT * SIZE * sizeof *x);
        const float *got = to_host(part, COUNT * bytes);
        for (int i = 0; i < COUNT; i++)
            assert_memory_equal(got + i * last, want + (i + 1) * SIZE - last, bytes);
        free_arrays(NULL);
    }
}

// Of matrix 1, all later rows of the token's column see it. Matrices 0 and 2 do not.
TEST(causal_softmax_keeps_nan) {
    enum { TOKENS = 9, SIZE = TOKENS * TOKENS };
    for (size_t column = 0; column < TOKENS; column += 4)
        for (int inf = 0; inf < 2; inf++) {
            float *x = random_floats(3 * SIZE, 1, 1);
            for (size_t row = 0; row < TOKENS; row++)
                x[SIZE + row * TOKENS + column] = inf ? INFINITY : NAN;
            float *p = to_device(x, 3 * SIZE * sizeof *x);
            causal_softmax(p, 3, TOKENS, TOKENS, 1, stream);
            const float *got = to_host(p, 3 * SIZE * sizeof *p);
            for (size_t i = 0; i < 3 * SIZE; i++) {
                size_t row = i / TOKENS % TOKENS, sees = i / SIZE == 1 && row >= column;
                assert_int_equal(!!isnan(got[i]), sees && i % TOKENS <= row);
            }
        }
}

int main(void) {
    // The CPU device shares large arrays out even where there is one core.
    setenv("OMP_NUM_THREADS", "3", 0);
    return run_all_tests((struct around){make_stream, destroy_stream, .end = free_arrays});
}
