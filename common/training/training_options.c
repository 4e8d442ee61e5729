#include "common/training/training_options.h"
#include "common/data/loader.h"
#include "common/models/model.h"
#include "common/training/optimizer.h"

struct training_options opt;

const struct option_spec training_options[] = {
    {"data", OPTION_TEXT | OPTION_LOCAL | OPTION_OPEN, &opt.data, "auto", 0, 0,
     "folder of the images (auto: those of make data), or one of", data_word},
    {"load", OPTION_CHOICE | OPTION_LOCAL, &opt.load, "auto", 0, 0,
     "keeps the samples on the device, or streams them from the files, auto: while they fit",
     load_word},
    {"workers", OPTION_INT | OPTION_LOCAL, &opt.workers, "2", 0, 64,
     "threads that read ahead when samples are streamed, 0: training reads them itself"},
    {"model", OPTION_TEXT, &opt.model, "mlp", 0, 0, "kind of model", model_name},
    {"hidden", OPTION_TEXT, &opt.hidden, "512,512", 0, 0, "widths of the hidden layers",
     .used_by = "model", .used_with = {"mlp"}},
    {"epochs", OPTION_INT, &opt.epochs, "10", 1, 1e6, "passes over the training set"},
    {"max-steps", OPTION_INT, &opt.max_steps, "0", 0, 1e12,
     "stop after this many training steps in total, 0: no limit"},
    {"batch", OPTION_INT | OPTION_CHANGES, &opt.batch, "128", 1, 1e6, "samples per training step"},
    {"optimizer", OPTION_TEXT, &opt.optimizer, "sgd", 0, 0, "kind of optimizer", optimizer_name},
    {"lr", OPTION_REAL, &opt.lr, "auto", 1e-12, 1e3, "learning rate, auto", optimizer_lr},
    {"momentum", OPTION_REAL, &opt.momentum, "auto", 0, 1, "momentum, 0: none, auto: 0.9",
     .used_by = "optimizer", .used_with = {"sgd"}},
    {"weight-decay", OPTION_REAL, &opt.weight_decay, "0", 0, 1e3,
     "weight decay, 0: none; decoupled for adamw"},
    {"label-smoothing", OPTION_REAL | OPTION_CHANGES, &opt.label_smoothing, "0", 0, 1,
     "label smoothing, as in PyTorch"},
    {"tf32", OPTION_INT | OPTION_CHANGES, &opt.tf32, "0", 0, 1,
     "1: faster matrix products, with inputs rounded to TF32 (10 bits of mantissa)"},
    {"seed", OPTION_INT, &opt.seed, "1", 0, 1e15,
     "seed of the initial parameters and of the order of samples"},
    {"log-every", OPTION_INT, &opt.log_every, "100", 1, 1e9, "steps between progress reports"},
    {"snapshot", OPTION_TEXT | OPTION_LOCAL | OPTION_OUTPUT, &opt.snapshot, NULL, 0, 0,
     "file to save to, and to continue from if it exists"},
    {"save-every", OPTION_INT, &opt.save_every, "1", 1, 1e6, "epochs between snapshots",
     .used_by = "snapshot"},
    {"save-minutes", OPTION_REAL, &opt.save_minutes, "0", 0, 1e6,
     "minutes between snapshots within an epoch, 0: only those of --save-every",
     .used_by = "snapshot"},
    {"csv", OPTION_TEXT | OPTION_LOCAL | OPTION_OUTPUT, &opt.csv, NULL, 0, 0,
     "file for losses and learning rates, a line per progress report and epoch"},
    {0},
};
