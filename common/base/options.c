#include "common/base/options.h"
#include "common/base/error.h"
#include <ctype.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static enum option_type type_of(const struct option_spec *o) {
    return o->type & ~(OPTION_LOCAL | OPTION_CHANGES | OPTION_OUTPUT | OPTION_OPEN);
}

// Returns the option after o in the tables, where t is the table of o, or NULL at the end. Start
// with o = NULL.
static const struct option_spec *next_option(const struct option_table **t,
                                             const struct option_spec *o) {
    o = o ? o + 1 : (*t)->options;
    while (o && !o->name)
        o = (++*t)->options;
    return o;
}

static const struct option_spec *find_rest(const struct option_table *tables) {
    const struct option_spec *o = NULL;
    while ((o = next_option(&tables, o)) && type_of(o) != OPTION_REST)
        ;
    return o;
}

// Returns a text such as "sgd, adam, adamw", or "" without choices. The next call overwrites
// it.
static const char *choices(const struct option_spec *o) {
    static char text[256];
    size_t used = 0;
    *text = 0;
    for (int i = 0; o->choice && o->choice(i) && used < sizeof text; i++)
        used += snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? ", " : "", o->choice(i));
    return text;
}

// Returns word i of the choices without what stands before " for ", such as "sgd" of "0.05 for
// sgd", or NULL after the last one.
static const char *user(const struct option_spec *o, int i) {
    const char *word = o->choice(i);
    return word ? strstr(word, " for ") + strlen(" for ") : NULL;
}

// Returns used_by as users type it, such as "--optimizer adam or adamw". The next call overwrites
// it.
static const char *cause_of(const struct option_spec *o) {
    static char text[256];
    int name = strcspn(o->used_by, "=");
    const char *values = o->used_by + name;
    size_t used = snprintf(text, sizeof text, "--%.*s%s%s", name, o->used_by, *values ? " " : "",
                           *values ? values + 1 : "");
    for (int i = 0; !strcmp(values, "=") && user(o, i); i++) {
        const char *before = i == 0 ? "" : user(o, i + 1) ? ", " : " or ";
        used += snprintf(text + used, sizeof text - used, "%s%s", before, user(o, i));
    }
    return text;
}

static void print_option_help(const struct option_spec *o) {
    printf("  --%-16s %s%s%s", o->name, o->help, o->choice ? ": " : "", choices(o));
    if (o->used_by)
        printf(" [only for %s]", cause_of(o));
    if (o->fallback && *o->fallback)
        printf(" (%s)", o->fallback);
    putchar('\n');
}

__attribute__((noreturn)) static void print_help(const struct option_table *tables,
                                                 const char *program, const char *summary) {
    const struct option_spec *rest = find_rest(tables);
    printf("usage: %s [options]%s%s\n%s\n", program, rest ? " " : "", rest ? rest->name : "",
           summary);
    const struct option_table *t = tables;
    while (t->options)
        t++;
    while (t-- > tables) {
        printf("\n%s%s", t->title ? t->title : "", t->title ? ":\n" : "");
        for (const struct option_spec *o = t->options; o->name; o++)
            if (o != rest)
                print_option_help(o);
    }
    puts("  --help (or -h)     prints this list, with defaults in parentheses");
    exit(0);
}

static void set_value(const struct option_spec *o, const char *text) {
    if (type_of(o) == OPTION_TEXT || type_of(o) == OPTION_CHOICE) {
        int i = 0;
        while (o->choice && o->choice(i) && strcmp(o->choice(i), text))
            i++;
        if (o->choice && !o->choice(i) && !(o->type & OPTION_OPEN))
            wrong_usage("--%s %s: want one of: %s", o->name, text, choices(o));
        if (type_of(o) == OPTION_CHOICE)
            *(long *)o->value = i;
        else
            *(const char **)o->value = text;
        return;
    }
    char *end;
    double number = type_of(o) == OPTION_INT ? (double)strtol(text, &end, 10) : strtod(text, &end);
    if (end == text && o->fallback && !strcmp(text, o->fallback)) {
        if (type_of(o) == OPTION_INT)
            *(long *)o->value = 0;
        else
            *(double *)o->value = NAN; // 0 may be a value of its own
        return;
    }
    if (end == text || *end)
        wrong_usage("--%s %s: want a %s", o->name, text,
                    type_of(o) == OPTION_INT ? "whole number" : "number");
    if (!(number >= o->min && number <= o->max)) // this form also refuses NaN
        wrong_usage("--%s %s: want a number from %.10g to %.10g", o->name, text, o->min, o->max);
    if (type_of(o) == OPTION_INT)
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

// Returns the option with this name. typed begins behind the dashes, and may end with =VALUE.
static const struct option_spec *find_option(const struct option_table *tables, const char *typed) {
    const struct option_spec *o = NULL;
    while ((o = next_option(&tables, o)) &&
           (type_of(o) == OPTION_REST || !is_name(o->name, typed, strcspn(typed, "="))))
        ;
    return o;
}

// Returns an option whose name begins with the typed name, or with which the typed name begins.
// Returns NULL if there is none.
static const struct option_spec *find_similar(const struct option_table *tables,
                                              const char *typed) {
    const struct option_spec *o = NULL;
    size_t length = strcspn(typed, "=");
    while ((o = next_option(&tables, o)))
        if (length && type_of(o) != OPTION_REST &&
            (!strncmp(o->name, typed, length) || !strncmp(o->name, typed, strlen(o->name))))
            break;
    return o;
}

// Returns 1 if both paths lead to the same file, which need not exist. Devices may be shared.
static int is_same_file(const char *a, const char *b) {
    struct stat of[2];
    const char *paths[2] = {a, b};
    char copy[PATH_MAX], names[2][PATH_MAX];
    int found = !stat(a, &of[0]) + !stat(b, &of[1]);
    for (int i = 0; i < 2 && found == 0; i++) {
        snprintf(copy, sizeof copy, "%s", paths[i]);
        snprintf(names[i], sizeof names[i], "%s", basename(copy));
        snprintf(copy, sizeof copy, "%s", paths[i]);
        if (stat(dirname(copy), &of[i]))
            return 0; // opening it fails later
    }
    int same = of[0].st_dev == of[1].st_dev && of[0].st_ino == of[1].st_ino;
    return found == 0 ? same && !strcmp(names[0], names[1])
                      : found == 2 && same && S_ISREG(of[0].st_mode);
}

static void check_outputs(const struct option_table *tables) {
    const struct option_table *t = tables, *u;
    for (const struct option_spec *a = NULL, *b; (a = next_option(&t, a));)
        for (b = a, u = t; a->type & OPTION_OUTPUT && (b = next_option(&u, b));) {
            const char *one = *(const char **)a->value;
            const char *other = b->type & OPTION_OUTPUT ? *(const char **)b->value : NULL;
            if (one && other && is_same_file(one, other))
                wrong_usage("--%s and --%s name the same file, %s", a->name, b->name, one);
        }
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
    const struct option_table *t = tables;
    on_exit(check_stdout, NULL);
    for (const struct option_spec *o = NULL; (o = next_option(&t, o));)
        if (o->fallback)
            set_value(o, o->fallback);
    const struct option_spec *rest = find_rest(tables);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            print_help(tables, argv[0], summary);
        int end = !strcmp(argv[i], "--");
        if (rest && (argv[i][0] != '-' || end)) {
            *(char ***)rest->value = argv + i + end;
            return;
        }
        const char *typed = strncmp(argv[i], "--", 2) ? "" : argv[i] + 2;
        const char *equals = strchr(typed, '=');
        const struct option_spec *o = find_option(tables, typed);
        if (!o && (o = find_similar(tables, typed)))
            wrong_usage("unknown option %s, but there is --%s", argv[i], o->name);
        if (!o)
            wrong_usage("unknown option %s", argv[i]);
        if (type_of(o) == OPTION_FLAG) {
            if (equals)
                wrong_usage("--%s takes no value", o->name);
            *(long *)o->value = 1;
            continue;
        }
        const char *text = equals ? equals + 1 : i + 1 < argc ? argv[++i] : "";
        if (!*text)
            wrong_usage("--%s needs a value", o->name);
        set_value(o, text);
    }
    check_outputs(tables);
}

static const char *word_of(const struct option_spec *o) {
    return type_of(o) == OPTION_CHOICE ? o->choice(*(long *)o->value) : *(const char **)o->value;
}

// Writes the option as users type it.
static size_t print_option(char *text, size_t size, const struct option_spec *o) {
    if (type_of(o) == OPTION_TEXT || type_of(o) == OPTION_CHOICE)
        return snprintf(text, size, "--%s %s", o->name, word_of(o));
    double number = type_of(o) == OPTION_REAL ? *(double *)o->value : *(long *)o->value;
    int is_word = type_of(o) == OPTION_REAL ? isnan(number) : number == 0;
    if (is_word && o->fallback && !isdigit(*o->fallback))
        return snprintf(text, size, "--%s %s", o->name, o->fallback);
    return snprintf(text, size, "--%s %.15g", o->name, number);
}

size_t options_list(const struct option_table *tables, char *text, size_t size) {
    size_t used = 0;
    *text = 0;
    for (const struct option_spec *o = NULL; (o = next_option(&tables, o));) {
        int has_value = type_of(o) != OPTION_TEXT || *(const char **)o->value;
        if (o->type & OPTION_LOCAL || type_of(o) == OPTION_REST || !has_value)
            continue;
        if (used > 0 && used < size)
            used += snprintf(text + used, size - used, ", ");
        if (used < size)
            used += print_option(text + used, size - used, o);
    }
    return used < size ? used : size - 1;
}

// Returns 1 if the option does not have its default.
static int is_changed(const struct option_spec *o, const char *now) {
    char usual[256];
    snprintf(usual, sizeof usual, "--%s %s", o->name, o->fallback);
    return strcmp(now, usual) != 0;
}

void options_list_changes(const struct option_table *tables, char *text, size_t size) {
    char now[256];
    size_t used = 0;
    *text = 0;
    for (const struct option_spec *o = NULL; (o = next_option(&tables, o));) {
        if (!(o->type & OPTION_CHANGES))
            continue;
        print_option(now, sizeof now, o);
        if (is_changed(o, now) && used < size)
            used += snprintf(text + used, size - used, ", %s", now);
    }
}

// Returns 1 if the option in used_by has one of the values there, or, without values there, is
// given.
static int has_effect(const struct option_table *tables, const struct option_spec *o) {
    const char *value = word_of(find_option(tables, o->used_by)), *cause = cause_of(o);
    if (!value || !strchr(o->used_by, '='))
        return value != NULL;
    size_t length = strcspn(value, ":");
    while ((cause = strchr(cause, ' '))) // a whole word, not a part of one, such as adam of adamw
        if (!strncmp(++cause, value, length) && strchr(", ", cause[length]))
            return 1;
    return 0;
}

void options_list_unused(const struct option_table *tables, char *text, size_t size) {
    char now[256];
    size_t used = 0;
    const struct option_table *t = tables;
    *text = 0;
    for (const struct option_spec *o = NULL; (o = next_option(&t, o));) {
        if (!o->used_by || has_effect(tables, o))
            continue;
        print_option(now, sizeof now, o);
        if (is_changed(o, now) && used < size)
            used += snprintf(text + used, size - used, "%s%s (only for %s)", used > 0 ? ", " : "",
                             now, cause_of(o));
    }
}
