// Compares the pieces of the attendee's shard_layer with those that the layers compute with: pieces
// PARTS GROUPS INPUTS OUTPUTS OUTPUTS. The two layers are a pair, and a third one is of no pair.
// With 3 groups, attention lies in the pair. If a piece is wrong, it prints a line that names it,
// and lines that explain it.
#include "09_tensor/divided.h"
#include "common/data/data.h"
#include "common/training/catalogue.h"
#include "common/training/training_options.h"
#include "zoo/layers/kinds.h"
#include <stdio.h>
#include <stdlib.h>

static int parts, groups, widths[3];
static struct model whole, part;
static const struct layer *own, *all; // the same layer in both

static int build(struct model *m, const struct training_options *options, const struct dataset *set,
                 char why[WHY_SIZE]) {
    enum { HEAD = 2 }; // its width
    (void)options, (void)set, (void)why;
    append_dense(m, &dense_relu, widths[1]);
    if (groups == 3)
        append_attention(m, widths[1] / 3 / HEAD, 0);
    append_dense(m, &dense_relu, widths[2]);
    append_dense(m, &dense, 5);
    return 0;
}

static const struct model_kind pair = {"pair", build, 0};
static const struct model_kind *const models[] = {&pair, NULL};
static const struct catalogue pairs = {.models = models, .dense_appended = layer_appended};

static void print_layer(void) {
    printf("the %s, with %d inputs and %d outputs",
           how_divided(own) == BY_OUTPUTS  ? "first layer of a pair"
           : how_divided(own) == BY_INPUTS ? "second layer of a pair"
                                           : "layer after a pair",
           all->inputs, all->outputs);
    if (how_divided(own) == BY_OUTPUTS && groups > 1)
        printf(" in %d groups", groups);
}

static void print_parameter(size_t i) {
    size_t inputs = all->inputs, weights = inputs * all->outputs;
    if (i < weights)
        printf("the weight of output %zu and input %zu", i / inputs, i % inputs);
    else
        printf("the bias of output %zu", i - weights);
}

// Prints what a part computes with.
static void expect(int number) {
    int outputs = own->outputs, inputs = own->inputs;
    printf("Expected: part %d of %d has ", number, parts);
    if (how_divided(own) == BY_OUTPUTS) {
        int size = all->outputs / groups, piece = size / parts;
        printf("all inputs and the bias of outputs");
        for (int g = 0; g < groups; g++)
            printf("%s %d to %d", g ? "," : "", g * size + number * piece,
                   g * size + (number + 1) * piece - 1);
    } else if (how_divided(own) == BY_INPUTS) {
        printf("inputs %d to %d of each output, and all %d biases", number * inputs,
               (number + 1) * inputs - 1, outputs);
    } else {
        printf("all parameters");
    }
    printf(".\n");
}

// Returns where the part's layer has parameter i of the whole layer, -1: nowhere.
static long place_in_part(int number, size_t i) {
    size_t inputs = all->inputs, weights = inputs * all->outputs;
    size_t output = i < weights ? i / inputs : i - weights, input = i % inputs;
    size_t own_inputs = own->inputs, own_weights = own_inputs * own->outputs;
    if (how_divided(own) == BY_OUTPUTS) {
        size_t size = all->outputs / groups, piece = size / parts;
        if (output % size / piece != (size_t)number)
            return -1;
        output = output / size * piece + output % piece;
    } else if (how_divided(own) == BY_INPUTS && i < weights) {
        if (input / own_inputs != (size_t)number)
            return -1;
        input %= own_inputs;
    }
    return i < weights ? output * own_inputs + input : own_weights + output;
}

static int wrong(int number, size_t i, struct location found) {
    long right = place_in_part(number, i);
    if (found.held == (right >= 0) && (!found.held || found.index == (size_t)right))
        return 0;
    print_layer();
    printf(": part %d %s ", number, found.held ? "has" : "does not have");
    print_parameter(i);
    if (found.held && right >= 0)
        printf(" as its value %zu, and computes with it as value %ld", found.index, right);
    printf("\n");
    expect(number);
    return 1;
}

// The shards of another stage come before those of the parts.
static int compare_layer(void) {
    struct sharding s = {.shards = 2 * parts};
    size_t units = 0;
    shard_layer(&s, own, parts, parts);
    for (int i = 0; i < s.units; i++)
        units += s.unit[i];
    if (units != all->parameters) {
        print_layer();
        printf(": the units have %zu parameters, and the layer has %zu\n", units, all->parameters);
        printf("A unit is a range of the whole layer, which its parts divide or copy. Together, "
               "the units are the layer.\n");
        return 1;
    }
    if (!sharding_fits(&s, units)) {
        print_layer();
        printf(": a unit cannot be divided by columns\n");
        printf("columns is the number of values in a row of the unit. The unit has whole rows, and "
               "the parts divide a row equally.\n");
        return 1;
    }
    for (int number = 0; number < parts; number++)
        for (size_t i = 0; i < units; i++)
            if (wrong(number, i, shard_find(&s, parts + number, i)))
                return 1;
    for (size_t i = 0; i < units; i++)
        if (shard_find(&s, 0, i).held) {
            print_layer();
            printf(": a rank of another stage has ");
            print_parameter(i);
            printf("\nThe parts of this stage are the shards from number first on.\n");
            return 1;
        }
    return 0;
}

int main(int argc, char **argv) {
    char why[WHY_SIZE];
    if (argc != 6)
        return 2;
    parts = atoi(argv[1]);
    groups = atoi(argv[2]);
    for (int i = 0; i < 3; i++)
        widths[i] = atoi(argv[3 + i]);
    catalogue = &pairs;
    struct parts division = {.count = parts};
    const struct training_options options = {.model = "pair"};
    const struct dataset set = {.shape = {1, 1, widths[0]}};
    if (model_build(&whole, &options, &set, why) ||
        build_part(&part, &whole, &division, &options, &set, why)) {
        puts(why);
        return 1;
    }
    for (int i = 0; i < part.count; i++) {
        own = &part.layers[i];
        all = &whole.layers[i];
        if (compare_layer())
            return 1;
    }
    return 0;
}
