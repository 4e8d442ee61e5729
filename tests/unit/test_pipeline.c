// How a pipeline divides layers and batches, without running it.
#include "08_pipeline/pipeline.h"
#include "common/base/minmax.h"
#include "tests/test.h"

TEST(stages_keep_as_many_micro_batches_as_their_schedule_needs) {
    static struct model all = {.count = 16}, model;
    for (int stages = 1; stages <= 16; stages++)
        for (int stage = 0; stage < stages; stage++)
            for (int count = 1; count <= 20; count++)
                for (int schedule = GPIPE; schedule <= ONE_F_ONE_B; schedule++) {
                    struct pipeline p = {.all = &all, .parts = 1};
                    pipeline_opt = (struct pipeline_opt){stages, count, schedule};
                    struct place place = {.rank = stage, .world = stages};
                    pipeline_build(&p, &model, &place, count);
                    assert_int_equal(p.stage, stage);
                    if (schedule == GPIPE)
                        assert_int_equal(p.warm_up, count);
                    else
                        assert_int_equal(p.warm_up, min_size(stages - 1 - stage, count));
                    assert_int_equal(p.in_flight, min_size(p.warm_up + 1, count));
                }
}

TEST(layers_are_cut_by_their_flops) {
    static const struct {
        int layers, flops[6], parts, cut[4];
    } rows[] = {
        {4, {1, 1, 1, 1}, 2, {2, 4}},
        {4, {9, 1, 1, 1}, 2, {1, 4}},
        {4, {1, 1, 1, 9}, 2, {3, 4}},
        {4, {1, 1, 1, 9}, 3, {2, 3, 4}},
        {4, {9, 0, 0, 0}, 4, {1, 2, 3, 4}},
        {6, {0, 4, 0, 4, 0, 4}, 3, {2, 4, 6}},
        {5, {1, 0, 4, 5, 0}, 2, {3, 5}}, // a layer without FLOPs does not end a part
        {3, {1, 2, 3}, 1, {3}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct model m = {.count = rows[i].layers};
        int cut[MOST_LAYERS + 1];
        for (int layer = 0; layer < m.count; layer++)
            m.layers[layer].flops = rows[i].flops[layer];
        cut_layers(&m, rows[i].parts, cut);
        assert_int_equal(cut[0], 0);
        for (int part = 0; part < rows[i].parts; part++)
            assert_int_equal(cut[part + 1], rows[i].cut[part]);
    }
}

int main(void) {
    return run_all_tests((struct around){NULL});
}
