// Tests of the option parser. Calls that end the program run in a child process.
#include "common/base/options.h"
#include "common/base/say.h"
#include "tests/test.h"
#include <errno.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>

static long color, count, big, workers, quick, nice_value, copies;
static double rate, speed, grip;
static const char *title, *name, *file, *folder, *paint;

static const char *color_name(int i) {
    static const char *const colors[] = {"red", "dark green", "blue", NULL};
    return colors[i];
}

static const char *grip_default(int i) {
    static const char *const defaults[] = {"0.5 for red", "0.7 for dark green", NULL};
    return defaults[i];
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
     .used_by = "color", .used_with = {"dark green", "blue"}},
    {"grip", OPTION_REAL | OPTION_LOCAL, &grip, "auto", 0, 1, "how firm it is, auto", grip_default,
     .used_by = "color", .used_with = {"red", "dark green"}},
    {"copies", OPTION_INT | OPTION_LOCAL, &copies, "1", 1, 9, "how often", .used_by = "file"},
    {0},
};

static const struct option_table tables[] = {{"first", table}, {"more of them", more}, {0}};

static char **words;
static long dry_run;
static const struct option_spec with_words[] = {
    {"dry-run", OPTION_FLAG, &dry_run, NULL, 0, 0, "do nothing"},
    {"program [arguments]", OPTION_REST, &words, NULL, 0, 0, "to run"},
    {0},
};
static const struct option_table launcher_tables[] = {{.options = with_words}, {0}};

enum { MOST_ARGUMENTS = 8, RETURNED = 100 };

// Arguments are on the heap until the next call, so sanitizers detect a read past the end of one.
static void parse(const struct option_table *t, const char *const *arguments) {
    static char *argv[MOST_ARGUMENTS + 2] = {(char *)"program"};
    int argc = 1;
    for (int i = 1; argv[i]; i++)
        free(argv[i]);
    for (; arguments[argc - 1]; argc++)
        argv[argc] = strdup(arguments[argc - 1]);
    argv[argc] = NULL;
    options_parse(t, "Does nothing.", argc, argv);
}

#define PARSE(...) parse(tables, (const char *const[]){__VA_ARGS__, NULL})

static struct {
    int code;
    char out[4096], err[4096];
} child;

static void read_back(int from, char text[4096]) {
    ssize_t size = pread(from, text, 4095, 0);
    assert_true(size >= 0 && size < 4095); // all of it
    text[size] = 0;
    close(from);
}

static void parse_in_child(const struct option_table *t, const char *const *arguments) {
    int out = memfd_create("out", 0), err = memfd_create("err", 0), status;
    fflush(NULL); // or the child's exit would write it once more
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        parse(t, arguments);
        print_unused();
        fflush(stdout);
        _exit(RETURNED);
    }
    assert_true(out >= 0 && err >= 0 && pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    child.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_back(out, child.out);
    read_back(err, child.err);
}

// The list of all values that ranks compare must contain this text.
TEST(values_are_set) {
    static const struct {
        const char *arguments[MOST_ARGUMENTS];
        const char *listed;
    } cases[] = {
        {{NULL}, "--count 3, --big 0, --rate 0.5, --title plain, --name , --workers all, --speed "},
        {{"--count", "7", "--rate", "0.25"}, "--count 7, --big 0, --rate 0.25, --title plain,"},
        {{"--title==", "--file=--count=9"}, "--title =, --name , --file --count=9,"},
        {{"--title", "--help", "--big", "-4"}, "--big -4, --rate 0.5, --title --help,"},
        {{"--count", "7", "--title=a", "--count=8", "--title", "b"},
         "--count 8, --big 0, --rate 0.5, --title b,"},
        {{"--count=100", "--big=1000000000000", "--rate=1"},
         "--count 100, --big 1000000000000, --rate 1,"},
        {{"--workers", "5", "--workers=all", "--speed=usual"}, "--workers all, --speed usual,"},
        {{"--quick", "--count", "8"}, "--quick 1"},
        {{"--folder", "x"}, "--speed usual, --quick 0"}, // --folder may differ between ranks
    };
    char text[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file = NULL; // without a default, the values of these two stay as they are
        quick = 0;
        errno = ERANGE; // left by somebody else
        parse(tables, cases[i].arguments);
        *text = 0;
        options_list(text, sizeof text);
        if (!strstr(text, cases[i].listed))
            fail_msg("%s does not contain %s", text, cases[i].listed);
    }
    assert_string_equal(folder, "x"); // its choices are only examples
}

TEST(a_word_may_stand_for_a_number) {
    PARSE("--workers", "5", "--workers", "all", "--speed", "usual");
    assert_int_equal(workers, 0);
    assert_true(isnan(speed)); // not 0, which users may mean
}

// An underscore stands for a dash.
TEST(words_may_follow_the_options) {
    parse(launcher_tables, (const char *const[]){"--dry_run", "run", "--count", "--nosuch", NULL});
    assert_int_equal(dry_run, 1);
    assert_string_equal(words[0], "run");
    assert_string_equal(words[2], "--nosuch");
    words = NULL;
    parse(launcher_tables, (const char *const[]){"--dry-run", NULL});
    assert_null(words);
}

TEST(a_value_is_one_of_several_words) {
    PARSE("--count", "3");
    assert_int_equal(color, 2);
    assert_string_equal(paint, "red");
    for (int i = 0; color_name(i); i++) {
        PARSE("--color", color_name(i), "--paint", color_name(i));
        assert_int_equal(color, i);
        assert_string_equal(paint, color_name(i));
    }
}

TEST(mistakes_are_refused) {
    static const struct {
        const char *arguments[MOST_ARGUMENTS];
        const char *said;
    } cases[] = {
        {{"--nosuch", "1"}, "unknown option --nosuch;"},
        {{"--coun", "3"}, "unknown option --coun, but there is --count;"},
        {{""}, "unknown option ;"},
        {{"--count", "3", "4"}, "unknown option 4;"},
        {{"--count"}, "--count needs a value;"},
        {{"--title="}, "--title needs a value;"},
        {{"--count", "3x"}, "--count 3x: want a whole number;"},
        {{"--count", "0"}, "--count 0: want a number from 1 to 100;"},
        {{"--count", "18446744073709551617"},
         "--count 18446744073709551617: want a number from 1 to 100;"},
        {{"--big", "1000000000001"}, "--big 1000000000001: want a number from -5 to"},
        {{"--rate", "0,5"}, "--rate 0,5: want a number;"},
        {{"--rate", "-0.1"}, "--rate -0.1: want a number from 0 to 1;"},
        {{"--rate", "nan"}, "--rate nan: want a number from 0 to 1;"},
        {{"--count", "all"}, "--count all: want a whole number;"}, // the word of another option
        {{"--workers", "0"}, "--workers 0: want a number from 1 to 64;"},
        {{"--color", "green"}, "--color green: want one of: red, dark green, blue;"},
        {{"--paint", "green"}, "--paint green: want one of: red, dark green, blue;"},
        {{"--quick=2"}, "--quick takes no value;"},
        {{"--nosuch", "--help"}, "unknown option --nosuch;"},
        {{"--co_unt", "3"}, "unknown option --co_unt"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parse_in_child(tables, cases[i].arguments);
        const char *end = strchr(child.err, '\n');
        if (child.code != 2 || child.out[0] || !end || end[1] || strncmp(child.err, "error: ", 7) ||
            !strstr(child.err, cases[i].said))
            fail_msg("wanted \"%s\": exit code %d, stdout \"%s\", stderr \"%s\"", cases[i].said,
                     child.code, child.out, child.err);
    }
}

// Each table stands below its title, the last one first. The defaults are not the values that were
// given before.
static const char help[] =
    "usage: program [options]\n"
    "Does nothing.\n\n"
    "more of them:\n"
    "  --quick            do less\n"
    "  --folder           where to work, or: red, dark green, blue (here)\n"
    "  --color            which color: red, dark green, blue (blue)\n"
    "  --paint            which paint: red, dark green, blue (red)\n"
    "  --nice             how patient it is [only for --color dark green or blue] (5)\n"
    "  --grip             how firm it is, auto: 0.5 for red, 0.7 for dark green"
    " [only for --color red or dark green] (auto)\n"
    "  --copies           how often [only for --file] (1)\n\n"
    "first:\n"
    "  --count            how many (3)\n"
    "  --big              how many more (0)\n"
    "  --rate             how fast (0.5)\n"
    "  --title            what to call it (plain)\n"
    "  --name             what others call it\n"
    "  --file             where to put it\n"
    "  --workers          who does it, or: all (all)\n"
    "  --speed            how fast, 0: not at all (usual)\n"
    "  --help (or -h)     prints this list, with defaults in parentheses\n"
    "  --version          prints the version of the course\n";

TEST(help_lists_the_options) {
    static const char *const arguments[][6] = {
        {"-h"}, {"--count", "7", "--title=other", "--help", "--nosuch"}};
    for (int i = 0; i < 2; i++) {
        parse_in_child(tables, arguments[i]);
        assert_int_equal(child.code, 0);
        assert_string_equal(child.err, "");
        assert_string_equal(child.out, help);
    }
}

TEST(a_text_that_is_full_stays_as_it_is) {
    char text[8] = "";
    for (int i = 0; i < 3; i++)
        add_text(text, sizeof text, "%s", "abcde");
    assert_string_equal(text, "abcdeab");
}

TEST(changes_are_listed) {
    char text[256] = "before";
    PARSE("--title", "plain", "--speed", "usual", "--color", "blue", "--count", "7");
    options_list_changes(text, sizeof text);
    assert_string_equal(text, "before");
    PARSE("--speed", "0", "--count", "7", "--color", "red");
    options_list_changes(text, sizeof text);
    assert_string_equal(text, "before, --speed 0, --color red");
}

TEST(unused_options_are_noted) {
    static const struct {
        const char *arguments[MOST_ARGUMENTS + 1], *listed;
    } cases[] = {
        {{"--color", "red", "--nice", "5"}, ""}, // its default
        {{"--color", "red", "--nice", "7"}, "--nice 7 (only for --color dark green or blue)"},
        {{"--color", "blue", "--nice", "7"}, ""},
        {{"--color", "dark green", "--grip", "0.1"}, ""},
        {{"--copies", "2", "--nice", "7", "--color", "red"},
         "--nice 7 (only for --color dark green or blue), --copies 2 (only for --file)"},
        {{"--copies", "2", "--file", "x"}, ""},
    };
    file = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char note[256] = "";
        if (*cases[i].listed)
            snprintf(note, sizeof note, "note      without effect: %s\n", cases[i].listed);
        parse_in_child(tables, cases[i].arguments);
        assert_int_equal(child.code, RETURNED);
        assert_string_equal(child.out, note);
    }
}

int main(void) {
    return run_all_tests((struct around){NULL});
}
