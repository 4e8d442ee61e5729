// A table of command-line options: --name VALUE or --name=VALUE.
#pragma once
#include <stddef.h>

enum option_type {
    OPTION_INT,  // value points to a long
    OPTION_REAL, // double
    OPTION_TEXT, // const char *; points into argv afterwards
};

struct option_spec {
    const char *name; // without the dashes
    enum option_type type;
    void *value; // holds the default beforehand
    const char *help;
    double min, max; // of numbers, both allowed
};

// Fills the values from the command line. --help prints summary and the table and exits with 0; a
// mistake prints one line on stderr and exits with 2.
void options_parse(const struct option_spec *table, size_t count, const char *summary, int argc, char **argv);
