// Tests of the option parser. Calls that end the program run in a child process.
#include "common/base/options.h"
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h> // wants the headers above first

static long color, count, big, workers, quick, nice_value;
static double rate, speed;
static const char *title, *name, *file, *folder, *paint;

static const char *color_name(int i) {
    static const char *const colors[] = {"red", "dark green", "blue", NULL};
    return colors[i];
}

static const struct option_spec table[] = {
    {"count", OPTION_INT, &count, "3", 1, 100, "how many"},
    {"big", OPTION_INT, &big, "0", -5, 1e12, "how many more"},
    {"rate", OPTION_REAL, &rate, "0.5", 0, 1, "how fast"},
    {"title", OPTION_TEXT | OPTION_CHANGES, &title, "plain", 0, 0, "what to call it"},
    {"name", OPTION_TEXT, &name, "", 0, 0, "what others call it"},
    {"file", OPTION_TEXT, &file, NULL, 0, 0, "where to put it"},
    {"workers", OPTION_INT, &workers, "all", 1, 64, "who does it, or: all"},
    {"speed", OPTION_REAL | OPTION_CHANGES, &speed, "usual", 0, 9, "how fast, 0: not at all"},
    {0},
};

static const struct option_spec more[] = {
    {"quick", OPTION_FLAG, &quick, NULL, 0, 0, "do less"},
    {"folder", OPTION_TEXT | OPTION_LOCAL | OPTION_OPEN, &folder, "here", 0, 0, "where to work, or",
     color_name},
    {"color", OPTION_CHOICE | OPTION_LOCAL | OPTION_CHANGES, &color, "blue", 0, 0, "which color",
     color_name},
    {"paint", OPTION_TEXT | OPTION_LOCAL, &paint, "red", 0, 0, "which paint", color_name},
    {"nice", OPTION_INT | OPTION_LOCAL, &nice_value, "5", 0, 19, "how patient it is",
     .used_by = "color=dark green or blue"},
    {0},
};

static const struct option_table tables[] = {{"first", table}, {"more of them", more}, {0}};

enum { MOST_ARGUMENTS = 8, RETURNED = 100 };

static void parse(const char *const *arguments) {
    char *argv[MOST_ARGUMENTS + 2] = {(char *)"program"};
    int argc = 1;
    while (arguments[argc - 1]) {
        argv[argc] = (char *)arguments[argc - 1];
        argc++;
    }
    options_parse(tables, "Does nothing.", argc, argv);
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static struct {
    int status;
    char out[4096], err[4096];
} child;

static void read_back(int from, char text[4096]) {
    ssize_t size = pread(from, text, 4095, 0);
    assert_true(size >= 0 && size < 4095); // all of it
    text[size] = 0;
    close(from);
}

static void parse_in_child(const char *const *arguments) {
    int out = memfd_create("out", 0), err = memfd_create("err", 0);
    fflush(NULL); // or the child's exit would write it once more
    pid_t pid = fork();
    if (pid == 0) {
        // Arguments are on the heap, so sanitizers detect a read past the end of one.
        const char *copies[MOST_ARGUMENTS + 1] = {NULL};
        for (int i = 0; arguments[i]; i++)
            copies[i] = strdup(arguments[i]);
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        parse(copies);
        _exit(RETURNED);
    }
    assert_true(out >= 0 && err >= 0 && pid > 0);
    assert_int_equal(waitpid(pid, &child.status, 0), pid);
    read_back(out, child.out);
    read_back(err, child.err);
}

#define PARSE_IN_CHILD(...) parse_in_child((const char *const[]){__VA_ARGS__, NULL})

static int exited_with(int code) {
    return WIFEXITED(child.status) && WEXITSTATUS(child.status) == code;
}

static void options_have_defaults(void **state) {
    const char *const none[] = {NULL};
    (void)state;
    count = big = -1;
    rate = -1;
    title = NULL;
    file = "untouched"; // without a default the value stays as it is
    parse(none);
    assert_int_equal(count, 3);
    assert_int_equal(big, 0);
    assert_true(rate == 0.5);
    assert_string_equal(title, "plain");
    assert_string_equal(file, "untouched");
}

static void values_follow_a_blank_or_an_equals_sign(void **state) {
    (void)state;
    PARSE("--count", "7", "--rate", "0.25", "--title", "a b", "--file", "x=y");
    assert_int_equal(count, 7);
    assert_true(rate == 0.25);
    assert_string_equal(title, "a b");
    assert_string_equal(file, "x=y");
    assert_int_equal(big, 0); // as none was given
    PARSE("--count=8", "--rate=1e-3", "--title==", "--file=--count=9");
    assert_int_equal(count, 8);
    assert_true(rate == 1e-3);
    assert_string_equal(title, "=");
    assert_string_equal(file, "--count=9");
}

static void a_word_may_stand_for_a_number(void **state) {
    (void)state;
    PARSE("--workers", "5");
    assert_int_equal(workers, 5);
    PARSE("--workers", "5", "--workers=all");
    assert_int_equal(workers, 0);
    workers = 7;
    PARSE("--count", "1");
    assert_int_equal(workers, 0);
    assert_true(isnan(speed)); // not 0, which users may mean
    PARSE("--speed", "0");
    assert_true(speed == 0);
    PARSE("--speed", "0", "--speed", "usual");
    assert_true(isnan(speed));
}

static void a_flag_has_no_value(void **state) {
    (void)state;
    quick = 0;
    PARSE("--count", "7");
    assert_int_equal(quick, 0);
    PARSE("--quick", "--count", "8");
    assert_int_equal(quick, 1);
    assert_int_equal(count, 8);
}

static char **words;
static long dry_run;
static const struct option_spec with_words[] = {
    {"count", OPTION_INT, &count, "3", 1, 100, "how many"},
    {"dry-run", OPTION_FLAG, &dry_run, NULL, 0, 0, "do nothing"},
    {"program [arguments]", OPTION_REST, &words, NULL, 0, 0, "to run"},
    {0},
};
static const struct option_table launcher_tables[] = {{.options = with_words}, {0}};

static void words_may_follow_the_options(void **state) {
    char *argv[] = {"launcher", "--count", "7", "run", "--count", "8", "--nosuch", NULL};
    (void)state;
    options_parse(launcher_tables, "Runs a program.", 7, argv);
    assert_int_equal(count, 7);
    assert_ptr_equal(words, argv + 3);
    words = NULL;
    options_parse(launcher_tables, "Runs a program.", 3, argv);
    assert_null(words);
}

static void an_underscore_stands_for_a_dash(void **state) {
    char *argv[] = {"launcher", "--dry_run", NULL};
    (void)state;
    dry_run = 0;
    options_parse(launcher_tables, "Runs a program.", 2, argv);
    assert_int_equal(dry_run, 1);
    PARSE_IN_CHILD("--co_unt", "3");
    assert_true(exited_with(2));
}

static void the_last_value_wins(void **state) {
    (void)state;
    PARSE("--count", "7", "--title=a", "--count=8", "--title", "b", "--count", "9");
    assert_int_equal(count, 9);
    assert_string_equal(title, "b");
}

static void a_value_may_look_like_an_option(void **state) {
    (void)state;
    PARSE("--title", "--help", "--big", "-4", "--folder", "no color");
    assert_string_equal(title, "--help");
    assert_string_equal(folder, "no color"); // its choices are only examples
    assert_int_equal(big, -4);
}

static void bounds_are_allowed(void **state) {
    (void)state;
    errno = ERANGE; // left by somebody else
    PARSE("--count=1", "--big=-5", "--rate=0");
    assert_int_equal(count, 1);
    assert_int_equal(big, -5);
    assert_true(rate == 0);
    PARSE("--count=100", "--big=1000000000000", "--rate=1");
    assert_int_equal(count, 100);
    assert_int_equal(big, 1000000000000);
    assert_true(rate == 1);
}

static void a_value_is_one_of_several_words(void **state) {
    (void)state;
    PARSE("--count", "3");
    assert_int_equal(color, 2);
    assert_string_equal(paint, "red");
    for (int i = 0; color_name(i); i++) {
        PARSE("--color", color_name(i), "--paint", color_name(i));
        assert_int_equal(color, i);
        assert_string_equal(paint, color_name(i));
    }
}

static void mistakes_are_refused(void **state) {
    static const struct {
        const char *arguments[MOST_ARGUMENTS];
        const char *said;
    } cases[] = {
        {{"--nosuch", "1"}, "unknown option --nosuch;"},
        {{"--nosuch=1"}, "unknown option --nosuch=1;"},
        {{"--coun", "3"}, "unknown option --coun;"},
        {{"--counts", "3"}, "unknown option --counts;"},
        {{"--Count", "3"}, "unknown option --Count;"},
        {{"--help=1"}, "unknown option --help=1;"},
        {{"--", "3"}, "unknown option --;"},
        {{"--=3"}, "unknown option --=3;"},
        {{"-c", "3"}, "unknown option -c;"},
        {{"count=3"}, "unknown option count=3;"},
        {{"-"}, "unknown option -;"},
        {{""}, "unknown option ;"},
        {{"--count", "3", "4"}, "unknown option 4;"},
        {{"--count"}, "--count needs a value;"},
        {{"--count="}, "--count needs a value;"},
        {{"--title="}, "--title needs a value;"},
        {{"--title", ""}, "--title needs a value;"},
        {{"--title", "a", "--file"}, "--file needs a value;"},
        {{"--count", " "}, "--count  : want a whole number;"},
        {{"--count", "x"}, "--count x: want a whole number;"},
        {{"--count", "3x"}, "--count 3x: want a whole number;"},
        {{"--count", "3 "}, "--count 3 : want a whole number;"},
        {{"--count", "3.0"}, "--count 3.0: want a whole number;"},
        {{"--count", "1e1"}, "--count 1e1: want a whole number;"},
        {{"--count", "0x10"}, "--count 0x10: want a whole number;"},
        {{"--count", "--rate"}, "--count --rate: want a whole number;"},
        {{"--count", "0"}, "--count 0: want a number from 1 to 100;"},
        {{"--count=101"}, "--count 101: want a number from 1 to 100;"},
        {{"--count", "-1"}, "--count -1: want a number from 1 to 100;"},
        {{"--count", "18446744073709551617"},
         "--count 18446744073709551617: want a number from 1 to 100;"},
        {{"--count", "4294967297"}, "--count 4294967297: want a number from 1 to 100;"},
        {{"--big", "1000000000001"}, "--big 1000000000001: want a number from -5 to"},
        {{"--rate", "fast"}, "--rate fast: want a number;"},
        {{"--rate", "0.5x"}, "--rate 0.5x: want a number;"},
        {{"--rate", "0,5"}, "--rate 0,5: want a number;"},
        {{"--rate", "-0.1"}, "--rate -0.1: want a number from 0 to 1;"},
        {{"--rate", "1.0001"}, "--rate 1.0001: want a number from 0 to 1;"},
        {{"--rate", "nan"}, "--rate nan: want a number from 0 to 1;"},
        {{"--rate", "inf"}, "--rate inf: want a number from 0 to 1;"},
        {{"--rate", "-inf"}, "--rate -inf: want a number from 0 to 1;"},
        {{"--rate", "1e999"}, "--rate 1e999: want a number from 0 to 1;"},
        {{"--count", "all"}, "--count all: want a whole number;"}, // the word of another option
        {{"--workers", "al"}, "--workers al: want a whole number;"},
        {{"--workers", "alle"}, "--workers alle: want a whole number;"},
        {{"--speed", "usually"}, "--speed usually: want a number;"},
        {{"--speed", "nan"}, "--speed nan: want a number from 0 to 9;"},
        {{"--workers", "0"}, "--workers 0: want a number from 1 to 64;"},
        {{"--color", "green"}, "--color green: want one of: red, dark green, blue;"},
        {{"--paint", "green"}, "--paint green: want one of: red, dark green, blue;"},
        {{"--color", "re"}, "--color re: want one of: red,"},
        {{"--color=redder"}, "--color redder: want one of: red,"},
        {{"--quick", "1"}, "unknown option 1;"},
        {{"--quick=2"}, "--quick takes no value;"},
        {{"--count", "5", "--rate", "2", "--nosuch"}, "--rate 2: want"}, // the first of them
        {{"--nosuch", "--help"}, "unknown option --nosuch;"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parse_in_child(cases[i].arguments);
        const char *end = strchr(child.err, '\n');
        int one_line = end && !end[1];
        if (!exited_with(2) || child.out[0] || !one_line || strncmp(child.err, "error: ", 7) ||
            !strstr(child.err, cases[i].said))
            fail_msg("mistake %zu, which wants \"%s\": status %#x, stdout \"%s\", stderr \"%s\"", i,
                     cases[i].said, (unsigned)child.status, child.out, child.err);
    }
}

static void check_help_of(const struct option_spec *o) {
    for (; o->name; o++) {
        char name[64], text[64], fallback[64];
        snprintf(name, sizeof name, "\n  --%s ", o->name);
        snprintf(text, sizeof text, " %s", o->help);
        snprintf(fallback, sizeof fallback, "(%s)\n", o->fallback);
        const char *line = strstr(child.out, name);
        assert_non_null(line);
        const char *end = strchr(line + 1, '\n');
        const char *help = strstr(line, text), *in_parentheses = strstr(line, fallback);
        assert_true(help && help < end);
        if (o->fallback && *o->fallback)
            assert_true(in_parentheses && in_parentheses < end);
        else // nothing after the text, not even empty parentheses
            assert_memory_equal(end - strlen(o->help), o->help, strlen(o->help));
    }
}

static void check_help(void) {
    assert_true(exited_with(0));
    assert_string_equal(child.err, "");
    assert_non_null(strstr(child.out, "program"));
    assert_non_null(strstr(child.out, "Does nothing."));
    assert_non_null(strstr(child.out, "\n  --help (or -h) "));
    check_help_of(table);
    check_help_of(more);
    assert_non_null(strstr(child.out, " which color: red, dark green, blue (blue)\n"));
    assert_non_null(strstr(child.out, " it is [only for --color dark green or blue] (5)\n"));
    // Each table stands below its title, in the order of the tables.
    const char *first = strstr(child.out, "\n\nfirst:\n  --count "),
               *second = strstr(child.out, "\n\nmore of them:\n  --quick ");
    assert_true(first && second && first < second);
}

static void help_lists_the_options(void **state) {
    (void)state;
    PARSE_IN_CHILD("--help");
    check_help();
    PARSE_IN_CHILD("-h");
    check_help();
    PARSE_IN_CHILD("--count", "7", "--title=other", "--file=other", "--help", "--nosuch");
    check_help(); // the defaults, not what was given before
}

static void help_without_words(void **state) {
    char *argv[] = {(char *)"launcher", (char *)"--help", NULL};
    (void)state;
    fflush(NULL);
    int out = memfd_create("out", 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out, STDOUT_FILENO);
        options_parse(launcher_tables, "Runs a program.", 2, argv);
    }
    assert_int_equal(waitpid(pid, &child.status, 0), pid);
    read_back(out, child.out);
    assert_string_equal(child.out,
                        "usage: launcher [options] program [arguments]\nRuns a program.\n\n"
                        "  --count            how many (3)\n"
                        "  --dry-run          do nothing\n"
                        "  --help (or -h)     prints this list, with defaults in parentheses\n");
}

// Processes that train together compare these lists.
static void all_values_are_listed(void **state) {
    char text[256], small[16];
    static const char all[] = "--count 7, --big 0, --rate 0.3333333333, --title a, b, --name , "
                              "--workers all, --speed usual, --quick 1";
    (void)state;
    file = NULL;
    PARSE("--count=7", "--rate", "0.3333333333", "--title=a, b", "--quick", "--folder", "x");
    assert_int_equal(options_list(tables, text, sizeof text), strlen(all));
    assert_string_equal(text, all);
    PARSE("--count=7", "--rate=1e-7", "--file=z", "--workers", "2", "--speed=0", "--nice", "7");
    quick = 0;
    options_list(tables, text, sizeof text);
    assert_string_equal(text, "--count 7, --big 0, --rate 1e-07, --title plain, --name , --file z, "
                              "--workers 2, --speed 0, --quick 0");
    PARSE("--rate", "0");
    options_list(tables, text, sizeof text);
    assert_non_null(strstr(text, "--rate 0,")); // a number that is no word for another
    assert_int_equal(options_list(tables, small, sizeof small), sizeof small - 1);
    assert_string_equal(small, "--count 3, --bi");
}

static void changes_are_listed(void **state) {
    char text[256], small[16];
    (void)state;
    PARSE("--title", "plain", "--speed", "usual", "--color", "blue", "--count", "7");
    options_list_changes(tables, text, sizeof text);
    assert_string_equal(text, "");
    PARSE("--speed", "0", "--count", "7", "--color", "red");
    options_list_changes(tables, text, sizeof text);
    assert_string_equal(text, ", --speed 0, --color red");
    options_list_changes(tables, small, sizeof small);
    assert_string_equal(small, ", --speed 0, --");
}

static void unused_options_are_listed(void **state) {
    char text[256], small[16];
    (void)state;
    PARSE("--color", "red", "--nice", "5"); // its default
    options_list_unused(tables, text, sizeof text);
    assert_string_equal(text, "");
    PARSE("--color", "red", "--nice", "7");
    options_list_unused(tables, text, sizeof text);
    assert_string_equal(text, "--nice 7 (only for --color dark green or blue)");
    options_list_unused(tables, small, sizeof small);
    assert_string_equal(small, "--nice 7 (only ");
    PARSE("--color", "dark green", "--nice", "7");
    options_list_unused(tables, text, sizeof text);
    assert_string_equal(text, "");
    PARSE("--color", "blue", "--nice", "7");
    options_list_unused(tables, text, sizeof text);
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_have_defaults),
        cmocka_unit_test(values_follow_a_blank_or_an_equals_sign),
        cmocka_unit_test(a_word_may_stand_for_a_number),
        cmocka_unit_test(a_flag_has_no_value),
        cmocka_unit_test(words_may_follow_the_options),
        cmocka_unit_test(an_underscore_stands_for_a_dash),
        cmocka_unit_test(the_last_value_wins),
        cmocka_unit_test(a_value_may_look_like_an_option),
        cmocka_unit_test(bounds_are_allowed),
        cmocka_unit_test(a_value_is_one_of_several_words),
        cmocka_unit_test(mistakes_are_refused),
        cmocka_unit_test(help_lists_the_options),
        cmocka_unit_test(help_without_words),
        cmocka_unit_test(all_values_are_listed),
        cmocka_unit_test(changes_are_listed),
        cmocka_unit_test(unused_options_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
