// Command-line options, described by tables: --name VALUE or --name=VALUE, and --name alone for a
// flag. Users may type _ instead of - in a name.
#pragma once
#include <stddef.h>

enum option_type {
    OPTION_INT,
    OPTION_REAL,
    OPTION_TEXT,
    OPTION_FLAG,
    OPTION_CHOICE,
    OPTION_REST, // the last row of a table
    // Added to a type:
    OPTION_LOCAL = 8,    // the processes of a run may have different values
    OPTION_CHANGES = 16, // another value changes the losses
    OPTION_OUTPUT = 32,  // a file that the program writes, so no other option may name it
    OPTION_OPEN = 64     // a text that need not be one of the choices
};

struct option_spec {
    const char *name; // without the dashes
    enum option_type type;
    void *value; // long, double, const char * (into argv or to the default), long (1 if given),
                 // long (the number of the chosen word), or char ** (argv from the first word
                 // without a -)
    const char *fallback; // the default, as users type it; NULL keeps the value. The default of a
                          // number may be a word, which users may type, too. It sets an OPTION_INT
                          // to 0, and an OPTION_REAL to NAN.
    double min, max;      // of numbers, inclusive
    const char *help;
    // Returns word i of a list that --help shows after help, or NULL after the last one. A text or
    // an OPTION_CHOICE must be one of these words.
    const char *(*choice)(int i);
    // The option has an effect only if the option used_by has one of these values or, without
    // values here, is given. NULL: always.
    const char *used_by, *used_with[4];
};

struct option_table {
    const char *title; // printed above these options by --help, or NULL
    const struct option_spec *options;
};

// Adds a table for code that the program does not name. It counts in programs that have the options
// of all steps (training_options), or in all programs if beside is NULL, and must stay valid. Call
// it before options_parse.
void options_add(const struct option_table *table, const struct option_spec *beside);

// Sets the values in all tables to their defaults, and then to those of the command line. With
// --help or -h, prints the summary and the tables, the last one first, and exits with 0; with
// --help all, also those of options_add. With --version, prints that of the course, and exits with
// 0. After a mistake, prints one line on stderr and exits with 2. An empty row ends a table, and an
// empty table ends the list. An OPTION_REST allows words without a - after the options, or any
// words after --. Its name describes them in --help. The functions below are about the same tables.
//
// A program that exits with 0, but could not write all of its output to stdout, prints one line on
// stderr and exits with 1.
void options_parse(const struct option_table *tables, const char *summary, int argc, char **argv);

// Returns 1 if the word is an option of the tables, such as --batch or --batch=64.
int is_option(const char *word);

// Adds a text such as "--batch 128, --seed 1", which lists all options that have a value and are
// not OPTION_LOCAL. Cuts the text if it does not fit.
void options_list(char *text, size_t size);

// Adds a text such as ", --dropout 0.2, --tf32 1", which lists all OPTION_CHANGES whose value is
// not the default. Cuts the text if it does not fit.
void options_list_changes(char *text, size_t size);

// Finds the first part in which two such texts differ. Returns where it begins in both.
size_t options_difference(const char *a, const char *b);

// Two arguments for "%.*s", which print one part.
#define OPTION_PART(part) option_length(part), part
int option_length(const char *part);

// Prints a note such as "--rho 0.5 (only for --optimizer adadelta)", which lists all options that
// do not have their defaults, and have no effect, because the option in used_by has another value.
void print_unused(void);

// Prints one line on stderr, with error_origin() if error_name is set, and exits with 2.
__attribute__((noreturn, format(printf, 1, 2))) void wrong_usage(const char *format, ...);
