// Prints the cuts that the attendee's cut_layers makes: cuts PARTS FLOPS FLOPS ... The numbers of
// parameters are others than those of FLOPs.
#include "08_pipeline/pipeline.h"
#include <stdio.h>
#include <stdlib.h>

enum { NOT_WRITTEN = -1 };

int main(int argc, char **argv) {
    static struct model m;
    int parts = atoi(argv[1]), cut[MOST_LAYERS + 1];
    m.count = argc - 2;
    for (int i = 0; i <= MOST_LAYERS; i++)
        cut[i] = NOT_WRITTEN;
    for (int i = 0; i < m.count; i++) {
        m.layers[i].flops = atof(argv[2 + i]);
        m.layers[i].parameters = 100 >> i;
        m.layers[i].inputs = m.layers[i].outputs = 1;
    }
    cut_layers(&m, parts, cut);
    for (int part = 0; part <= parts; part++)
        printf("%d%c", cut[part], part < parts ? ' ' : '\n');
    return 0;
}
