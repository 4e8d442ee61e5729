// Captures of streams, and graphs: what NVIDIA's documentation promises and forbids, one test for
// each rule (rules.h). The sources are the comments of cudaStreamBeginCapture, the chapter CUDA
// Graphs of the programming guide, and a run on an H200.
#include "../src/internal.h"
#include "rules.h"
#include <cublas_v2.h>

// A test without a row in the tables.
#define CHECKS(name) REFUSES(name, "", "", "", 0, GOES)

enum { BYTES = 4096 };

static cudaStream_t a, b, blocking; // a and b take no turns with the default stream
static cudaEvent_t recorded;
static cudaGraphExec_t exec; // of the last capture
static char *memory, *pinned, pageable[BYTES];
static cublasHandle_t blas;
static atomic_int count, running, most;

static int set_up(void **state) {
    OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    OK(cudaStreamCreate(&blocking));
    OK(cudaEventCreate(&recorded));
    OK(cudaEventRecord(recorded, a));
    OK(cudaMalloc((void **)&memory, BYTES));
    OK(cudaMallocHost((void **)&pinned, BYTES));
    OK(cublasCreate(&blas));
    return cudaDeviceSynchronize();
}

static void run_add(void *amount) {
    int now = ++running;
    if (now > most)
        most = now;
    usleep(1000);
    count += *(int *)amount;
    *(int *)amount = 0; // a launch has a copy of the arguments
    running--;
}

static void add(cudaStream_t stream, int amount) {
    OK(cpu_launch(stream, run_add, &amount, sizeof amount));
}

static void begin(cudaStream_t stream) {
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
}

// Ends the capture, and makes exec, which a launch runs, from the captured operations.
static void end(cudaStream_t stream) {
    cudaGraph_t graph;
    if (exec)
        OK(cudaGraphExecDestroy(exec));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cudaGraphDestroy(graph)); // exec does not need it
}

static void is_invalid(cudaStream_t stream) {
    cudaGraph_t graph = (cudaGraph_t)memory;
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    assert_null(graph);
    assert_int_equal(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
    OK(cudaMemsetAsync(memory, 0, 1, stream)); // the stream is free again
}

// Expects that the call is refused in a capture of the stream, and that it invalidates the capture.
#define INVALIDATES_CAPTURE(stream, call)                                                          \
    do {                                                                                           \
        begin(stream);                                                                             \
        IS_REFUSED(call);                                                                          \
        is_invalid(stream);                                                                        \
    } while (0)
#define INVALIDATES(call) INVALIDATES_CAPTURE(a, call)

static void launch(cudaStream_t stream) {
    OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
}

// What a graph does.

CHECKS(a_graph_runs_at_each_launch) {
    count = 0;
    begin(a);
    add(a, 1);
    add(a, 10);
    end(a);
    OK(cudaGraphUpload(exec, a));
    OK(cudaStreamSynchronize(a));
    assert_int_equal(count, 0);
    for (int i = 1; i <= 3; i++) {
        launch(a);
        assert_int_equal(count, 11 * i);
    }
    add(a, 100); // the stream runs its operations again
    launch(b);
    OK(cudaStreamSynchronize(a));
    assert_int_equal(count, 144);
}

CHECKS(pointers_are_captured_and_not_their_bytes) {
    char *from = pinned;
    begin(a);
    OK(cudaMemcpyAsync(memory, from, 1, cudaMemcpyHostToDevice, a));
    OK(cudaMemcpyAsync(pinned + 2, memory, 1, cudaMemcpyDeviceToHost, a));
    end(a);
    from = pinned + 1; // the graph has kept the pointer of the call
    from[0] = 7;
    for (char value = 1; value < 4; value++) {
        pinned[0] = value;
        launch(a);
        assert_int_equal(pinned[2], value);
    }
}

CHECKS(products_are_captured) {
    float one = 1, *x = (float *)memory, *result = (float *)pinned;
    OK(cublasSetStream(blas, a));
    result[0] = 3;
    begin(a);
    OK(cudaMemcpyAsync(x, result, 4, cudaMemcpyHostToDevice, a));
    OK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, x, 1, x, 1, &(float){0}, x + 1,
                   1));
    OK(cudaMemcpyAsync(result, x + 1, 4, cudaMemcpyDeviceToHost, a));
    one = 100; // the graph has kept the scalar
    end(a);
    launch(a);
    assert_true(result[0] == 9);
}

RETURNS(graph_launch_does_not_wait, "cudaGraphLaunch", "a graph of any size",
        "before it is done; later work of the stream waits for it") {
    count = 0;
    begin(a);
    for (int i = 0; i < 3000; i++) // more than the queue of a stream holds
        OK(cudaMemsetAsync(memory, i, 8, a));
    add(a, 1);
    end(a);
    block(a);
    OK(cudaGraphLaunch(exec, a));
    OK(cudaEventRecord(recorded, a));
    assert_int_equal(cudaEventQuery(recorded), cudaErrorNotReady);
    open_gate();
    OK(cudaEventSynchronize(recorded));
    assert_int_equal(count, 1);
}

RETURNS(launches_follow_each_other, "cudaGraphLaunch", "the same graph in another stream",
        "at once; the launch waits for the one before it") {
    most = 0;
    begin(a);
    add(a, 1);
    end(a);
    for (int i = 0; i < 6; i++)
        OK(cudaGraphLaunch(exec, i % 2 ? a : b));
    OK(cudaDeviceSynchronize());
    assert_int_equal(most, 1);
}

RETURNS(destroyed_graph_ends_its_work, "cudaGraphExecDestroy", "a graph that runs",
        "at once; the launch goes on") {
    count = 0;
    begin(a);
    add(a, 1);
    add(a, 1);
    end(a);
    block(b);
    OK(cudaGraphLaunch(exec, b));
    OK(cudaGraphExecDestroy(exec));
    exec = NULL;
    assert_int_equal(count, 0);
    open_gate();
    OK(cudaStreamSynchronize(b));
    assert_int_equal(count, 2);
}

CHECKS(work_before_and_after_a_capture_is_not_in_the_graph) {
    count = 0;
    add(a, 1);
    begin(a);
    add(b, 10); // this stream does not capture
    add(a, 100);
    end(a);
    OK(cudaDeviceSynchronize());
    assert_int_equal(count, 11);
    launch(a);
    assert_int_equal(count, 111);
}

// What a capture forbids.

REFUSES(capture_of_the_default_stream, "cudaStreamBeginCapture", "the legacy default stream", ERROR,
        cudaErrorStreamCaptureUnsupported, STAYS) {
    IS_REFUSED(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal));
}

REFUSES(unknown_mode_of_capture, "cudaStreamBeginCapture, cudaStreamEndCapture",
        "an unknown mode, or NULL for the result", ERROR, cudaErrorInvalidValue, STAYS) {
    IS_REFUSED(cudaStreamBeginCapture(a, (enum cudaStreamCaptureMode)3));
    begin(a);
    IS_REFUSED(cudaStreamEndCapture(a, NULL));
    end(a);
}

REFUSES(capture_in_the_wrong_state, "cudaStreamBeginCapture, cudaStreamEndCapture",
        "a stream that captures already, or that does not capture", ERROR, cudaErrorIllegalState,
        STAYS) {
    cudaGraph_t graph;
    IS_REFUSED(cudaStreamEndCapture(a, &graph));
    IS_REFUSED(cudaStreamEndCapture(a, NULL));
    begin(a);
    IS_REFUSED(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    end(a); // the capture went on
}

REFUSES(wait_for_a_capture, "cudaStreamSynchronize, cudaStreamQuery, cudaDeviceSynchronize",
        "a stream that captures, or its device", ERROR, cudaErrorStreamCaptureUnsupported, STAYS) {
    INVALIDATES(cudaStreamSynchronize(a));
    INVALIDATES(cudaStreamQuery(a));
    INVALIDATES(cudaDeviceSynchronize());
}

REFUSES(unsafe_call_in_a_capture, "cudaMalloc, cudaFree, cudaMallocHost, cudaFreeHost",
        "any memory, in a capture", ERROR, cudaErrorStreamCaptureUnsupported, STAYS) {
    void *pointer;
    INVALIDATES(cudaMalloc(&pointer, 1));
    INVALIDATES(cudaFree(memory));
    INVALIDATES(cudaMallocHost(&pointer, 1));
    INVALIDATES(cudaFreeHost(pinned));
}

REFUSES(other_waits_in_a_capture,
        "cudaStreamSynchronize, cudaStreamQuery, cudaEventSynchronize, cudaEventQuery, cudaMemcpy",
        "other streams and events, in a capture", UNDEFINED, cudaErrorStreamCaptureUnsupported,
        STAYS) {
    INVALIDATES(cudaStreamSynchronize(b));
    INVALIDATES(cudaStreamQuery(b));
    INVALIDATES(cudaEventSynchronize(recorded));
    INVALIDATES(cudaEventQuery(recorded));
    INVALIDATES(cudaMemcpy(memory, pinned, 1, cudaMemcpyHostToDevice));
    INVALIDATES(cudaMemcpy(memory, pageable, 1, cudaMemcpyHostToDevice));
}

REFUSES(pageable_copy_in_a_capture, "cudaMemcpyAsync", "pageable memory, in a capture", UNDEFINED,
        cudaErrorStreamCaptureUnsupported, STAYS) {
    INVALIDATES(cudaMemcpyAsync(memory, pageable, 1, cudaMemcpyHostToDevice, a));
    INVALIDATES(cudaMemcpyAsync(pageable, memory, 1, cudaMemcpyDeviceToHost, a));
}

REFUSES(handle_in_a_capture, "cublasCreate", "a new handle, in a capture", UNDEFINED,
        CUBLAS_STATUS_NOT_INITIALIZED, GOES) {
    cublasHandle_t handle;
    INVALIDATES(cublasCreate(&handle));
}

REFUSES(destroyed_in_its_capture, "cudaStreamDestroy", "a stream that captures", UNDEFINED,
        cudaErrorStreamCaptureUnsupported, STAYS) {
    INVALIDATES(cudaStreamDestroy(a));
}

static void *allocate(void *error) {
    void *pointer;
    *(cudaError_t *)error = cudaMalloc(&pointer, 1);
    return NULL;
}

static cudaError_t in_a_thread(void *(*run)(void *)) {
    pthread_t thread;
    cudaError_t error = cudaErrorUnknown;
    assert_int_equal(pthread_create(&thread, NULL, run, &error), 0);
    pthread_join(thread, NULL);
    return error;
}

CHECKS(a_capture_is_for_all_threads) {
    begin(a);
    assert_int_equal(in_a_thread(allocate), cudaErrorStreamCaptureUnsupported);
    is_invalid(a);
}

REFUSES(default_stream_meets_a_capture,
        "cudaMemcpy, cudaMemset, cudaEventRecord, cudaStreamSynchronize",
        "the legacy default stream, while a stream without cudaStreamNonBlocking captures", ERROR,
        cudaErrorStreamCaptureImplicit, STAYS) {
    INVALIDATES_CAPTURE(blocking, cudaMemcpy(memory, pinned, 1, cudaMemcpyHostToDevice));
    INVALIDATES_CAPTURE(blocking, cudaMemset(memory, 0, 1));
    INVALIDATES_CAPTURE(blocking, cudaEventRecord(recorded, NULL));
    INVALIDATES_CAPTURE(blocking, cudaStreamSynchronize(NULL));
    begin(a); // takes no turns with the default stream
    OK(cudaMemset(memory, 0, 1));
    end(a);
}

static void *end_in_thread(void *error) {
    cudaGraph_t graph;
    *(cudaError_t *)error = cudaStreamEndCapture(a, &graph);
    return NULL;
}

REFUSES(capture_ended_in_another_thread, "cudaStreamEndCapture",
        "another thread than that of cudaStreamBeginCapture", ERROR,
        cudaErrorStreamCaptureWrongThread, GOES) {
    cudaGraph_t graph;
    begin(a);
    assert_int_equal(in_a_thread(end_in_thread), rule->error);
    assert_int_equal(cudaStreamEndCapture(a, &graph), cudaErrorIllegalState); // it has ended
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalState);
}

REFUSES(work_after_a_mistake, "cudaMemsetAsync, cudaEventRecord, cudaStreamEndCapture",
        "a stream whose capture was invalidated, until the capture has ended", ERROR,
        cudaErrorStreamCaptureInvalidated, STAYS) {
    begin(a);
    assert_int_equal(cudaStreamQuery(a), cudaErrorStreamCaptureUnsupported);
    IS_REFUSED(cudaMemsetAsync(memory, 0, 1, a));
    IS_REFUSED(cudaEventRecord(recorded, a));
    is_invalid(a);
}

REFUSES(launch_after_a_mistake, "cudaGraphLaunch",
        "a stream whose capture was invalidated, until the capture has ended", ERROR,
        cudaErrorStreamCaptureUnsupported, STAYS) {
    begin(b);
    end(b);
    begin(a);
    assert_int_equal(cudaStreamQuery(a), cudaErrorStreamCaptureUnsupported);
    IS_REFUSED(cudaGraphLaunch(exec, a));
    is_invalid(a);
    launch(a);
}

// Differences from CUDA, which include/cuda_runtime.h names.
REFUSES(captured_only_on_a_gpu, "cudaEventRecord, cudaStreamWaitEvent, cudaGraphLaunch",
        "a stream that captures", ALLOWED, cudaErrorStreamCaptureUnsupported, STAYS) {
    begin(b);
    end(b);
    INVALIDATES(cudaEventRecord(recorded, a));
    INVALIDATES(cudaStreamWaitEvent(a, recorded, 0));
    INVALIDATES(cudaGraphLaunch(exec, a));
}

CHECKS(collectives_cannot_be_captured_here) {
    ncclComm_t comm = join_alone();
    begin(a);
    assert_int_equal(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comm, a),
                     ncclUnhandledCudaError);
    is_invalid(a);
    OK(ncclCommDestroy(comm));
}

REFUSES(destroyed_graph,
        "cudaGraphInstantiateWithFlags, cudaGraphGetNodes, cudaGraphDestroy, cudaGraphUpload, "
        "cudaGraphLaunch, cudaGraphExecDestroy",
        "a graph that was destroyed, NULL, or an unknown flag", UNDEFINED, cudaErrorInvalidValue,
        STAYS) {
    cudaGraph_t graph;
    cudaGraphExec_t exec; // not the last one
    size_t count;
    begin(a);
    OK(cudaMemsetAsync(memory, 0, 1, a));
    OK(cudaMemsetAsync(memory, 0, 1, a));
    OK(cudaStreamEndCapture(a, &graph));
    OK(cudaGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 2);
    IS_REFUSED(cudaGraphGetNodes(graph, NULL, NULL));
    IS_REFUSED(cudaGraphInstantiateWithFlags(NULL, graph, 0));
    IS_REFUSED(cudaGraphInstantiateWithFlags(&exec, graph, 1u << 30));
    OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphExecDestroy(exec));
    IS_REFUSED(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    IS_REFUSED(cudaGraphInstantiateWithFlags(&exec, NULL, 0));
    IS_REFUSED(cudaGraphGetNodes(graph, NULL, &count));
    IS_REFUSED(cudaGraphDestroy(graph));
    IS_REFUSED(cudaGraphDestroy(NULL));
    IS_REFUSED(cudaGraphUpload(exec, a));
    IS_REFUSED(cudaGraphLaunch(exec, a));
    IS_REFUSED(cudaGraphLaunch(NULL, a));
    IS_REFUSED(cudaGraphExecDestroy(exec));
}

REFUSES(graph_of_another_device, "cudaGraphLaunch", "a stream of another device", UNDEFINED,
        cudaErrorInvalidValue, STAYS) {
    cudaStream_t far;
    begin(a);
    end(a);
    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&far));
    IS_REFUSED(cudaGraphLaunch(exec, far));
    OK(cudaStreamDestroy(far));
    OK(cudaSetDevice(0));
}

int main(void) {
    setenv("CPU_DEVICES", "2", 1);
    setenv("CPU_DEVICE_CHAOS", "1", 0);
    return run_rules(set_up);
}
