// Runs a function in several processes at once, one per rank, as the programs of a job run: forked
// before anything of the device is used, killed when they take too long, and judged by how each one
// ends. In a rank, CHECK, OK and REFUSED take the place of cmocka's asserts: the first that fails
// says so in one line on stderr and ends the rank.
//
// Ranks meet in memory that they share: they post flags and wait for them, so that no test has to
// guess how long something takes. All waits have an end.
#pragma once
#include <nccl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
// cmocka wants the headers above first.
#include <cmocka.h>

// Sanitizers make everything slower, ThreadSanitizer most.
#ifndef __has_feature // as with gcc
#define __has_feature(name) 0
#endif
#if __has_feature(thread_sanitizer) || defined(__SANITIZE_THREAD__)
enum { THREADS_CHECKED = 1, SANITIZED = 1 };
#elif __has_feature(address_sanitizer) || defined(__SANITIZE_ADDRESS__)
enum { THREADS_CHECKED = 0, SANITIZED = 1 };
#else
enum { THREADS_CHECKED = 0, SANITIZED = 0 };
#endif

enum {
    MOST_RANKS = 8,
    MOST_JOBS = 8,
    FLAGS = 32,
    IDS = 64,
    RESULT_BYTES = 1 << 16,
    WAIT_SECONDS = SANITIZED ? 120 : 40,  // for a flag, longer than CPU_DEVICE_TIMEOUT
    LIMIT_SECONDS = SANITIZED ? 300 : 60, // for all that run_ranks starts
};

struct meeting {
    atomic_int flag[FLAGS], barrier, id_made[IDS];
    ncclUniqueId id[IDS];
    atomic_int line[MOST_RANKS]; // where each rank is, for when it hangs
    atomic_int pid[MOST_RANKS];
    atomic_long cases;
    _Atomic double killed_at;
    uint8_t result[MOST_RANKS][RESULT_BYTES]; // of each rank, for the others to compare
};

extern struct meeting *meeting; // of the job of this process; for the parent, of the first
extern int my_rank;
extern int life[MOST_RANKS][2]; // a pipe for each rank of the job, which ends when the rank does
extern const char *host_of_rank[MOST_RANKS]; // NCCL_HOSTID of each, if any

double clock_now(void); // in seconds

// A moment for the others, within a loop that has an end.
void rest(void);

// In a rank. Each takes the caller's line for its message.
__attribute__((format(printf, 2, 3), noreturn)) void give_up(int line, const char *format, ...);
void here(int line);
void expect(int wanted, int got, const char *call, int line);

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        here(__LINE__);                                                                            \
        if (!(condition))                                                                          \
            give_up(__LINE__, __VA_ARGS__);                                                        \
    } while (0)
// Both CUDA and NCCL call success 0.
#define OK(call) (here(__LINE__), expect(0, (int)(call), #call, __LINE__))
#define REFUSED(error, call) (here(__LINE__), expect((int)(error), (int)(call), #call, __LINE__))

// Waits until the number is at least this, and returns whether it is.
int has_come(atomic_int *number, int least);

void post(int flag);
void await_at(int flag, int times, int line);
#define await(flag, times) await_at(flag, times, __LINE__)

// Waits until all of n ranks are there.
void barrier_at(int n, int line);
#define barrier(n) barrier_at(n, __LINE__)

void await_death_at(int rank, int line);
#define await_death(rank) await_death_at(rank, __LINE__)

// Starts run(0) to run(n - 1), beside what else is running. Those in the set victims must be killed
// by SIGKILL, all others must return, or exit(0).
void start_ranks(int n, void (*run)(int rank), unsigned victims);

// Waits for all that was started, and fails unless all has ended as it should.
void finish_ranks(void);

// Both.
void run_ranks(int n, void (*run)(int rank), unsigned victims);

// Entries of a folder, such as /proc/self/fd.
int entries(const char *folder);

// Setup and teardown of a test: it must leave no file descriptor and no child.
int look_around(void **state);
int nothing_is_left(void **state);

// Comes before the first test.
void open_meetings(void);
