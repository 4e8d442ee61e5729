#include "record.h"
#include "internal.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

enum { MOST_FRAMES = 32, BUCKETS = 256 };

struct cpu_place {
    struct cpu_place *next; // in the same bucket
    char *text;             // NULL until cpu_describe_place needs it
    int count;
    void *frames[MOST_FRAMES]; // return addresses, innermost first
};

int cpu_recording;
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cpu_place *places[BUCKETS];
static _Thread_local struct cpu_note *noted;
static _Thread_local struct cpu_cost noted_cost;
static _Thread_local int cost_is_given; // by cpu_needs: cpu_uses adds nothing to it

const struct cpu_place *cpu_here(void) {
    struct cpu_place here = {.next = NULL};
    here.count = backtrace(here.frames, MOST_FRAMES);
    size_t bytes = (size_t)here.count * sizeof *here.frames, hash = 0;
    for (int i = 0; i < here.count; i++)
        hash = hash * 31 + (uintptr_t)here.frames[i];
    pthread_mutex_lock(&places_lock);
    struct cpu_place **bucket = &places[hash % BUCKETS], *p = *bucket;
    while (p && (p->count != here.count || memcmp(p->frames, here.frames, bytes)))
        p = p->next;
    if (!p) {
        p = cpu_new(sizeof *p);
        *p = here;
        p->next = *bucket;
        *bucket = p;
    }
    pthread_mutex_unlock(&places_lock);
    return p;
}

void cpu_needs(struct cpu_cost cost) {
    noted_cost = cost;
    cost_is_given = 1;
}

void cpu_executes(double instructions) {
    noted_cost.instructions += instructions;
}

void cpu_waits(size_t threads, size_t times) {
    noted_cost.threads = (double)threads;
    noted_cost.waits = (double)times;
}

// A kernel takes as long as its products and its other instructions together: README.md compares
// this with published rates.
void cpu_multiplies(double flops, int tf32) {
    if (cpu_model)
        cpu_executes(flops * (1 + tf32) / cpu_model->mma * cpu_model->instructions);
}

struct cpu_cost cpu_take_cost(void) {
    struct cpu_cost cost = noted_cost;
    noted_cost = (struct cpu_cost){0};
    cost_is_given = 0;
    return cost;
}

void cpu_give_cost(const struct cpu_cost *cost) {
    noted_cost = *cost;
}

void cpu_uses_span(const char *name, struct cpu_span span) {
    if (!cost_is_given) {
        noted_cost.name = name;
        noted_cost.bytes += (double)span.width * (double)span.count;
    }
    if (!cpu_recording)
        return;
    if (!noted) {
        noted = cpu_new(sizeof *noted);
        noted->name = name;
        noted->place = cpu_here();
    }
    if (noted->span_count == CPU_MOST_SPANS)
        abort();
    if (span.pitch == span.width) { // without gaps: one range
        span.width *= span.count;
        span.count = 1;
    }
    if (span.count && span.width)
        noted->spans[noted->span_count++] = span;
}

void cpu_uses_rows(const char *name, const void *pointer, size_t width, size_t pitch, size_t rows,
                   int written) {
    cpu_uses_span(name, (struct cpu_span){(uintptr_t)pointer, width, pitch, rows, written});
}

void cpu_uses(const char *name, const void *pointer, size_t bytes, int written) {
    cpu_uses_rows(name, pointer, bytes, bytes, 1, written);
}

void cpu_may_use(const char *name, const void *pointer, size_t bytes, int written) {
    struct cpu_cost cost = noted_cost;
    cpu_uses(name, pointer, bytes, written);
    noted_cost = cost;
}

struct cpu_note *cpu_take_note(void) {
    struct cpu_note *note = noted;
    noted = NULL;
    return note;
}

void cpu_give_note(struct cpu_note *note) {
    cpu_free_note(noted);
    noted = note;
}

void cpu_free_note(struct cpu_note *note) {
    for (struct cpu_note *next; note; note = next) {
        next = note->next;
        free(note);
    }
}

// Returns the address within the program's file, as addr2line needs it, or 0 for an address in a
// library.
static uintptr_t address_in_program(void *frame) {
    Dl_info info;
    struct link_map *map;
    if (!dladdr1(frame, &info, (void **)&map, RTLD_DL_LINKMAP) || *map->l_name)
        return 0;
    return (uintptr_t)frame - map->l_addr - 1; // the return address is after the call
}

// Not a constant, because clang would not look for the version of a program.
__attribute__((weak)) const char *cpu_passing_on[] = {NULL};

// Returns the last names of a path, such as the two in 02_multigpu_fork/train.c.
static const char *last_names(const char *path, int count) {
    const char *c = path + strlen(path);
    while (c > path && (c[-1] != '/' || --count > 0))
        c--;
    return c;
}

// Returns 1 if the call stands in cpu_passing_on, or in a program's own version of a function of
// NCCL (nccl.h). Such a call is not the program's mistake.
static int only_passes_on(const char *function, const char *path) {
    for (int names = 1; names <= 3; names++) {
        const char *end = last_names(path, names);
        for (const char *const *p = cpu_passing_on; *p; p++)
            if (!strncmp(end, *p, strlen(*p)))
                return 1;
    }
    return !strncmp(function, "nccl", 4);
}

// Asks addr2line for the lines of a chain of calls, and returns their description.
static char *describe(const struct cpu_place *place) {
    char command[96 + 20 * MOST_FRAMES], function[128], path[1024], library[1024] = "", *text;
    int length = snprintf(command, sizeof command,
                          "trap '' HUP INT TERM; exec addr2line -e /proc/%d/exe -f -i 2>/dev/null",
                          (int)getpid());
    for (int i = 0; i < place->count; i++) {
        uintptr_t address = address_in_program(place->frames[i]);
        if (address)
            length += snprintf(command + length, sizeof command - (size_t)length, " %#lx",
                               (unsigned long)address);
    }
    size_t size;
    int goes_on = 1;
    FILE *lines = popen(command, "r"), *out = open_memstream(&text, &size);
    // The innermost call is that in cpu_here, so its folder is the one of this library.
    if (lines && fgets(function, sizeof function, lines) && fgets(library, sizeof library, lines))
        *(char *)last_names(library, 1) = 0;
    // addr2line prints two lines for each call, and for each inlined call: the function, and its
    // FILE:LINE.
    while (lines && fgets(function, sizeof function, lines) && fgets(path, sizeof path, lines)) {
        const char *at = last_names(path, 2);
        if (!goes_on || strchr(path, '?') || only_passes_on(function, path) ||
            (*library && !strncmp(path, library, strlen(library))))
            continue;                           // reads all lines, so that addr2line can end
        function[strcspn(function, ".\n")] = 0; // gcc names a part of a function name.part.0
        char *line = strrchr(path, ':') + 1;    // a note such as (discriminator 2) may follow
        line[strspn(line, "0123456789")] = 0;
        fprintf(out, "%s%s (%s)", ftell(out) ? ", from " : "", at, function);
        goes_on = strstr(at, ".h:") != NULL;
    }
    if (ftell(out) == 0)
        fprintf(out, "a place that addr2line does not name; it needs a program built with -g");
    if (lines)
        pclose(lines);
    fclose(out);
    return text;
}

const char *cpu_describe_place(const struct cpu_place *place) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct cpu_place *kept = (struct cpu_place *)place; // no place is really const
    pthread_mutex_lock(&lock);
    if (!kept->text)
        kept->text = describe(place);
    pthread_mutex_unlock(&lock);
    return kept->text;
}
