#include "common/training/training_options.h"
#include "common/base/say.h"
#include "common/data/data.h"
#include "common/models/model.h"
#include "common/models/models.h"
#include "common/training/optimizer.h"
#include "zoo/training/schedules.h"
#include <stddef.h>

struct training_options opt;

const struct option_spec training_options[] = {
    {"data", OPTION_TEXT | OPTION_LOCAL | OPTION_OPEN, &opt.data, "auto", 0, 0,
     "folder of the images (auto: those of make data), or one of", data_word},
    {"model", OPTION_TEXT, &opt.model, "mlp", 0, 0, "kind of model", model_name},
    {"hidden", OPTION_TEXT, &opt.hidden, "512,512", 0, 0, "widths of the hidden layers",
     .used_by = "model=mlp"},
    {"depth", OPTION_INT, &opt.depth, "20", 1, 1000, "layers: 8, 14, 18 or 20",
     .used_by = "model=resnet"},
    {"width", OPTION_INT, &opt.width, "auto", 1, 1e6,
     "channels of the first stage, auto: 64 for depth 18, else 16; of gpt: values per token",
     .used_by = "model=resnet or gpt"},
    {"size", OPTION_TEXT, &opt.size, "tiny", 0, 0, "size of the transformer", gpt_size_name,
     .used_by = "model=gpt"},
    {"layers", OPTION_INT, &opt.layers, "auto", 1, 60, "blocks of the transformer, auto: of --size",
     .used_by = "model=gpt"},
    {"heads", OPTION_INT, &opt.heads, "auto", 1, 1024, "attention heads, auto: of --size",
     .used_by = "model=gpt"},
    {"context", OPTION_INT, &opt.context, "auto", 1, 65536,
     "tokens of a sample of text, auto: of --size", .used_by = "model=gpt"},
    {"dropout", OPTION_REAL | OPTION_CHANGES, &opt.dropout, "auto", 0, 1,
     "dropout rate, auto: 0.25 and 0.5 for cnn, else 0", .used_by = "model=mlp, cnn or gpt"},
    {"augment", OPTION_TEXT | OPTION_CHANGES, &opt.augment, "none", 0, 0,
     "random changes of the training images: crop, flip, crop,flip or none"},
    {"label-smoothing", OPTION_REAL | OPTION_CHANGES, &opt.label_smoothing, "0", 0, 1,
     "label smoothing, as in PyTorch"},
    {"epochs", OPTION_INT, &opt.epochs, "10", 1, 1e6, "passes over the training set"},
    {"max-steps", OPTION_INT, &opt.max_steps, "0", 0, 1e12,
     "stop after this many training steps in total, 0: no limit"},
    {"batch", OPTION_INT | OPTION_CHANGES, &opt.batch, "128", 1, 1e6, "samples per training step"},
    {"optimizer", OPTION_TEXT, &opt.optimizer, "sgd", 0, 0, "kind of optimizer", optimizer_name},
    {"lr", OPTION_REAL, &opt.lr, "auto", 1e-12, 1e3, "learning rate, auto", optimizer_lr},
    {"schedule", OPTION_TEXT, &opt.schedule, "constant", 0, 0,
     "how the learning rate changes during all epochs", schedule_name},
    {"warmup", OPTION_INT, &opt.warmup, "0", 0, 1e12,
     "training steps in which the learning rate rises to --lr, 0: none"},
    {"gamma", OPTION_REAL, &opt.gamma, "0.7", 0, 1, "factor by which the learning rate changes",
     .used_by = "schedule=step"},
    {"step-epochs", OPTION_INT, &opt.step_epochs, "1", 1, 1e6,
     "epochs between two changes of the learning rate", .used_by = "schedule=step"},
    {"momentum", OPTION_REAL, &opt.momentum, "auto", 0, 1, "momentum, 0: none, auto",
     optimizer_momentum, .used_by = "optimizer="},
    {"nesterov", OPTION_INT, &opt.nesterov, "0", 0, 1, "1: Nesterov's momentum",
     .used_by = "optimizer=sgd"},
    {"weight-decay", OPTION_REAL, &opt.weight_decay, "0", 0, 1e3,
     "weight decay, 0: none; decoupled for adamw"},
    {"beta1", OPTION_REAL, &opt.beta1, "auto", 0, 1, "decay of the first moment, auto",
     optimizer_beta1, .used_by = "optimizer="},
    {"beta2", OPTION_REAL, &opt.beta2, "auto", 0, 1, "decay of the second moment, auto",
     optimizer_beta2, .used_by = "optimizer="},
    {"rho", OPTION_REAL, &opt.rho, "auto", 0, 1, "decay of the means of squares, auto",
     optimizer_rho, .used_by = "optimizer="},
    {"epsilon", OPTION_REAL, &opt.epsilon, "auto", 1e-30, 1, "keeps divisors above 0, auto",
     optimizer_epsilon, .used_by = "optimizer="},
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
    {"summary", OPTION_FLAG | OPTION_LOCAL, &opt.summary, NULL, 0, 0,
     "prints a table of the model's layers, with the FLOPs and bytes of a sample, and then trains"},
    {"profile", OPTION_FLAG | OPTION_LOCAL, &opt.profile, NULL, 0, 0,
     "prints where the time of a training step goes, and adds it to the CSV file"},
    {"trace", OPTION_TEXT | OPTION_LOCAL | OPTION_OUTPUT, &opt.trace, NULL, 0, 0,
     "file for a trace: what the device did and when"},
    {"csv", OPTION_TEXT | OPTION_LOCAL | OPTION_OUTPUT, &opt.csv, NULL, 0, 0,
     "file for losses and learning rates, a line per progress report and epoch"},
    {0},
};

void print_unused(const struct option_table *tables) {
    char text[512];
    options_list_unused(tables, text, sizeof text);
    if (*text)
        say("note      without effect: %s\n", text);
}
