// The schedules of pipelines, without running them: every micro-batch passes through each chunk
// once forward and once backward, after what it needs, and neighbours agree on what they send.
#include "08_pipeline/pipeline.h"
#include "common/layers/layers.h"
#include "tests/test.h"

enum { MOST_CHUNKS = 4 };

// The tick of each work, by stage, direction, chunk and micro-batch; 0: it is missing. One tick
// later than in the schedule.
static int ticks[MOST_STAGES][2][MOST_CHUNKS][64];

static void read_ticks(const struct pipeline_schedule *s) {
    memset(ticks, 0, sizeof ticks);
    for (int stage = 0; stage < s->stages; stage++)
        for (int i = 0, last = 0; i < s->count; i++) {
            const struct work *w = &s->works[stage * s->count + i];
            int *tick = &ticks[stage][w->backward][w->chunk][w->micro_batch];
            assert_in_range(w->chunk, 0, s->chunks - 1);
            assert_in_range(w->micro_batch, 0, s->micro_batches - 1);
            assert_int_equal(*tick, 0);
            *tick = w->tick + 1;
            assert_true(*tick > last); // one work at a time, in this order
            last = *tick;
        }
}

// Part k of the model is chunk k / stages of stage k % stages.
static int tick_of(const struct pipeline_schedule *s, int backward, int part, int micro_batch) {
    return ticks[part % s->stages][backward][part / s->stages][micro_batch];
}

static void check_order(const struct pipeline_schedule *s, int training) {
    int parts = s->stages * s->chunks;
    read_ticks(s);
    assert_int_equal(s->count, (1 + training) * s->chunks * s->micro_batches);
    for (int m = 0; m < s->micro_batches; m++)
        for (int part = 0; part < parts; part++) {
            assert_true(tick_of(s, 0, part, m) > (part ? tick_of(s, 0, part - 1, m) : 0));
            if (training)
                assert_true(tick_of(s, 1, part, m) >
                            tick_of(s, part + 1 < parts, part + 1 < parts ? part + 1 : part, m));
        }
}

// Calls check for the schedules of this kind with up to so many stages and micro-batches.
static void for_each_schedule(enum schedule_kind kind, int most_stages, int most_micro_batches,
                              void (*check)(enum schedule_kind, struct pipeline_schedule *)) {
    for (int stages = 1; stages <= most_stages; stages++)
        for (int count = 1; count <= most_micro_batches; count++)
            for (int chunks = 1; chunks <= (kind == INTERLEAVED ? MOST_CHUNKS : 1); chunks++) {
                if (kind == INTERLEAVED && (chunks == 1 || stages == 1 || count % stages))
                    continue;
                struct pipeline_schedule s =
                    pipeline_schedule_build(kind, stages, chunks, count, 1);
                check(kind, &s);
                free(s.works);
            }
}

static void check_schedule(enum schedule_kind kind, struct pipeline_schedule *s) {
    check_order(s, 1);
    for (int stage = 0; stage < s->stages; stage++) {
        int behind = s->stages - stage, most = most_in_flight(s, stage);
        if (kind == GPIPE)
            assert_int_equal(most, s->micro_batches);
        else if (kind == ONE_F_ONE_B)
            assert_int_equal(most, behind < s->micro_batches ? behind : s->micro_batches);
        else
            assert_true(most <= 2 * s->stages && most <= s->micro_batches);
    }
    // The idle share is (stages - 1) / (chunks * micro_batches) of the time of the work.
    assert_int_equal(s->ticks - s->count, 2 * (s->stages - 1));
}

TEST(each_work_is_done_once_and_after_what_it_needs) {
    for (int kind = GPIPE; kind <= INTERLEAVED; kind++)
        for_each_schedule(kind, 16, 64, check_schedule);
}

TEST(the_forwards_alone_are_a_schedule_for_evaluation) {
    for (int kind = GPIPE; kind <= INTERLEAVED; kind++)
        for (int stages = 2; stages <= 5; stages++) {
            struct pipeline_schedule s =
                pipeline_schedule_build(kind, stages, kind == INTERLEAVED ? 2 : 1, 2 * stages, 0);
            check_order(&s, 0);
            assert_int_equal(s.ticks - s.count, stages - 1);
            free(s.works);
        }
}

// Two stages that send to each other must name these transfers in the same order, because NCCL
// tells them apart by their order only.
static void check_pair(const struct transfer *a, int a_count, const struct transfer *b, int b_count,
                       int from, int to) {
    int i = 0, j = 0;
    for (;; i++, j++) {
        while (i < a_count && (a[i].from != from || a[i].to != to))
            i++;
        while (j < b_count && (b[j].from != from || b[j].to != to))
            j++;
        assert_int_equal(i < a_count, j < b_count);
        if (i == a_count)
            return;
        assert_memory_equal(&a[i], &b[j], sizeof *a);
    }
}

static void check_transfers(enum schedule_kind kind, struct pipeline_schedule *s) {
    struct transfer *list[MOST_STAGES];
    int count[MOST_STAGES], parts = s->stages * s->chunks, sent = 0;
    read_ticks(s);
    for (int stage = 0; stage < s->stages; stage++) {
        count[stage] = schedule_transfers(s, stage, &list[stage]);
        for (int i = 0; i < count[stage]; i++) {
            const struct transfer *x = &list[stage][i];
            int from = x->chunk_from * s->stages + x->from, to = x->chunk_to * s->stages + x->to;
            assert_true(x->from == stage || x->to == stage);
            assert_int_equal(to, from + (x->backward ? -1 : 1));
            assert_true(x->tick + 1 >= tick_of(s, x->backward, from, x->micro_batch));
            assert_true(x->tick + 1 < tick_of(s, x->backward, to, x->micro_batch));
            assert_true(i == 0 || x->tick >= x[-1].tick);
            sent += x->from == stage;
        }
    }
    assert_int_equal(sent, 2 * (parts - 1) * s->micro_batches);
    for (int a = 0; a < s->stages; a++)
        for (int b = 0; b < s->stages; b++)
            if (a != b)
                check_pair(list[a], count[a], list[b], count[b], a, b);
    for (int stage = 0; stage < s->stages; stage++)
        free(list[stage]);
}

TEST(each_result_is_sent_once_between_its_work_and_the_work_that_needs_it) {
    for (int kind = GPIPE; kind <= INTERLEAVED; kind++)
        for_each_schedule(kind, 5, 12, check_transfers);
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
