// Tests of the CPU device against the CUDA manual: streams, events, memory, devices and errors.
// test_api_rules.c has what a call refuses.
//
// If a test needs environment variables, ends its process or forks, it runs in a process of its own
// (see ALONE), with its name as the argument of the program.
#include "../src/stream.h"
#include "again.h"
#include <cublas_v2.h>
#include <nccl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define REFUSED(error, call) assert_int_equal(call, error)

// Work for streams. A gate is a semaphore that blocks a stream until the test opens it, so no test
// has to guess how long something takes.

enum { GATES = 3 };
static sem_t gate[GATES];
static atomic_int noted[16], notes;

static void run_wait_at(void *arguments) {
    while (sem_wait(*(sem_t **)arguments))
        ;
}

static void run_open(void *arguments) {
    sem_post(*(sem_t **)arguments);
}

static void run_note(void *arguments) {
    noted[notes++ % 16] = *(int *)arguments;
}

static void wait_at(cudaStream_t stream, sem_t *which) {
    OK(cpu_launch(stream, run_wait_at, &which, sizeof which));
}

static void open_from(cudaStream_t stream, sem_t *which) {
    OK(cpu_launch(stream, run_open, &which, sizeof which));
}

static void note(cudaStream_t stream, int number) {
    OK(cpu_launch(stream, run_note, &number, sizeof number));
}

// What a test has made, for open_gates.
static cudaStream_t streams[8];
static cudaEvent_t events[8];
static int stream_count, event_count;

static cudaStream_t new_stream(unsigned flags) {
    OK(cudaStreamCreateWithFlags(&streams[stream_count], flags));
    return streams[stream_count++];
}

static cudaEvent_t new_event(unsigned flags) {
    OK(cudaEventCreateWithFlags(&events[event_count], flags));
    return events[event_count++];
}

static int close_gates(void **state) {
    for (int i = 0; i < GATES; i++)
        sem_init(&gate[i], 0, 0);
    notes = 0;
    return 0;
}

// Also releases the streams that a failed test has left waiting.
static int open_gates(void **state) {
    int errors = 0;
    for (int i = 0; i < 100; i++)
        sem_post(&gate[i % GATES]);
    cudaGetLastError();
    while (stream_count)
        errors += cudaStreamDestroy(streams[--stream_count]);
    while (event_count)
        errors += cudaEventDestroy(events[--event_count]);
    return errors + (int)cudaDeviceSynchronize();
}

// Streams and events.

TEST(arguments_are_copied) {
    unsigned char most[CPU_LAUNCH_BYTES + 1] = {0};
    int number = 1;
    cudaStream_t s = new_stream(0);
    wait_at(s, &gate[0]);
    OK(cpu_launch(s, run_note, &number, sizeof number));
    number = 2;
    memcpy(most, &number, sizeof number);
    OK(cpu_launch(s, run_note, most, CPU_LAUNCH_BYTES));
    REFUSED(cudaErrorInvalidValue, cpu_launch(s, run_note, most, CPU_LAUNCH_BYTES + 1));
    sem_post(&gate[0]);
    OK(cudaDeviceSynchronize());
    assert_int_equal(noted[0], 1);
    assert_int_equal(noted[1], 2);
}

// Two host threads that launch far more than a stream's ring holds (1024).
enum { LAUNCHES = 20000 };
static atomic_int next_number[2], out_of_order;
static cudaStream_t crowded;

static void run_numbered(void *arguments) {
    int *a = arguments;
    out_of_order += a[1] != next_number[a[0]]++;
}

static void *launch_many(void *thread) {
    for (int i = 0; i < LAUNCHES; i++)
        cpu_launch(crowded, run_numbered, (int[]){*(int *)thread, i}, 2 * sizeof(int));
    return NULL;
}

TEST(full_queue_keeps_the_order) {
    pthread_t other;
    crowded = new_stream(cudaStreamNonBlocking);
    next_number[0] = next_number[1] = out_of_order = 0;
    assert_int_equal(pthread_create(&other, NULL, launch_many, &(int){1}), 0);
    launch_many(&(int){0});
    assert_int_equal(pthread_join(other, NULL), 0);
    OK(cudaStreamSynchronize(crowded));
    assert_int_equal(out_of_order, 0);
    assert_int_equal(next_number[0], LAUNCHES);
    assert_int_equal(next_number[1], LAUNCHES);
}

// Each stream waits for the other, so the test ends only if both run at the same time.
TEST(streams_run_concurrently) {
    cudaStream_t a = new_stream(0), b = new_stream(0);
    wait_at(a, &gate[0]);
    open_from(b, &gate[0]);
    wait_at(b, &gate[1]);
    open_from(a, &gate[1]);
    OK(cudaDeviceSynchronize());
}

TEST(events_report_completion) {
    float ms = -1;
    cudaStream_t s = new_stream(0);
    cudaEvent_t start = new_event(0), end = new_event(cudaEventBlockingSync);
    OK(cudaEventRecord(start, s));
    wait_at(s, &gate[0]);
    OK(cudaEventRecord(end, s));
    OK(cudaEventSynchronize(start));
    REFUSED(cudaErrorNotReady, cudaEventQuery(end));
    struct timespec before, after, pause = {0, 3000000};
    clock_gettime(CLOCK_MONOTONIC, &before);
    nanosleep(&pause, NULL); // the time to be measured
    clock_gettime(CLOCK_MONOTONIC, &after);
    double slept = (double)(after.tv_sec - before.tv_sec) * 1e3 +
                   (double)(after.tv_nsec - before.tv_nsec) / 1e6;
    sem_post(&gate[0]);
    OK(cudaEventSynchronize(end));
    OK(cudaEventQuery(end));
    OK(cudaEventElapsedTime(&ms, start, end));
    assert_true(ms >= (float)slept && ms < 60000);
}

TEST(default_stream_takes_turns) {
    cudaStream_t a = new_stream(0), b = new_stream(0), c = new_stream(cudaStreamNonBlocking);
    wait_at(a, &gate[0]);
    note(a, 1);
    note(NULL, 2); // after a, which blocks
    note(b, 3);    // after the default stream
    REFUSED(cudaErrorNotReady, cudaStreamQuery(b));
    note(c, 4); // does not take part
    OK(cudaStreamSynchronize(c));
    assert_int_equal(notes, 1);
    sem_post(&gate[0]);
    OK(cudaStreamSynchronize(b));
    const int order[] = {4, 1, 2, 3};
    for (int i = 0; i < 4; i++)
        assert_int_equal(noted[i], order[i]);
}

// What a thread does beside another one: the errors of one are not those of the other, streams come
// and go, and so does memory.
static void *use_the_device(void *errors) {
    *(int *)errors += cudaGetLastError() != cudaSuccess;
    for (int i = 0; i < 300; i++) {
        cudaStream_t s = NULL;
        char *d = NULL, back = 0;
        cudaError_t error =
            cudaStreamCreateWithFlags(&s, i % 2 ? cudaStreamNonBlocking : cudaStreamDefault);
        for (int n = 0; n < 20 && !error; n++)
            error = cpu_launch(s, run_note, &n, sizeof n);
        *(int *)errors += error || cudaStreamDestroy(s) || cudaMalloc((void **)&d, 5000) ||
                          cudaMemset(d + 4999, 7, 1) ||
                          cudaMemcpy(&back, d + 4999, 1, cudaMemcpyDeviceToHost) || back != 7 ||
                          cudaFree(d);
    }
    return NULL;
}

TEST(threads_share_the_device) {
    int errors[2] = {0, 0};
    pthread_t other;
    REFUSED(cudaErrorInvalidDevice, cudaSetDevice(-1));
    assert_int_equal(pthread_create(&other, NULL, use_the_device, &errors[1]), 0);
    for (int i = 0; i < 1000; i++)
        errors[0] += cpu_launch(NULL, run_note, &i, sizeof i) || cudaDeviceSynchronize();
    assert_int_equal(pthread_join(other, NULL), 0);
    REFUSED(cudaErrorInvalidDevice, cudaGetLastError());
    use_the_device(&errors[0]);
    OK(cudaDeviceSynchronize());
    assert_int_equal(errors[0] + errors[1], 0);
    assert_int_equal(notes, 1000 + 2 * 300 * 20);
}

// Memory.

static float *device_floats(size_t count) {
    float *pointer = NULL;
    OK(cudaMalloc((void **)&pointer, count * sizeof *pointer));
    return pointer;
}

TEST(fresh_memory_is_nan) {
    float host[3000];
    for (int round = 0; round < 2; round++) { // the second time, of memory that has been used
        float *d = device_floats(3000);
        OK(cudaMemcpy(host, d, sizeof host, cudaMemcpyDeviceToHost));
        for (int i = 0; i < 3000; i++)
            assert_true(isnan(host[i]));
        OK(cudaMemset(d, 0, sizeof host));
        OK(cudaFree(d));
    }
}

TEST(copies_move_the_right_bytes) {
    float host[100], back[100];
    float *a = device_floats(100), *b = device_floats(100);
    for (int i = 0; i < 100; i++)
        host[i] = (float)i;
    OK(cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(b, a, sizeof host, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(b + 10, a + 20, 5 * sizeof *a, cudaMemcpyDefault)); // a part of it
    OK(cudaMemset(b + 50, 0, 3));                                     // the low bytes of a float
    OK(cudaMemcpy(back, b, sizeof back, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 100; i++)
        if (i != 50)
            assert_true(back[i] == (float)(i >= 10 && i < 15 ? i + 10 : i));
    uint32_t bits;
    memcpy(&bits, &back[50], sizeof bits);
    assert_int_equal(bits, 0x42000000); // 50 is 0x42480000
    OK(cudaMemcpy(back, host, sizeof host, cudaMemcpyHostToHost));
    assert_memory_equal(back, host, sizeof host);
    OK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice));
    OK(cudaFree(a));
    OK(cudaFree(b));
}

// Makes and frees allocations of random sizes, six of them rarely. None may overlap another, and
// none may be lost.
TEST(allocations_do_not_overlap_or_leak) {
    enum { LIVE = 48, ROUNDS = 10000 };
    static struct {
        uintptr_t start;
        size_t bytes;
    } live[LIVE];
    size_t left_before, left, total, used = 0;
    unsigned random = 1;
    OK(cudaMemGetInfo(&left_before, &total));
    for (int round = 0; round < ROUNDS + LIVE; round++) {
        random = random * 1664525u + 1013904223u;
        int i = round >= ROUNDS ? round - ROUNDS
                : round % 500   ? 6 + (int)(random >> 8) % (LIVE - 6)
                                : round / 500 % 6;
        used -= live[i].bytes;
        OK(cudaFree((void *)live[i].start));
        live[i].start = 0;
        live[i].bytes = 0;
        if (round >= ROUNDS)
            continue;
        size_t bytes = 1 + (random >> 12) % 40000;
        void *pointer = NULL;
        OK(cudaMalloc(&pointer, bytes));
        uintptr_t start = (uintptr_t)pointer;
        assert_int_equal(start % 256, 0);
        for (int other = 0; other < LIVE; other++)
            assert_true(start + bytes <= live[other].start ||
                        live[other].start + live[other].bytes <= start);
        live[i].start = start;
        live[i].bytes = bytes;
        used += bytes;
        OK(cudaMemGetInfo(&left, &total));
        assert_int_equal(left, left_before - used);
    }
    OK(cudaMemGetInfo(&left, &total));
    assert_int_equal(left, left_before);
}

static void run_write(void *arguments) {
    **(volatile float **)arguments = 1;
}

TEST(host_and_device_can_use_pinned_memory) {
    float *pinned = NULL, *d = device_floats(100), copy[100];
    OK(cudaMallocHost((void **)&pinned, sizeof copy));
    assert_true(isnan(pinned[99]));
    float *view = cpu_view(pinned, sizeof copy); // a kernel may use it
    OK(cpu_launch(NULL, run_write, &view, sizeof view));
    OK(cudaMemcpy(d, pinned, sizeof copy, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(copy, d, sizeof copy, cudaMemcpyDeviceToHost));
    OK(cudaDeviceSynchronize());
    assert_memory_equal(copy, pinned, sizeof copy);
    assert_true(pinned[0] == 1);
    OK(cudaFreeHost(pinned));
    OK(cudaFree(d));
}

TEST(sizes_are_parsed) {
    assert_int_equal(cpu_parse_size("512"), 512);
    assert_int_equal(cpu_parse_size("1.5K"), 1536);
    assert_int_equal(cpu_parse_size("64M"), 64 << 20);
    assert_int_equal(cpu_parse_size("2G"), (size_t)2 << 30);
    assert_int_equal(cpu_parse_size("1T"), (size_t)1 << 40);
    const char *wrong[] = {"", "M", "0", "-1M", "64MB", "64 M", "64m", "nan", "inf", "9e99"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(cpu_parse_size(wrong[i]), 0);
}

// The tests that follow run in processes of their own.

static float *allocate_weights(void) {
    float *weights = NULL;
    device_floats(1); // so that it is not the first
    OK(cudaMalloc((void **)&weights, 400));
    return weights;
}

static void host_reads_device_memory(void) {
    volatile float *weights = allocate_weights();
    exit(weights[3] == 0);
}

static void host_reads_freed_memory(void) {
    volatile float *weights = allocate_weights();
    OK(cudaFree((void *)weights));
    exit(weights[0] == 0);
}

static void other_faults_of_the_host_are_unchanged(void) {
    signal(SIGSEGV, SIG_DFL); // what the device's handler must hand it on to
    allocate_weights();
    volatile float *volatile nowhere = (float *)64;
    *nowhere = 1;
}

// Runs a kernel that writes at this offset from the start.
static void kernel_writes_at(size_t offset, int freed) {
    float *weights = allocate_weights();
    char *view = cpu_view(weights, 400);
    assert_non_null(view);
    if (freed)
        OK(cudaFree(weights));
    view += offset;
    OK(cpu_launch(NULL, run_write, &view, sizeof view));
    OK(cudaDeviceSynchronize());
}

static void kernel_writes_past_the_end(void) {
    kernel_writes_at((size_t)sysconf(_SC_PAGESIZE), 0);
}

static void kernel_writes_freed_memory(void) {
    kernel_writes_at(0, 1);
}

// Like ulimit -v in a batch system: few addresses are left, so they are soon used again.
static void leave_addresses(rlim_t bytes) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_true(f && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
    assert_int_equal(setrlimit(RLIMIT_AS, &(struct rlimit){most, most}), 0);
}

static void few_addresses_are_left(void) {
    leave_addresses(200 << 20);
    allocations_do_not_overlap_or_leak(NULL);
}

// Without a file for device memory, this allocation alone meets the limit.
static void pinned_memory_above_ulimit_f(void) {
    void *pointer;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, 1 << 20}), 0);
    OK(cudaMallocHost(&pointer, 512 << 10));
    cudaMallocHost(&pointer, 2 << 20);
}

static void communicator_above_ulimit_f(void) {
    ncclComm_t comm;
    ncclUniqueId id;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000}), 0);
    if (ncclGetUniqueId(&id) || ncclCommInitRank(&comm, 1, id, 0) == ncclSystemError)
        fprintf(stderr, "%s\n", ncclGetLastError(NULL));
}

// Each page with other rights than its neighbour takes a mapping.
static void too_many_mappings(void) {
    enum { MAPPINGS = 1 << 16 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    device_floats(1);
    char *pages = mmap(NULL, MAPPINGS * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 1; i < MAPPINGS && !mprotect(pages + (size_t)i * page, page, PROT_READ); i += 2)
        ;
    for (void *pointer; !cudaMalloc(&pointer, 1);)
        ;
}

// Without addresses for the stack of its thread, a stream cannot start one.
static void stream_without_a_thread(void) {
    cudaStream_t stream;
    device_floats(1);
    leave_addresses(6 << 20);
    cudaStreamCreate(&stream);
}

static void run_deep(void *none) {
    volatile char bytes[512 << 10];
    bytes[0] = bytes[sizeof bytes - 1] = 1;
}

static void ulimit_s_is_small(void) {
    OK(cpu_launch(NULL, run_deep, "", 1));
    OK(cudaDeviceSynchronize());
}

static void first_call_reads_the_variables(void) {
    cudaGetDevice(&(int){0});
}

static int wait_for(pid_t child) {
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void child_of_a_cuda_process_is_refused(void) {
    int n, wrong = 0;
    float ms, host = 3, *d = device_floats(1);
    void *pointer;
    cudaStream_t s = new_stream(0), other;
    cudaEvent_t e = new_event(0);
    cublasHandle_t blas;
    assert_int_equal(cublasCreate(&blas), CUBLAS_STATUS_SUCCESS);
    pid_t child = fork();
    if (child == 0) {
        const cudaError_t errors[] = {
            cudaGetDeviceCount(&n),
            cudaSetDevice(0),
            cudaDeviceSynchronize(),
            cudaMalloc(&pointer, 1),
            cudaFree(d),
            cudaMallocHost(&pointer, 1),
            cudaMemcpy(d, &host, sizeof host, cudaMemcpyHostToDevice),
            cudaMemsetAsync(d, 0, 4, s),
            cudaStreamCreate(&other),
            cudaStreamSynchronize(s),
            cudaStreamQuery(s),
            cudaStreamWaitEvent(s, e, 0),
            cudaStreamDestroy(s),
            cudaEventRecord(e, s),
            cudaEventSynchronize(e),
            cudaEventElapsedTime(&ms, e, e),
            cudaEventDestroy(e),
            cpu_launch(s, run_note, &n, sizeof n),
            cudaGetLastError(),
        };
        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
            wrong += errors[i] != cudaErrorInitializationError;
        wrong += cublasCreate(&blas) != CUBLAS_STATUS_NOT_INITIALIZED;
        _exit(wrong);
    }
    assert_int_equal(wait_for(child), 0);
    OK(cudaMemcpyAsync(d, &host, sizeof host, cudaMemcpyHostToDevice, s));
    OK(cudaMemcpyAsync(&ms, d, sizeof ms, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    assert_true(ms == 3);
    OK(cudaEventDestroy(e));
    assert_int_equal(cublasDestroy(blas), CUBLAS_STATUS_SUCCESS);
}

// The fork happens while another thread holds the device's lock, so the lock stays locked in the
// child.
static void child_of_a_cuda_process_cannot_launch_kernels(void) {
    OK(cudaDeviceSynchronize());
    pthread_mutex_lock(&cpu_lock);
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        _exit(cpu_launch(NULL, run_note, "", 1));
    }
    pthread_mutex_unlock(&cpu_lock);
    int status = wait_for(child);
    assert_true(WIFEXITED(status));
    exit(WEXITSTATUS(status));
}

static void children_may_use_cuda_if_the_parent_has_not(void) {
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            float one = 1, *d = NULL;
            _exit(cudaSetDevice(i) || cudaMalloc((void **)&d, 4) ||
                  cudaMemcpy(d, &one, 4, cudaMemcpyHostToDevice) || cudaFree(d));
        }
        assert_int_equal(wait_for(child), 0);
    }
    first_call_reads_the_variables();
    OK(cudaGetLastError());
}

static atomic_int computing;
static cudaStream_t waiting;

static void run_long(void *arguments) {
    struct timespec pause = {0, 100000000}; // the time that it computes
    computing = 1;
    sem_post(*(sem_t **)arguments);
    nanosleep(&pause, NULL);
    computing = 0;
}

static void libraries_are_unloaded(void) {
    _exit(computing ? 9 : waiting->busy ? 8 : 3);
}

// The device stops its kernels before libraries free their data. Streams that wait do not delay the
// exit.
static void exit_while_kernels_run(void) {
    atexit(libraries_are_unloaded); // handlers run in reverse order, so this one after the device's
    close_gates(NULL);
    cudaStream_t s = new_stream(0);
    waiting = new_stream(0);
    cudaEvent_t e = new_event(0);
    sem_t *begun = &gate[0];
    OK(cpu_launch(s, run_long, &begun, sizeof begun));
    OK(cpu_launch(s, run_long, &begun, sizeof begun));
    OK(cudaEventRecord(e, s));
    OK(cudaStreamWaitEvent(waiting, e, 0));
    sem_wait(begun);
    exit(0);
}

// The library of matrix products must not free its data during a product, or some of the children
// would crash.
static void exit_while_products_run(void) {
    for (int i = 0; i < 8; i++) {
        int status;
        if (fork() == 0) {
            enum { N = 512 };
            const float one = 1, zero = 0;
            cublasHandle_t blas;
            float *x = NULL;
            cublasCreate(&blas);
            cudaMalloc((void **)&x, 3 * N * N * sizeof *x);
            for (int product = 0; product < 5; product++)
                cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, x, N, x + N * N, N,
                            &zero, x + 2 * N * N, N);
            exit(3);
        }
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    }
    exit(0);
}

static void three_devices(void) {
    int n = 0, current = -1;
    struct cudaDeviceProp properties;
    char id[16];
    OK(cudaGetDeviceCount(&n));
    assert_int_equal(n, 3);
    OK(cudaGetDevice(&current));
    assert_int_equal(current, 0);
    OK(cudaSetDevice(2));
    OK(cudaGetDevice(&current));
    assert_int_equal(current, 2);
    OK(cudaGetDeviceProperties(&properties, 2));
    assert_non_null(strstr(properties.name, "CPU device"));
    assert_non_null(strstr(properties.name, "no GPU, CPU_DEVICE_CHAOS=1, CPU_DEVICE_CHECK=1)"));
    assert_int_equal(properties.pciBusID, 2);
    OK(cudaDeviceGetPCIBusId(id, sizeof id, 2));
    assert_string_equal(id, "0000:02:00.0");
}

// Ends with the number of devices and the bus of the first one, or with the error.
#define SEES(devices, first_bus) (16 * (devices) + (first_bus))
static void devices_are_visible(void) {
    int n = 0;
    struct cudaDeviceProp first;
    cudaError_t error = cudaGetDeviceCount(&n);
    if (!error) {
        REFUSED(cudaErrorInvalidDevice, cudaSetDevice(n));
        OK(cudaGetDeviceProperties(&first, 0));
    }
    exit(error ? (int)error : SEES(n, first.pciBusID));
}

static atomic_int written, seen;

static void run_set(void *arguments) {
    written = *(int *)arguments;
}

static void run_see(void *arguments) {
    seen = written == *(int *)arguments;
}

// Returns how often stream b reads before stream a has written.
static int reads_too_early(cudaStream_t a, cudaStream_t b, int with_wait) {
    int early = 0;
    cudaEvent_t e = new_event(cudaEventDisableTiming);
    for (int round = 1; round <= 100; round++) {
        OK(cpu_launch(a, run_set, &round, sizeof round));
        OK(cudaEventRecord(e, a));
        if (with_wait)
            OK(cudaStreamWaitEvent(b, e, 0));
        OK(cpu_launch(b, run_see, &round, sizeof round));
        OK(cudaDeviceSynchronize());
        early += !seen;
    }
    return early;
}

static void random_delays_reveal_a_missing_wait(void) {
    cudaStream_t a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
    assert_int_equal(reads_too_early(a, b, 1), 0);
    int early = reads_too_early(a, b, 0);
    assert_true(early > 0 && early < 100);
}

// With random delays, the first launch of a kernel on a device waits until the device has no work.
// Later launches do not.
static void first_launch_waits_for_the_device(void) {
    sem_t *begun = &gate[0], *hold = &gate[1];
    close_gates(NULL);
    for (int device = 0; device < 2; device++) {
        OK(cudaSetDevice(device));
        cudaStream_t a = new_stream(cudaStreamNonBlocking), b = new_stream(cudaStreamNonBlocking);
        OK(cpu_launch(a, run_long, &begun, sizeof begun));
        sem_wait(begun);
        note(b, 1);
        OK(cudaStreamQuery(a));
        wait_at(a, hold);
        note(b, 2);
        OK(cudaStreamSynchronize(b));
        sem_post(hold);
        OK(cudaStreamSynchronize(a));
    }
}

// Three threads hand batches on: one writes them into pinned memory, one copies them to the device
// on a stream of its own, and this one adds them up. Both buffers lie in the same page.
enum { BATCHES = 60, BATCH = 100 };
static struct buffer {
    int *pinned, *device;
    cudaEvent_t copied, used; // made by this thread
    sem_t is_free, is_full, is_queued, is_used;
} buffers[2];
static long added; // by the kernels

static void *write_batches(void *none) {
    for (int n = 0; n < BATCHES; n++) {
        sem_wait(&buffers[n % 2].is_free);
        for (int i = 0; i < BATCH; i++)
            buffers[n % 2].pinned[i] = n;
        sem_post(&buffers[n % 2].is_full);
    }
    return NULL;
}

static void *copy_batches(void *none) {
    int device = -1;
    cudaStream_t s = NULL;
    int errors = cudaGetDevice(&device) || device != 0; // each thread has a current device
    errors += cudaSetDevice(1) || cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
    for (int n = 0; n < BATCHES; n++) {
        struct buffer *b = &buffers[n % 2];
        errors += cudaEventSynchronize(b->copied) != cudaSuccess; // the copy of two batches ago
        sem_post(&b->is_free);
        sem_wait(&b->is_full);
        sem_wait(&b->is_used);
        errors +=
            cudaStreamWaitEvent(s, b->used, 0) ||
            cudaMemcpyAsync(b->device, b->pinned, BATCH * sizeof(int), cudaMemcpyHostToDevice, s) ||
            cudaEventRecord(b->copied, s);
        sem_post(&b->is_queued);
    }
    errors += cudaStreamDestroy(s) != cudaSuccess;
    return (void *)(intptr_t)errors;
}

static void run_add_up(void *arguments) {
    const int *batch = *(const int **)arguments;
    for (int i = 0; i < BATCH; i++)
        added += batch[i];
}

static void threads_hand_batches_on(void) {
    pthread_t writer, copier;
    void *errors;
    int *pinned;
    OK(cudaSetDevice(1));
    OK(cudaMallocHost((void **)&pinned, 2 * BATCH * sizeof(int)));
    cudaStream_t s = new_stream(cudaStreamNonBlocking);
    for (int i = 0; i < 2; i++) {
        buffers[i].pinned = pinned + i * BATCH;
        sem_post(&buffers[i].is_used);
        buffers[i].copied = new_event(cudaEventDisableTiming);
        buffers[i].used = new_event(cudaEventDisableTiming);
        OK(cudaMalloc((void **)&buffers[i].device, BATCH * sizeof(int)));
    }
    assert_int_equal(pthread_create(&writer, NULL, write_batches, NULL), 0);
    assert_int_equal(pthread_create(&copier, NULL, copy_batches, NULL), 0);
    for (int n = 0; n < BATCHES; n++) {
        sem_wait(&buffers[n % 2].is_queued);
        OK(cudaStreamWaitEvent(s, buffers[n % 2].copied, 0));
        void *view = cpu_view(buffers[n % 2].device, BATCH * sizeof(int));
        cpu_uses("add_up", buffers[n % 2].device, BATCH * sizeof(int), 0);
        OK(cpu_launch(s, run_add_up, &view, sizeof view));
        OK(cudaEventRecord(buffers[n % 2].used, s));
        sem_post(&buffers[n % 2].is_used);
    }
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_int_equal(pthread_join(copier, &errors), 0);
    OK(cudaStreamSynchronize(s));
    assert_null(errors);
    assert_int_equal(added, BATCH * BATCHES * (BATCHES - 1) / 2);
    OK(cudaFreeHost(pinned));
}

static const struct alone cases[] = {
#define ALONE(test, variables, ...)                                                                \
    { #test, variables, test, __VA_ARGS__ }
#define WRONG(variables, text) ALONE(first_call_reads_the_variables, variables, 1, {"error: " text})
    ALONE(host_reads_device_memory, "", 1,
          {"host code touched byte 12 of the 400 bytes from cudaMalloc(&weights)",
           "test_cpu_device.c:", "cudaMemcpy"}),
    ALONE(host_reads_freed_memory, "", 1, {"host code touched", "not allocated (freed"}),
    ALONE(other_faults_of_the_host_are_unchanged, "", -SIGSEGV, {NULL}),
    ALONE(kernel_writes_past_the_end, "", 1, {"a kernel touched byte ", " of the 400 bytes", "c:"}),
    ALONE(kernel_writes_freed_memory, "", 1, {"a kernel touched", "not allocated (freed"}),
    ALONE(few_addresses_are_left, "", 0, {NULL}),
    ALONE(pinned_memory_above_ulimit_f, "CPU_DEVICE_CHECK=1", 1,
          {"error: CPU_DEVICE_CHECK=1", "ulimit -f unlimited"}),
    ALONE(communicator_above_ulimit_f, "", 0, {"File too large", "ulimit -f unlimited"}),
    ALONE(ulimit_s_is_small, "prlimit --stack=262144", 0, {NULL}),
    WRONG("CPU_DEVICE_MEMORY=64MB", "CPU_DEVICE_MEMORY=64MB: want a size"),
    WRONG("CPU_DEVICE_MEMORY=", "CPU_DEVICE_MEMORY=: want a size"),
    WRONG("CPU_DEVICES=two", "CPU_DEVICES=two: want a whole number"),
    WRONG("CPU_DEVICES=0", "CPU_DEVICES=0: want a whole number"),
    WRONG("CPU_DEVICES=65", "CPU_DEVICES=65: want at most 64"),
    WRONG("CPU_DEVICES=3 CPU_DEVICE_MODEL=h100 CPU_DEVICE_LOST=3:1",
          "CPU_DEVICE_LOST: there is no device 3, because the last of 3 is device 2"),
    WRONG("CPU_DEVICE_TOPOLOGY=1x3 CPU_DEVICE_MODEL=h100 CPU_DEVICE_SLOW=1-5:2",
          "CPU_DEVICE_SLOW: there is no device 5, because the last of 3 is device 2"),
    WRONG("CPU_DEVICE_CHAOS=-1", "CPU_DEVICE_CHAOS=-1: want a whole number"),
    WRONG("CPU_DEVICE_CHECK=yes", "CPU_DEVICE_CHECK=yes: want 1 or 0"),
    WRONG("CPU_DEVICE_TIMEOUT=5s", "CPU_DEVICE_TIMEOUT=5s: want a whole number"),
    WRONG("CPU_DEVICE_COUNTS=/no/file", "CPU_DEVICE_COUNTS=/no/file: cannot open the file"),
    WRONG("CPU_DEVICE_MODLE=h100", "CPU_DEVICE_MODLE=h100: the CPU device has no such variable; "
                                   "the nearest one is CPU_DEVICE_MODEL"),
    WRONG("CPU_DEVICE_CHEK=1", "CPU_DEVICE_CHEK=1: the CPU device has no such variable; the "
                               "nearest one is CPU_DEVICE_CHECK"),
    WRONG("CPU_DEVICE=4", "CPU_DEVICE=4: the CPU device has no such variable; the nearest one is "
                          "CPU_DEVICES"),
    WRONG("CPUDEVICES=4", "CPUDEVICES=4: the CPU device has no such variable"),
    ALONE(child_of_a_cuda_process_is_refused, "", 0, {NULL}),
    ALONE(child_of_a_cuda_process_cannot_launch_kernels, "", cudaErrorInitializationError, {NULL}),
    ALONE(children_may_use_cuda_if_the_parent_has_not, "CPU_DEVICES=2", 0, {NULL}),
    ALONE(exit_while_kernels_run, "", 3, {NULL}),
    ALONE(exit_while_products_run, "", 0, {NULL}),
    ALONE(three_devices, "CPU_DEVICES=3 CPU_DEVICE_CHECK=1 CPU_DEVICE_CHAOS=1", 0, {NULL}),
    ALONE(devices_are_visible, "CPU_DEVICES=4 CUDA_VISIBLE_DEVICES=3,0", SEES(2, 3), {NULL}),
    ALONE(devices_are_visible, "CPU_DEVICES=4 CUDA_VISIBLE_DEVICES=1,4,0", SEES(1, 1), {NULL}),
    ALONE(devices_are_visible, "CUDA_VISIBLE_DEVICES=", cudaErrorNoDevice, {NULL}),
    ALONE(devices_are_visible, "CUDA_VISIBLE_DEVICES=-1", cudaErrorNoDevice, {NULL}),
    ALONE(threads_hand_batches_on, "CPU_DEVICES=2", 0, {NULL}),
    ALONE(threads_hand_batches_on, "CPU_DEVICES=2 CPU_DEVICE_CHECK=1", 0, {NULL}),
    ALONE(threads_hand_batches_on, "CPU_DEVICES=2 CPU_DEVICE_CHAOS=1", 0, {NULL}),
    ALONE(threads_hand_batches_on, "CPU_DEVICES=2 CPU_DEVICE_CHECK=1 CPU_DEVICE_CHAOS=2", 0,
          {NULL}),
    ALONE(random_delays_reveal_a_missing_wait, "CPU_DEVICE_CHAOS=1", 0, {NULL}),
    ALONE(first_launch_waits_for_the_device, "CPU_DEVICES=2 CPU_DEVICE_CHAOS=1", 0, {NULL}),
    // The last two, for which a sanitizer leaves no addresses and mappings.
    ALONE(stream_without_a_thread, "", 1,
          {"error: CPU device: cannot start a thread", "ulimit -v"}),
    ALONE(too_many_mappings, "", 1, {"error: CPU device", "vm.max_map_count"}),
};
enum { CASES = sizeof cases / sizeof *cases };

int main(int argc, char **argv) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); // several tests die on purpose
    alarm(120);                                     // instead of hanging for ever
    if (run_or_add(cases, SANITIZED ? CASES - 2 : CASES, argc, argv))
        return 0;
    const char *ours[] = {"CPU_DEVICES", "CPU_DEVICE_MEMORY", "CPU_DEVICE_CHAOS",
                          "CUDA_VISIBLE_DEVICES"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        unsetenv(ours[i]);
    return run_all_tests((struct around){.begin = close_gates, .end = open_gates});
}
