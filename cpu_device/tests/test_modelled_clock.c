// Tests of the modelled clock: timelines that are computed by hand, with the rates of round.model.
// All times are in microseconds. Each test runs in new processes, whose clocks start at 0. Nothing
// is computed (CPU_DEVICE_COMPUTE=0), except in a few tests, whose times are the same.
#include "../src/comm.h"
#include "kernels.h"
#include "one_transfer.h"
#include "ranks.h"
#include <cublas_v2.h>

enum { MB = 1000000 };
static const double LAUNCH = 2, EVENT = 1, COLLECTIVE = 6, WAKE = 3, LATENCY = 4, GAP = 1,
                    KERNEL = 0.25, PRODUCT_CALL = 2.5, PRODUCT = 5;

static char *memory;
static cudaStream_t a, b;

// Queues a kernel of this many microseconds, including its fixed time and the gap before it.
static void kernel(cudaStream_t stream, double us) {
    OK(cudaMemsetAsync(memory, 0, (size_t)((us - GAP - KERNEL) * MB), stream));
}

static cudaEvent_t record(cudaStream_t stream) {
    cudaEvent_t event;
    OK(cudaEventCreate(&event));
    OK(cudaEventRecord(event, stream));
    return event;
}

// Returns the microseconds between two events. The first one may be later.
static double between(cudaEvent_t from, cudaEvent_t to) {
    float ms = NAN;
    OK(cudaEventSynchronize(from));
    OK(cudaEventSynchronize(to));
    OK(cudaEventElapsedTime(&ms, from, to));
    return ms * 1e3;
}

static void same_time(double wanted, double got, int line) {
    here(line);
    if (fabs(wanted - got) > 1e-3)
        give_up(line, "the time is %.4f us, not %.4f us", got, wanted);
}
#define TAKES(us, from, to) same_time(us, between(from, to), __LINE__)

// Allocates memory for kernels of the rank's device, makes two streams, joins the other ranks, and
// waits for all work.
static void begin(int n, int rank) {
    if (n > 1)
        comm = join(n, rank);
    else
        OK(cudaSetDevice(rank));
    a = new_stream();
    b = new_stream();
    OK(cudaMalloc((void **)&memory, (cpu_computes ? 150 : 1000) * MB));
    OK(cudaDeviceSynchronize());
}

// The host calls: record at 1, kernel at 3, record at 4, kernel at 6, record at 7. An operation
// starts 4 later at the earliest.
static void use_one_stream(int rank) {
    cudaEvent_t start = record(a);
    kernel(a, 5);
    cudaEvent_t first = record(a);
    kernel(a, 5);
    cudaEvent_t second = record(a);
    TAKES(LAUNCH + 5, start, first); // the kernel starts at 3 + 4, the record before it is at 1 + 4
    TAKES(5, first, second);         // the second kernel is queued before the first one ends
}

// A host that calls too slowly: each kernel is shorter than the call that queues it.
static void launch_short_kernels(int rank) {
    cudaEvent_t start = record(a);
    for (int i = 0; i < 50; i++)
        kernel(a, 1.5);
    TAKES(50 * LAUNCH + 1.5, start, record(a));
}

// A launch costs a call, and a little for each kernel. Between the kernels is half the gap.
static void launch_a_graph(int rank) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 50; i++)
        kernel(a, 1.5);
    OK(cudaStreamEndCapture(a, &graph));
    OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    cudaEvent_t start = record(a);
    OK(cudaGraphLaunch(exec, a));
    TAKES(LAUNCH + 50 * 0.1 + 50 * (1.5 - GAP / 2), start, record(a));
}

// a: kernel 50 | record. b: kernel 10, waits for the record, kernel 20.
static void wait_for_the_other_stream(int rank) {
    cudaEvent_t start = record(a);
    kernel(a, 50);
    cudaEvent_t done = record(a);
    kernel(b, 10);
    OK(cudaStreamWaitEvent(b, done, 0));
    kernel(b, 20);
    cudaEvent_t end = record(b);
    TAKES(LAUNCH + 50, start, done);
    TAKES(20, done, end);
}

static void *await_event(void *event) {
    while (cudaEventQuery(event) == cudaErrorNotReady)
        rest();
    return NULL;
}

static void run_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, run, argument), "no thread");
    pthread_join(thread, NULL);
}

// An event that is completed in reality orders the modelled times all the same. Only the thread
// that has seen its end goes on at this time.
static void wait_for_an_old_event(int rank) {
    kernel(a, 50);
    cudaEvent_t done = record(a);
    run_thread(await_event, done);
    OK(cudaStreamWaitEvent(b, done, 0));
    TAKES(0, done, record(b));
}

// Work that the host queues after it has seen the end of other work begins after that end.
static void see_the_end(int rank) {
    kernel(a, 50);
    cudaEvent_t done = record(a);
    await_event(done);
    TAKES(EVENT + LATENCY, done, record(b));
    kernel(a, 50);
    done = record(a);
    while (cudaStreamQuery(a) == cudaErrorNotReady)
        rest();
    TAKES(EVENT + LATENCY, done, record(b));
}

// How often the host asks depends on the speed of the machine, so it costs no modelled time.
static void ask_in_vain(int rank) {
    hold(a, GO);
    cudaEvent_t held = record(a), start = record(b);
    for (int i = 0; i < 100; i++) {
        REFUSED(cudaErrorNotReady, cudaEventQuery(held));
        REFUSED(cudaErrorNotReady, cudaStreamQuery(a));
    }
    TAKES(EVENT, start, record(b));
    post(GO);
}

static cudaEvent_t in_thread;

static void *record_in_thread(void *unused) {
    in_thread = record(b);
    return unused;
}

// A new thread is as late as the others.
static void make_a_thread(int rank) {
    kernel(a, 50);
    cudaEvent_t done = record(a);
    OK(cudaStreamSynchronize(a));
    run_thread(record_in_thread, NULL);
    TAKES(WAKE + EVENT + LATENCY, done, in_thread);
}

static void *read_a_file(void *time) {
    double *begin = time;
    cpu_host_moves_to(*begin);
    cpu_host_moves_to(cpu_moment() + 400e-6);
    in_thread = record(b);
    cpu_host_moves_to(cpu_moment() + 300e-6);
    *begin = cpu_moment();
    return NULL;
}

// A thread begins when this one has started it, and works for 400 and 300 us. Meanwhile, this
// thread works for 500 us, and then waits for the other one.
static void work_in_two_threads(int rank) {
    double time = cpu_moment();
    cudaEvent_t start = record(a);
    cpu_host_moves_to(cpu_moment() + 500e-6);
    cudaEvent_t mine = record(a);
    run_thread(read_a_file, &time);
    cpu_host_moves_to(time);
    cudaEvent_t after = record(a);
    TAKES(500 + EVENT, start, mine);
    TAKES(400, start, in_thread);
    TAKES(700 + EVENT, start, after);
}

// The host may run a collective itself, and then keeps its own time, which is later here.
static void work_and_then_wait(int rank) {
    for (int i = 0; i < 20; i++) {
        double begin = cpu_moment();
        OK(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comm, a));
        cpu_host_moves_to(begin + 500e-6);
        OK(cudaStreamSynchronize(a));
        same_time(500 + WAKE, (cpu_moment() - begin) * 1e6, __LINE__);
    }
}

// A kernel that changes an array reads and writes it: an addition moves three floats.
static void change_arrays(int rank) {
    float *x = (float *)memory;
    cudaEvent_t start = record(a);
    add(x, x + MB, MB, a);
    TAKES(LAUNCH + GAP + KERNEL + 12, start, record(a));
}

// A matrix of 600 x 600 has 5 x 5 tiles of 128 x 128: 2 x 640 x 640 x 1000 operations take
// 8.192 us.
static void multiply(int rank) {
    cublasHandle_t handle;
    const float one = 1, *in = (float *)memory;
    CHECK(!cublasCreate(&handle) && !cublasSetStream(handle, a), "no handle");
    cudaEvent_t start = record(a);
    CHECK(!cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 600, 600, 1000, &one, in, 600, in, 1000,
                       &one, (float *)memory + MB, 600),
          "no product");
    TAKES(PRODUCT_CALL + GAP + PRODUCT + 8.192, start, record(a));
}

static void compute(cudaStream_t stream, size_t bytes, double instructions) {
    cpu_uses("compute", memory, bytes, 1);
    cpu_executes(instructions);
    launch_nothing(stream);
}

// 50 instructions for each of 10^6 elements take 5 us: less than 8 bytes of each, and more than 4.
static void count_instructions(int rank) {
    cudaEvent_t start = record(a);
    compute(a, 8 * MB, 50. * MB);
    cudaEvent_t first = record(a);
    compute(a, 4 * MB, 50. * MB);
    cudaEvent_t second = record(a);
    cpu_multiplies(1e9, 0); // 2 us
    compute(a, 4 * MB, 50. * MB);
    cudaEvent_t third = record(a);
    cpu_multiplies(1e9, 1); // 4 us
    compute(a, 4 * MB, 50. * MB);
    cudaEvent_t fourth = record(a);
    TAKES(LAUNCH + GAP + KERNEL + 8, start, first);
    TAKES(GAP + KERNEL + 5, first, second);
    TAKES(GAP + KERNEL + 5 + 2, second, third);
    TAKES(GAP + KERNEL + 5 + 4, third, fourth);
}

// The host sleeps until the kernel has ended, then wakes up and records an event.
static void let_the_host_wait(int rank) {
    kernel(a, 50);
    cudaEvent_t done = record(a);
    OK(cudaStreamSynchronize(a));
    TAKES(WAKE + EVENT + LATENCY, done, record(a));
}

// The host waits for a copy of pageable memory, which is slower, before it records the event.
static void copy_pageable_memory(int rank) {
    static char pageable[MB];
    char *pinned;
    OK(cudaMallocHost((void **)&pinned, MB));
    cudaEvent_t start = record(a);
    OK(cudaMemcpyAsync(memory, pinned, MB, cudaMemcpyHostToDevice, a));
    cudaEvent_t copied = record(a);
    OK(cudaMemcpyAsync(memory, pageable, MB, cudaMemcpyHostToDevice, a));
    cudaEvent_t staged = record(a);
    TAKES(LAUNCH + GAP + 20, start, copied);
    TAKES(GAP + 40 + EVENT + LATENCY, copied, staged);
}

// The queue holds 1024 operations. Operation n waits in the host until operation n - 1024 has
// ended.
static void fill_the_queue(int rank) {
    enum { KERNELS = 1500, RING = 1024 };
    cudaEvent_t start = record(a); // operation 0 of the stream
    for (int i = 0; i < KERNELS; i++)
        kernel(a, 10);
    double last_wait = LAUNCH + 10. * (KERNELS - RING); // when operation 1500 - 1024 has ended
    TAKES(last_wait + EVENT + LATENCY, start, record(b));
}

static double all_reduce_us(size_t floats, int ranks) {
    const int devices[] = {0, 1, 2, 3};
    return 1e6 * cpu_model_collective(CALL_ALL_REDUCE, 4. * (double)floats, devices, ranks);
}

// A layer of backward on stream a, then the sum of its gradients on stream b during the layer
// before, which takes this many microseconds more or less than the sum. After both, a update on
// stream a.
static void hide(int rank, double longer) {
    enum { FLOATS = 10 * MB };
    float *gradients = new_floats(FLOATS, 1);
    double sum = all_reduce_us(FLOATS, 2);
    OK(ncclAllReduce(gradients, gradients, 1, ncclFloat, ncclSum, comm, a)); // the clocks are equal
    kernel(a, 100);
    cudaEvent_t first = record(a);
    OK(cudaStreamWaitEvent(b, first, 0));
    OK(ncclAllReduce(gradients, gradients, FLOATS, ncclFloat, ncclSum, comm, b));
    kernel(a, sum + longer);
    cudaEvent_t second = record(a), summed = record(b);
    OK(cudaStreamWaitEvent(a, summed, 0));
    cudaEvent_t both = record(a);
    TAKES(sum, first, summed);
    TAKES(longer > 0 ? sum + longer : sum, first, both);
    TAKES(longer > 0 ? 0 : -longer, second, both); // the part of the sum that shows
}

static void hide_all(int rank) {
    hide(rank, 30);
}

static void hide_a_part(int rank) {
    hide(rank, -30);
}

// Rank 2 takes longer, so all others wait in the sum; then all clocks are equal.
static void wait_for_the_straggler(int rank) {
    float *x = new_floats(4, 1);
    double sum = all_reduce_us(1, 4);
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, a));
    cudaEvent_t start = record(a);
    kernel(a, 101); // CPU_DEVICE_SLOW=2:1.5
    cudaEvent_t mine = record(a);
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, a));
    cudaEvent_t summed = record(a);
    TAKES(rank == 2 ? 151.5 : 101, start, mine);
    TAKES(rank == 2 ? sum : 50.5 + sum, mine, summed);
}

// The transfers of a group share a link and a protocol. One message of 100 kB is faster with LL,
// and two are faster with Simple.
static void share_a_link(int rank) {
    enum { N = 3 };
    float *x = new_floats(MB, 1), *y = new_floats(2 * MB, 0);
    for (size_t count = MB; count >= MB / 40; count /= 40) {
        double us = INFINITY;
        for (int protocol = 0; protocol < CPU_PROTOCOLS; protocol++) {
            struct cpu_transfer t = cpu_model_transfer(protocol, 4. * (double)count, 0, 1);
            us = fmin(us, 1e6 * (t.latency + fmax(rank ? t.link : 2 * t.link, t.path)));
        }
        OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, a));
        cudaEvent_t start = record(a);
        OK(ncclGroupStart());
        for (int p = 1; p < N && rank == 0; p++)
            OK(ncclRecv(y + (p - 1) * MB, count, ncclFloat, p, comm, a));
        if (rank > 0)
            OK(ncclSend(x, count, ncclFloat, 0, comm, a));
        OK(ncclGroupEnd());
        TAKES(us, start, record(a));
    }
}

// A rank that arrives late at a group of send and receive holds up its successor only.
static void receive_late(int rank) {
    float *x = new_floats(4, 1);
    double transfer = 1e6 * one_transfer(16, 0, 1);
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, a));
    cudaEvent_t start = record(a);
    kernel(a, rank == 0 ? 150 : 50);
    if (rank == 0)
        OK(ncclSend(x, 4, ncclFloat, 1, comm, a));
    if (rank == 1)
        OK(ncclRecv(x, 4, ncclFloat, 0, comm, a));
    TAKES(rank == 2 ? 50 : 150 + transfer, start, record(a));
}

// Calls of one communicator run one after the other, even in different streams.
static void use_two_streams(int rank) {
    float *x = new_floats(2 * MB, 1);
    double sum = all_reduce_us(MB, 2);
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, a));
    kernel(a, 50); // meanwhile, the host queues all that follows
    cudaEvent_t start = record(a);
    OK(cudaStreamWaitEvent(b, start, 0));
    OK(ncclAllReduce(x, x, MB, ncclFloat, ncclSum, comm, a));
    OK(ncclAllReduce(x + MB, x + MB, MB, ncclFloat, ncclSum, comm, b));
    TAKES(2 * sum, start, record(b));
}

// The host pays for calls, and a call of NCCL costs more. All operations are short.
static void call_nccl(int rank) {
    float *x = new_floats(4, 1);
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, a));
    OK(cudaStreamSynchronize(a));
    cudaEvent_t before = record(b);
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, a));
    TAKES(COLLECTIVE + EVENT, before, record(b));
}

// GPU 1 fails in a kernel. The sum that its rank has queued after the kernel does not run, so rank
// 0 waits until rank 1 has ended, and gets no sum of old numbers.
static void lose_a_device(int rank) {
    float *x = new_floats(4, 1);
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, a));
    kernel(a, 140); // CPU_DEVICE_LOST=1:0.0001
    OK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, a));
    if (rank == 1) {
        REFUSED(cudaErrorLaunchFailure, cudaStreamSynchronize(a));
        post(DONE);
        await(GO, 1);
        return;
    }
    await(DONE, 1);
    for (double end = clock_now() + 0.3; clock_now() < end; rest())
        REFUSED(cudaErrorNotReady, cudaStreamQuery(a));
    post(GO);
    REFUSED(cudaErrorLaunchFailure, cudaStreamSynchronize(a));
    FAILS(comm, a, ncclRemoteError, "rank 1", "has ended");
}

static void one(void (*run)(int rank)) {
    run_after(begin, 1, run);
}

TEST(work_follows_what_the_host_has_seen) {
    one(see_the_end);
    setenv("CPU_DEVICE_COMPUTE", "1", 1); // a stream that computes nothing is never held up
    one(ask_in_vain);
    setenv("CPU_DEVICE_COMPUTE", "0", 1);
}

// Runs the ranks with this variable, without and with arithmetic.
static void run_both(const char *name, const char *value, int ranks, void (*run)(int rank)) {
    setenv(name, value, 1);
    run_after(begin, ranks, run);
    setenv("CPU_DEVICE_COMPUTE", "1", 1);
    run_after(begin, ranks, run);
    setenv("CPU_DEVICE_COMPUTE", "0", 1);
    unsetenv(name);
}

TEST(all_ranks_wait_for_a_straggler) {
    run_both("CPU_DEVICE_SLOW", "2:1.5", 4, wait_for_the_straggler);
}

TEST(times_travel_with_messages_between_hosts) {
    set_hosts("aabb");
    setenv("CPU_DEVICE_SLOW", "2:1.5", 1);
    run_after(begin, 4, wait_for_the_straggler);
    unsetenv("CPU_DEVICE_SLOW");
}

TEST(a_lost_device_sends_nothing) {
    run_both("CPU_DEVICE_LOST", "1:0.0001", 2, lose_a_device);
}

#define TIMED(promise, n, run)                                                                     \
    add_test(#promise ": " #run, run_row, &(struct row){n, run, NULL, begin})

int main(int argc, char **argv) {
    TIMED(operations_of_a_stream_follow_each_other, 1, use_one_stream);
    TIMED(a_slow_host_holds_up_short_kernels, 1, launch_short_kernels);
    TIMED(a_graph_needs_one_call, 1, launch_a_graph);
    TIMED(a_stream_waits_for_an_event, 1, wait_for_the_other_stream);
    TIMED(a_stream_waits_for_an_event, 1, wait_for_an_old_event);
    TIMED(a_new_thread_is_as_late_as_the_others, 1, make_a_thread);
    TIMED(the_program_says_how_long_its_threads_work, 1, work_in_two_threads);
    TIMED(kernels_take_their_bytes_or_their_instructions, 1, change_arrays);
    TIMED(kernels_take_their_bytes_or_their_instructions, 1, count_instructions);
    TIMED(a_product_takes_the_time_of_whole_tiles, 1, multiply);
    TIMED(the_host_waits_for_a_stream, 1, let_the_host_wait);
    TIMED(the_host_waits_for_a_stream, 1, copy_pageable_memory);
    TIMED(the_host_waits_for_a_stream, 2, work_and_then_wait);
    TIMED(the_host_waits_for_room_in_the_queue, 1, fill_the_queue);
    TIMED(a_sum_is_hidden_if_backward_is_longer, 2, hide_all);
    TIMED(a_sum_is_hidden_if_backward_is_longer, 2, hide_a_part);
    TIMED(sends_and_receives_take_their_time, 3, receive_late);
    TIMED(sends_and_receives_take_their_time, 3, share_a_link);
    TIMED(calls_of_a_communicator_follow_each_other, 2, use_two_streams);
    TIMED(calls_cost_time_on_the_host, 2, call_nccl);
    setenv("CPU_DEVICE_MODEL", "tests/round.model", 1);
    setenv("CPU_DEVICE_COMPUTE", "0", 1);
    return run_rank_tests(argc, argv);
}
