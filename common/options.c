#include "options.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wrong_usage(const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    // In one write, so that lines of other processes on the same screen stay whole.
    fprintf(stderr, "error: %s; --help lists the options\n", message);
    exit(2);
}

__attribute__((noreturn)) static void print_help(const struct option_spec *table, size_t count,
                                                 const char *program, const char *summary) {
    const struct option_spec *last = table + count - 1;
    int rest = last->type == OPTION_REST;
    printf("usage: %s [options]%s%s\n%s\n\n", program, rest ? " " : "", rest ? last->name : "",
           summary);
    for (const struct option_spec *o = table; o < table + count - rest; o++)
        printf("  --%-16s %s (%s)\n", o->name, o->help, o->fallback ? o->fallback : "none");
    puts("  --help             this list, with defaults in parentheses");
    exit(0);
}

static void set_value(const struct option_spec *o, const char *text) {
    if (o->type == OPTION_TEXT) {
        *(const char **)o->value = text;
        return;
    }
    char *end;
    double number = o->type == OPTION_INT ? (double)strtol(text, &end, 10) : strtod(text, &end);
    if (end == text && o->fallback && !strcmp(text, o->fallback)) {
        *(long *)o->value = 0;
        return;
    }
    if (end == text || *end)
        wrong_usage("--%s %s: want a %s", o->name, text,
                    o->type == OPTION_INT ? "whole number" : "number");
    if (!(number >= o->min && number <= o->max)) // written so that NaN fails too
        wrong_usage("--%s %s: want a number from %.10g to %.10g", o->name, text, o->min, o->max);
    if (o->type == OPTION_INT)
        *(long *)o->value = (long)number;
    else
        *(double *)o->value = number;
}

// Is it the first length letters of typed?
static int is_name(const char *name, const char *typed, size_t length) {
    size_t i = 0;
    while (i < length && name[i] && (name[i] == typed[i] || (name[i] == '-' && typed[i] == '_')))
        i++;
    return i == length && !name[i];
}

void options_parse(const struct option_spec *table, size_t count, const char *summary, int argc,
                   char **argv) {
    for (const struct option_spec *o = table; o < table + count; o++)
        if (o->fallback)
            set_value(o, o->fallback);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help"))
            print_help(table, count, argv[0], summary);
        int end = !strcmp(argv[i], "--");
        if ((argv[i][0] != '-' || end) && table[count - 1].type == OPTION_REST) {
            *(char ***)table[count - 1].value = argv + i + end;
            return;
        }
        const char *name = strncmp(argv[i], "--", 2) ? "" : argv[i] + 2;
        size_t length = strcspn(name, "=");
        const struct option_spec *o = table;
        while (o < table + count && !is_name(o->name, name, length))
            o++;
        if (o == table + count || o->type == OPTION_REST)
            wrong_usage("unknown option %s", argv[i]);
        if (o->type == OPTION_FLAG) {
            if (name[length])
                wrong_usage("--%s takes no value", o->name);
            *(long *)o->value = 1;
            continue;
        }
        const char *text = name[length] == '=' ? name + length + 1 : i + 1 < argc ? argv[++i] : "";
        if (!*text)
            wrong_usage("--%s needs a value", o->name);
        set_value(o, text);
    }
}
