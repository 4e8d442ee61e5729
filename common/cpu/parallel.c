// Shares the range of a kernel out over the cores. The helpers look for work for some microseconds
// after a kernel, as the next one usually follows at once, and then sleep: unlike the threads of an
// OpenMP runtime, which spin for milliseconds, they do not slow down another process on the same
// cores.
#include "device.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MOST_THREADS = 256, SPINS = 1000 };

static struct {
    pthread_mutex_t busy; // one kernel at a time; the kernel of another stream runs alone meanwhile
    pthread_mutex_t lock; // for sleeping and waking
    pthread_cond_t changed;
    atomic_uint generation; // counts kernels
    atomic_uint unfinished; // helpers at work on this one
    int started;            // threads: helpers and the caller
    int threads;            // of them in use
    void (*run)(void *, size_t, size_t);
    void *arguments;
    size_t count, grain, pieces;
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .changed = PTHREAD_COND_INITIALIZER};

void cpu_relax(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

// Waits until *value is no longer (or, with until, is) the given number.
static void wait_for(atomic_uint *value, unsigned number, int until) {
    for (int i = 0; i < SPINS; i++) {
        if ((atomic_load(value) == number) == until)
            return;
        cpu_relax();
    }
    pthread_mutex_lock(&pool.lock);
    while ((atomic_load(value) == number) != until)
        pthread_cond_wait(&pool.changed, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

static void change(atomic_uint *value, unsigned by) {
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(value, by);
    pthread_cond_broadcast(&pool.changed);
    pthread_mutex_unlock(&pool.lock);
}

// Piece i of the current kernel; all boundaries are multiples of the grain.
static void run_piece(size_t i) {
    if (i >= pool.pieces)
        return;
    size_t grains = (pool.count + pool.grain - 1) / pool.grain;
    size_t from = i * grains / pool.pieces * pool.grain,
           to = (i + 1) * grains / pool.pieces * pool.grain;
    pool.run(pool.arguments, from, to < pool.count ? to : pool.count);
}

static void *help(void *argument) {
    for (unsigned generation = 0;; generation++) {
        wait_for(&pool.generation, generation, 0);
        if ((int)(size_t)argument >= pool.threads)
            return NULL;
        run_piece((size_t)argument);
        change(&pool.unfinished, -1u);
    }
    return NULL;
}

static void start_helpers(void) {
    cpu_set_t allowed;
    const char *wanted =
        getenv("OMP_NUM_THREADS"); // what people and launchers set for this purpose
    int threads = sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : CPU_COUNT(&allowed);
    if (wanted && atoi(wanted) > 0)
        threads = atoi(wanted);
    pool.started = pool.threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    for (long i = 1; i < pool.started; i++) {
        pthread_t thread;
        if (cpu_start_thread(&thread, help, (void *)i)) {
            pool.started = pool.threads = (int)i;
            break;
        }
        pthread_detach(thread);
    }
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

void cpu_share_cores(int processes) {
    pthread_once(&once, start_helpers);
    pthread_mutex_lock(&pool.busy);
    int share = pool.started / processes > 1 ? pool.started / processes : 1;
    if (!getenv("OMP_NUM_THREADS") && share < pool.threads)
        pool.threads = share; // helpers beyond that end when they are next woken
    pthread_mutex_unlock(&pool.busy);
}

void cpu_share(void (*run)(void *, size_t, size_t), void *arguments, size_t count, size_t grain) {
    pthread_once(&once, start_helpers);
    if (count == 0 || count < 2 * grain || pool.threads == 1 || pthread_mutex_trylock(&pool.busy)) {
        run(arguments, 0, count);
        return;
    }
    pool.run = run;
    pool.arguments = arguments;
    pool.count = count;
    pool.grain = grain;
    pool.pieces = count / grain < (size_t)pool.threads ? count / grain : (size_t)pool.threads;
    atomic_store(&pool.unfinished, (unsigned)pool.threads - 1);
    change(&pool.generation, 1);
    run_piece(0);
    wait_for(&pool.unfinished, 0, 1);
    pthread_mutex_unlock(&pool.busy);
}
