// Tests of the checker of ordering: faults that it must find, and correct programs.
//
// Each case runs in a process of its own, with its name as the argument of the program.
// A correct case must end with 0 and print nothing. A case with a fault must end at once, with a
// report that names both operations.
#include "again.h"
#include "kernels.h"
#include <cublasLt.h>
#include <nccl.h>
#include <sys/mman.h>

// Any call of CUDA, cuBLAS or NCCL.
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

static void write_floats(float *to, size_t count, cudaStream_t stream) {
    OK(cudaMemsetAsync(to, 0, count * sizeof *to, stream));
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

// A kernel says that it may use 80 bytes, and another stream writes one byte.
static void may_use(int byte) {
    cpu_may_use("look_up", x, 80, 0);
    launch_nothing(a);
    OK(cudaMemsetAsync((char *)x + byte, 0, 1, b));
}

// Most cases are a list of steps. A step is a stream or the host, and what it does:
// - a:write, b:read: x, the whole array; a:writey: the other array. Stream d takes turns with the
//   default stream, 0.
// - a:record, b:wait, host:wait: the event; host:poll: asks until it is reached
// - a:sync, host:device: the host waits for stream a or for all; a:query: asks until a is done
// - host:copy: copies y to the host, in stream 0; host:renew: frees x, and allocates it again
// - a:begin, a:end: captures the calls between them; b:launch: launches the graph
static void run_host_step(const char *action) {
    if (!strcmp(action, "wait"))
        OK(cudaEventSynchronize(event));
    else if (!strcmp(action, "device"))
        OK(cudaDeviceSynchronize());
    else if (!strcmp(action, "copy"))
        OK(cudaMemcpy(pinned, y, BYTES, cudaMemcpyDeviceToHost));
    else if (!strcmp(action, "renew"))
        OK(cudaFree(x) || cudaMalloc((void **)&x, BYTES));
    else if (!strcmp(action, "poll"))
        while (cudaEventQuery(event) == cudaErrorNotReady)
            ;
    else
        exit(5);
}

static void end_capture(cudaStream_t stream) {
    cudaGraph_t graph;
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
}

static void run_stream_step(cudaStream_t stream, const char *action) {
    if (!strcmp(action, "write"))
        write_floats(x, FLOATS, stream);
    else if (!strcmp(action, "writey"))
        write_floats(y, FLOATS, stream);
    else if (!strcmp(action, "read"))
        read_floats(x, FLOATS, stream);
    else if (!strcmp(action, "record"))
        OK(cudaEventRecord(event, stream));
    else if (!strcmp(action, "wait"))
        OK(cudaStreamWaitEvent(stream, event, 0));
    else if (!strcmp(action, "sync"))
        OK(cudaStreamSynchronize(stream));
    else if (!strcmp(action, "begin"))
        OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    else if (!strcmp(action, "end"))
        end_capture(stream);
    else if (!strcmp(action, "launch"))
        OK(cudaGraphLaunch(exec, stream));
    else if (!strcmp(action, "query"))
        while (cudaStreamQuery(stream) == cudaErrorNotReady)
            ;
    else
        exit(5);
}

static void run_steps(const char *steps) {
    char place[8], action[8];
    int length;
    cudaStream_t streams[] = {a, b, NULL, NULL};
    OK(cudaStreamCreateWithFlags(&streams[2], cudaStreamNonBlocking));
    OK(cudaStreamCreate(&streams[3]));
    for (; sscanf(steps, " %7[^:]:%7s%n", place, action, &length) == 2; steps += length) {
        if (!strcmp(place, "host"))
            run_host_step(action);
        else
            run_stream_step(*place == '0' ? NULL : streams[*place - 'a'], action);
    }
}

static void neighbouring_bytes(void) {
    write_floats(x, 10, a);
    write_floats(x + 10, 10, b);
    write_floats(y, 10, b);
}

static void one_byte_in_common(void) {
    OK(cudaMemsetAsync(x, 0, 41, a));
    OK(cudaMemsetAsync(x + 10, 0, 40, b));
}

static void parts_are_ordered_one_by_one(void) {
    cudaStream_t c;
    OK(cudaStreamCreateWithFlags(&c, cudaStreamNonBlocking));
    write_floats(x, 10, a);
    write_floats(x + 500, 10, c);
    let_wait(b, c);
    write_floats(x, FLOATS, b);
}

static void make_streams(cudaStream_t *streams, int count) {
    for (int i = 0; i < count; i++) {
        OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        write_floats(y, 1, streams[i]);
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
        write_floats(x, FLOATS, late[i]);
        OK(cudaStreamDestroy(late[i]));
    }
}

static void too_many_streams(void) {
    cudaStream_t streams[300];
    make_streams(streams, 300);
}

static void *ask(void *unused) {
    while (cudaEventQuery(event) == cudaErrorNotReady)
        ;
    return unused;
}

// Waits for the stream in another thread, so nothing orders the later calls of this thread.
static void let_another_thread_ask(cudaStream_t stream) {
    pthread_t thread;
    OK(cudaEventRecord(event, stream));
    OK(pthread_create(&thread, NULL, ask, NULL));
    OK(pthread_join(thread, NULL));
}

static void another_thread_polls(void) {
    write_floats(x, FLOATS, a);
    let_another_thread_ask(a);
    write_floats(x, FLOATS, b);
}

// Kernels and products.

static void kernels_name_their_arrays(void) {
    add(x, y, FLOATS, a);
    add(y, x, 10, b);
}

// Two products on two streams write different rows of the same 8 x 8 matrix, which is stored by
// columns. The second product starts at this row.
static void two_products(int row) {
    static cublasHandle_t blas;
    const float one = 1, zero = 0;
    OK(cublasCreate(&blas));
    OK(cublasSetStream(blas, a));
    OK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, 8, 2, &one, y, 4, y + 100, 2, &zero, x, 8));
    let_another_thread_ask(a); // as a library of products may not bear an exit within its first one
    OK(cublasSetStream(blas, b));
    OK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, 8, 2, &one, y, 4, y + 100, 2, &zero, x + row,
                   8));
}

// A product on one stream writes the sums of its matrix B while the other stream reads them.
static void sums_of_a_product(void) {
    static cublasHandle_t handle;
    const float one = 1, zero = 0;
    const int32_t transb = CUBLAS_OP_T;
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BGRADB;
    float *sums = x + 64;
    cublasLtMatmulDesc_t d;
    cublasLtMatrixLayout_t in, out;
    OK(cublasCreate(&handle));
    OK(cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSB, &transb, sizeof transb));
    OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                      sizeof epilogue));
    OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &sums, sizeof sums));
    OK(cublasLtMatrixLayoutCreate(&in, CUDA_R_32F, 8, 4, 8));
    OK(cublasLtMatrixLayoutCreate(&out, CUDA_R_32F, 8, 8, 8));
    OK(cublasLtMatmul((cublasLtHandle_t)handle, d, &one, y, in, y, in, &zero, x, out, x, out, NULL,
                      NULL, 0, a));
    let_another_thread_ask(a);
    add(x + 80, sums, 4, b);
}

// Memory that is freed.

static void pinned_memory_is_freed_in_use(void) {
    OK(cudaMemcpyAsync(pinned, x, 40, cudaMemcpyDeviceToHost, a));
    OK(cudaFreeHost(pinned));
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

static void neighbouring_pinned_bytes(void) {
    OK(cudaMemcpyAsync(pinned, x, 40, cudaMemcpyDeviceToHost, a));
    other[0] = 1;
}

static void pinned_memory_is_read_during_a_copy_from_it(void) {
    pinned[0] = 0;
    OK(cudaMemcpyAsync(x, pinned, 40, cudaMemcpyHostToDevice, a));
    if (pinned[0] != 0)
        exit(4);
}

static void pinned_memory_is_read_too_early(void) {
    OK(cudaMemcpyAsync(pinned, x, 40, cudaMemcpyDeviceToHost, a));
    if (pinned[3] == 1)
        exit(4);
}

static void pinned_memory_is_written_too_early(void) {
    OK(cudaMemcpyAsync(x, pinned, 40, cudaMemcpyHostToDevice, a));
    pinned[3] = 1;
}

static void *write_first(void *unused) {
    pinned[0] = 1;
    return unused;
}

// Another thread writes what this one has queued a copy of. Without waits, this one
// waits for an earlier copy only.
static void another_thread_writes(int waits) {
    pthread_t thread;
    OK(cudaMemcpyAsync(y, pinned, 40, cudaMemcpyHostToDevice, a));
    OK(cudaEventRecord(event, a));
    if (!waits)
        OK(cudaMemcpyAsync(x, pinned, 40, cudaMemcpyHostToDevice, a));
    OK(cudaEventSynchronize(event));
    OK(pthread_create(&thread, NULL, write_first, NULL));
    OK(pthread_join(thread, NULL));
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
        write_floats(x, 10, b);
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
        write_floats(x, 1, b);
}

// All cases, and the texts that the report must contain.

struct test {
    const char *name; // or the steps
    void (*run)(void);
    void (*run_with)(int number); // or by two ranks, on this many hosts, with their numbers
    int number, hosts;
    int status;           // as run_again returns it
    const char *texts[4]; // none: prints nothing
};

// clang-format off
#define CASE(name, status, ...) {#name, name, NULL, 0, 0, status, {__VA_ARGS__}}
#define WITH(name, run, number, status, ...) {#name, NULL, run, number, 0, status, {__VA_ARGS__}}
#define IN_ORDER(steps) {steps, NULL, NULL, 0, 0, 0, {NULL}}
#define FAULT(steps, ...) {steps, NULL, NULL, 0, 0, 1, {__VA_ARGS__}}
#define RANKS(name, run, hosts, status, ...) {#name, NULL, run, 0, hosts, status, {__VA_ARGS__}}
// clang-format on
#define TOUCH(name, ...)                                                                           \
    CASE(name, 1, "host code at tests/test_check.c:", "(" #name ") touches pinned memory",         \
         __VA_ARGS__)
#define USE(name, does, from, to)                                                                  \
    name " " does " bytes " #from " to " #to ", queued at tests/test_check.c:"
#define WRITES(from, to) USE("cudaMemsetAsync", "writes", from, to)
#define READS(from, to) USE("cudaMemcpyAsync", "reads", from, to)

static struct test cases[] = {
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
    CASE(neighbouring_bytes, 0, NULL),
    CASE(one_byte_in_common, 1, WRITES(0, 40), WRITES(40, 79)),
    CASE(parts_are_ordered_one_by_one, 1, WRITES(0, 39), WRITES(0, 3999)),
    CASE(numbers_of_streams_are_used_again, 1, WRITES(0, 3999)),
    CASE(a_number_is_not_used_again_too_early, 1, WRITES(0, 3999)),
    CASE(too_many_streams, 0, "note: CPU_DEVICE_CHECK: there are more than 255 streams"),
    WITH(bytes_that_a_kernel_may_use, may_use, 70, 1, USE("look_up", "reads", 0, 79),
         WRITES(70, 70)),
    WITH(bytes_behind_those_that_a_kernel_may_use, may_use, 80, 0, NULL),
    CASE(another_thread_polls, 1, WRITES(0, 3999)),
    CASE(kernels_name_their_arrays, 1, USE("add", "writes", 0, 3999), USE("add", "reads", 0, 39),
         "(kernels_name_their_arrays)"),
    WITH(products_of_rows_that_alternate, two_products, 4, 0, NULL),
    WITH(products_with_a_row_in_common, two_products, 3, 1, USE("matrix product", "writes", 0, 239),
         USE("matrix product", "writes", 12, 251)),
    CASE(sums_of_a_product, 1, USE("matrix product + sums", "writes", 256, 287),
         USE("add", "reads", 256, 271)),
    CASE(pinned_memory_is_freed_in_use, 1, "the memory allocated at tests/test_check.c:",
         "(set_up) is freed at", USE("cudaMemcpyAsync", "writes", 0, 39)),
    CASE(pinned_memory_is_used_after_the_wait, 0, NULL),
    CASE(neighbouring_pinned_bytes, 0, NULL),
    CASE(pinned_memory_is_read_during_a_copy_from_it, 0, NULL),
    TOUCH(pinned_memory_is_read_too_early, "cudaMemcpyAsync, queued at tests/test_check.c:"),
    TOUCH(pinned_memory_is_written_too_early, "cudaMemcpyAsync, queued at tests/test_check.c:"),
    WITH(pinned_memory_is_written_by_a_thread_after_the_wait, another_thread_writes, 1, 0, NULL),
    WITH(pinned_memory_is_written_by_a_thread_too_early, another_thread_writes, 0, 1,
         "host code at tests/test_check.c:", "(write_first) touches pinned memory",
         "cudaMemcpyAsync, queued at tests/test_check.c:"),
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

static void run_case(void **state) {
    const struct test *test = *state;
    char output[8000];
    int status = run_again("CPU_DEVICE_CHECK=1", test->name, output, sizeof output);
    int right = status == test->status && !*output == !test->texts[0];
    for (int i = 0; i < 4 && test->texts[i]; i++)
        right = right && strstr(output, test->texts[i]);
    if (!right)
        fail_msg("%s: %d, output: %s", test->name, status, output);
}

int main(int argc, char **argv) {
    for (int i = 0; i < CASES; i++) {
        if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
            if (cases[i].hosts) // its ranks set up what they need after the fork
                run_two_ranks(cases[i].run_with, cases[i].hosts);
            set_up();
            if (cases[i].run)
                cases[i].run();
            else if (cases[i].run_with)
                cases[i].run_with(cases[i].number);
            else
                run_steps(cases[i].name);
            return cudaDeviceSynchronize();
        }
        add_test(cases[i].name, run_case, &cases[i]);
    }
    return run_all_tests((struct around){NULL});
}
