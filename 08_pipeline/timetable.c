// Prints the schedule of a pipeline without running it: a row for each stage, a column for each
// tick. F3 is forward and B3 backward of micro-batch 3. With interleaved, F3a is that of the first
// chunk, F3b that of the second one.
#include "08_pipeline/schedule.h"
#include "common/base/options.h"
#include <stdio.h>
#include <stdlib.h>

static struct { long stages, micro_batches, pipeline, chunks; } opt;

static const struct option_spec options[] = {
    {"stages", OPTION_INT, &opt.stages, "4", 1, MOST_STAGES, "stages of the pipeline"},
    {"micro-batches", OPTION_INT, &opt.micro_batches, "8", 1, MOST_MICRO_BATCHES,
     "parts of a batch"},
    {"pipeline", OPTION_CHOICE, &opt.pipeline, "1f1b", 0, 0, "the order of the work",
     pipeline_schedule_name},
    {"chunks", OPTION_INT, &opt.chunks, "2", 2, 16, "parts of the model in a stage",
     .used_by = "pipeline=interleaved"},
    {0},
};

static const struct option_table tables[] = {{NULL, options}, {0}};

int main(int argc, char **argv) {
    options_parse(tables, "Prints the schedule of a pipeline.", argc, argv);
    int interleaved = opt.pipeline == INTERLEAVED;
    if (interleaved && opt.micro_batches % opt.stages)
        wrong_usage("--micro-batches %ld is not divisible by %ld stages, which --pipeline "
                    "interleaved needs",
                    opt.micro_batches, opt.stages);
    struct pipeline_schedule s = pipeline_schedule_build(
        opt.pipeline, opt.stages, interleaved ? opt.chunks : 1, opt.micro_batches, 1);
    schedule_print(&s);
    printf("%d of %d ticks of each stage are idle: %.1f %% of the time that it works\n",
           s.ticks - s.count, s.ticks, 100. * (s.ticks - s.count) / s.count);
    printf("micro-batches in flight:");
    for (int stage = 0; stage < s.stages; stage++)
        printf(" %d", most_in_flight(&s, stage));
    putchar('\n');
    free(s.works);
    return 0;
}
