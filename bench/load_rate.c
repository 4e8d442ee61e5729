// Streams a set for --epochs epochs, computes nothing, and prints the samples per second of the
// clock, and of the time of all processors. bench/loader.py runs it.
#include "common/base/clock.h"
#include "common/base/say.h"
#include "common/data/loader.h"
#include "common/device/device.h"
#include "common/training/training_options.h"

static const struct option_table tables[] = {{"options", training_options}, {0}};

int main(int argc, char **argv) {
    struct dataset train, test;
    char why[WHY_SIZE];
    cudaStream_t stream;
    options_parse(tables, "Streams the samples of a set.", argc, argv);
    if (data_load(&train, &test, &opt.data, why))
        fail("%s", why);
    CUDA_CHECK(cudaStreamCreate(&stream));
    double begin = seconds(), used = (double)clock() / CLOCKS_PER_SEC;
    size_t end = train.count / opt.batch * opt.batch;
    loader_open(&train, opt.batch, opt.batch);
    for (long epoch = 0; epoch < opt.epochs; epoch++) {
        loader_shuffle(&train, opt.seed, epoch, stream);
        for (size_t first = 0; first < end; first += opt.batch)
            load_samples(&train, first, end, stream);
        CUDA_CHECK(cudaStreamSynchronize(stream));
    }
    used = (double)clock() / CLOCKS_PER_SEC - used;
    say("%.0f %.0f\n", end * opt.epochs / (seconds() - begin), end * opt.epochs / used);
}
