// The functions that the tests of NCCL share: communicators, blocked streams, arrays with equal
// elements, collectives by number, and the expected form of a failure. They run in ranks (see
// ranks.h), and the first call that fails ends the rank.
#pragma once
#include "ranks.h"
#include <cuda_runtime.h>

// Flags for messages between ranks. Each test uses those that it needs.
enum { CALLED, GO, DONE, ENTERED };

// The simulated hosts of the ranks: one letter per rank.
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
    SEND_RECV,
    COLLECTIVES
};
extern const char *const collective_names[];

// Returns the id in this slot. One rank makes it (make is 1), and all ranks get it.
ncclUniqueId common_id(int slot, int make);

// Make the next communicator with the other ranks, with the id in next_slot. The first one uses the
// current device, and the second one uses the device with the rank's number.
extern int next_slot;
ncclComm_t join_from_device(int n, int rank);
ncclComm_t join(int n, int rank);

cudaStream_t new_stream(void);

// What most ranks use: a communicator of all n ranks, and a stream. enter makes them.
extern ncclComm_t comm;
extern cudaStream_t stream;
void enter(int n, int rank);

// Runs n ranks that enter first, and destroy comm after run.
void run_joined(int n, void (*run)(int rank));

// Blocks a stream until a rank posts the flag.
void hold(cudaStream_t stream, int flag);

// Returns the host address of device memory. Use it only while no stream uses the bytes.
void *view(const void *pointer, size_t bytes);

void *new_bytes(size_t count);
float *new_floats(size_t count, float value);
void set_floats(float *pointer, size_t count, float value);
void check_floats(const float *pointer, size_t count, float wanted, int line);
#define HOLDS(pointer, count, wanted) check_floats(pointer, count, wanted, __LINE__)
// Waits for the stream first.
#define GIVES(stream, ...) (OK(cudaStreamSynchronize(stream)), HOLDS(__VA_ARGS__))

// Places the ranks that start next on simulated hosts: one letter per rank, or NULL for one host.
void set_hosts(const char *hosts);

// Calls a collective. count is the number of elements of one rank's share, if the share and the
// whole differ. SEND_RECV sends to the next rank of a ring.
ncclResult_t call(enum collective which, const void *send, void *recv, size_t count,
                  ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                  cudaStream_t stream);

float sum_over(ncclComm_t comm, float value);

// The stream and the communicator must have an error, and their texts must contain all words (a
// list that ends with NULL).
void expect_failure(ncclComm_t comm, cudaStream_t stream, ncclResult_t wanted,
                    const char *const *words, int line);
#define FAILS(comm, stream, wanted, ...)                                                           \
    (here(__LINE__),                                                                               \
     expect_failure(comm, stream, wanted, (const char *const[]){__VA_ARGS__, NULL}, __LINE__))

void set_up_ranks(int argc, char **argv);
int reset_hosts(void **state);

// Sets the environment, and runs all tests. A process or file descriptor that a test leaves is a
// failure. The program's argument is a pattern of test names, such as 'death*'.
static inline int run_rank_tests(int argc, char **argv) {
    set_up_ranks(argc, argv);
    return run_all_tests((struct around){.begin = look_around, .end = reset_hosts});
}

// Adds a test that only runs n ranks, on these hosts (see set_hosts), with run_ranks or run_joined.
struct row {
    int n;
    void (*run)(int rank);
    const char *hosts;
    int joined;
};
void run_row(void **state);
#define RANKS(promise, n, run, hosts)                                                              \
    add_test(#promise ": " #run, run_row, &(struct row){n, run, hosts, 0})
#define JOINED(promise, n, run, hosts)                                                             \
    add_test(#promise ": " #run, run_row, &(struct row){n, run, hosts, 1})
