#include "common/base/options.h"
#include "common/base/error.h"
#include "common/base/minmax.h"
#include "common/base/say.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERSION "1.0" // that of CITATION.cff and CHANGELOG.md

void wrong_usage(const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    // A single write does not mix with the lines of other processes on the same terminal.
    fprintf(stderr, "error%s%s%s: %s; --help lists the options\n", *error_name ? " (" : "",
            *error_name ? error_origin() : "", *error_name ? ")" : "", message);
    exit(2);
}

enum { MOST_ADDED = 4, MOST_OPTIONS = 128 };
static struct added {
    const struct option_table *table;
    const struct option_spec *beside;
} added[MOST_ADDED];
static int added_count;

// The rows of all tables of this program: first those of options_add.
static struct option {
    const struct option_spec *spec;
    const char *text; // the value, as users type it; NULL: none
    char number[24];  // room for text
} options[MOST_OPTIONS];
static int option_count;
static const struct option_spec *rest; // the OPTION_REST, which is no row of options, or NULL

void options_add(const struct option_table *table, const struct option_spec *beside) {
    if (added_count == MOST_ADDED)
        fail("too many tables of options: raise MOST_ADDED in %s", __FILE__);
    added[added_count++] = (struct added){table, beside};
}

static enum option_type type_of(const struct option_spec *o) {
    return o->type & 7; // the bits of OPTION_LOCAL and so on are above these
}

static void add_rows(const struct option_table *table) {
    for (const struct option_spec *o = table->options; o->name; o++) {
        if (type_of(o) == OPTION_REST) {
            rest = o;
            continue;
        }
        if (option_count == MOST_OPTIONS)
            fail("too many options: raise MOST_OPTIONS in %s", __FILE__);
        options[option_count++] = (struct option){o, type_of(o) == OPTION_FLAG ? "0" : NULL, ""};
    }
}

// Returns 1 if a program with these tables has the added one.
static int is_used(const struct added *a, const struct option_table *tables) {
    while (a->beside && tables->options && tables->options != a->beside)
        tables++;
    return !a->beside || tables->options;
}

// Returns a text such as "sgd, adam, adamw", or "" without choices. The next call overwrites it.
static const char *choices(const struct option_spec *o) {
    static char text[256];
    *text = 0;
    for (int i = 0; o->choice && o->choice(i); i++)
        add_text(text, sizeof text, "%s%s", i > 0 ? ", " : "", o->choice(i));
    return text;
}

// Returns a text such as "only for --optimizer adam or adamw". The next call overwrites it.
static const char *condition(const struct option_spec *o) {
    static char text[128];
    snprintf(text, sizeof text, "only for --%s", o->used_by);
    for (int i = 0; o->used_with[i]; i++) {
        const char *before = i == 0 ? " " : o->used_with[i + 1] ? ", " : " or ";
        add_text(text, sizeof text, "%s%s", before, o->used_with[i]);
    }
    return text;
}

static void print_table(const struct option_table *t) {
    printf("\n%s%s", t->title ? t->title : "", t->title ? ":\n" : "");
    for (const struct option_spec *o = t->options; o->name && o != rest; o++) {
        printf("  --%-16s %s%s%s", o->name, o->help, o->choice ? ": " : "", choices(o));
        if (o->used_by)
            printf(" [%s]", condition(o));
        if (o->fallback && *o->fallback)
            printf(" (%s)", o->fallback);
        putchar('\n');
    }
}

// all 1: also prints the tables of options_add.
__attribute__((noreturn)) static void
print_help(const struct option_table *tables, const char *program, const char *summary, int all) {
    printf("usage: %s [options]%s%s\n%s\n", program, rest ? " " : "", rest ? rest->name : "",
           summary);
    const struct option_table *t = tables;
    while (t->options)
        t++;
    while (t-- > tables)
        print_table(t);
    puts("  --help (or -h)     prints this list, with defaults in parentheses");
    puts("  --version          prints the version of the course");
    const char *more = "--help all";
    for (struct added *a = added; a < added + added_count; a++) {
        if (!is_used(a, tables))
            continue;
        if (all)
            print_table(a->table);
        else
            printf("  %-18s also prints the %s\n", more, a->table->title);
        more = "";
    }
    exit(0);
}

static void set_word(const struct option_spec *o, const char *word) {
    int i = 0;
    while (o->choice && o->choice(i) && strcmp(o->choice(i), word))
        i++;
    if (o->choice && !o->choice(i) && !(o->type & OPTION_OPEN))
        wrong_usage("--%s %s: want one of: %s", o->name, word, choices(o));
    if (type_of(o) == OPTION_CHOICE)
        *(long *)o->value = i;
    else
        *(const char **)o->value = word;
}

static void set_value(struct option *option, const char *text) {
    const struct option_spec *o = option->spec;
    int is_int = type_of(o) == OPTION_INT;
    option->text = text;
    if (type_of(o) == OPTION_TEXT || type_of(o) == OPTION_CHOICE) {
        set_word(o, text);
        return;
    }
    char *end;
    double number = is_int ? (double)strtol(text, &end, 10) : strtod(text, &end);
    if (end == text && o->fallback && !strcmp(text, o->fallback)) {
        number = is_int ? 0 : NAN; // a real 0 may be a value of its own
    } else {
        if (end == text || *end)
            wrong_usage("--%s %s: want a %s", o->name, text, is_int ? "whole number" : "number");
        if (!(number >= o->min && number <= o->max)) // this form also refuses NaN
            wrong_usage("--%s %s: want a number from %.10g to %.10g", o->name, text, o->min,
                        o->max);
        snprintf(option->number, sizeof option->number, "%.15g", number);
        option->text = option->number;
    }
    if (is_int)
        *(long *)o->value = (long)number;
    else
        *(double *)o->value = number;
}

// Returns 1 if the name equals the first length letters of typed.
static int is_name(const char *name, const char *typed, size_t length) {
    size_t i = 0;
    while (i < length && name[i] && (name[i] == typed[i] || (name[i] == '-' && typed[i] == '_')))
        i++;
    return i == length && !name[i];
}

// Returns the option whose name has this length and begins at typed, or NULL.
static struct option *find_option(const char *typed, size_t length) {
    for (int i = 0; i < option_count; i++)
        if (is_name(options[i].spec->name, typed, length))
            return &options[i];
    return NULL;
}

int is_option(const char *word) {
    return !strncmp(word, "--", 2) && find_option(word + 2, strcspn(word + 2, "="));
}

// An option is meant whose name begins with the typed name, or with which the typed name begins.
__attribute__((noreturn)) static void refuse_unknown(const char *argument, const char *typed,
                                                     size_t length) {
    for (int i = 0; i < option_count && length > 0; i++) {
        const char *name = options[i].spec->name;
        if (!strncmp(name, typed, min_size(length, strlen(name))))
            wrong_usage("unknown option %s, but there is --%s", argument, name);
    }
    wrong_usage("unknown option %s", argument);
}

static void check_outputs(void) {
    for (const struct option *b = options; b < options + option_count; b++)
        for (const struct option *a = options; a < b; a++)
            if (a->spec->type & b->spec->type & OPTION_OUTPUT && a->text && b->text &&
                !strcmp(a->text, b->text))
                wrong_usage("--%s and --%s name the same file, %s", a->spec->name, b->spec->name,
                            a->text);
}

// No file stays open whose errors could be reported later.
static void check_stdout(int code, void *unused) {
    (void)unused;
    if (code == 0 && (fflush(stdout) | ferror(stdout))) {
        fprintf(stderr, "error (%s): cannot write all of the output to stdout: is the disk full?\n",
                error_origin());
        _exit(1);
    }
}

void options_parse(const struct option_table *tables, const char *summary, int argc, char **argv) {
    on_exit(check_stdout, NULL);
    option_count = 0;
    rest = NULL;
    for (struct added *a = added; a < added + added_count; a++)
        if (is_used(a, tables))
            add_rows(a->table);
    for (const struct option_table *t = tables; t->options; t++)
        add_rows(t);
    for (int i = 0; i < option_count; i++)
        if (options[i].spec->fallback)
            set_value(&options[i], options[i].spec->fallback);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            print_help(tables, argv[0], summary, i + 1 < argc && !strcmp(argv[i + 1], "all"));
        if (!strcmp(argv[i], "--version")) {
            puts("Distributed training in C " VERSION);
            exit(0);
        }
        int end = !strcmp(argv[i], "--");
        if (rest && (argv[i][0] != '-' || end)) {
            *(char ***)rest->value = argv + i + end;
            return;
        }
        const char *typed = strncmp(argv[i], "--", 2) ? "" : argv[i] + 2;
        const char *equals = strchr(typed, '=');
        size_t length = strcspn(typed, "=");
        struct option *option = find_option(typed, length);
        if (!option)
            refuse_unknown(argv[i], typed, length);
        const struct option_spec *o = option->spec;
        if (type_of(o) == OPTION_FLAG) {
            if (equals)
                wrong_usage("--%s takes no value", o->name);
            *(long *)o->value = 1;
            option->text = "1";
            continue;
        }
        const char *text = equals ? equals + 1 : i + 1 < argc ? argv[++i] : "";
        if (!*text)
            wrong_usage("--%s needs a value", o->name);
        set_value(option, text);
    }
    check_outputs();
}

static int is_changed(const struct option *o) {
    return o->text && (!o->spec->fallback || strcmp(o->text, o->spec->fallback) != 0);
}

void options_list(char *text, size_t size) {
    const char *comma = "";
    for (const struct option *o = options; o < options + option_count; o++)
        if (!(o->spec->type & OPTION_LOCAL) && o->text) {
            add_text(text, size, "%s--%s %s", comma, o->spec->name, o->text);
            comma = ", ";
        }
}

void options_list_changes(char *text, size_t size) {
    for (const struct option *o = options; o < options + option_count; o++)
        if (o->spec->type & OPTION_CHANGES && is_changed(o))
            add_text(text, size, ", --%s %s", o->spec->name, o->text);
}

size_t options_difference(const char *a, const char *b) {
    size_t part = 0;
    for (size_t k = 0; a[k] && a[k] == b[k]; k++)
        if (k > 0 && a[k - 1] == ',' && a[k] == ' ')
            part = k + 1;
    return part;
}

int option_length(const char *part) {
    const char *end = strstr(part, ", ");
    return end ? end - part : (int)strlen(part);
}

static int has_effect(const struct option_spec *o) {
    const char *value = find_option(o->used_by, strlen(o->used_by))->text;
    int i = 0;
    while (value && o->used_with[i] && strcmp(o->used_with[i], value))
        i++;
    return value && (o->used_with[i] || !o->used_with[0]);
}

void print_unused(void) {
    char text[512] = "";
    for (const struct option *o = options; o < options + option_count; o++)
        if (o->spec->used_by && is_changed(o) && !has_effect(o->spec))
            add_text(text, sizeof text, "%s--%s %s (%s)", *text ? ", " : "", o->spec->name, o->text,
                     condition(o->spec));
    if (*text)
        say("note      without effect: %s\n", text);
}
