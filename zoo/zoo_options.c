#include "zoo/zoo_options.h"
#include "common/training/optimizer.h"
#include "common/training/training_options.h"
#include "zoo/models/models.h"
#include "zoo/training/schedules.h"
#include <stddef.h>

struct zoo_options zoo_opt;

// Returns default number i of a setting, such as "0.9 for adam".
#define DEFAULT_OF(setting)                                                                        \
    static const char *setting##_of(int i) {                                                       \
        return optimizer_default(i, offsetof(struct optimizer, setting));                          \
    }
DEFAULT_OF(beta1)
DEFAULT_OF(beta2)
DEFAULT_OF(rho)
DEFAULT_OF(epsilon)

const struct option_spec zoo_options[] = {
    {"depth", OPTION_INT, &zoo_opt.depth, "20", 1, 1000, "layers: 8, 14, 18 or 20",
     .used_by = "model=resnet"},
    {"width", OPTION_INT, &zoo_opt.width, "auto", 1, 1e6,
     "channels of the first stage, auto: 64 for depth 18, else 16; of gpt: values per token",
     .used_by = "model=resnet or gpt"},
    {"size", OPTION_TEXT, &zoo_opt.size, "tiny", 0, 0, "size of the transformer", gpt_size_name,
     .used_by = "model=gpt"},
    {"layers", OPTION_INT, &zoo_opt.layers, "auto", 1, 60,
     "blocks of the transformer, auto: of --size", .used_by = "model=gpt"},
    {"heads", OPTION_INT, &zoo_opt.heads, "auto", 1, 1024, "attention heads, auto: of --size",
     .used_by = "model=gpt"},
    {"context", OPTION_INT, &zoo_opt.context, "auto", 1, 65536,
     "tokens of a sample of text, auto: of --size", .used_by = "model=gpt"},
    {"dropout", OPTION_REAL | OPTION_CHANGES, &zoo_opt.dropout, "auto", 0, 1,
     "dropout rate, auto: 0.25 and 0.5 for cnn, else 0", .used_by = "model=mlp, cnn or gpt"},
    {"augment", OPTION_TEXT | OPTION_CHANGES, &zoo_opt.augment, "none", 0, 0,
     "random changes of the training images: crop, flip, crop,flip or none"},
    {"label-smoothing", OPTION_REAL | OPTION_CHANGES, &opt.label_smoothing, "0", 0, 1,
     "label smoothing, as in PyTorch"},
    {"schedule", OPTION_TEXT, &zoo_opt.schedule, "constant", 0, 0,
     "how the learning rate changes during all epochs", schedule_name},
    {"warmup", OPTION_INT, &zoo_opt.warmup, "0", 0, 1e12,
     "training steps in which the learning rate rises to --lr, 0: none"},
    {"gamma", OPTION_REAL, &zoo_opt.gamma, "0.7", 0, 1, "factor by which the learning rate changes",
     .used_by = "schedule=step"},
    {"step-epochs", OPTION_INT, &zoo_opt.step_epochs, "1", 1, 1e6,
     "epochs between two changes of the learning rate", .used_by = "schedule=step"},
    {"nesterov", OPTION_INT, &zoo_opt.nesterov, "0", 0, 1, "1: Nesterov's momentum",
     .used_by = "optimizer=sgd"},
    {"weight-decay", OPTION_REAL, &zoo_opt.weight_decay, "0", 0, 1e3,
     "weight decay, 0: none; decoupled for adamw"},
    {"beta1", OPTION_REAL, &zoo_opt.beta1, "auto", 0, 1, "decay of the first moment, auto",
     beta1_of, .used_by = "optimizer="},
    {"beta2", OPTION_REAL, &zoo_opt.beta2, "auto", 0, 1, "decay of the second moment, auto",
     beta2_of, .used_by = "optimizer="},
    {"rho", OPTION_REAL, &zoo_opt.rho, "auto", 0, 1, "decay of the means of squares, auto", rho_of,
     .used_by = "optimizer="},
    {"epsilon", OPTION_REAL, &zoo_opt.epsilon, "auto", 1e-30, 1, "keeps divisors above 0, auto",
     epsilon_of, .used_by = "optimizer="},
    {"summary", OPTION_FLAG | OPTION_LOCAL, &zoo_opt.summary, NULL, 0, 0,
     "prints a table of the model's layers, with the FLOPs and bytes of a sample, and then trains"},
    {0},
};
