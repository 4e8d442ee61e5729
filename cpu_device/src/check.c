#include "check.h"
#include "comm.h"
#include "internal.h"
#include <stdarg.h>

// How many streams the checker tells apart. All further ones count as one stream, so it finds
// nothing between their operations.
enum { MOST_STREAMS = 256 };

struct cpu_clock {
    int stream;
    uint64_t done[MOST_STREAMS]; // operations of each stream that are certain to come before
};

// One use of memory by an operation, with all that a report says about it.
struct cpu_use {
    const char *name;
    const struct cpu_place *place;
    const struct ncclComm *comm; // NULL: the operation is no collective
    int stream;
    uint64_t number; // of the operation on its stream
    struct cpu_span span;
    struct cpu_use *next;
};

static int stream_count;
static const struct cpu_place *stream_places[MOST_STREAMS];
static uint64_t ended_after[MOST_STREAMS];   // operations of a destroyed stream, else UINT64_MAX
static struct cpu_clock host;                // waits of all threads
static struct cpu_clock known;               // waits and successful queries of all threads
static _Thread_local struct cpu_clock asked; // successful queries of this thread
static struct cpu_use *collectives;          // the last one of each communicator and stream

// The first conflict, until it is reported.
static struct finding {
    enum { NOTHING, MEMORY, FREED, COMMUNICATORS } what;
    struct cpu_use first, second;
    const struct cpu_place *place; // of the call that frees memory
    struct cpu_memory memory;
} finding;

// Returns a number for a new stream. When there are no more, it takes that of a destroyed stream,
// for whose work the host has waited: all later operations come after that work.
static int new_number(void) {
    static int warned;
    if (stream_count < MOST_STREAMS - 1)
        return stream_count++;
    for (int s = 0; s < MOST_STREAMS - 1; s++)
        if (ended_after[s] <= host.done[s])
            return s;
    if (!warned++)
        fprintf(stderr,
                "note: CPU_DEVICE_CHECK: there are more than %d streams, so mistakes between "
                "further ones are not found; destroy streams after cudaStreamSynchronize\n",
                MOST_STREAMS - 1);
    return MOST_STREAMS - 1;
}

struct cpu_clock *cpu_new_clock(const struct cpu_place *made) {
    if (!cpu_recording)
        return NULL;
    struct cpu_clock *clock = cpu_new(sizeof *clock);
    clock->stream = new_number();
    clock->done[clock->stream] = host.done[clock->stream]; // it counts on from the old stream
    stream_places[clock->stream] = made;
    ended_after[clock->stream] = UINT64_MAX;
    return clock;
}

void cpu_stream_ends(const struct cpu_clock *clock) {
    if (clock)
        ended_after[clock->stream] = clock->done[clock->stream];
}

struct cpu_clock *cpu_copy_clock(const struct cpu_clock *clock) {
    if (!clock)
        return NULL;
    struct cpu_clock *copy = cpu_new(sizeof *copy);
    *copy = *clock;
    return copy;
}

void cpu_join(struct cpu_clock *later, const struct cpu_clock *earlier) {
    for (int s = 0; earlier && s < MOST_STREAMS; s++)
        if (earlier->done[s] > later->done[s])
            later->done[s] = earlier->done[s];
}

// Returns 1 if the use is certain to have ended for the owner of this clock.
static int comes_before(const struct cpu_use *use, const struct cpu_clock *clock) {
    return use->number <= clock->done[use->stream];
}

void cpu_host_has_waited(const struct cpu_clock *clock) {
    if (!clock)
        return;
    cpu_join(&host, clock);
    cpu_join(&known, clock);
    cpu_guard_pinned();
}

void cpu_host_has_asked(const struct cpu_clock *clock) {
    if (!clock)
        return;
    cpu_join(&asked, clock);
    cpu_join(&known, clock);
    cpu_guard_pinned();
}

static uintptr_t end_of(const struct cpu_span *s) {
    return s->start + (s->count - 1) * s->pitch + s->width;
}

// Returns 1 if one of the span's ranges has a byte in common with from..end.
static int meets(const struct cpu_span *s, uintptr_t from, uintptr_t end) {
    size_t i = from < s->start + s->width ? 0 : (from - s->start - s->width) / s->pitch + 1;
    return i < s->count && s->start + i * s->pitch < end;
}

int cpu_spans_overlap(const struct cpu_span *a, const struct cpu_span *b) {
    if (!a->count || !b->count || end_of(a) <= b->start || end_of(b) <= a->start)
        return 0;
    for (size_t i = 0; i < a->count; i++) {
        uintptr_t from = a->start + i * a->pitch;
        if (meets(b, from, from + a->width))
            return 1;
    }
    return 0;
}

// Returns 1 if every operation that conflicts with the earlier use also conflicts with the later
// one.
static int replaces(const struct cpu_span *later, const struct cpu_span *earlier) {
    int same = later->start == earlier->start && later->width == earlier->width &&
               later->pitch == earlier->pitch && later->count == earlier->count;
    int contains =
        later->count == 1 && later->start <= earlier->start && end_of(earlier) <= end_of(later);
    return (later->written || !earlier->written) && (same || contains);
}

// Stores the first conflict. Reports count bytes from the start of the allocation or, in pageable
// memory, from the first of both uses.
static void found(int what, const struct cpu_use *first, const struct cpu_use *second) {
    if (finding.what)
        return;
    finding.what = what;
    finding.first = *first;
    finding.second = *second;
    cpu_find_memory(first->span.start, &finding.memory);
    if (!finding.memory.start)
        finding.memory.start =
            first->span.start < second->span.start ? first->span.start : second->span.start;
}

// Adds a copy of the use to the list.
static void keep(const struct cpu_use *use, struct cpu_use **list) {
    struct cpu_use *kept = cpu_new(sizeof *kept);
    *kept = *use;
    kept->next = *list;
    *list = kept;
}

// Removes one use from the list, and frees it.
static void drop(struct cpu_use **link) {
    struct cpu_use *use = *link;
    *link = use->next;
    free(use);
}

// Compares a use with all earlier uses of the same memory, and adds it to them. Drops uses that
// cannot conflict with later operations, so the list stays short.
static void check_memory(const struct cpu_clock *stream, const struct cpu_use *use) {
    struct cpu_memory memory;
    cpu_find_memory(use->span.start, &memory);
    for (struct cpu_use **link = memory.uses, *old; (old = *link);) {
        int ordered = comes_before(old, stream);
        if (!ordered && (old->span.written || use->span.written) &&
            cpu_spans_overlap(&old->span, &use->span))
            found(MEMORY, old, use);
        if (comes_before(old, &host) || (ordered && replaces(&use->span, &old->span)))
            drop(link);
        else
            link = &old->next;
    }
    keep(use, memory.uses);
}

// On a GPU, two ranks wait for each other forever if they start collectives of two communicators
// in different orders.
static void check_comm(const struct cpu_clock *stream, const struct cpu_use *use) {
    for (struct cpu_use **link = &collectives, *old; (old = *link);) {
        if (old->comm != use->comm && old->comm->device == use->comm->device &&
            !comes_before(old, stream))
            found(COMMUNICATORS, old, use);
        if (old->comm == use->comm && old->stream == use->stream)
            drop(link);
        else
            link = &old->next;
    }
    keep(use, &collectives);
}

int cpu_check_operation(struct cpu_clock *stream, const struct cpu_note *note) {
    if (!stream)
        return 1;
    cpu_join(stream, &host);
    cpu_join(stream, &asked);
    stream->done[stream->stream]++;
    for (; note; note = note->next) {
        struct cpu_use use = {.name = note->name,
                              .place = note->place,
                              .comm = note->comm,
                              .stream = stream->stream,
                              .number = stream->done[stream->stream]};
        if (note->comm && note->comm->ranks > 1)
            check_comm(stream, &use);
        for (int i = 0; i < note->span_count; i++) {
            use.span = note->spans[i];
            check_memory(stream, &use);
        }
    }
    cpu_guard_pinned();
    return finding.what == NOTHING;
}

void cpu_check_free(struct cpu_use **uses) {
    while (*uses) {
        if (!comes_before(*uses, &known)) {
            found(FREED, *uses, *uses);
            finding.place = cpu_here();
        }
        drop(uses);
    }
}

void cpu_check_comm_ends(const struct ncclComm *comm) {
    for (struct cpu_use **link = &collectives; *link;)
        if ((*link)->comm == comm)
            drop(link);
        else
            link = &(*link)->next;
}

const struct cpu_use *cpu_unfinished_use(const struct cpu_use *uses, uintptr_t at, int reads) {
    for (; uses; uses = uses->next)
        if (!comes_before(uses, &known) && (uses->span.written || reads) &&
            meets(&uses->span, at, at + 1))
            return uses;
    return NULL;
}

int cpu_unfinished_uses(const struct cpu_use *uses) {
    int most = 0;
    for (; uses; uses = uses->next)
        if (!comes_before(uses, &known) && uses->span.written + 1 > most)
            most = uses->span.written + 1;
    return most;
}

__attribute__((weak)) void cpu_end_program(const char *message) {
    fprintf(stderr, "error: %s\n", message);
    exit(1);
}

static char *print(const char *format, ...) {
    char *text;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        abort();
    va_end(arguments);
    return text;
}

// "queued at ... on the stream made at ..."
static char *describe_queueing(const struct cpu_use *use) {
    const struct cpu_place *made = stream_places[use->stream];
    return print("queued at %s on the %s%s", cpu_describe_place(use->place),
                 made ? "stream made at " : "default stream", made ? cpu_describe_place(made) : "");
}

char *cpu_describe_use(const struct cpu_use *use) {
    return print("%s, %s", use->name, describe_queueing(use));
}

// "sgd_step reads bytes 0 to 511, queued at ..."
static char *describe_access(const struct cpu_use *use, uintptr_t start) {
    return print("%s %s bytes %zu to %zu, %s", use->name, use->span.written ? "writes" : "reads",
                 (size_t)(use->span.start - start), (size_t)(end_of(&use->span) - 1 - start),
                 describe_queueing(use));
}

void cpu_check_report(void) {
    if (!cpu_recording)
        return;
    pthread_mutex_lock(&cpu_lock);
    struct finding f = finding;
    finding.what = NOTHING;
    pthread_mutex_unlock(&cpu_lock);
    if (f.what == MEMORY)
        cpu_end_program(
            print("CPU_DEVICE_CHECK: nothing orders two operations that use %s:\n"
                  "  %s\n  %s\n"
                  "  fix: call cudaEventRecord on the first stream after the first operation, and "
                  "cudaStreamWaitEvent on the second stream before the second one",
                  cpu_describe_memory(&f.memory), describe_access(&f.first, f.memory.start),
                  describe_access(&f.second, f.memory.start)));
    if (f.what == FREED)
        cpu_end_program(
            print("CPU_DEVICE_CHECK: %s is freed at %s while an operation may still use it:\n"
                  "  %s\n"
                  "  fix: call cudaStreamSynchronize first",
                  cpu_describe_memory(&f.memory), cpu_describe_place(f.place),
                  describe_access(&f.first, f.memory.start)));
    if (f.what == COMMUNICATORS)
        cpu_end_program(print(
            "CPU_DEVICE_CHECK: nothing orders two collectives of different communicators:\n"
            "  %s\n  %s\n"
            "  on a GPU, ranks may start them in different orders and then wait for each other\n"
            "  fix: queue both on one stream, or let the stream of the second wait for the first",
            cpu_describe_use(&f.first), cpu_describe_use(&f.second)));
}
