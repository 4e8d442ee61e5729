#include "zoo/models/summary.h"
#include "common/training/report.h"
#include "zoo/layers/inner.h"
#include <stdio.h>

enum { NUMBER_SIZE = 32 };

// Writes a whole number such as 1,199,882.
static const char *thousands(char text[NUMBER_SIZE], double number) {
    char digits[NUMBER_SIZE];
    int count = snprintf(digits, sizeof digits, "%.0f", number), used = 0;
    for (int i = 0; i < count && used < NUMBER_SIZE - 2; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
    return text;
}

static void print_row(const char *name, const char *shape, size_t parameters, double flops,
                      double bytes) {
    char texts[3][NUMBER_SIZE];
    say("%-32s %-16s %13s %15s %16s\n", name, shape, thousands(texts[0], parameters),
        thousands(texts[1], flops), thousands(texts[2], bytes));
}

// Writes height x width x channels, or the width of a plain vector.
static const char *describe(char text[64], struct shape s) {
    if (s.height == 1 && s.width == 1)
        snprintf(text, 64, "%d", s.channels);
    else
        snprintf(text, 64, "%d x %d x %d", s.height, s.width, s.channels);
    return text;
}

static double activation_bytes(const struct layer *l) {
    return ((double)l->outputs + l->workspace) * sizeof(float);
}

static void print_layer(const struct layer *l, int depth) {
    char name[64], shape[64];
    const struct zoo_layer *z = zoo_layer(l);
    int in_shortcut =
        z->around && z->around->kind == &residual && l >= settings_of(z->around)->residual.shortcut;
    snprintf(name, sizeof name, "%*s%s%s", 2 * depth, "", in_shortcut ? "shortcut " : "",
             l->kind->name);
    print_row(name, describe(shape, l->out), l->parameters, l->flops, activation_bytes(l));
    for (const struct layer *i = z->inner; i < z->inner_end; i = layer_after(i))
        print_layer(i, depth + 1);
}

void print_summary(const struct model *m) {
    char shape[64];
    double flops = 0, bytes = (double)m->layers[0].inputs * sizeof(float);
    say("\n%-32s %-16s %13s %15s %16s\n", "layer", "output", "parameters", "forward FLOPs",
        "activation bytes");
    print_row("samples", describe(shape, m->layers[0].in), 0, 0, bytes);
    for (const struct layer *l = m->layers; l < m->layers + m->count; l++) {
        print_layer(l, 0);
        flops += l->flops;
        bytes += activation_bytes(l);
    }
    print_row("total", "", m->parameters, flops, bytes);
    say("\n");
}
