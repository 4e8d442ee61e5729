// Runs a function in several processes at once, one per rank, like the programs of a job. The
// processes are forked before the first CUDA call, and killed if they take too long. The test
// checks how each process ends. In a rank, CHECK, OK and REFUSED replace cmocka's asserts: the
// first one that fails prints one line to stderr and ends the rank.
//
// The ranks share memory with flags, which they post and wait for, so no test has to guess how long
// something takes. Every wait has a time limit.
#pragma once
#include "test.h"
#include <cuda_runtime.h>
#include <nccl.h>

enum {
    MOST_RANKS = 8,
    MOST_JOBS = 8,
    FLAGS = 32,
    IDS = 64,
    // On a machine with nothing else to do (see patience):
    WAIT_SECONDS = SANITIZED ? 120 : 40,  // for a flag, longer than CPU_DEVICE_TIMEOUT
    LIMIT_SECONDS = SANITIZED ? 300 : 60, // for all ranks that run_ranks starts
};

struct rendezvous {
    atomic_int flag[FLAGS], barrier, id_made[IDS];
    ncclUniqueId id[IDS];
    atomic_int line[MOST_RANKS]; // the current line of each rank, printed if it hangs
    atomic_int pid[MOST_RANKS];
    _Atomic double killed_at;
};

extern struct rendezvous *rendezvous; // of the job of this process; for the parent, of the first
extern int my_rank, rank_count;       // of this process
extern int life[MOST_RANKS][2]; // a pipe for each rank of the job, which ends when the rank does

double clock_now(void); // in seconds

// Returns how long to wait for something that takes at most these seconds where nothing else runs.
double patience(double seconds);

// Sleeps for a moment, in a loop with a limit.
void rest(void);

// Functions for ranks. They get the caller's line for their messages.
__attribute__((format(printf, 2, 3), noreturn)) void give_up(int line, const char *format, ...);
void here(int line);
void expect(int wanted, int got, const char *call, int line);

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        here(__LINE__);                                                                            \
        if (!(condition))                                                                          \
            give_up(__LINE__, __VA_ARGS__);                                                        \
    } while (0)
#undef OK
#define OK(call) (here(__LINE__), expect(0, (int)(call), #call, __LINE__))
#define REFUSED(error, call) (here(__LINE__), expect((int)(error), (int)(call), #call, __LINE__))

// Waits until the number is at least this, and returns whether it is.
int has_come(atomic_int *number, int least);

void post(int flag);
void await_at(int flag, int times, int line);
#define await(flag, times) await_at(flag, times, __LINE__)

// Waits until all n ranks have called it.
void barrier_at(int n, int line);
#define barrier(n) barrier_at(n, __LINE__)

void await_death_at(int rank, int line);
#define await_death(rank) await_death_at(rank, __LINE__)

// Starts run(0) to run(n - 1) beside the ranks that already run. The ranks in the bit set victims
// must be killed by SIGKILL. All others must return or call exit(0).
void start_ranks(int n, void (*run)(int rank), unsigned victims);

// Waits for all started ranks, and fails if one of them did not end correctly.
void finish_ranks(void);

// Calls start_ranks and then finish_ranks.
void run_ranks(int n, void (*run)(int rank), unsigned victims);

// Returns the number of entries in a folder, such as /proc/self/fd.
int entries(const char *folder);

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

// Runs n ranks, which first call before, if it is not NULL, such as enter. If comm exists then,
// they destroy it in the end.
void run_after(void (*before)(int n, int rank), int n, void (*run)(int rank));

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
// Setup and teardown of a test, which must leave no file descriptor and no child process.
int look_around(void **state);
int nothing_is_left(void **state);

// Sets the environment, and runs all tests. A process or file descriptor that a test leaves is a
// failure. The program's argument is a pattern of test names, such as 'death*'.
static inline int run_rank_tests(int argc, char **argv) {
    set_up_ranks(argc, argv);
    return run_all_tests((struct around){.begin = look_around, .end = nothing_is_left});
}

// Adds a test that only runs n ranks, on these hosts (see set_hosts).
struct row {
    int n;
    void (*run)(int rank);
    const char *hosts;
    void (*before)(int n, int rank);
};
void run_row(void **state);
#define RANKS(promise, n, run, hosts)                                                              \
    add_test(#promise ": " #run, run_row, &(struct row){n, run, hosts, NULL})
#define JOINED(promise, n, run, hosts)                                                             \
    add_test(#promise ": " #run, run_row, &(struct row){n, run, hosts, enter})
