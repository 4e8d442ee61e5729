// A table of command-line options: --name VALUE or --name=VALUE, and --name alone for a flag. A _
// in a name may be typed for a -.
#pragma once
#include <stddef.h>

enum option_type { OPTION_INT, OPTION_REAL, OPTION_TEXT, OPTION_FLAG, OPTION_REST };

struct option_spec {
    const char *name; // without the dashes
    enum option_type type;
    void *value; // long, double, const char * (into argv or to the default), long (1 if given),
                 // or char ** (the part of argv that begins with the first word without a -)
    const char
        *fallback;   // the default, as it would be typed; NULL: the value stays as it is. Of an
                     // OPTION_INT it may be a word, which may be typed too and stands for 0.
    double min, max; // of numbers, both allowed
    const char *help;
};

// Fills the values from the defaults and then the command line. --help prints summary and the table
// and exits with 0; a mistake prints one line on stderr and exits with 2. An OPTION_REST, in the
// last row, says that words without a - may follow the options, or anything after --, and its name
// what they are.
void options_parse(const struct option_spec *table, size_t count, const char *summary, int argc,
                   char **argv);

// One line on stderr and exit code 2.
__attribute__((noreturn, format(printf, 1, 2))) void wrong_usage(const char *format, ...);
