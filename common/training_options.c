#include "common/training_options.h"
#include "common/model.h"
#include "common/optimizer.h"
#include <stddef.h>

struct training_options opt;

const struct option_spec training_options[] = {
    {"data", OPTION_TEXT | OPTION_LOCAL, &opt.data, "auto", 0, 0,
     "folder of the images, auto: the folder of make data, synthetic: made-up images"},
    {"model", OPTION_TEXT, &opt.model, "mlp", 0, 0, "kind of model", model_name},
    {"hidden", OPTION_TEXT, &opt.hidden, "512,512", 0, 0, "widths of the hidden layers"},
    {"dropout", OPTION_REAL, &opt.dropout, "0", 0, 1,
     "share of each hidden layer's outputs that training sets to 0"},
    {"epochs", OPTION_INT, &opt.epochs, "10", 1, 1e6, "passes over the training set"},
    {"max-steps", OPTION_INT, &opt.max_steps, "0", 0, 1e12,
     "stop after this many training steps in total, 0: no limit"},
    {"batch", OPTION_INT, &opt.batch, "128", 1, 1e6, "samples per training step"},
    {"optimizer", OPTION_TEXT, &opt.optimizer, "sgd", 0, 0, "kind of optimizer", optimizer_name},
    {"lr", OPTION_REAL, &opt.lr, "auto", 1e-12, 1e3,
     "learning rate, auto: 0.05 for sgd, else 0.001"},
    {"schedule", OPTION_TEXT, &opt.schedule, "constant", 0, 0,
     "how the learning rate changes during training", schedule_name},
    {"momentum", OPTION_REAL, &opt.momentum, "0.9", 0, 1, "momentum of SGD, 0: none"},
    {"weight-decay", OPTION_REAL, &opt.weight_decay, "0", 0, 1e3,
     "weight decay, 0: none; decoupled for adamw"},
    {"tf32", OPTION_INT, &opt.tf32, "0", 0, 1,
     "1: faster matrix products, with inputs rounded to TF32 (10 bits of mantissa)"},
    {"seed", OPTION_INT, &opt.seed, "1", 0, 1e15,
     "seed of the initial parameters and of the order of samples"},
    {"log-every", OPTION_INT, &opt.log_every, "100", 1, 1e9, "steps between progress reports"},
    {"snapshot", OPTION_TEXT | OPTION_LOCAL, &opt.snapshot, NULL, 0, 0,
     "file to save to, and to continue from if it exists"},
    {"save-every", OPTION_INT, &opt.save_every, "1", 1, 1e6, "epochs between snapshots"},
    {"csv", OPTION_TEXT | OPTION_LOCAL, &opt.csv, NULL, 0, 0,
     "file for the losses, a line per progress report and epoch"},
    {0},
};
