// Tests of snapshots, whole and in shards: a saved state loads again, a damaged file is refused,
// and after any failure, even a crash, the previous snapshot is still complete.
#include "05_fsdp/manifest.h"
#include "common/base/error.h"
#include "exercises/messages.h"
#include "tests/test.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <zlib.h>

static char folder[PATH_MAX], path[PATH_MAX + 16], temporary[PATH_MAX + 32];

static struct conditions conditions; // those of the expected run
static const struct conditions digits = {"number of images: 640, checksum: abcdef01, ",
                                         "sgd, lr 0.1"};

static int make_folder(void **state) {
    conditions = digits;
    snprintf(folder, sizeof folder, "%s/test_snapshot-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/run.snapshot", folder);
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    return 0;
}

static int remove_folder(void **state) {
    char name[PATH_MAX + 300];
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            remove(name); // a file or a folder
    }
    closedir(entries);
    return rmdir(folder);
}

static int files(void) {
    int count = 0;
    DIR *entries = opendir(folder);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count - 2; // . and ..
}

// Ends this process just before a change on the disk: the one with this number, counted from 1.
static int moments_left;

static void moment(void) {
    if (--moments_left == 0)
        _exit(99);
}

// Replaces the C library's fsync in this program: records the calls, and fails if the test asks for
// it.
static struct {
    int error, fits; // fails with this error, after so many calls that work
    int files, folders;
    int named; // whether the file had its final name when it was brought onto the disk
} synced;

int fsync(int fd) {
    struct stat s;
    moment();
    if (synced.error && synced.fits-- <= 0) {
        errno = synced.error;
        return -1;
    }
    if (fstat(fd, &s) == 0 && S_ISDIR(s.st_mode)) {
        synced.folders++;
    } else {
        synced.files++;
        synced.named = access(path, F_OK) == 0;
    }
    return 0; // no test takes the power away, so the disk may have the bytes later
}

// These two replace functions of the C library, so that a process can end between their calls.
int rename(const char *from, const char *to) {
    moment();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int at, const char *name, int flags) {
    moment();
    return (int)syscall(SYS_unlinkat, at, name, flags);
}

// A file system without locks, if the test asks for one.
static int lock_error;

int fcntl(int fd, int command, ...) {
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    if (lock_error && command == F_SETLK) {
        errno = lock_error;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

// The state of a run: each value is different.
enum { WHOLE = 23, ADAM = 2 };

static const struct sharding no_cut = {0, 1, {WHOLE}}, // one file, without a manifest
    one = {1, 1, {WHOLE}}, three = {3, 3, {10, 8, 5}}, four = {4, 3, {10, 8, 5}},
                             other_four = {4, 3, {5, 10, 8}};

static const struct sharding *const cuts[] = {
    &one,
    &three,
    &four,
    &other_four,
    &(struct sharding){2, 2, {22, 1}},
    &(struct sharding){30, 4, {1, 2, 19, 1}},
    &(struct sharding){3, 5, {0, 10, 0, 13, 0}},
    // A stage each, and one without parameters.
    &(struct sharding){3, 3, {13, 0, 10}, {{0, 1}, {1, 1}, {2, 1}}},
    // Columns of a matrix, and copies.
    &(struct sharding){2, 3, {1, 20, 2}, {{0}, {0, 0, 4, 0}, {0, 0, 0, 1}}},
    // Two stages of two shards each.
    &(struct sharding){4, 3, {12, 3, 8}, {{0, 2, 6, 0}, {0, 2, 0, 1}, {2, 2}}},
};
enum { CUTS = sizeof cuts / sizeof *cuts };

// The two ways of saving that most tests use.
static const struct sharding *const forms[] = {&no_cut, &four};
enum { FORMS = 2 };

static struct snapshot *room(size_t parameters) {
    struct snapshot *s = snapshot_new("mlp 1-2", "adam", 7, 64, parameters, ADAM * parameters);
    s->conditions = conditions;
    return s;
}

static struct snapshot *whole(int epochs) {
    struct snapshot *s = room(WHOLE);
    s->progress = (struct progress){epochs, 5, {0.1, 40, 320}};
    for (int i = 0; i < (1 + ADAM) * WHOLE; i++)
        s->values[i] = (float)(1000 * epochs + i + 1);
    return s;
}

// Makes the shard with this number, value by value.
static struct snapshot *shard_of(const struct snapshot *all, const struct sharding *cut,
                                 int number) {
    size_t parameters = shard_size(cut, number);
    struct snapshot *s = snapshot_like(all, parameters, ADAM * parameters);
    s->progress = all->progress;
    float *to = s->values;
    for (size_t array = 0; array <= ADAM; array++)
        for (size_t i = 0, first = array * WHOLE; i < (size_t)cut->units; first += cut->unit[i++]) {
            const struct division *d = &cut->division[i];
            int holders = d->shards ? d->shards : cut->shards, piece = number - d->first;
            size_t row = d->columns ? (size_t)d->columns : cut->unit[i];
            size_t pieces = d->copies ? 1 : holders;
            size_t share = (row + pieces - 1) / pieces, begin = d->copies ? 0 : piece * share;
            for (size_t from = 0; from < cut->unit[i] && piece >= 0 && piece < holders; from += row)
                for (size_t value = begin; value < begin + share; value++)
                    *to++ = value < row ? all->values[first + from + value] : 0;
        }
    if (to == s->values) // a shard without parameters has one value of padding
        to += 1 + ADAM;
    assert_int_equal(to - s->values, s->parameters + s->state_size);
    return s;
}

// Returns 0, or -1 for a failure.
static int save_cut(const struct snapshot *all, const struct sharding *cut, char why[WHY_SIZE]) {
    if (cut == &no_cut)
        return snapshot_save(path, all, why);
    int failed = 0;
    for (int i = 0; i < cut->shards; i++) {
        struct snapshot *shard = shard_of(all, cut, i);
        failed |= snapshot_save_shard(path, shard, cut, i, why);
        free(shard);
    }
    if (failed)
        remove_shards(path);
    return failed ? failed : snapshot_commit(path, all, cut, why);
}

// Saves the state, and frees it.
static void save(struct snapshot *all, const struct sharding *cut) {
    char why[WHY_SIZE] = "";
    int result = save_cut(all, cut, why);
    free(all);
    if (result)
        fail_msg("not saved: %s", why);
}

static void save_epoch(int epochs, const struct sharding *cut) {
    save(whole(epochs), cut);
}

// Checks whether this shard, loaded with this cut, has exactly the bits of this epoch.
static int shard_is(int epochs, const struct sharding *cut, int number) {
    char why[WHY_SIZE] = "";
    struct snapshot *all = whole(epochs), *wanted = shard_of(all, cut, number),
                    *s = room(shard_size(cut, number));
    size_t size = sizeof *s + (1 + ADAM) * shard_size(cut, number) * sizeof(float);
    memset(s->values, 0xff, (1 + ADAM) * shard_size(cut, number) * sizeof(float));
    int result = snapshot_load_shard(path, s, cut, number, why), same = !memcmp(s, wanted, size);
    free(all);
    free(wanted);
    free(s);
    if (result != 1)
        fail_msg("loading gave %d: %s", result, why);
    return same;
}

static int is_epoch(int epochs) {
    return shard_is(epochs, &one, 0);
}

// The result and the reason of a call, which must refuse this file with one line.
static void is_refusal(int result, const char why[WHY_SIZE], const char *name, const char *reason) {
    if (result != -1 || !strstr(why, name) || !strstr(why, reason) || strchr(why, '\n'))
        fail_msg("the result is %d with \"%s\", not a refusal with %s", result, why, reason);
}

static void shard_refused(const struct sharding *cut, int number, const char *reason) {
    char why[WHY_SIZE] = "";
    struct snapshot *s = room(shard_size(cut, number));
    int result = snapshot_load_shard(path, s, cut, number, why);
    free(s);
    is_refusal(result, why, path, reason);
    assert_non_null(strstr(why, "another --snapshot")); // what to do
}

// Refused as a whole, and as a shard.
static void refused(const char *reason) {
    shard_refused(&one, 0, reason);
    shard_refused(&four, 1, reason);
}

static const char *file_named(const char *end) {
    static char name[sizeof path + 64];
    snprintf(name, sizeof name, "%s%s", path, end);
    return name;
}

static const char *shard_file(int epochs, const struct sharding *cut, int number) {
    static char text[MANIFEST_SIZE];
    char end[64];
    struct snapshot *all = whole(epochs);
    all->progress.sums = (struct stats){0};
    unsigned size = (unsigned)print_save(text, all, cut);
    free(all);
    snprintf(end, sizeof end, ".e%ds5u%08lx.%dof%d", epochs,
             crc32(0, (const unsigned char *)text, size), number, cut->shards);
    return file_named(end);
}

static size_t read_all(const char *name, uint8_t bytes[4096]) {
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, 4096, file);
    fclose(file);
    return size;
}

static void write_all(const char *name, const void *bytes, size_t size) {
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

TEST(shards_load_with_any_other_cut) {
    for (int from = -1; from < CUTS; from++) {
        const struct sharding *saved = from < 0 ? &no_cut : cuts[from];
        save_epoch(2, saved);
        assert_int_equal(files(), saved->shards + 1); // nothing of the one before
        for (int to = 0; to < CUTS; to++)
            for (int i = 0; i < cuts[to]->shards; i++)
                if (!shard_is(2, cuts[to], i))
                    fail_msg("from cut %d to shard %d of cut %d", from, i, to);
    }
}

TEST(missing_snapshot_is_reported) {
    char why[WHY_SIZE] = "";
    struct snapshot *all = whole(2), *shard = shard_of(all, &three, 0);
    assert_int_equal(snapshot_load_shard(path, shard, &three, 0, why), 0);
    // The writer of a shard died before the manifest.
    assert_int_equal(snapshot_save_shard(path, shard, &three, 0, why), 0);
    assert_int_equal(snapshot_load_shard(path, shard, &three, 0, why), 0);
    // The file of a shard is an ordinary snapshot.
    assert_int_equal(snapshot_load(shard_file(2, &three, 0), shard, why), 1);
    free(all);
    free(shard);
}

// The checksum covers all bytes. If you change the format, change its version, too. Made with
// Python: zlib.crc32(struct.pack("<8sq128s16s4q3d2q384s640s7f", b"SNAPSHOT", 3, b"mlp 1-2",
// b"sgd", 7, 64, 2, 5, ...)).
TEST(format_does_not_change) {
    static const float values[] = {-0.f, 1.5f, -2.25f, 1e-42f, FLT_MAX, INFINITY, NAN};
    uint8_t bytes[4096];
    uint32_t crc;
    char why[WHY_SIZE];
    struct snapshot *s = snapshot_new("mlp 1-2", "sgd", 7, 64, 3, 4);
    s->conditions = digits;
    struct snapshot *same = snapshot_like(s, 3, 4);
    s->progress = (struct progress){2, 5, {0.1, 40, 320}};
    memcpy(s->values, values, sizeof values);
    assert_int_equal(snapshot_save(path, s, why), 0);
    assert_int_equal(snapshot_load(path, same, why), 1);
    assert_memory_equal(same, s, sizeof *s + sizeof values);
    free(s);
    free(same);
    size_t size = read_all(path, bytes);
    memcpy(&crc, bytes + size - sizeof crc, sizeof crc);
    assert_int_equal(size, 232 + sizeof digits + sizeof values + 4);
    assert_int_equal(crc, 0x9c7dbdf7);
}

// If you change the manifest, change its version, too. The checksums come from Python's zlib.crc32;
// the one in the file's name is that of the lines up to the last unit, without losses.
TEST(manifest_format_does_not_change) {
    const char *wanted =
        "MANIFEST 3\nmodel mlp 1-2\noptimizer adam\nseed 7\nbatch 64\nepochs 2\nstep 5\n"
        "loss 0.10000000000000001\ncorrect 40\nsamples 320\nshards 4\n"
        "data:number of images: 640, checksum: abcdef01, \nsettings:sgd, lr 0.1\n"
        "unit 10\nunit 8\nunit 5\nshard d8d5cbc5\nshard c1ad37aa\nshard 024497b1\n"
        "shard 88c51526\ncrc32 a757d6b8\n";
    uint8_t bytes[4096] = "";
    save_epoch(2, &four);
    read_all(path, bytes);
    assert_string_equal((char *)bytes, wanted);
    assert_int_equal(access(file_named(".e2s5ufb55315f.0of4"), F_OK), 0);
    conditions.settings[0] = ' '; // and texts that are easily misread
    memset(conditions.data, ' ', sizeof conditions.data - 1);
    save_epoch(2, &four);
    assert_true(is_epoch(2));
}

// Loads a snapshot. Its settings of before must be these.
static void was_trained_with(const char *settings) {
    char why[WHY_SIZE] = "";
    struct snapshot *s = room(shard_size(&four, 0));
    if (snapshot_load_shard(path, s, &four, 0, why) != 1)
        fail_msg("not loaded: %s", why);
    assert_string_equal(s->settings_before, settings);
    free(s);
}

// Other images are refused, and other settings are told.
TEST(conditions_are_compared) {
    for (int form = 0; form < FORMS; form++) {
        conditions = digits;
        save_epoch(2, forms[form]);
        was_trained_with("");
        strcpy(conditions.settings, "sgd, lr 0.2");
        was_trained_with("sgd, lr 0.1");
        strcpy(conditions.data, "number of images: 641, checksum: abcdef01, ");
        refused("was trained with \"number of images: 640\", and the data here has \"number of "
                "images: 641\"");
        strcpy(conditions.data, "number of images: 640, checksum: abcdef02, ");
        refused("was trained with \"checksum: abcdef01\", and the data here has \"checksum: "
                "abcdef02\"");
    }
}

TEST(snapshot_of_another_training_is_refused) {
    static const struct {
        const char *model, *optimizer;
        int64_t seed, batch, epochs, step;
        const char *reason;
    } cases[] = {
        {"mlp 1-3", "adam", 7, 64, 2, 5, "holds mlp 1-3 with adam, not mlp 1-2 with adam"},
        {"mlp 1-2", "sgd", 7, 64, 2, 5,
         "holds mlp 1-2 with sgd, not mlp 1-2 with adam: give the options of that model"},
        {"mlp 1-2", "adam", 8, 64, 2, 5, TRAINED_WITH " 8 --batch 64"},
        {"mlp 1-2", "adam", 7, 32, 2, 5, TRAINED_WITH " 7 --batch 32"},
        {"mlp 1-2", "adam", 7, 64, 2, -1, "corrupt"},
        {"mlp 1-2", "adam", 7, 64, -1, 5, "corrupt"},
    };
    for (size_t i = 0; i < FORMS * sizeof cases / sizeof *cases; i++) {
        size_t c = i / FORMS;
        struct snapshot *s = whole(2);
        strcpy(s->model, cases[c].model);
        strcpy(s->optimizer, cases[c].optimizer);
        s->seed = cases[c].seed;
        s->batch = cases[c].batch;
        s->progress.epochs = cases[c].epochs;
        s->progress.step = cases[c].step;
        save(s, forms[i % FORMS]);
        refused(cases[c].reason);
    }
    save(snapshot_new("mlp 1-2", "adam", 7, 64, WHOLE + 1, ADAM * WHOLE - 1), &no_cut);
    refused("wrong size"); // although it has as many values
}

TEST(other_versions_are_refused) {
    uint8_t bytes[4096];
    for (int version = 2; version <= 4; version += 2) {
        char manifest[128], reason[128];
        snprintf(reason, sizeof reason, "is of version %d, this program reads version 3", version);
        snprintf(manifest, sizeof manifest, "MANIFEST %d\nmodel mlp 1-2\n", version);
        write_all(path, manifest, strlen(manifest));
        refused(reason);
        save_epoch(2, &no_cut);
        size_t size = read_all(path, bytes);
        bytes[8] = (uint8_t)version; // after the magic
        const uint32_t crc = (uint32_t)crc32(0, bytes, (unsigned)size - 4);
        memcpy(bytes + size - 4, &crc, sizeof crc);
        write_all(path, bytes, size);
        refused(reason);
    }
}

// The batch size determines the remaining samples of an epoch, so it can change only between
// epochs. Adam's updates depend on the number of steps before, so with Adam it cannot change at all
// after the first epoch.
TEST(batch_can_change_between_epochs_only) {
    static const struct {
        const char *optimizer;
        int epochs, step, result;
    } cases[] = {{"sgd", 2, 0, 1}, {"sgd", 2, 5, -1}, {"adamw", 0, 0, 1}, {"adamw", 2, 0, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[WHY_SIZE] = "";
        struct snapshot *s = whole(cases[i].epochs);
        strcpy(s->optimizer, cases[i].optimizer);
        s->progress.step = cases[i].step;
        struct snapshot *other = snapshot_like(s, WHOLE, ADAM * WHOLE);
        s->batch = 32;
        save(s, &no_cut);
        int result = snapshot_load(path, other, why);
        int64_t batch = other->batch, epochs = other->progress.epochs;
        free(other);
        assert_int_equal(result, cases[i].result);
        if (result == -1)
            assert_non_null(strstr(why, TRAINED_WITH " 7 --batch 32"));
        else // with the caller's batch, with which training goes on
            assert_true(batch == 64 && epochs == cases[i].epochs);
    }
}

// Tries every wrong length of a file, and flips a bit of each byte.
static void damage_is_detected(const char *name) {
    uint8_t bytes[4096];
    size_t size = read_all(name, bytes);
    bytes[size] = '\n';
    for (size_t length = 0; length <= size + 1; length++)
        if (length != size) {
            write_all(name, bytes, length);
            shard_refused(&one, 0, "truncated");
        }
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        write_all(name, bytes, size);
        shard_refused(&one, 0, "snapshot");
        bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    write_all(name, bytes, size);
    assert_true(is_epoch(2));
}

TEST(damaged_files_are_refused) {
    char name[PATH_MAX + 128];
    save_epoch(2, &no_cut);
    damage_is_detected(path);
    save_epoch(2, &four);
    damage_is_detected(path);
    snprintf(name, sizeof name, "%s", shard_file(2, &four, 1));
    damage_is_detected(name);
}

// By those who need it: the others do not open the file.
TEST(missing_shard_is_reported) {
    save_epoch(2, &four);
    unlink(shard_file(2, &four, 2));
    for (int i = 0; i < 4; i++)
        if (i == 2)
            shard_refused(&four, i, "lacks its shard ");
        else
            assert_true(shard_is(2, &four, i));
    shard_refused(&one, 0, shard_file(2, &four, 2));
}

// A program that reads shards, such as generate, needs no lock. Here, the first shard is a pipe, so
// that the next snapshot is saved after the old manifest was read, and before its shard.
TEST(shards_that_are_replaced_meanwhile_are_read_again) {
    for (int identify = 0; identify < 2; identify++) {
        char why[WHY_SIZE];
        struct snapshot found;
        save_epoch(2, &four);
        const char *pipe = shard_file(2, &four, 0);
        assert_int_equal(unlink(pipe) || mkfifo(pipe, 0600), 0);
        pid_t pid = fork();
        if (pid == 0) {
            open(pipe, O_WRONLY); // waits for the reader
            _exit(save_cut(whole(3), &four, why) != 0);
        }
        assert_true(identify ? snapshot_identify(path, &found, why) == 1 : is_epoch(3));
        assert_int_equal(identify ? found.progress.epochs : 3, 3);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
}

// The file has the right name and is complete, but belongs to another snapshot.
TEST(shard_of_another_snapshot_is_refused) {
    static const char *const reasons[] = {"belongs to another save", "belongs to another save",
                                          "--seed 8", "wrong size"};
    char why[WHY_SIZE] = "";
    save_epoch(2, &four);
    struct snapshot *all = whole(2);
    for (int i = 0; i < 4; i++) {
        struct snapshot *shard = shard_of(all, i == 3 ? &three : &four, 1);
        shard->values[0] += i == 0; // of a run that came here in another way
        shard->progress.step += i == 1;
        shard->seed += i == 2;
        assert_int_equal(snapshot_save(shard_file(2, &four, 1), shard, why), 0);
        free(shard);
        refused(reasons[i]);
        assert_true(shard_is(2, &four, 2));
    }
    free(all);
}

// Of equal sizes, and of different ones. A copy is no better than an exchange.
TEST(exchanged_shards_are_refused) {
    static const struct sharding stages = {3, 3, {13, 4, 6}, {{0, 1}, {1, 1}, {2, 1}}};
    const struct sharding *saved[] = {&three, &stages};
    for (int i = 0; i < 4; i++) {
        char first[PATH_MAX + 128], second[PATH_MAX + 128], why[WHY_SIZE] = "";
        struct snapshot found;
        const struct sharding *cut = saved[i / 2];
        save_epoch(2, cut);
        snprintf(first, sizeof first, "%s", shard_file(2, cut, 0));
        snprintf(second, sizeof second, "%s", shard_file(2, cut, 1));
        assert_int_equal(rename(first, temporary) || rename(second, first), 0);
        assert_int_equal(i % 2 ? link(first, second) : rename(temporary, second), 0);
        shard_refused(&one, 0, "is shard 1 of 3, but shard 0 is wanted");
        shard_refused(cut, 0, "is shard 1 of 3, but shard 0 is wanted");
        is_refusal(snapshot_identify(path, &found, why), why, first, "but shard 0 is wanted");
        if (i % 2)
            assert_true(shard_is(2, cut, 1));
        else
            shard_refused(cut, 1, "is shard 0 of 3, but shard 1 is wanted");
    }
}

TEST(hostile_manifests_are_refused) {
    static const struct {
        const char *shards, *units, *reason;
    } bad[] = {
        {"4", "", "do not fit"},
        {"0", "unit 23\n", "corrupt"},
        {"4097", "unit 23\n", "corrupt"},
        {"4294967297", "unit 23\n", "corrupt"},
        {"4", "unit 22\n", "do not fit"},
        {"4", "unit 18446744073709551615\nunit 24\n", "corrupt"},
        {"4", "unit -1\nunit 24\n", "corrupt"},
        {"4", "unit 023\n", "corrupt"},
        {"4", "unit 23 first 0 shards 0 columns 0 copies 0\n", "corrupt"},
        {"4", "unit 23 first 3 shards 2 columns 0 copies 0\n", "corrupt"},
        {"4", "unit 23 first 0 shards 1 columns 5 copies 0\n", "corrupt"},
        {"4", "unit 23 first 0 shards 1 columns 23 copies 0\n", "lacks its shard"},
        {"4\ndata:x", "unit 23\n", "corrupt"},
        {"4", "unit 23\n", "lacks its shard"}, // this one is right
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[MANIFEST_SIZE];
        int size = snprintf(text, sizeof text,
                            "MANIFEST 3\nmodel mlp 1-2\noptimizer adam\nseed 7\nbatch 64\n"
                            "epochs 2\nstep 5\nloss 0.10000000000000001\ncorrect 40\n"
                            "samples 320\nshards %s\ndata:%s\nsettings:sgd, lr 0.1\n%s",
                            bad[i].shards, conditions.data, bad[i].units);
        for (int shard = atoi(bad[i].shards); shard > 0 && shard <= MOST_SHARDS; shard--)
            size += sprintf(text + size, "shard 00000000\n");
        size += snprintf(text + size, sizeof text - (size_t)size, "crc32 %08lx\n",
                         crc32(0, (unsigned char *)text, (unsigned)size));
        write_all(path, text, (size_t)size);
        refused(bad[i].reason);
    }
}

// In a folder that others may write, the temporary name may be a link of theirs.
TEST(a_link_in_place_of_the_temporary_file_is_not_followed) {
    uint8_t text[4096] = "";
    write_all(file_named(".bak"), "keep me", 7);
    assert_int_equal(symlink(file_named(".bak"), temporary), 0);
    save_epoch(2, &no_cut);
    read_all(file_named(".bak"), text);
    assert_string_equal((char *)text, "keep me");
    assert_true(is_epoch(2));
    assert_int_equal(files(), 2);
}

// A link may be relative, and what it names need not exist yet.
TEST(a_snapshot_behind_a_link_is_saved_beside_its_target) {
    assert_int_equal(symlink("run.snapshot.bak", path), 0);
    for (int i = 0; i < 2 * FORMS; i++) { // also over a snapshot of the other form
        save_epoch(2 + i, forms[i % FORMS]);
        assert_true(is_epoch(2 + i));
        assert_int_equal(access(file_named(".bak"), F_OK), 0);
        assert_int_equal(files(), forms[i % FORMS]->shards + 2);
    }
}

// tests/steps/continue.bats has a second run that finds the lock, and a killed one that leaves
// none.
TEST(without_locks_a_run_goes_on) {
    char why[WHY_SIZE];
    int errors[] = {ENOLCK, ENOSYS, EOPNOTSUPP};
    for (int i = 0; i < 3; i++) {
        lock_error = errors[i];
        assert_int_equal(snapshot_lock(path, why), 0);
        assert_int_equal(files(), 1);
        assert_int_equal(snapshot_locked_by(path, 0.1), getpid());
        assert_int_equal(unlink(file_named(".lock")), 0);
    }
    lock_error = 0;
}

// Many file systems report a full disk or quota only when the bytes must go to the disk, and others
// when they are written. The disk may be full after any of the files. Nothing of this save stays.
TEST(disk_full) {
    char why[WHY_SIZE] = "";
    struct rlimit before, full;
    getrlimit(RLIMIT_FSIZE, &before);
    full = (struct rlimit){100, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 2 * FORMS; i++) {
        const struct sharding *form = forms[i / 2];
        int first = i % 2; // the run has no snapshot before
        struct snapshot *all = whole(3);
        for (int fits = 0; fits <= 2 * form->shards; fits++) {
            unlink(path);
            remove_shards(path);
            if (!first)
                save_epoch(2, form);
            synced.error = ENOSPC;
            synced.fits = fits;
            is_refusal(save_cut(all, form, why), why, path, "No space left on device");
            synced.error = 0;
            assert_true(first || is_epoch(2));
            assert_int_equal(files(), first ? 0 : form->shards + 1);
        }
        setrlimit(RLIMIT_FSIZE, &full);
        is_refusal(save_cut(all, form, why), why, path, "File too large");
        setrlimit(RLIMIT_FSIZE, &before);
        free(all);
        assert_true(first || is_epoch(2));
        assert_int_equal(files(), first ? 0 : form->shards + 1);
    }
}

TEST(files_are_synced_before_they_are_renamed) {
    for (int form = 0; form < FORMS; form++) {
        unlink(path);
        memset(&synced, 0, sizeof synced);
        save_epoch(2, forms[form]);
        assert_int_equal(synced.files, forms[form]->shards + 1);
        assert_int_equal(synced.folders, forms[form]->shards + 1);
        assert_false(synced.named); // the file or the manifest was there only after all of them
    }
}

// A crash just before any change on the disk, while one snapshot replaces another.
TEST(a_crash_at_any_moment_leaves_a_whole_snapshot) {
    static const struct sharding *const ways[][2] = {
        {&no_cut, &no_cut}, {&no_cut, &four},     {&four, &no_cut},
        {&four, &three},    {&four, &other_four},
    };
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        const struct sharding *from = ways[way][0], *to = ways[way][1];
        int crashed = 1, was_new = 0, olds = 0, news = 0;
        for (int last = 1; crashed; last++) {
            struct snapshot *all = whole(3);
            char why[WHY_SIZE] = "";
            save_epoch(2, from);
            assert_int_equal(files(), from->shards + 1); // whatever the crash before had left
            int status = 0;
            pid_t pid = fork();
            if (pid == 0) {
                moments_left = last;
                _exit(save_cut(all, to, why) != 0);
            }
            free(all);
            assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
            crashed = WEXITSTATUS(status) == 99;
            assert_true(crashed || WEXITSTATUS(status) == 0);
            int old = is_epoch(2), new = is_epoch(3);
            olds += old;
            news += new;
            assert_true(old != new && (new || !was_new));
            was_new = new;
        }
        assert_true(was_new && olds > 1 && news > 1);
    }
}

// Files of other programs stay, though their names are similar.
TEST(whole_and_shards_replace_each_other) {
    const char *others[] = {".e1s0.0of2",      ".e1s0u0000abcd.0of2.bak", ".e1s0u0000ABCD.0of2",
                            ".e1s0uabcd.0of2", ".e01s0u0000abcd.0of2",    "2.e1s0u0000abcd.0of2"};
    const char *own[] = {".e1s0u0000abcd.0of2", ".e9s123u0000abcd.12of13.tmp"};
    enum { OTHERS = sizeof others / sizeof *others };
    for (int i = 0; i < OTHERS; i++)
        write_all(file_named(others[i]), "", 0);
    for (int round = 0; round < 3; round++) {
        const struct sharding *form = forms[round % FORMS];
        for (int i = 0; i < 2; i++)
            write_all(file_named(own[i]), "", 0);
        save_epoch(2 + round, form);
        assert_true(is_epoch(2 + round));
        assert_int_equal(files(), OTHERS + 1 + form->shards);
        for (int i = 0; i < OTHERS; i++)
            assert_int_equal(access(file_named(others[i]), F_OK), 0);
    }
}

// The same training step with another cut and as many shards, or with other settings: the files
// that the manifest names must stay.
TEST(same_step_in_another_way) {
    char why[WHY_SIZE] = "";
    for (int other_settings = 0; other_settings < 2; other_settings++) {
        const struct sharding *cut = other_settings ? &four : &other_four;
        save_epoch(2, &four);
        struct snapshot *all = whole(2), *shard = shard_of(all, cut, 0);
        assert_int_equal(shard_size(&four, 0), shard_size(&other_four, 0));
        shard->conditions.settings[0] -= (char)other_settings;
        assert_int_equal(snapshot_save_shard(path, shard, cut, 0, why), 0);
        free(all);
        free(shard);
        assert_true(is_epoch(2));
        save_epoch(2, cut);
        assert_true(is_epoch(2));
        assert_int_equal(files(), 5);
    }
}

int main(void) {
    return run_all_tests((struct around){.begin = make_folder, .end = remove_folder});
}
