// Prints the orders that the attendee's schedule.c makes, and the first mistake in them:
//   orders KIND STAGES CHUNKS MICRO_BATCHES TRAINING
// KIND is the number of the schedule. A line "stage 0: F0 F1 B0 ..." is an order; with several
// chunks, F0a is that of the first one. Behind them comes a line "wrong ...", or the lines "idle
// N", the idle ticks of a stage, and "flight N N ...", the micro-batches in flight of each stage.
// The program has a clock of its own: that of schedule.c never ends if the stages wait for each
// other.
#include "08_pipeline/schedule.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXTRA = 100000, FORWARD = 0, BACKWARD = 1 };
static struct work *made; // the works that schedule.c has allocated, with room behind them
static struct pipeline_schedule wanted;
static int training;

static void *allocate(size_t count, size_t size) {
    void *memory = malloc((count + EXTRA) * size);
    memset(memory, size == sizeof *made ? 0xff : 0, (count + EXTRA) * size); // -1: not written
    if (size == sizeof *made && !made)
        made = memory;
    return memory;
}

#define calloc(count, size) allocate(count, size)
#include SCHEDULE // the attendee's schedule.c
#undef calloc

__attribute__((noreturn, format(printf, 1, 2))) static void wrong(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("wrong ");
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
    _exit(1);
}

static const char *name_of(int backward, int chunk, int micro_batch) {
    static char names[4][32];
    static int n;
    char *name = names[n++ % 4];
    int length = sprintf(name, "%c%d", "FB"[backward], micro_batch);
    if (wanted.chunks > 1)
        sprintf(name + length, "%c", 'a' + chunk);
    return name;
}

static int is_valid(const struct work *w) {
    return (w->backward == 0 || w->backward == 1) && w->chunk >= 0 && w->chunk < wanted.chunks &&
           w->micro_batch >= 0 && w->micro_batch < wanted.micro_batches;
}

static void print_orders(void) {
    for (int stage = 0; stage < wanted.stages; stage++) {
        printf("stage %d:", stage);
        for (int i = 0; i < wanted.count; i++) {
            const struct work *w = &made[stage * wanted.count + i];
            if (is_valid(w))
                printf(" %s", name_of(w->backward, w->chunk, w->micro_batch));
        }
        putchar('\n');
    }
}

static int times(int stage, int before, int backward, int chunk, int micro_batch) {
    int n = 0;
    for (int i = 0; i < before; i++) {
        const struct work *w = &made[stage * wanted.count + i];
        n += w->backward == backward && w->chunk == chunk && w->micro_batch == micro_batch;
    }
    return n;
}

// Each stage must do each work once, and backward after forward.
static void check_works(void) {
    for (int stage = 0; stage < wanted.stages; stage++) {
        for (int i = 0; i < wanted.count; i++) {
            const struct work *w = &made[stage * wanted.count + i];
            if (!is_valid(w))
                continue;
            const char *name = name_of(w->backward, w->chunk, w->micro_batch);
            if (w->backward && !training)
                wrong("stage %d has %s, but evaluation has only forwards", stage, name);
            if (times(stage, i, w->backward, w->chunk, w->micro_batch))
                wrong("stage %d has %s twice", stage, name);
            if (w->backward && !times(stage, i, FORWARD, w->chunk, w->micro_batch))
                wrong("stage %d has %s before %s, its forward", stage, name,
                      name_of(FORWARD, w->chunk, w->micro_batch));
        }
        for (int n = 0; n < wanted.count; n++) {
            int chunk = n % wanted.chunks, m = n / wanted.chunks % wanted.micro_batches;
            int backward = n >= wanted.chunks * wanted.micro_batches;
            if (!times(stage, wanted.count, backward, chunk, m))
                wrong("stage %d has no %s", stage, name_of(backward, chunk, m));
        }
    }
    if (is_valid(&made[wanted.stages * wanted.count]))
        wrong("a stage has more works than %d", wanted.count);
}

// The work that w of this stage needs. Returns 0 if it needs none.
static int needs(int stage, const struct work *w, int *from, struct work *needed) {
    int parts = wanted.stages * wanted.chunks, part = w->chunk * wanted.stages + stage;
    int last = part + 1 == parts;
    part += !w->backward ? -1 : last ? 0 : 1;
    *from = (part + wanted.stages) % wanted.stages;
    *needed = (struct work){.backward = w->backward && !last,
                            .chunk = part / wanted.stages,
                            .micro_batch = w->micro_batch};
    return part >= 0;
}

// The stages wait for each other. This names for what.
static void tell_stuck(const int done[]) {
    struct work needed;
    int from;
    printf("wrong the stages wait for each other forever\nwrong Waiting:");
    for (int stage = 0, shown = 0; stage < wanted.stages; stage++) {
        const struct work *w = &made[stage * wanted.count + done[stage]];
        if (done[stage] == wanted.count || !needs(stage, w, &from, &needed))
            continue;
        printf("%s stage %d for %s of stage %d", shown++ ? "," : "", stage,
               name_of(needed.backward, needed.chunk, needed.micro_batch), from);
    }
    putchar('\n');
    fflush(stdout);
    _exit(1);
}

static int run_works(void) {
    int done[MOST_STAGES] = {0}, ready[MOST_STAGES], from, ticks = 0, moved = 1;
    struct work needed;
    for (; moved; ticks += moved > 0) {
        moved = 0;
        for (int stage = 0; stage < wanted.stages; stage++) {
            const struct work *w = &made[stage * wanted.count + done[stage]];
            ready[stage] = done[stage] < wanted.count && (!needs(stage, w, &from, &needed) ||
                                                          times(from, done[from], needed.backward,
                                                                needed.chunk, needed.micro_batch));
            moved += ready[stage];
        }
        for (int stage = 0; stage < wanted.stages; stage++)
            done[stage] += ready[stage];
    }
    for (int stage = 0; stage < wanted.stages; stage++)
        if (done[stage] < wanted.count)
            tell_stuck(done);
    return ticks;
}

static void judge(void) {
    print_orders();
    check_works();
    printf("idle %d\n", run_works() - wanted.count);
    printf("flight");
    for (int stage = 0; stage < wanted.stages; stage++) {
        int most = 0;
        for (int chunk = 0; chunk < wanted.chunks; chunk++)
            for (int i = 0, now = 0; i < wanted.count; i++) {
                const struct work *w = &made[stage * wanted.count + i];
                if (w->chunk == chunk)
                    now += w->backward ? -1 : 1;
                most = now > most ? now : most;
            }
        printf(" %d", most);
    }
    putchar('\n');
    fflush(stdout);
}

// The clock of schedule.c does not end, so the reason is in the orders.
static void too_late(int signal) {
    (void)signal;
    judge();
    wrong("pipeline_schedule_build does not end");
}

int main(int argc, char **argv) {
    int n[6] = {0};
    for (int i = 1; i < 6 && i < argc; i++)
        n[i] = atoi(argv[i]);
    training = n[5];
    wanted = (struct pipeline_schedule){.stages = n[2], .chunks = n[3], .micro_batches = n[4]};
    wanted.count = (1 + training) * wanted.chunks * wanted.micro_batches;
    signal(SIGALRM, too_late);
    alarm(1);
    pipeline_schedule_build(n[1], wanted.stages, wanted.chunks, wanted.micro_batches, training);
    alarm(0);
    judge();
    return 0;
}
