// What the tests of NCCL share: how ranks meet, streams that are held up, arrays whose elements are
// all the same, any collective by its number, and what a failure must look like. Everything is for
// ranks (see ranks.h): the first call that fails ends the rank.
#pragma once
#include "tests/device/ranks.h"
#include <cuda_runtime.h>

// What ranks tell each other; each test uses those that it needs.
enum { CALLED, GO, DONE, ENTERED };

// Hosts that ranks believe to be on: one letter for each rank.
enum { PLACEMENTS = 6 };
extern const char *const placements[PLACEMENTS];

// Every collective by its number, for call().
enum collective {
    ALL_REDUCE,
    BROADCAST,
    BCAST,
    REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    SEND_RECV,
    COLLECTIVES
};
extern const char *const collective_names[];

// The id in this slot, made by one rank for all.
ncclUniqueId common_id(int slot, int make);

// The calling process's next communicator with the others, whose id is in next_slot: on the device
// that it has chosen, and on that of the rank's number.
extern int next_slot;
ncclComm_t join_from_device(int n, int rank);
ncclComm_t join(int n, int rank);

cudaStream_t new_stream(void);

// Holds a stream up until a rank posts the flag.
void hold(cudaStream_t stream, int flag);

// The bytes at a device pointer, for use while no stream touches them.
void *view(const void *pointer, size_t bytes);

void *new_bytes(size_t count);
float *new_floats(size_t count, float value);
void set_floats(float *pointer, size_t count, float value);
void check_floats(const float *pointer, size_t count, float wanted, int line);
#define HOLDS(pointer, count, wanted) check_floats(pointer, count, wanted, __LINE__)

// Lets the ranks that start next believe that they are on several hosts: one letter for each rank,
// or NULL.
void set_hosts(const char *hosts);

// Any of the collectives; count is that of a rank's own share, where the manual has both. SEND_RECV
// sends round the ring of the ranks.
ncclResult_t call(enum collective which, const void *send, void *recv, size_t count,
                  ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                  cudaStream_t stream);

float sum_over(ncclComm_t comm, float value);

// The result of a non-blocking communicator, when it has one.
ncclResult_t settle(ncclComm_t comm);

int is_under_way(ncclResult_t result);
#define UNDER_WAY(call)                                                                            \
    do {                                                                                           \
        ncclResult_t result_ = call;                                                               \
        CHECK(is_under_way(result_), "%s returned %d: %s", #call, result_,                         \
              ncclGetLastError(NULL));                                                             \
    } while (0)

// The stream's error, the communicator's and the texts must tell of a failure; words is what the
// texts must hold, up to NULL.
void expect_failure(ncclComm_t comm, cudaStream_t stream, ncclResult_t wanted,
                    const char *const *words, int line);
#define FAILS(comm, stream, wanted, ...)                                                           \
    (here(__LINE__),                                                                               \
     expect_failure(comm, stream, wanted, (const char *const[]){__VA_ARGS__, NULL}, __LINE__))

// Sets the environment of all tests of NCCL; the program's argument is a pattern of tests' names,
// such as 'death*'.
void set_up_ranks(int argc, char **argv);

// The teardown of TEST: what is left is a failure.
int reset_hosts(void **state);
#define TEST(test) cmocka_unit_test_setup_teardown(test, look_around, reset_hosts)
