// Snapshots: what is saved comes back, what is damaged is refused, and no failure, not even a kill, costs
// the snapshot that was there before.
#include "../../common/error.h"
#include "../../common/rng.h"
#include "../../common/snapshot.h"
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h> // after error.h, whose fail() its macro of that name would break

enum { PARAMETERS = 3, STATES = 4, HEADER = 232, SIZE = HEADER + 4 * (PARAMETERS + STATES) + 4 };

static char folder[PATH_MAX], path[PATH_MAX + 16], temporary[PATH_MAX + 32];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/test_snapshot-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/run.snapshot", folder);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    remove(path); // a file or a folder
    remove(temporary);
    return rmdir(folder);
}

// Stands in for the C library's fsync in this program: notes what is brought onto the disk and when, and
// fails when told to.
static struct {
    int error, files, folders;
    int named; // whether the file had its final name when it was brought onto the disk
} synced;

int fsync(int fd) {
    struct stat s;
    if (synced.error) {
        errno = synced.error;
        return -1;
    }
    if (fstat(fd, &s) == 0 && S_ISDIR(s.st_mode)) {
        synced.folders++;
    } else {
        synced.files++;
        synced.named = access(path, F_OK) == 0;
    }
    return (int)syscall(SYS_fsync, fd);
}

// What the caller of snapshot_load expects of the file.
static struct snapshot *expected(void) {
    struct snapshot *s = snapshot_new("mlp 1-2", "sgd", PARAMETERS, STATES);
    s->seed = 7;
    s->batch = 64;
    return s;
}

static struct snapshot *example(void) {
    static const float values[] = {-0.f, 1.5f, -2.25f, 1e-42f, FLT_MAX, INFINITY, NAN};
    struct snapshot *s = expected();
    s->epochs = 2;
    s->step = 5;
    s->sums = (struct stats){0.1, 40, 320};
    memcpy(s->values, values, sizeof values);
    return s;
}

// Saves the snapshot and frees it.
static void save(struct snapshot *s) {
    char why[WHY_SIZE] = "";
    int result = snapshot_save(path, s, why);
    free(s);
    if (result)
        fail_msg("not saved: %s", why);
}

static void save_refused(struct snapshot *s, const char *to, const char *reason) {
    char why[WHY_SIZE] = "";
    int result = snapshot_save(to, s, why);
    free(s);
    if (result != -1 || !strstr(why, to) || !strstr(why, reason) || strchr(why, '\n'))
        fail_msg("saving gave %d with \"%s\", not a refusal with %s", result, why, reason);
}

// Frees what was expected.
static void load_refused(struct snapshot *s, const char *reason) {
    char why[WHY_SIZE] = "";
    int result = snapshot_load(path, s, why);
    free(s);
    if (result != -1 || !strstr(why, path) || !strstr(why, reason) || strchr(why, '\n'))
        fail_msg("loading gave %d with \"%s\", not a refusal with %s", result, why, reason);
}

// Whether the file holds exactly this training state.
static int holds(const struct snapshot *wanted) {
    char why[WHY_SIZE] = "";
    size_t size = sizeof *wanted + (size_t)(wanted->parameters + wanted->states) * sizeof(float);
    struct snapshot *s =
        snapshot_new(wanted->model, wanted->optimizer, (size_t)wanted->parameters, (size_t)wanted->states);
    s->seed = wanted->seed;
    s->batch = wanted->batch;
    int result = snapshot_load(path, s, why), same = memcmp(s, wanted, size) == 0;
    free(s);
    if (result != 1)
        fail_msg("loading gave %d: %s", result, why);
    return same;
}

static void assert_holds_example(void) {
    struct snapshot *s = example();
    int same = holds(s);
    free(s);
    assert_true(same);
}

static void put(const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

// The bytes of the example's file, and room for one more.
static void get(uint8_t bytes[SIZE + 1]) {
    save(example());
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, SIZE + 1, file);
    fclose(file);
    assert_int_equal(size, SIZE);
    bytes[SIZE] = 0;
}

static void new_snapshot_is_zero(void **state) {
    struct snapshot *s = snapshot_new("mlp 1-2", "sgd", PARAMETERS, STATES);
    (void)state;
    assert_string_equal(s->model, "mlp 1-2");
    assert_string_equal(s->optimizer, "sgd");
    assert_int_equal(s->parameters, PARAMETERS);
    assert_int_equal(s->states, STATES);
    assert_true(s->seed == 0 && s->batch == 0 && s->epochs == 0 && s->step == 0);
    assert_true(s->sums.loss == 0 && s->sums.correct == 0 && s->sums.samples == 0);
    for (int i = 0; i < PARAMETERS + STATES; i++)
        assert_true(s->values[i] == 0);
    free(s);
}

static void round_trip(void **state) {
    (void)state;
    save(example());
    assert_holds_example();
    assert_int_equal(access(temporary, F_OK), -1);

    struct snapshot *other = example();
    other->epochs = 3;
    other->values[6] = 1;
    char why[WHY_SIZE];
    assert_int_equal(snapshot_save(path, other, why), 0); // over the one before
    assert_true(holds(other));
    free(other);
}

static void without_states(void **state) {
    struct snapshot *s = snapshot_new("mlp 1-2", "sgd", 1, 0);
    char why[WHY_SIZE];
    (void)state;
    s->values[0] = 3;
    assert_int_equal(snapshot_save(path, s, why), 0);
    assert_true(holds(s));
    free(s);
}

// The checksum stands for all bytes: whoever changes the format must change its version too. From Python:
// zlib.crc32(struct.pack("<8sq128s16s4q3d2q7f", b"SNAPSHOT", 1, b"mlp 1-2", b"sgd", 7, 64, 2, 5, ...)).
static void format_stays(void **state) {
    uint8_t bytes[SIZE + 1];
    (void)state;
    get(bytes);
    const uint32_t crc =
        bytes[SIZE - 4] | bytes[SIZE - 3] << 8 | bytes[SIZE - 2] << 16 | (uint32_t)bytes[SIZE - 1] << 24;
    assert_int_equal(crc, 0xaf4492e7);
}

static void no_file(void **state) {
    struct snapshot *s = expected(), *before = expected();
    char why[WHY_SIZE];
    (void)state;
    assert_int_equal(snapshot_load(path, s, why), 0);
    assert_memory_equal(s, before, SIZE - 4);
    free(s);
    free(before);
}

static void truncated_at_every_length(void **state) {
    uint8_t bytes[SIZE + 1];
    (void)state;
    get(bytes);
    for (size_t size = 0; size < SIZE; size++) {
        put(bytes, size);
        load_refused(expected(), "truncated");
    }
}

static void too_long(void **state) {
    uint8_t bytes[SIZE + 1];
    (void)state;
    get(bytes);
    put(bytes, SIZE + 1);
    load_refused(expected(), "wrong size");
}

static void every_flipped_bit(void **state) {
    uint8_t bytes[SIZE + 1];
    (void)state;
    get(bytes);
    for (int bit = 0; bit < 8 * SIZE; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        put(bytes, SIZE);
        load_refused(expected(), "snapshot");
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    put(bytes, SIZE);
    assert_holds_example();
}

static void of_another_training(void **state) {
    struct snapshot *s;
    (void)state;
    s = snapshot_new("mlp 1-3", "sgd", PARAMETERS, STATES);
    save(s);
    load_refused(expected(), "holds mlp 1-3 with sgd, not mlp 1-2 with sgd");
    s = snapshot_new("mlp 1-2", "adam", PARAMETERS, STATES);
    save(s);
    load_refused(expected(), "holds mlp 1-2 with adam, not mlp 1-2 with sgd");
    s = snapshot_new("mlp 1-3", "sgd", PARAMETERS + 100, STATES + 100); // another size, as is usual
    save(s);
    load_refused(expected(), "holds mlp 1-3 with sgd, not mlp 1-2 with sgd");
    s = snapshot_new("mlp 1-2", "sgd", PARAMETERS + 1, STATES - 1); // the same number of values
    save(s);
    load_refused(expected(), "wrong size");
    s = example();
    s->version = 2;
    save(s);
    load_refused(expected(), "is of version 2, this program reads version 1");
    s = example();
    s->seed = 8;
    save(s);
    load_refused(expected(), "was trained with --seed 8 --batch 64");
}

// What a file holds in place of a name reaches the terminal as part of one line, if at all.
static void of_an_unprintable_model(void **state) {
    (void)state;
    save(snapshot_new("mlp\n\033[2J", "s\rgd", PARAMETERS, STATES));
    struct snapshot *s = expected();
    char why[WHY_SIZE] = "";
    int result = snapshot_load(path, s, why);
    free(s);
    assert_int_equal(result, -1);
    for (const char *c = why; *c; c++)
        assert_true((unsigned char)*c >= ' ');
}

// The batch decides which samples are still to come in an epoch, so it may change between epochs only.
static void of_another_batch(void **state) {
    char why[WHY_SIZE];
    struct snapshot *s = example();
    (void)state;
    s->batch = 32;
    save(s);
    load_refused(expected(), "was trained with --seed 7 --batch 32");

    s = example();
    s->batch = 32;
    s->step = 0;
    save(s);
    s = expected();
    int result = snapshot_load(path, s, why);
    int64_t batch = s->batch, epochs = s->epochs;
    free(s);
    assert_int_equal(result, 1);
    assert_int_equal(batch, 64); // the caller's, which training goes on with
    assert_int_equal(epochs, 2);
}

static void folder_in_its_place(void **state) {
    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    load_refused(expected(), "snapshot");
    save_refused(example(), path, "Is a directory");
    assert_int_equal(access(temporary, F_OK), -1);
    assert_int_equal(rmdir(path), 0);
}

// Holds for root too, who may write into folders that others may not.
static void no_place_to_write(void **state) {
    char nowhere[PATH_MAX + 32];
    (void)state;
    snprintf(nowhere, sizeof nowhere, "%s/none/run.snapshot", folder);
    save_refused(example(), nowhere, "No such file or directory");
    save_refused(example(), "/dev/null/run.snapshot", "Not a directory");
    snprintf(path, sizeof path, "/dev/null/run.snapshot");
    load_refused(expected(), "Not a directory");
    snprintf(path, sizeof path, "%s/run.snapshot", folder);
}

static void leftovers_of_a_killed_run(void **state) {
    char rubbish[2 * SIZE] = "";
    (void)state;
    FILE *file = fopen(temporary, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(rubbish, 1, sizeof rubbish, file), sizeof rubbish);
    fclose(file);
    save(example());
    assert_holds_example();
    assert_int_equal(access(temporary, F_OK), -1);
}

static void on_the_disk_before_it_has_its_name(void **state) {
    (void)state;
    memset(&synced, 0, sizeof synced);
    save(example());
    assert_int_equal(synced.files, 1);
    assert_int_equal(synced.folders, 1);
    assert_false(synced.named);
}

// What many file systems say about a full disk or quota only when the bytes must really go there.
static void disk_fails_at_the_end(void **state) {
    struct snapshot *s = example();
    (void)state;
    save(example());
    s->epochs = 3;
    synced.error = ENOSPC;
    save_refused(s, path, "No space left on device");
    synced.error = 0;
    assert_holds_example();
    assert_int_equal(access(temporary, F_OK), -1);
}

// A limit on the size of files fails writes as a full disk does, with another reason.
static void disk_full(void **state) {
    struct rlimit before, full = {.rlim_cur = 100};
    (void)state;
    for (size_t parameters = 1; parameters < 1000000; parameters *= 1000) { // in the buffer, and beyond it
        save(example());
        struct snapshot *s = snapshot_new("mlp 1-2", "sgd", parameters, 0);
        char why[WHY_SIZE] = "";
        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &before);
        full.rlim_max = before.rlim_max;
        setrlimit(RLIMIT_FSIZE, &full);
        int result = snapshot_save(path, s, why);
        setrlimit(RLIMIT_FSIZE, &before);
        signal(SIGXFSZ, SIG_DFL);
        free(s);
        assert_int_equal(result, -1);
        assert_non_null(strstr(why, path));
        assert_non_null(strstr(why, "File too large"));
        assert_holds_example();
        assert_int_equal(access(temporary, F_OK), -1);
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A process that saves one state after the other until it is killed. Returns once it is about to begin.
static pid_t start_saving(struct snapshot *const states[2]) {
    int ready[2];
    char byte = 0, why[WHY_SIZE];
    if (pipe(ready))
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // it must not outlive this program
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (int i = 0; !snapshot_save(path, states[i % 2], why); i++)
            ;
        _exit(1);
    }
    close(ready[1]);
    if (pid > 0 && read(ready[0], &byte, 1) != 1) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        pid = -1;
    }
    close(ready[0]);
    return pid;
}

static void killed_while_saving(void **state) {
    enum { VALUES = 1 << 20, WANTED_CUTS = 60, MOST_KILLS = 3000 };
    struct snapshot *states[3];
    char why[WHY_SIZE] = "";
    int cuts = 0, kills = 0, bad = 0;
    (void)state;
    for (int i = 0; i < 2; i++) {
        states[i] = snapshot_new("mlp 1-2", "sgd", VALUES, 0);
        states[i]->epochs = i;
        for (int v = 0; v < VALUES; v++)
            states[i]->values[v] = (float)i;
    }
    states[2] = states[0];
    double start = now();
    for (int i = 0; i < 4; i++)
        bad += snapshot_save(path, states[i % 2], why) != 0;
    double duration = (now() - start) / 4;

    // A kill cut a save short if the temporary file is still there.
    for (; cuts < WANTED_CUTS && kills < MOST_KILLS && !bad; kills++) {
        pid_t pid = start_saving(states + kills % 2); // begins with either state
        double end = now() + 2 * duration * rng_uniform(1, (uint64_t)kills);
        int status = 0;
        while (now() < end)
            ;
        bad = pid < 0 || kill(pid, SIGKILL) || waitpid(pid, &status, 0) != pid ||
              !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        cuts += access(temporary, F_OK) == 0;
        bad = bad || !(holds(states[0]) || holds(states[1]));
        unlink(temporary);
    }
    free(states[0]);
    free(states[1]);
    if (bad || cuts < WANTED_CUTS)
        fail_msg("%d of %d kills cut a save short; the last left %s", cuts, kills,
                 bad ? "neither state" : "a good state");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_snapshot_is_zero),
        TEST(round_trip),
        TEST(without_states),
        TEST(format_stays),
        TEST(no_file),
        TEST(truncated_at_every_length),
        TEST(too_long),
        TEST(every_flipped_bit),
        TEST(of_another_training),
        TEST(of_an_unprintable_model),
        TEST(of_another_batch),
        TEST(folder_in_its_place),
        TEST(no_place_to_write),
        TEST(leftovers_of_a_killed_run),
        TEST(on_the_disk_before_it_has_its_name),
        TEST(disk_fails_at_the_end),
        TEST(disk_full),
        TEST(killed_while_saving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
