#include "options.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wrong_usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("; --help lists the options\n", stderr);
    va_end(arguments);
    exit(2);
}

__attribute__((noreturn)) static void print_help(const struct option_spec *table, size_t count,
                                                 const char *program, const char *summary) {
    printf("usage: %s [options]\n%s\n\n", program, summary);
    for (const struct option_spec *o = table; o < table + count; o++)
        printf("  --%-12s %s (%s)\n", o->name, o->help, o->fallback ? o->fallback : "none");
    puts("  --help         this list, with defaults in parentheses");
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
        wrong_usage("--%s %s: want a %s", o->name, text, o->type == OPTION_INT ? "whole number" : "number");
    if (!(number >= o->min && number <= o->max)) // written so that NaN fails too
        wrong_usage("--%s %s: want a number from %.10g to %.10g", o->name, text, o->min, o->max);
    if (o->type == OPTION_INT)
        *(long *)o->value = (long)number;
    else
        *(double *)o->value = number;
}

void options_parse(const struct option_spec *table, size_t count, const char *summary, int argc,
                   char **argv) {
    for (const struct option_spec *o = table; o < table + count; o++)
        if (o->fallback)
            set_value(o, o->fallback);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help"))
            print_help(table, count, argv[0], summary);
        const char *name = strncmp(argv[i], "--", 2) ? "" : argv[i] + 2;
        size_t length = strcspn(name, "=");
        const struct option_spec *o = table;
        while (o < table + count && (strlen(o->name) != length || strncmp(o->name, name, length)))
            o++;
        if (o == table + count)
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
