// A test of a collective of more than 2^31 bytes.
// test-all: it takes several seconds, and 6 GB of a machine with 12 GB.
#include "ranks.h"

static void sum_many(int rank) {
    setenv("CPU_DEVICE_MEMORY", "3G", 1);
    ncclComm_t comm = join(2, rank);
    const size_t limit = (size_t)1 << 31;
    uint8_t *x = new_bytes(limit + 4), *there = view(x, limit + 4);
    memset(there, rank + 1, limit);
    memset(there + limit, 10 * (rank + 1), 3);
    OK(ncclAllReduce(x, x, limit + 3, ncclUint8, ncclSum, comm, NULL));
    OK(cudaStreamSynchronize(NULL));
    CHECK(there[0] == 3 && !memcmp(there, there + 1, limit - 1), "a wrong sum below 2^31");
    for (size_t i = limit; i < limit + 3; i++)
        CHECK(there[i] == 30, "the sum at %zu is %d", i, there[i]);
    CHECK(there[limit + 3] == 0xff, "wrote beyond the end");
    OK(ncclCommDestroy(comm));
}

TEST(a_sum_of_more_than_2_31_bytes) {
    long megabytes = sysconf(_SC_PHYS_PAGES) / 1024 * sysconf(_SC_PAGESIZE) / 1024;
    if (SANITIZED || megabytes < 12000) {
        print_message("ok # SKIP a_sum_of_more_than_2_31_bytes: %s\n",
                      SANITIZED ? "not under a sanitizer" : "needs 12 GB");
        return; // cmocka's skip() says "not ok", which tests/run.sh counts as a failure
    }
    run_ranks(2, sum_many, 0);
}

int main(int argc, char **argv) {
    return run_rank_tests(argc, argv);
}
