#include "05_fsdp/sharding.h"
#include "common/base/minmax.h"

// Returns the number of shards that have a piece of unit i.
static int holders(const struct sharding *s, int i) {
    return s->division[i].shards ? s->division[i].shards : s->shards;
}

// Every unit is a matrix. Usually it has a single row.
static size_t row_size(const struct sharding *s, int i) {
    return s->division[i].columns ? (size_t)s->division[i].columns : s->unit[i];
}

// Returns the values that a piece of unit i has in each row, with padding.
static size_t width(const struct sharding *s, int i) {
    size_t row = row_size(s, i), pieces = s->division[i].copies ? 1 : holders(s, i);
    return row / pieces + (row % pieces > 0);
}

static int has_piece(const struct sharding *s, int i, int number) {
    int first = s->division[i].first;
    return number >= first && number < first + holders(s, i);
}

static size_t piece_size(const struct sharding *s, int i, int number) {
    return s->unit[i] && has_piece(s, i, number) ? s->unit[i] / row_size(s, i) * width(s, i) : 0;
}

int sharding_fits(const struct sharding *s, size_t parameters) {
    for (int i = 0; i < s->units; i++) {
        const struct division *d = &s->division[i];
        if (s->unit[i] > parameters || d->first < 0 || d->shards < 0 || d->columns < 0 ||
            d->first > s->shards - holders(s, i))
            return 0;
        if (d->columns && (s->unit[i] % d->columns || d->columns % holders(s, i)))
            return 0;
        parameters -= s->unit[i];
    }
    return parameters == 0;
}

size_t shard_size(const struct sharding *s, int number) {
    size_t size = 0;
    for (int i = 0; i < s->units; i++)
        size += piece_size(s, i, number);
    return max_size(size, 1);
}

struct location shard_find(const struct sharding *s, int number, size_t parameter) {
    size_t index = 0;
    int i = 0;
    for (; parameter >= s->unit[i]; i++) {
        parameter -= s->unit[i];
        index += piece_size(s, i, number);
    }
    size_t row = row_size(s, i), column = parameter % row, piece = width(s, i);
    int holder = s->division[i].first + (int)(column / piece);
    int held = s->division[i].copies ? has_piece(s, i, number) : number == holder;
    return (struct location){held, index + parameter / row * piece + column % piece,
                             min_size(row - column, piece - column % piece)};
}
