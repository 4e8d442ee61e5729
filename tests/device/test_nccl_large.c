// Tests of collectives of more than 2^31 bytes.
// test-all: they take half a minute and 12 GB.
#include "tests/device/nccl_ranks.h"

static uint8_t large_pattern(size_t i, int rank) { // the same for whole blocks of 1 MB
    return (uint8_t)((i >> 20) * 7 + (size_t)rank * 31 + 1);
}

static void fill_large(uint8_t *there, size_t from, size_t to, int rank) {
    for (size_t i = from, end; i < to; i = end) {
        end = ((i >> 20) + 1) << 20;
        end = end < to ? end : to;
        memset(there + i, large_pattern(i, rank), end - i);
    }
}

static void check_large(const uint8_t *there, size_t count, int sums) {
    for (size_t i = 0, end; i < count; i = end) {
        end = ((i >> 20) + 1) << 20;
        end = end < count ? end : count;
        uint8_t wanted = (uint8_t)(large_pattern(i, 0) + (sums ? large_pattern(i, 1) : 0));
        CHECK(there[i] == wanted && there[end - 1] == wanted &&
                  !memcmp(there + i, there + i + 1, end - 1 - i),
              "%s: the megabyte at %zu is wrong", sums ? "AllReduce" : "AllGather", i);
    }
}

static void move_large(int rank) {
    setenv("CPU_DEVICE_MEMORY", "5G", 1);
    ncclComm_t comm = join(2, rank);
    const size_t count = ((size_t)1 << 31) + 3, half = ((size_t)1 << 30) + 2;
    uint8_t *x = new_bytes(2 * half + 64), *there = view(x, 2 * half + 64);
    fill_large(there, 0, count, rank);
    OK(ncclAllReduce(x, x, count, ncclUint8, ncclSum, comm, NULL));
    OK(cudaStreamSynchronize(NULL));
    check_large(there, count, 1);
    CHECK(there[count] == 0xff, "wrote beyond the end");
    memset(there, 0, 2 * half);
    fill_large(there, (size_t)rank * half, (size_t)(rank + 1) * half, 0);
    OK(ncclAllGather(x + (size_t)rank * half, x, half, ncclUint8, comm, NULL));
    OK(cudaStreamSynchronize(NULL));
    check_large(there, 2 * half, 0);
    CHECK(there[2 * half] == 0xff, "wrote beyond the end");
    OK(ncclCommDestroy(comm));
}

static long available_megabytes(void) {
    long kilobytes = 0;
    char line[200];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %ld", &kilobytes) == 1)
            break;
    if (f)
        fclose(f);
    return kilobytes / 1024;
}

static void collectives_of_more_than_2_31_bytes(void **state) {
    (void)state;
    if (SANITIZED || available_megabytes() < 12000) {
        print_message("ok # SKIP collectives_of_more_than_2_31_bytes: %s\n",
                      SANITIZED ? "not under a sanitizer" : "needs 12 GB");
        return; // cmocka's skip() says "not ok", which tests/run.sh counts as a failure
    }
    run_ranks(2, move_large, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        TEST(collectives_of_more_than_2_31_bytes),
    };
    set_up_ranks(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
