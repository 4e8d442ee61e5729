// The schedule of a pipeline says which stage does which work, and in which order. It is data: all
// ranks compute the same lists, so a schedule can be printed and tested without a device.
#pragma once

enum { MOST_STAGES = 64, MOST_MICRO_BATCHES = 512 };
enum schedule_kind { GPIPE, ONE_F_ONE_B, INTERLEAVED };
const char *pipeline_schedule_name(int kind); // as the option, or NULL after the last one

// The forward or backward pass of one micro-batch through one chunk. A chunk is a part of the
// model, of consecutive layers. Stage s has the parts s, s + stages, s + 2 * stages and so on, as
// its chunks 0, 1, 2 and so on. Only INTERLEAVED has more than one chunk in a stage.
struct work {
    int backward, chunk, micro_batch;
    int tick; // when it runs if each work takes one tick and a transfer takes no time
};

struct pipeline_schedule {
    int stages, chunks, micro_batches;
    int count;          // works of a stage
    int ticks;          // until the last work has ended
    struct work *works; // [stages, count], each stage's in their order
};

// Builds a schedule. If training is 0, it has the forwards only, for evaluation. INTERLEAVED needs
// a multiple of stages as micro_batches. The caller frees works.
struct pipeline_schedule pipeline_schedule_build(enum schedule_kind kind, int stages, int chunks,
                                                 int micro_batches, int training);

// The result of a work that goes to another stage: outputs of a forward, or gradients of the inputs
// of a backward.
struct transfer {
    int backward;             // 1: gradients
    int from, to;             // stages
    int chunk_from, chunk_to; // of these stages
    int micro_batch;
    int tick; // it runs after the works of this tick and before those of the next one
};

// Lists the transfers that a stage sends and receives. All stages that run theirs in this order,
// those of the same tick together, cannot wait for each other forever. Outputs travel just before
// they are needed, because the sender keeps them for its backward anyway. Gradients travel at once.
// Returns their number. The caller frees *transfers.
int schedule_transfers(const struct pipeline_schedule *s, int stage, struct transfer **transfers);

// Returns how many micro-batches a chunk of this stage has between forward and backward at most. It
// must keep this many activations.
int most_in_flight(const struct pipeline_schedule *s, int stage);

// Prints a row for each stage and a column for each tick.
void schedule_print(const struct pipeline_schedule *s);
