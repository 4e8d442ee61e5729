// Tests of texts as data: sequences of bytes, the held-out tenth, and files that are refused.
#include "tests/unit/data_folder.h"
#include "tests/unit/options.h"
#include "zoo/data/story.h"
#include "zoo/zoo_options.h"
#include <math.h>

enum { SIZE = 57, CONTEXT = 4, TRAIN = 52 }; // the last tenth is 5 bytes

static const char *const names[] = {"input.txt", "made"};
static uint8_t bytes[SIZE];

static int make_text(void **state) {
    if (new_folder())
        return -1;
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(255 - 5 * i); // of any kind, also 0 and line feeds
    put("input.txt", bytes, SIZE, "wbT");
    set_options("--context 4"); // CONTEXT
    return 0;
}

static int remove_text(void **state) {
    free_sets();
    return delete_folder(names, 2);
}

static const char *text_of_path(const char *path) {
    static char data[PATH_MAX + 80];
    snprintf(data, sizeof data, "text:%s", path);
    return data;
}

TEST(sequences_and_next_bytes) {
    const char *places[] = {folder, text_of_path(path_of("input.txt"))};
    for (int i = 0; i < 2; i++) {
        load(places[i]);
        assert_int_equal(train.count, (TRAIN - 1) / CONTEXT);
        assert_int_equal(test.count, 1);
        assert_memory_equal(train.values, bytes, train.count * CONTEXT);
        assert_memory_equal(train.labels, bytes + 1, train.count * CONTEXT);
        assert_memory_equal(test.values, bytes + TRAIN, CONTEXT);
        assert_memory_equal(test.labels, bytes + TRAIN + 1, CONTEXT);
        const struct dataset *sets[] = {&train, &test};
        for (int s = 0; s < 2; s++) {
            assert_true(sets[s]->tokens && sets[s]->classes == 256);
            assert_true(sets[s]->inputs == CONTEXT && sets[s]->targets == CONTEXT);
            assert_true(sets[s]->shape.height == CONTEXT && shape_size(sets[s]->shape) == CONTEXT);
        }
        assert_string_equal(data_samples, "sequences");
        assert_int_equal(data_tokens, CONTEXT);
    }
    load("blank:6");
    assert_true(!train.tokens && data_tokens == 0);
}

// No byte of the last tenth is a target, also if the training part ends with a whole sequence.
TEST(held_out_bytes_are_no_targets) {
    uint8_t text[400];
    for (size_t size = 50; size <= sizeof text; size++) {
        size_t tenth = size / 10;
        memset(text, 1, size);
        memset(text + size - tenth, 2, tenth);
        put("input.txt", text, size, "wbT");
        load(folder);
        assert_true(train.count > 0 && test.count > 0);
        assert_null(memchr(train.values, 2, train.count * CONTEXT));
        assert_null(memchr(train.labels, 2, train.count * CONTEXT));
        assert_null(memchr(test.values, 1, test.count * CONTEXT));
        assert_true(train.count * CONTEXT + 1 + CONTEXT > size - tenth); // none is left over
    }
}

// Texts quote losses on the stories, so a change of one byte makes them stale.
TEST(stories_are_the_same_everywhere) {
    static char story[STORY_BYTES];
    assert_true(fabs(write_stories(story) - 0.13) < 0.005); // docs/data.md says 0.13
    assert_int_equal(crc32(0, (uint8_t *)story, STORY_BYTES), 0x311f1db6);
    zoo_opt.context = 0; // that of --size tiny
    load("text");
    assert_int_equal(train.targets, 64);
    assert_int_equal(train.count, STORY_BYTES * 9 / 10 / 64);
    assert_memory_equal(train.values, story, train.count * 64);
    assert_memory_equal(test.values, story + STORY_BYTES * 9 / 10, test.count * 64);
    zoo_opt.context = STORY_BYTES / 10; // longer than the held-out tenth
    const char *word = "text";
    char why[WHY_SIZE];
    free_sets();
    assert_int_equal(data_load(&train, &test, &word, why), -1);
    assert_non_null(strstr(why, "--data text: has 300000 bytes; want at least 300010"));
}

static void make_file(size_t size) {
    put("made", "", 0, "wbT");
    assert_int_equal(truncate(path_of("made"), (off_t)size), 0);
}

static void put_byte(const char *name, size_t at) {
    FILE *file = fopen(path_of(name), "r+b");
    assert_non_null(file);
    assert_int_equal(fseeko(file, (off_t)at, SEEK_SET), 0);
    assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
}

TEST(bad_files_are_refused) {
    static const struct {
        const char *made, *reason; // what is at the path: nothing, folder, pipe, or this many bytes
        long context;
    } cases[] = {
        {"nothing", "No such file or directory; text:FILE wants a file, or a folder", 4},
        {"folder", "is an empty folder; text:FILE wants a file, or a folder of files", 4},
        {"pipe", "is a folder, a pipe or a device; text:FILE wants a file", 4},
        {"0", "has 0 bytes; want at least 50, so that the held-out tenth has a sequence", 4},
        {"49", "of --context 4: use a longer text or a smaller --context", 4},
        {"655369", "has 655369 bytes; want at least 655370", 65536},
    };
    char path[PATH_MAX + 64], why[WHY_SIZE];
    snprintf(path, sizeof path, "%s", path_of("made"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *made = cases[i].made, *data = text_of_path(path);
        if (!strcmp(made, "folder"))
            assert_int_equal(mkdir(path, 0700), 0);
        else if (!strcmp(made, "pipe"))
            assert_int_equal(mkfifo(path, 0600), 0);
        else if (strcmp(made, "nothing"))
            make_file(strtoul(made, NULL, 10));
        zoo_opt.context = cases[i].context;
        free_sets();
        assert_int_equal(data_load(&train, &test, &data, why), -1);
        if (!strstr(why, path) || !strstr(why, cases[i].reason))
            fail_msg("%s: refused with \"%s\", not with %s", made, why, cases[i].reason);
        remove(path);
    }
    const char *nothing = "text:";
    assert_int_equal(data_load(&train, &test, &nothing, why), -1);
    assert_non_null(strstr(why, "--data text:: "));
}

// Above 1 GiB, data_load reads samples only, also if there are fewer than it wants.
TEST(large_texts_are_known_by_samples) {
    char before[sizeof data_contents];
    enum { LARGE_SIZE = 600 << 20, LONG = 65536 };
    zoo_opt.context = LONG;
    for (int changed = 0; changed < 2; changed++) {
        make_file(LARGE_SIZE);
        if (changed) // the first byte of the held-out tenth
            put_byte("made", LARGE_SIZE - LARGE_SIZE / 10);
        load(text_of_path(path_of("made")));
        assert_int_equal(test.count, (LARGE_SIZE / 10 - 1) / LONG);
        assert_null(train.values);
        if (changed)
            assert_string_not_equal(before, data_contents);
        memcpy(before, data_contents, sizeof before);
    }
}

TEST(image_models_refuse_a_text) {
    static const char *const models[] = {"mlp", "cnn", "resnet"};
    struct model model;
    char why[WHY_SIZE];
    load(folder);
    for (int i = 0; i < 3; i++) {
        opt.model = models[i];
        assert_int_equal(model_build(&model, &opt, &train, why), -1);
        assert_non_null(strstr(why, "reads images, and the data are a text: use --model gpt"));
    }
}

int main(void) {
    return run_all_tests((struct around){.begin = make_text, .end = remove_text});
}
