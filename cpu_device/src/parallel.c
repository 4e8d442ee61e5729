// Divides the range of a kernel among the cores. Each thread takes another free piece, so a kernel
// does not wait for a helper thread whose core is used by another process. After a kernel, the
// helpers wait for a tenth of a millisecond, because the next kernel usually follows at once, and
// then they sleep. Meanwhile, they yield the core, for example to a thread that reads the next
// batch. The threads of an OpenMP runtime would spin for milliseconds.
#include "internal.h"
#include <sched.h>
#include <signal.h>

enum { MOST_THREADS = 256, PIECES_PER_THREAD = 4 };

// How long a thread yields before it sleeps. This is longer than most kernels that one thread runs
// alone, and about as long as it takes to wake a thread.
static const double yield_seconds = 1e-4;

static struct {
    pthread_mutex_t busy; // a kernel uses the helpers; other streams run theirs on one thread
    pthread_mutex_t lock; // for sleeping and waking
    pthread_cond_t begun, finished;
    // The number of the kernel, its first free piece and the end of those. They share one word, so
    // a late helper cannot mistake a piece of a later kernel for one of its own kernel.
    _Atomic uint64_t kernel_and_free;
    atomic_uint unfinished; // pieces
    atomic_int threads;     // threads in use, at most started
    int started;            // helpers and the caller
    void (*run)(void *, size_t, size_t);
    void *arguments;
    size_t count, grain, pieces;
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .begun = PTHREAD_COND_INITIALIZER,
          .finished = PTHREAD_COND_INITIALIZER};

static uint32_t current_kernel(void) {
    return (uint32_t)(atomic_load(&pool.kernel_and_free) >> 32);
}

static int later_has_begun(uint32_t kernel) {
    return current_kernel() != kernel;
}

static int has_finished(uint32_t kernel) {
    (void)kernel; // the pool runs one kernel at a time
    return atomic_load(&pool.unfinished) == 0;
}

// Waits until the condition holds: yields for yield_seconds, then sleeps.
static void wait_until(int (*holds)(uint32_t), uint32_t kernel, pthread_cond_t *change) {
    double end = cpu_now() + yield_seconds;
    do {
        if (holds(kernel))
            return;
        sched_yield();
    } while (cpu_now() < end);
    pthread_mutex_lock(&pool.lock);
    while (!holds(kernel))
        pthread_cond_wait(change, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

static void wake(pthread_cond_t *change) {
    pthread_mutex_lock(&pool.lock); // a thread that checked before the change is asleep by now
    pthread_cond_broadcast(change);
    pthread_mutex_unlock(&pool.lock);
}

// Runs pieces of the kernel until none is left. All boundaries are multiples of the grain. Every
// other thread begins with the last piece, so that the next kernel, which often reads what this one
// has written, finds it in the caches of the same cores.
static void run_pieces(uint32_t kernel, int thread) {
    int from_the_end = thread % 2;
    uint64_t now = atomic_load(&pool.kernel_and_free);
    while (now >> 32 == kernel && (uint16_t)(now >> 16) < (uint16_t)now) {
        uint64_t rest = from_the_end ? now - 1 : now + (1 << 16);
        if (!atomic_compare_exchange_weak(&pool.kernel_and_free, &now, rest))
            continue;
        size_t i = from_the_end ? (uint16_t)rest : (uint16_t)(now >> 16);
        size_t grains = (pool.count + pool.grain - 1) / pool.grain;
        size_t from = i * grains / pool.pieces * pool.grain,
               to = (i + 1) * grains / pool.pieces * pool.grain;
        pool.run(pool.arguments, from, to < pool.count ? to : pool.count);
        if (atomic_fetch_sub(&pool.unfinished, 1) == 1)
            wake(&pool.finished);
        now = atomic_load(&pool.kernel_and_free);
    }
}

// A helper thread: takes part in each kernel that begins. The argument is its number; it ends if
// fewer threads are in use.
static void *help(void *argument) {
    for (uint32_t kernel = 0;;) {
        wait_until(later_has_begun, kernel, &pool.begun);
        if ((int)(size_t)argument >= pool.threads)
            return NULL;
        kernel = current_kernel();
        run_pieces(kernel, (int)(size_t)argument);
    }
    return NULL;
}

static void start_helpers(void) {
    cpu_set_t allowed;
    const char *wanted = getenv("OMP_NUM_THREADS"); // users and launchers set this variable
    int threads = sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : CPU_COUNT(&allowed);
    if (wanted && atoi(wanted) > 0)
        threads = atoi(wanted);
    pool.started = threads < MOST_THREADS ? threads : MOST_THREADS;
    pool.threads = pool.started;
    for (long i = 1; i < pool.started; i++) {
        pthread_t thread;
        if (cpu_start_thread(&thread, help, (void *)i)) {
            pool.started = (int)i;
            pool.threads = pool.started;
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
        pool.threads = share; // surplus helpers end when they wake up
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
    size_t most = (size_t)pool.threads * PIECES_PER_THREAD;
    pool.pieces = count / grain < most ? count / grain : most;
    atomic_store(&pool.unfinished, (unsigned)pool.pieces);
    uint32_t kernel = current_kernel() + 1;
    atomic_store(&pool.kernel_and_free, (uint64_t)kernel << 32 | pool.pieces);
    wake(&pool.begun);
    run_pieces(kernel, 0);
    wait_until(has_finished, kernel, &pool.finished);
    pthread_mutex_unlock(&pool.busy);
}
