// Runs a function in several processes at once, one per rank, like the programs of a job. The
// processes are forked before the first CUDA call, and killed if they take too long. The test
// checks how each process ends. In a rank, CHECK, OK and REFUSED replace cmocka's asserts: the
// first one that fails prints one line to stderr and ends the rank.
//
// The ranks share memory with flags, which they post and wait for, so no test has to guess how long
// something takes. Every wait has a time limit.
#pragma once
#include "sanitized.h"
#include "test.h"
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
extern const char *host_of_rank[MOST_RANKS]; // NCCL_HOSTID of each, if any

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

// Setup and teardown of a test, which must leave no file descriptor and no child process.
int look_around(void **state);
int nothing_is_left(void **state);

// Called before the first test.
void open_rendezvous(void);
