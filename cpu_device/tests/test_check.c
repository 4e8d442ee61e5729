// Tests of the checker of ordering: faults that it must find, and correct programs.
//
// Each case runs in a process of its own, with its name as the argument of the program.
// A correct case must end with 0 and print nothing. A case with a fault must end at once, with a
// report that names both operations.
#include "again.h"
#include "kernels.h"
#include "light.h"
#include <nccl.h>
#include <sys/mman.h>

// Any call of CUDA, cuBLAS or NCCL.
#undef OK
#define OK(call)                                                                                   \
    do {                                                                                           \
        int result = (int)(call);                                                                  \
        if (result) {                                                                              \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call,                                  \
                    cudaGetErrorString((cudaError_t)result));                                      \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

enum { FLOATS = 1000, BYTES = FLOATS * sizeof(float) };

static cudaStream_t a, b;     // take no turns with the default stream
static cudaEvent_t event;     // recorded by nobody yet
static cudaGraphExec_t exec;  // of the last capture
static float *x, *y;          // device memory, FLOATS each
static float *pinned, *other; // pinned host memory, FLOATS each; other is in the same page

static void set_up(void) {
    OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    OK(cudaEventCreate(&event));
    OK(cudaMalloc((void **)&x, BYTES));
    OK(cudaMalloc((void **)&y, BYTES));
    OK(cudaMallocHost((void **)&pinned, 1024 * sizeof(float)));
    other = pinned + 100;
}

static void read_floats(const float *from, size_t count, cudaStream_t stream) {
    static float sums[8][FLOATS]; // never the same ones again
    static int next;
    OK(cudaMemcpyAsync(sums[next++], from, count * sizeof *from, cudaMemcpyDeviceToHost, stream));
}

static void let_wait(cudaStream_t later, cudaStream_t earlier) {
    OK(cudaEventRecord(event, earlier));
    OK(cudaStreamWaitEvent(later, event, 0));
}

static void end_capture(cudaStream_t stream) {
    cudaGraph_t graph;
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
}

static void *touch(void *writes) {
    if (writes)
        pinned[0] = 1;
    else if (pinned[0] == 7)
        exit(4);
    return NULL;
}

static void *ask(void *unused) {
    while (cudaEventQuery(event) == cudaErrorNotReady)
        ;
    return unused;
}

static void run_in_a_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    OK(pthread_create(&thread, NULL, run, argument));
    OK(pthread_join(thread, NULL));
}

// Waits for the stream in another thread, so nothing orders the later calls of this thread.
static void let_another_thread_ask(cudaStream_t stream) {
    OK(cudaEventRecord(event, stream));
    run_in_a_thread(ask, NULL);
}

// A product of a 4 x 2 matrix, whose result is rows of an 8 x 8 matrix, which is stored by columns.
static void multiply(float *rows, cudaStream_t stream) {
    static cublasHandle_t blas;
    const float one = 1, zero = 0;
    if (!blas)
        OK(cublasCreate(&blas));
    OK(cublasSetStream(blas, stream));
    OK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, 8, 2, &one, y, 4, y + 100, 2, &zero, rows,
                   8));
}

static void may_use(cudaStream_t stream) {
    cpu_may_use("look_up", x, 80, 0);
    launch_nothing(stream);
}

// Most cases are a list of steps: STREAM:ACTION, or STREAM:ACTION@BYTE+BYTES for a part of x. The
// streams a, b and c take no turns with the default stream, 0, and d does. host is the host.
// - write, read: x, the whole array or a part; writey: the other array
// - product: writes rows of a matrix that begin at this byte of x; mayuse: 80 bytes
// - upload, download: 40 bytes from pinned memory to x, or from x; copy: y, as cudaMemcpy
// - touch, change: the host reads or writes pinned memory; threadchange: another thread writes it
// - changeother: the host writes other bytes of the same page; freepinned: frees it
// - record, wait: the event; poll: asks until it is reached; ask: another thread does so
// - sync, query: waits for the stream, or asks until it is done; device: waits for all
// - renew: frees x, and allocates it again
// - begin, end: captures the calls between them; launch: launches the graph
static void run_step(cudaStream_t s, const char *action, size_t from, size_t bytes) {
    char *part = (char *)x + from;
    int known = 0;
#define DO(word, ...)                                                                              \
    if (!strcmp(action, word)) {                                                                   \
        __VA_ARGS__;                                                                               \
        known = 1;                                                                                 \
    }
    DO("write", OK(cudaMemsetAsync(part, 0, bytes, s)))
    DO("writey", OK(cudaMemsetAsync(y, 0, BYTES, s)))
    DO("read", read_floats((float *)part, bytes / sizeof *x, s))
    DO("product", multiply((float *)part, s))
    DO("mayuse", may_use(s))
    DO("upload", OK(cudaMemcpyAsync(x, pinned, 40, cudaMemcpyHostToDevice, s)))
    DO("download", OK(cudaMemcpyAsync(pinned, x, 40, cudaMemcpyDeviceToHost, s)))
    DO("copy", OK(cudaMemcpy(pinned, y, BYTES, cudaMemcpyDeviceToHost)))
    DO("touch", touch(NULL))
    DO("change", touch(pinned))
    DO("threadchange", run_in_a_thread(touch, pinned))
    DO("changeother", other[0] = 1)
    DO("freepinned", OK(cudaFreeHost(pinned)))
    DO("record", OK(cudaEventRecord(event, s)))
    DO("wait", OK(s ? cudaStreamWaitEvent(s, event, 0) : cudaEventSynchronize(event)))
    DO("poll", ask(NULL))
    DO("ask", let_another_thread_ask(s))
    DO("sync", OK(cudaStreamSynchronize(s)))
    DO("query", while (cudaStreamQuery(s) == cudaErrorNotReady))
    DO("device", OK(cudaDeviceSynchronize()))
    DO("renew", OK(cudaFree(x) || cudaMalloc((void **)&x, BYTES)))
    DO("begin", OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal)))
    DO("end", end_capture(s))
    DO("launch", OK(cudaGraphLaunch(exec, s)))
    if (!known)
        exit(5);
}

static void run_steps(const char *steps) {
    char place[8], action[16];
    int length;
    cudaStream_t streams[] = {a, b, NULL, NULL};
    OK(cudaStreamCreateWithFlags(&streams[2], cudaStreamNonBlocking));
    OK(cudaStreamCreate(&streams[3]));
    for (; sscanf(steps, " %7[^:]:%15[a-z]%n", place, action, &length) == 2; steps += length) {
        size_t from = 0, bytes = BYTES;
        if (sscanf(steps += length, "@%zu+%zu%n", &from, &bytes, &length) < 2)
            length = 0;
        run_step(*place < 'a' || *place > 'd' || place[1] ? NULL : streams[*place - 'a'], action,
                 from, bytes);
    }
    if (*steps)
        exit(5);
}

static void make_streams(cudaStream_t *streams, int count) {
    for (int i = 0; i < count; i++) {
        OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        OK(cudaMemsetAsync(y, 0, 4, streams[i]));
        OK(cudaStreamSynchronize(streams[i]));
    }
}

// More than the checker has numbers for.
static void numbers_of_streams_are_used_again(void) {
    for (int i = 0; i < 300; i++) {
        OK(cudaStreamDestroy(a));
        make_streams(&a, 1);
    }
    run_steps("a:write b:write");
}

// The two streams at the end find numbers that are free, but not that of the other one.
static void a_number_is_not_used_again_too_early(void) {
    cudaStream_t streams[253], late[2];
    make_streams(streams, 253);
    for (int i = 0; i < 253; i++)
        OK(cudaStreamDestroy(streams[i]));
    for (int i = 0; i < 2; i++) {
        OK(cudaStreamCreateWithFlags(&late[i], cudaStreamNonBlocking));
        OK(cudaMemsetAsync(x, 0, BYTES, late[i]));
        OK(cudaStreamDestroy(late[i]));
    }
}

static void too_many_streams(void) {
    cudaStream_t streams[300];
    make_streams(streams, 300);
}

// Kernels and products.

static void kernels_name_their_arrays(void) {
    add(x, y, FLOATS, a);
    add(y, x, 10, b);
}

// A product on one stream writes the sums of its matrix B while the other stream reads them.
static void sums_of_a_product(void) {
    static cublasHandle_t handle;
    OK(cublasCreate(&handle));
    struct light p = {(cublasLtHandle_t)handle, 8, 8, 4, .transb = CUBLAS_OP_T};
    p.compute = CUBLAS_COMPUTE_32F;
    p.epilogue = CUBLASLT_EPILOGUE_BGRADB;
    p.a = p.b = (uintptr_t)y;
    p.c = p.d = (uintptr_t)x;
    p.bias = (uintptr_t)(x + 64);
    OK(run_light(&p, a));
    let_another_thread_ask(a);
    add(x + 80, x + 64, 4, b);
}

// Host memory.

static void pinned_memory_is_used_after_the_wait(void) {
    for (int i = 0; i < 3; i++) {
        pinned[0] = 1;
        OK(cudaMemcpyAsync(x, pinned, 40, cudaMemcpyHostToDevice, a));
        OK(cudaMemcpyAsync(pinned, x, 40, cudaMemcpyDeviceToHost, a));
        OK(cudaStreamSynchronize(a));
        if (pinned[0] != 1)
            exit(4);
    }
    OK(cudaFreeHost(pinned));
}

static void two_copies_to_the_host(void) {
    static float sums[10];
    OK(cudaMemcpyAsync(sums, x, 40, cudaMemcpyDeviceToHost, a));
    OK(cudaMemcpyAsync(sums + 9, y, 40, cudaMemcpyDeviceToHost, b));
}

// Communicators of two ranks. Rank 0 has the fault, or both ranks have it.

static ncclComm_t comms[2];

static void run_two_ranks(void (*run)(int rank), int hosts) {
    ncclUniqueId *ids =
        mmap(NULL, 2 * sizeof *ids, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ready[2], status[2];
    pid_t ranks[2];
    OK(pipe(ready));
    for (int rank = 0; rank < 2; rank++)
        if ((ranks[rank] = fork()) == 0) {
            setenv("CPU_DEVICES", "2", 1);
            setenv("NCCL_SOCKET_IFNAME", "lo", 1);
            if (hosts == 2) // each rank says that it is on a host of its own
                setenv("NCCL_HOSTID", rank ? "b" : "a", 1);
            OK(cudaSetDevice(rank));
            set_up();
            for (int i = 0; i < 2 && rank == 0; i++)
                OK(ncclGetUniqueId(&ids[i]));
            OK(rank == 0 ? write(ready[1], "", 1) != 1 : read(ready[0], &(char){0}, 1) != 1);
            for (int i = 0; i < 2; i++)
                OK(ncclCommInitRank(&comms[i], 2, ids[i], rank));
            run(rank);
            OK(cudaDeviceSynchronize());
            exit(0);
        }
    for (int rank = 0; rank < 2; rank++)
        OK(waitpid(ranks[rank], &status[rank], 0) < 0);
    exit(WEXITSTATUS(status[0]) ? WEXITSTATUS(status[0]) : WEXITSTATUS(status[1]));
}

static void sum(float *floats, int comm, cudaStream_t stream) {
    OK(ncclAllReduce(floats, floats, 10, ncclFloat, ncclSum, comms[comm], stream));
}

static void use_both(int rank) {
    sum(x, 0, a);
    sum(y, 1, a);
    let_wait(b, a);
    sum(x, 0, b);
    OK(ncclGroupStart());
    sum(x, 0, b);
    sum(y, 1, b);
    OK(ncclGroupEnd());
}

static void use_both_at_once(int rank) {
    sum(x, 0, a);
    if (rank == 0)
        sum(y, 1, b);
}

static void use_both_crosswise(int rank) {
    sum(x, rank, a);
    sum(y, 1 - rank, a);
    OK(cudaStreamSynchronize(a));
}

static void share_a_buffer(int rank) {
    sum(x, 0, a);
    if (rank == 0)
        OK(cudaMemsetAsync(x, 0, 40, b));
}

static void exchange(int rank) {
    OK(ncclGroupStart());
    OK(ncclSend(x, 10, ncclFloat, 1 - rank, comms[0], a));
    OK(ncclRecv(x + 10, 10, ncclFloat, 1 - rank, comms[0], a));
    OK(ncclGroupEnd());
    read_floats(x, 10, b);
}

static void read_what_is_received(int rank) {
    exchange(rank);
    if (rank == 0)
        read_floats(x + 15, 1, b);
}

static void write_what_is_sent(int rank) {
    exchange(rank);
    if (rank == 0)
        OK(cudaMemsetAsync(x, 0, 4, b));
}

static void a_folder_with_a_space(void);

// All cases, and the texts that the report must contain.

struct test {
    struct alone alone;         // without a function, the name is the list of steps
    void (*run_with)(int rank); // by two ranks, on this many hosts
    int hosts;
};

#define CHECKED "CPU_DEVICE_CHECK=1"
// clang-format off
#define CASE(name, status, ...) {{#name, CHECKED, name, status, {__VA_ARGS__}, 1}, NULL, 0}
#define IN_ORDER(steps) {{steps, CHECKED, NULL, 0, {NULL}, 1}, NULL, 0}
#define FAULT(steps, ...) {{steps, CHECKED, NULL, 1, {__VA_ARGS__}, 1}, NULL, 0}
#define RANKS(name, run, hosts, status, ...) {{#name, CHECKED, NULL, status, {__VA_ARGS__}, 1}, run, hosts}
// clang-format on
#define TOUCHES "host code at tests/test_check.c:", "(touch) touches pinned memory"
#define COPY "cudaMemcpyAsync, queued at tests/test_check.c:"
#define USE(name, does, from, to)                                                                  \
    name " " does " bytes " #from " to " #to ", queued at tests/test_check.c:"
#define WRITES(from, to) USE("cudaMemsetAsync", "writes", from, to)
#define READS(from, to) USE("cudaMemcpyAsync", "reads", from, to)

static const struct test cases[] = {
    IN_ORDER("a:write a:read a:write"),
    IN_ORDER("a:read b:read"),
    FAULT("a:write b:write", "nothing orders two operations that use x (cudaMalloc at tests/",
          WRITES(0, 3999), " on the stream made at tests/test_check.c:"),
    FAULT("a:write b:read", WRITES(0, 3999), READS(0, 3999), " on the stream made at"),
    FAULT("a:read b:write", WRITES(0, 3999), READS(0, 3999)),
    // Events.
    IN_ORDER("a:write a:record b:wait b:write b:record a:wait a:write"),
    IN_ORDER("a:write a:record c:wait c:record b:wait b:write"),
    FAULT("a:record a:write b:wait b:write", WRITES(0, 3999)),
    FAULT("a:write a:record b:write b:wait", WRITES(0, 3999)),
    FAULT("a:write b:wait b:write", WRITES(0, 3999)),
    IN_ORDER("a:write a:record b:wait a:writey a:record b:write"),
    FAULT("a:write a:record b:wait a:writey a:record b:write b:writey", "use y (", WRITES(0, 3999)),
    CASE(a_folder_with_a_space, 1, "queued at my folder/train.c:2 (a_folder_with_a_space) on the",
         "queued at my folder/train.c:3 (a_folder_with_a_space) on the"),
    // The default stream.
    IN_ORDER("d:write 0:write d:write"),
    FAULT("0:write a:write", WRITES(0, 3999), "on the default stream"),
    // The host.
    IN_ORDER("a:write a:sync b:write"),
    FAULT("a:write b:sync b:write", WRITES(0, 3999)),
    IN_ORDER("a:write a:record a:writey host:wait b:write"),
    FAULT("a:write a:record a:writey host:wait b:write b:writey", "use y (", WRITES(0, 3999)),
    IN_ORDER("a:write host:device b:write"),
    IN_ORDER("d:write host:copy b:write"),
    IN_ORDER("a:write a:record host:poll b:write b:query a:write"),
    // Memory that is freed.
    IN_ORDER("a:write a:sync host:renew b:write"),
    FAULT("a:write host:renew", "x (cudaMalloc at ",
          " is freed at tests/test_check.c:", WRITES(0, 3999)),
    // Graphs: the checker sees what each launch does, and not the capture.
    IN_ORDER("a:begin a:write a:end b:write"),
    FAULT("a:begin a:write a:end a:launch b:write", WRITES(0, 3999)),
    IN_ORDER("a:begin a:write a:end a:launch a:record b:wait b:write"),
    IN_ORDER("a:begin a:write a:end a:launch b:launch b:write"), // the launches follow each other
    FAULT("a:begin a:write a:end a:launch host:renew",
          " is freed at tests/test_check.c:", WRITES(0, 3999)),
    // Bytes, streams and threads.
    IN_ORDER("a:write@0+40 b:write@40+40 b:writey"),
    FAULT("a:write@0+41 b:write@40+40", WRITES(0, 40), WRITES(40, 79)),
    FAULT("a:write@0+40 c:write@2000+40 c:record b:wait b:write", WRITES(0, 39), WRITES(0, 3999)),
    CASE(numbers_of_streams_are_used_again, 1, WRITES(0, 3999)),
    CASE(a_number_is_not_used_again_too_early, 1, WRITES(0, 3999)),
    CASE(too_many_streams, 0, "note: CPU_DEVICE_CHECK: there are more than 255 streams"),
    FAULT("a:mayuse b:write@70+1", USE("look_up", "reads", 0, 79), WRITES(70, 70)),
    IN_ORDER("a:mayuse b:write@80+1"),
    FAULT("a:write a:ask b:write", WRITES(0, 3999)),
    CASE(kernels_name_their_arrays, 1, USE("add", "writes", 0, 3999), USE("add", "reads", 0, 39),
         "(kernels_name_their_arrays)"),
    // A library of products may not bear an exit within its first one, so another thread waits.
    IN_ORDER("a:product a:ask b:product@16+0"), // rows that alternate
    FAULT("a:product a:ask b:product@12+0", USE("matrix product", "writes", 0, 239),
          USE("matrix product", "writes", 12, 251)),
    CASE(sums_of_a_product, 1, USE("matrix product + sums", "writes", 256, 287),
         USE("add", "reads", 256, 271)),
    // Pinned memory.
    FAULT("a:download host:freepinned", "the memory allocated at tests/test_check.c:",
          "(set_up) is freed at", USE("cudaMemcpyAsync", "writes", 0, 39)),
    CASE(pinned_memory_is_used_after_the_wait, 0, NULL),
    IN_ORDER("a:download host:changeother"),
    IN_ORDER("a:upload host:touch"),
    FAULT("a:download host:touch", TOUCHES, COPY),
    FAULT("a:upload host:change", TOUCHES, COPY),
    IN_ORDER("a:upload a:record host:wait host:threadchange"),
    FAULT("a:upload a:record a:upload host:wait host:threadchange", TOUCHES, COPY),
    CASE(two_copies_to_the_host, 1, "pageable host memory", USE("cudaMemcpyAsync", "writes", 0, 39),
         USE("cudaMemcpyAsync", "writes", 36, 75)),
    RANKS(communicators_in_order, use_both, 1, 0, NULL),
    RANKS(communicators_without_an_order, use_both_at_once, 1, 1,
          "two collectives of different communicators",
          "ncclAllReduce, queued at tests/test_check.c:"),
    RANKS(communicators_in_different_orders, use_both_crosswise, 1, 3,
          "the ranks use two communicators in different orders, and wait for each other: rank ",
          " is in AllReduce (count 10, float, sum) at tests/test_check.c:", "), rank ",
          " is in AllReduce (count 10, float, sum) of the other communicator at "
          "tests/test_check.c:"),
    RANKS(different_orders_between_hosts, use_both_crosswise, 2, 3,
          "in different orders, and wait for each other: rank ",
          " is in AllReduce (count 10, float, sum) at tests/test_check.c:", "), rank ",
          " is in AllReduce (count 10, float, sum) of the other communicator"),
    RANKS(collective_and_memset, share_a_buffer, 1, 1, USE("ncclAllReduce", "writes", 0, 39),
          WRITES(0, 39)),
    RANKS(received_in_a_group, read_what_is_received, 1, 1, USE("ncclRecv", "writes", 40, 79),
          READS(60, 63)),
    RANKS(sent_in_a_group, write_what_is_sent, 1, 1, USE("ncclSend", "reads", 0, 39), WRITES(0, 3)),
};
enum { CASES = sizeof cases / sizeof *cases };

int main(int argc, char **argv) {
    for (int i = 0; i < CASES; i++) {
        const struct alone *test = &cases[i].alone;
        if (argc > 1 && !strcmp(argv[1], test->name)) {
            if (cases[i].hosts) // its ranks set up what they need after the fork
                run_two_ranks(cases[i].run_with, cases[i].hosts);
            set_up();
            if (test->run)
                test->run();
            else
                run_steps(test->name);
            return cudaDeviceSynchronize();
        }
        add_test(test->name, run_alone, test);
    }
    return run_all_tests((struct around){NULL});
}

// It stands last, because it says that all lines after it belong to another file.
#line 1 "/my folder/train.c"
static void a_folder_with_a_space(void) {
    OK(cudaMemsetAsync(x, 0, 4, a));
    OK(cudaMemsetAsync(x, 0, 4, b));
}
