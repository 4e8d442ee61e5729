#include "08_pipeline/schedule.h"
#include "common/base/minmax.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { NOT_YET = INT_MAX }; // a tick

const char *pipeline_schedule_name(int i) {
    static const char *const names[] = {"gpipe", "1f1b", "interleaved", NULL};
    return names[i];
}

static struct work *works_of(const struct pipeline_schedule *s, int stage) {
    return s->works + (size_t)stage * s->count;
}

// Returns forward or backward number k of a stage. As many micro-batches as there are stages go
// through chunk 0, then through chunk 1, and so on, in backward the other way round.
static struct work numbered(const struct pipeline_schedule *s, int backward, int k) {
    int chunk = k / s->stages % s->chunks;
    return (struct work){
        .backward = backward,
        .chunk = backward ? s->chunks - 1 - chunk : chunk,
        .micro_batch = k / (s->stages * s->chunks) * s->stages + k % s->stages,
    };
}

// Orders the works of a stage. The kinds differ only in how many forwards may be ahead of the
// backwards. Source for INTERLEAVED: section 2.2 of https://arxiv.org/abs/2104.04473.
static void order_works(const struct pipeline_schedule *s, enum schedule_kind kind, int stage,
                        int training) {
    struct work *work = works_of(s, stage);
    int all = s->micro_batches * s->chunks, behind = s->stages - 1 - stage;
    int ahead = kind == GPIPE         ? all
                : kind == ONE_F_ONE_B ? behind + 1
                                      : 2 * behind + (s->chunks - 1) * s->stages + 1;
    for (int f = 0, b = 0; f < all || (training && b < all);)
        *work++ =
            f < all && (!training || f < b + ahead) ? numbered(s, 0, f++) : numbered(s, 1, b++);
}

static struct work *find(const struct pipeline_schedule *s, int stage, int backward, int chunk,
                         int micro_batch) {
    for (struct work *w = works_of(s, stage); w < works_of(s, stage + 1); w++)
        if (w->backward == backward && w->chunk == chunk && w->micro_batch == micro_batch)
            return w;
    return NULL;
}

// Returns the work whose result w needs, or NULL if it needs none, and sets its stage. Forward
// needs the part of the model before this one, and backward the part behind it. Backward of the
// last part needs its own forward.
static struct work *source(const struct pipeline_schedule *s, int stage, const struct work *w,
                           int *from) {
    int part = w->chunk * s->stages + stage, parts = s->chunks * s->stages;
    int last = part + 1 == parts, needed = !w->backward ? part - 1 : last ? part : part + 1;
    if (needed < 0)
        return NULL;
    *from = needed % s->stages;
    return find(s, *from, w->backward && !last, needed / s->stages, w->micro_batch);
}

// Sets the tick of each work: each stage does its next work as soon as its source has ended.
static void run_clock(struct pipeline_schedule *s) {
    int done[MOST_STAGES] = {0}, left = s->stages * s->count, from;
    for (int i = 0; i < left; i++)
        s->works[i].tick = NOT_YET;
    for (int tick = 0; left > 0; tick++)
        for (int stage = 0; stage < s->stages; stage++) {
            struct work *w = works_of(s, stage) + done[stage];
            const struct work *needs = done[stage] < s->count ? source(s, stage, w, &from) : NULL;
            if (done[stage] == s->count || (needs && needs->tick >= tick))
                continue;
            w->tick = tick;
            s->ticks = tick + 1;
            done[stage]++;
            left--;
        }
}

struct pipeline_schedule pipeline_schedule_build(enum schedule_kind kind, int stages, int chunks,
                                                 int micro_batches, int training) {
    struct pipeline_schedule s = {stages, chunks, micro_batches,
                                  (1 + training) * chunks * micro_batches};
    s.works = calloc((size_t)stages * s.count, sizeof *s.works);
    for (int stage = 0; stage < stages; stage++)
        order_works(&s, kind, stage, training);
    run_clock(&s);
    return s;
}

// Outputs come before gradients of the same tick, so two stages agree on the order.
static int compare(const void *x, const void *y) {
    const struct transfer *a = x, *b = y;
    return a->tick != b->tick ? a->tick - b->tick : a->backward - b->backward;
}

int schedule_transfers(const struct pipeline_schedule *s, int stage, struct transfer **transfers) {
    struct transfer *list = calloc(4 * s->count, sizeof *list); // two for each work, sent or not
    int count = 0, from;
    for (int to = 0; to < s->stages; to++)
        for (const struct work *w = works_of(s, to); w < works_of(s, to + 1); w++) {
            const struct work *needs = source(s, to, w, &from);
            if (!needs || from == to || (from != stage && to != stage))
                continue;
            list[count++] = (struct transfer){w->backward,
                                              from,
                                              to,
                                              needs->chunk,
                                              w->chunk,
                                              w->micro_batch,
                                              w->backward ? needs->tick : w->tick - 1};
        }
    qsort(list, count, sizeof *list, compare);
    *transfers = list;
    return count;
}

int most_in_flight(const struct pipeline_schedule *s, int stage) {
    int most = 1;
    for (int chunk = 0; chunk < s->chunks; chunk++) {
        int now = 0;
        for (const struct work *w = works_of(s, stage); w < works_of(s, stage + 1); w++) {
            if (w->chunk == chunk)
                now += w->backward ? -1 : 1;
            most = max_size(most, now);
        }
    }
    return most;
}

void schedule_print(const struct pipeline_schedule *s) {
    for (int stage = 0; stage < s->stages; stage++) {
        const struct work *w = works_of(s, stage), *end = works_of(s, stage + 1);
        printf("stage %d ", stage);
        for (int tick = 0; tick < s->ticks; tick++) {
            char name[32] = "";
            if (w < end && w->tick == tick) {
                int length = sprintf(name, w->backward ? "B%d" : "F%d", w->micro_batch);
                if (s->chunks > 1)
                    sprintf(name + length, "%c", 'a' + w->chunk);
                w++;
            }
            printf(" %-*s", s->chunks > 1 ? 4 : 3, name);
        }
        putchar('\n');
    }
}
