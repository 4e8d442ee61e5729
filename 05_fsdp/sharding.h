// How the flat array of a model's parameters is divided into shards: of layers, of stages, or of
// matrices. Shards of each kind are saved in the same way.
#pragma once
#include <stddef.h>

// A shard is a list of ranges of the flat array: its piece of each unit, in this order. A unit is a
// range of the array, and begins where the one before it ends. Usually it is cut into consecutive
// pieces of equal size, one for each shard, and zeros pad the last ones. {1, 1, {parameters}} is
// one shard with everything.
enum { MOST_SHARDS = 4096, MOST_UNITS = 1024 };
struct sharding {
    int shards, units;       // at least 1, at most MOST_SHARDS and MOST_UNITS
    size_t unit[MOST_UNITS]; // parameters of each unit (may be 0), in the order of the flat array
    struct division {        // of a unit
        int first, shards;   // only these shards have pieces: the first one, and how many; 0: all
        int columns; // the unit is a matrix with rows of this many values, and its columns are
                     // divided: piece k is range k of each row; 0: it is not divided like this
        int copies;  // 1: each of these shards has all of the unit
    } division[MOST_UNITS]; // usually 0
};

// Returns 1 if the units have this number of parameters together, and can be divided like this.
int sharding_fits(const struct sharding *sharding, size_t parameters);

// Returns the number of parameters of a shard, with its padding. It is at least 1,
// because a shard without parameters holds one value of padding.
size_t shard_size(const struct sharding *sharding, int number);

// Where an array that holds only some of the model's parameters has one of them.
struct location {
    int held;            // 1: the array has it
    size_t index, count; // its index there, and how many parameters from it on are the same:
                         // consecutive in the array or, if held is 0, all not there
};

// Returns where a shard holds this parameter of the flat array.
struct location shard_find(const struct sharding *sharding, int number, size_t parameter);
