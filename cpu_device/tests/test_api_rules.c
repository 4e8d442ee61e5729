// The rules of NVIDIA's documentation that a correct program relies on, one test for each
// (rules.h), but those of graphs (test_graphs.c).
#include "../src/internal.h"
#include "again.h"
#include "light.h"
#include "rules.h"
#include <sched.h>

enum { BYTES = 4096 };

// What the rules use, on device 0, and the same on device 1.
static cudaStream_t stream, far_stream;
static cudaEvent_t recorded, fresh, untimed, far_event;
static char *memory, *more_memory, *far_memory, *pinned, pageable[BYTES];
static ncclComm_t comms[2]; // of rank 0 on device 0 and rank 1 on device 1
static cublasHandle_t blas;
static int value;
static atomic_int ended, counted;

// Work that takes so long that a call which does not wait returns earlier.
static void run_long(void *arguments) {
    usleep(20000);
    ended = *(int *)arguments;
}

static void run_for_long(cudaStream_t s) {
    ended = 0;
    OK(cpu_launch(s, run_long, &(int){1}, sizeof(int)));
}

static void run_count(void *arguments) {
    counted++;
}

// Expects work that is blocked, and lets it go on.
static void is_not_done(cudaStream_t s) {
    int error = cudaStreamQuery(s);
    open_gate();
    assert_int_equal(error, cudaErrorNotReady);
    OK(cudaStreamSynchronize(s));
}

// Ranks that join in threads of their own.
struct joining {
    ncclComm_t *comm;
    ncclUniqueId id;
    int n, rank, device;
    ncclResult_t result;
};

static void *join_one(void *argument) {
    struct joining *j = argument;
    j->result = cudaSetDevice(j->device) ? ncclUnhandledCudaError
                                         : ncclCommInitRank(j->comm, j->n, j->id, j->rank);
    return NULL;
}

// Makes communicators of rank 0 on device 0 and rank 1 on the other device.
static ncclResult_t join_two(ncclComm_t comms[2], int other_device) {
    struct joining first = {&comms[0], .n = 2}, second = {&comms[1], {""}, 2, 1, other_device, 0};
    pthread_t thread;
    OK(ncclGetUniqueId(&first.id));
    second.id = first.id;
    OK(pthread_create(&thread, NULL, join_one, &second));
    join_one(&first);
    OK(pthread_join(thread, NULL));
    return first.result ? first.result : second.result;
}

// Expects that the call returns although the work before it in the stream is blocked, and that its
// own work is not done, or that it returns when the work of the stream is done.
#define DOES_NOT_WAIT(stream, call)                                                                \
    do {                                                                                           \
        block(stream);                                                                             \
        OK(call);                                                                                  \
        is_not_done(stream);                                                                       \
    } while (0)
#define WAITS(stream, call)                                                                        \
    do {                                                                                           \
        run_for_long(stream);                                                                      \
        OK(call);                                                                                  \
        assert_true(ended);                                                                        \
    } while (0)

static cudaStream_t destroyed_stream(void) {
    cudaStream_t s;
    OK(cudaStreamCreate(&s));
    OK(cudaStreamDestroy(s));
    return s;
}

static cudaEvent_t destroyed_event(void) {
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    OK(cudaEventDestroy(e));
    return e;
}

static char *freed_memory(void) {
    char *m;
    OK(cudaMalloc((void **)&m, BYTES));
    OK(cudaFree(m));
    return m;
}

static void use_device(int device, cudaStream_t *s, cudaEvent_t *e, char **m) {
    OK(cudaSetDevice(device));
    OK(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking));
    OK(cudaEventCreate(e));
    OK(cudaEventRecord(*e, *s));
    OK(cudaMalloc((void **)m, BYTES));
    OK(cudaMemset(*m, 0, BYTES));
    OK(cudaDeviceSynchronize());
}

static int set_up(void **state) {
    use_device(1, &far_stream, &far_event, &far_memory);
    use_device(0, &stream, &recorded, &memory);
    OK(cudaEventCreate(&fresh));
    OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    OK(cudaEventRecord(untimed, stream));
    OK(cudaMallocHost((void **)&pinned, BYTES));
    OK(cudaMalloc((void **)&more_memory, BYTES));
    return cudaStreamSynchronize(stream);
}

static int set_up_all(void **state) {
    OK(cublasCreate(&blas));
    return set_up(state) || join_two(comms, 1);
}

// Devices.

REFUSES(device_that_does_not_exist, "cudaSetDevice, cudaGetDeviceProperties",
        "a device that does not exist", ERROR, cudaErrorInvalidDevice, STAYS) {
    struct cudaDeviceProp properties;
    IS_REFUSED(cudaSetDevice(-1));
    IS_REFUSED(cudaSetDevice(2));
    IS_REFUSED(cudaGetDeviceProperties(&properties, 2));
}

REFUSES(no_place_for_properties, "cudaGetDeviceCount, cudaGetDeviceProperties", "NULL", UNDEFINED,
        cudaErrorInvalidValue, STAYS) {
    IS_REFUSED(cudaGetDeviceCount(NULL));
    IS_REFUSED(cudaGetDeviceProperties(NULL, 0));
}

REFUSES(no_place_for_a_result,
        "cudaGetDevice, cudaMalloc, cudaMallocHost, cudaStreamCreate, cudaEventCreate, "
        "cudaEventElapsedTime",
        "NULL for the result", ERROR, cudaErrorInvalidValue, STAYS) {
    void *pointer = memory;
    IS_REFUSED(cudaGetDevice(NULL));
    IS_REFUSED(cudaMalloc(NULL, 1));
    IS_REFUSED(cudaMallocHost(NULL, 1));
    IS_REFUSED(cudaStreamCreate(NULL));
    IS_REFUSED(cudaEventCreate(NULL));
    IS_REFUSED(cudaEventElapsedTime(NULL, recorded, recorded));
    OK(cudaMalloc(&pointer, 0));
    assert_null(pointer);
}

RETURNS(one_result_is_enough, "cudaMemGetInfo", "NULL for one of its two results",
        "at once, with the other result") {
    size_t left = 0, all = 0;
    OK(cudaMemGetInfo(&left, NULL));
    OK(cudaMemGetInfo(NULL, &all));
    assert_true(left > 0 && left < all);
}

REFUSES(unknown_flag, "cudaStreamCreateWithFlags, cudaEventCreateWithFlags, cudaStreamWaitEvent",
        "an unknown flag", ERROR, cudaErrorInvalidValue, STAYS) {
    cudaStream_t s;
    cudaEvent_t e;
    IS_REFUSED(cudaStreamCreateWithFlags(&s, 2));
    IS_REFUSED(cudaEventCreateWithFlags(&e, 8));
    IS_REFUSED(cudaStreamWaitEvent(stream, recorded, 2));
}

REFUSES(short_text_for_bus_id, "cudaDeviceGetPCIBusId", "NULL, or less than 13 characters", ERROR,
        cudaErrorInvalidValue, STAYS) {
    char id[13];
    OK(cudaDeviceGetPCIBusId(id, 13, 0));
    IS_REFUSED(cudaDeviceGetPCIBusId(id, 12, 0));
    IS_REFUSED(cudaDeviceGetPCIBusId(NULL, 13, 0));
}

RETURNS(last_error_is_cleared, "cudaGetLastError", "the last error of this thread",
        "at once; the next call returns cudaSuccess") {
    assert_int_equal(cudaSetDevice(-1), cudaErrorInvalidDevice);
    OK(cudaSetDevice(0)); // a call that succeeds keeps it
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    OK(cudaGetLastError());
}

// Memory.

REFUSES(more_memory_than_is_left, "cudaMalloc", "more bytes than are left", ERROR,
        cudaErrorMemoryAllocation, STAYS) {
    void *pointer, *most, *far;
    IS_REFUSED(cudaMalloc(&pointer, (size_t)1 << 40));
    OK(cudaMalloc(&most, 40 << 20)); // of 64 MiB
    IS_REFUSED(cudaMalloc(&pointer, 40 << 20));
    assert_null(pointer);
    OK(cudaSetDevice(1)); // has memory of its own
    OK(cudaMalloc(&far, 40 << 20));
    OK(cudaFree(far));
    OK(cudaSetDevice(0));
    OK(cudaFree(most));
}

REFUSES(free_of_other_memory, "cudaFree, cudaFreeHost",
        "a pointer that they did not return, or that is free", ERROR, cudaErrorInvalidValue,
        STAYS) {
    IS_REFUSED(cudaFree(memory + 1));
    IS_REFUSED(cudaFree(freed_memory()));
    IS_REFUSED(cudaFree(pageable));
    IS_REFUSED(cudaFreeHost(pageable));
    IS_REFUSED(cudaFreeHost(memory));
    OK(cudaFree(NULL)); // there is nothing to do
    OK(cudaFreeHost(NULL));
}

RETURNS(free_waits, "cudaFree", "of memory that streams may use", "when the device has no work") {
    char *d;
    OK(cudaMalloc((void **)&d, 8));
    WAITS(stream, cudaFree(d));
}

REFUSES(wrong_direction, "cudaMemcpy, cudaMemcpyAsync", "pointers that do not match the kind",
        UNDEFINED, cudaErrorInvalidValue, STAYS) {
    for (int from_device = 0; from_device < 2; from_device++)
        for (int to_device = 0; to_device < 2; to_device++)
            for (int kind = cudaMemcpyHostToHost; kind <= cudaMemcpyDeviceToDevice; kind++) {
                char *to = to_device ? memory : pinned;
                const char *from = from_device ? memory + 8 : pageable;
                if (kind == 2 * from_device + to_device) // as CUDA numbers them
                    continue;
                IS_REFUSED(cudaMemcpy(to, from, 8, (enum cudaMemcpyKind)kind));
                IS_REFUSED(cudaMemcpyAsync(to, from, 8, (enum cudaMemcpyKind)kind, stream));
            }
}

REFUSES(unknown_direction, "cudaMemcpy, cudaMemcpyAsync", "an unknown kind", ERROR,
        cudaErrorInvalidMemcpyDirection, STAYS) {
    IS_REFUSED(cudaMemcpy(memory, pinned, 8, (enum cudaMemcpyKind)5));
    IS_REFUSED(cudaMemcpyAsync(memory, pinned, 8, (enum cudaMemcpyKind) - 1, stream));
}

REFUSES(copy_beyond_the_end, "cudaMemcpy, cudaMemcpyAsync",
        "NULL, or bytes that are not all inside one allocation", ERROR, cudaErrorInvalidValue,
        STAYS) {
    pageable[0] = 7;
    IS_REFUSED(cudaMemcpy(memory + 1, pageable, BYTES, cudaMemcpyHostToDevice));
    IS_REFUSED(cudaMemcpy(memory - 1, pageable, 1, cudaMemcpyHostToDevice));
    IS_REFUSED(cudaMemcpy(memory, pageable, (size_t)-1, cudaMemcpyHostToDevice));
    IS_REFUSED(cudaMemcpy(NULL, memory, 8, cudaMemcpyDeviceToHost));
    IS_REFUSED(cudaMemcpy(pageable, freed_memory(), 8, cudaMemcpyDeviceToHost));
    IS_REFUSED(cudaMemcpy(pageable, memory, BYTES + 1, cudaMemcpyDeviceToHost));
    IS_REFUSED(cudaMemcpyAsync(pageable, memory + BYTES, 1, cudaMemcpyDeviceToHost, stream));
    assert_int_equal(pageable[0], 7);
}

REFUSES(copy_onto_itself, "cudaMemcpy, cudaMemcpyAsync", "memory areas that overlap", UNDEFINED,
        cudaErrorInvalidValue, STAYS) {
    IS_REFUSED(cudaMemcpy(memory, memory + 7, 8, cudaMemcpyDeviceToDevice));
    IS_REFUSED(cudaMemcpyAsync(memory + 7, memory, 8, cudaMemcpyDeviceToDevice, stream));
    IS_REFUSED(cudaMemcpy(pinned, pinned, 8, cudaMemcpyHostToHost));
    OK(cudaMemcpy(memory, memory + 8, 8, cudaMemcpyDeviceToDevice));
}

REFUSES(fill_of_other_memory, "cudaMemset, cudaMemsetAsync",
        "pageable memory, or bytes that are not all inside one allocation", ERROR,
        cudaErrorInvalidValue, STAYS) {
    IS_REFUSED(cudaMemset(pageable, 0, 8));
    IS_REFUSED(cudaMemset(memory, 0, BYTES + 1));
    IS_REFUSED(cudaMemsetAsync(pageable, 0, 8, stream));
}

RETURNS(memset_does_not_wait, "cudaMemset, cudaMemsetAsync", "of device memory",
        "before it is done") {
    DOES_NOT_WAIT(NULL, cudaMemset(memory, 0, 8));
    DOES_NOT_WAIT(stream, cudaMemsetAsync(memory, 0, 8, stream));
}

RETURNS(memset_of_pinned_memory_waits, "cudaMemset", "of pinned memory", "when it is done") {
    memset(pinned, 1, BYTES);
    WAITS(NULL, cudaMemset(pinned, 2, BYTES));
    assert_int_equal(pinned[BYTES - 1], 2);
}

RETURNS(copy_to_the_host_waits, "cudaMemcpy", "to the host, or from pinned memory",
        "when it is done") {
    pinned[BYTES - 1] = 3;
    WAITS(NULL, cudaMemcpy(memory, pinned, BYTES, cudaMemcpyHostToDevice));
    WAITS(NULL, cudaMemcpy(pageable, memory, BYTES, cudaMemcpyDeviceToHost));
    assert_int_equal(pageable[BYTES - 1], 3);
}

RETURNS(copy_on_the_device_does_not_wait, "cudaMemcpy", "on the device", "before it is done") {
    DOES_NOT_WAIT(NULL, cudaMemcpy(memory, memory + 8, 8, cudaMemcpyDeviceToDevice));
}

// A program that reads the memory in another stream, for the checker.
static void use_after_copy(int from_pinned) {
    OK(cudaMemcpy(memory, from_pinned ? pinned : pageable, BYTES, cudaMemcpyHostToDevice));
    OK(cudaMemsetAsync(memory, 0, BYTES, stream));
    OK(cudaDeviceSynchronize());
}

static int checker_objects(const char *from_pinned) {
    char output[4000];
    run_again("CPU_DEVICE_CHECK=1", from_pinned, output, sizeof output);
    return strstr(output, "nothing orders two operations") != NULL;
}

RETURNS(copy_from_pageable_memory_is_staged, "cudaMemcpy", "from pageable memory to the device",
        "when the bytes are in a staging buffer; the device may not have them") {
    assert_false(checker_objects("1"));
    assert_true(checker_objects("0"));
    pageable[0] = 4;
    OK(cudaMemcpy(memory, pageable, BYTES, cudaMemcpyHostToDevice));
    pageable[0] = 5; // too late for the copy
    OK(cudaMemcpy(pinned, memory, BYTES, cudaMemcpyDeviceToHost));
    assert_int_equal(pinned[0], 4);
}

RETURNS(async_copy_does_not_wait, "cudaMemcpyAsync", "between device and pinned memory",
        "before it is done") {
    block(stream);
    OK(cudaMemcpyAsync(memory, pinned, 8, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(pinned, memory, 8, cudaMemcpyDeviceToHost, stream));
    is_not_done(stream);
}

RETURNS(async_copy_of_pageable_memory, "cudaMemcpyAsync", "between device and pageable memory",
        "at any time: CUDA may wait for the stream; modelled times do, others not") {
    DOES_NOT_WAIT(stream, cudaMemcpyAsync(memory, pageable, 8, cudaMemcpyHostToDevice, stream));
}

RETURNS(async_copy_on_the_host_waits, "cudaMemcpyAsync", "on the host", "when it is done") {
    pinned[0] = 6;
    WAITS(stream, cudaMemcpyAsync(pageable, pinned, BYTES, cudaMemcpyHostToHost, stream));
    assert_int_equal(pageable[0], 6);
}

// Streams and events.

REFUSES(destroyed_streams, "each call with a stream", "a stream that was destroyed", UNDEFINED,
        cudaErrorInvalidResourceHandle, STAYS) {
    cudaStream_t s = destroyed_stream();
    IS_REFUSED(cudaStreamSynchronize(s));
    IS_REFUSED(cudaStreamQuery(s));
    IS_REFUSED(cudaStreamWaitEvent(s, recorded, 0));
    IS_REFUSED(cudaStreamDestroy(s));
    IS_REFUSED(cudaEventRecord(recorded, s));
    IS_REFUSED(cudaMemsetAsync(memory, 0, 8, s));
    IS_REFUSED(cudaMemcpyAsync(memory, pinned, 8, cudaMemcpyHostToDevice, s));
    IS_REFUSED(cpu_launch(s, run_wait, &value, sizeof value));
    IS_REFUSED(cudaStreamDestroy(NULL)); // the default stream
}

REFUSES(kernel_on_a_stream_of_another_device, "a kernel launch", "a stream of another device",
        ERROR, cudaErrorInvalidResourceHandle, STAYS) {
    open_gate();
    IS_REFUSED(cpu_launch(far_stream, run_wait, &value, sizeof value));
    sem_wait(&gate);
    OK(cudaMemcpyAsync(far_memory, pinned, 8, cudaMemcpyHostToDevice, far_stream));
    OK(cudaStreamSynchronize(far_stream));
}

RETURNS(default_stream_waits_for_others, "cudaStreamSynchronize", "of the default stream",
        "when all streams without cudaStreamNonBlocking are done, too") {
    cudaStream_t blocking;
    OK(cudaStreamCreate(&blocking));
    block(blocking);
    assert_int_equal(cudaStreamQuery(NULL), cudaErrorNotReady);
    open_gate();
    OK(cudaStreamSynchronize(NULL));
    OK(cudaStreamQuery(blocking));
    DOES_NOT_WAIT(stream, cudaStreamSynchronize(NULL));
    OK(cudaStreamDestroy(blocking));
}

RETURNS(stream_ends_its_work, "cudaStreamDestroy", "of a stream with work",
        "at once; the stream finishes its work") {
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    block(s);
    for (int i = 0; i < 900; i++)
        OK(cpu_launch(s, run_count, &value, sizeof value));
    counted = 0;
    OK(cudaStreamDestroy(s));
    assert_int_equal(counted, 0);
    open_gate();
    OK(cudaDeviceSynchronize());
    assert_int_equal(counted, 900);
}

static void refused_event(cudaEvent_t e) {
    float ms;
    IS_REFUSED(cudaEventRecord(e, stream));
    IS_REFUSED(cudaStreamWaitEvent(stream, e, 0));
    IS_REFUSED(cudaEventSynchronize(e));
    IS_REFUSED(cudaEventQuery(e));
    IS_REFUSED(cudaEventElapsedTime(&ms, recorded, e));
    IS_REFUSED(cudaEventDestroy(e));
}

REFUSES(null_events, "each call with an event", "NULL", ERROR, cudaErrorInvalidResourceHandle,
        STAYS) {
    refused_event(NULL);
}

REFUSES(destroyed_events, "each call with an event", "an event that was destroyed", UNDEFINED,
        cudaErrorInvalidResourceHandle, STAYS) {
    refused_event(destroyed_event());
}

REFUSES(event_on_a_stream_of_another_device, "cudaEventRecord",
        "an event and a stream of different devices", ERROR, cudaErrorInvalidResourceHandle,
        STAYS) {
    IS_REFUSED(cudaEventRecord(recorded, far_stream));
    OK(cudaStreamWaitEvent(far_stream, recorded, 0)); // this is allowed
    OK(cudaEventSynchronize(far_event));
}

REFUSES(time_of_unsuitable_events, "cudaEventElapsedTime",
        "events of different devices, never recorded, or made with cudaEventDisableTiming", ERROR,
        cudaErrorInvalidResourceHandle, STAYS) {
    float ms;
    cudaEvent_t unsuitable[] = {far_event, fresh, untimed};
    for (int i = 0; i < 3; i++) {
        IS_REFUSED(cudaEventElapsedTime(&ms, recorded, unsuitable[i]));
        IS_REFUSED(cudaEventElapsedTime(&ms, unsuitable[i], recorded));
    }
}

REFUSES(not_ready_does_not_stay, "cudaEventQuery, cudaStreamQuery, cudaEventElapsedTime",
        "work that is not done", ERROR, cudaErrorNotReady, GOES) {
    float ms;
    cudaEvent_t late;
    OK(cudaEventCreate(&late));
    block(stream);
    OK(cudaEventRecord(late, stream));
    IS_REFUSED(cudaStreamQuery(stream));
    IS_REFUSED(cudaEventQuery(late));
    IS_REFUSED(cudaEventElapsedTime(&ms, recorded, late));
    open_gate();
    OK(cudaEventDestroy(late));
}

RETURNS(event_never_recorded_is_done, "cudaEventQuery, cudaEventSynchronize",
        "of an event that was never recorded", "at once, with cudaSuccess") {
    OK(cudaEventQuery(fresh));
    OK(cudaEventSynchronize(fresh));
}

RETURNS(wait_for_an_event_never_recorded, "cudaStreamWaitEvent",
        "for an event that was never recorded", "at once; the stream does not wait") {
    OK(cudaStreamWaitEvent(stream, fresh, 0));
    OK(cudaStreamSynchronize(stream));
}

RETURNS(wait_is_for_the_last_record, "cudaStreamWaitEvent", "for an event that was recorded",
        "at once; the stream waits for the last record before the call") {
    cudaStream_t other;
    cudaEvent_t e;
    OK(cudaEventCreate(&e));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaEventRecord(e, other));
    OK(cudaStreamWaitEvent(other, e, 0));
    block(stream);
    OK(cudaEventRecord(e, stream)); // later, so other does not wait for it
    OK(cudaStreamSynchronize(other));
    OK(cudaStreamWaitEvent(other, e, 0));
    OK(cudaEventRecord(e, NULL)); // nor does it end the wait, although this stream is idle
    OK(cudaEventSynchronize(e));
    OK(cudaEventDestroy(e));
    int waits = 1;
    for (int i = 0; i < 1000; i++, sched_yield()) // other has time to do it wrong
        waits &= cudaStreamQuery(other) == cudaErrorNotReady;
    is_not_done(stream);
    assert_true(waits);
    OK(cudaStreamSynchronize(other));
    OK(cudaStreamDestroy(other));
}

// cuBLAS.

static cublasStatus_t product(cublasHandle_t handle, int m, int lda, float *c) {
    const float one = 1, zero = 0;
    float *a = (float *)memory;
    return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, 4, 4, &one, a, lda, a + 16, 4, &zero, c,
                       m > 0 ? m : 1);
}

static cublasStatus_t typed_product(cudaDataType a, cudaDataType b, cudaDataType c,
                                    cublasComputeType_t type) {
    const float one = 1, zero = 0;
    return cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, memory, a, 4, memory, b, 4,
                        &zero, memory + 1024, c, 4, type, CUBLAS_GEMM_DEFAULT);
}

static void refused_handle(cublasHandle_t handle) {
    IS_REFUSED(cublasSetStream(handle, stream));
    IS_REFUSED(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH));
    IS_REFUSED(cublasGetMathMode(handle, &(cublasMath_t){0}));
    IS_REFUSED(product(handle, 4, 4, (float *)memory + 32));
    IS_REFUSED(cublasDestroy(handle));
}

REFUSES(no_cublas_handle, "each call with a cuBLAS handle", "NULL", ERROR,
        CUBLAS_STATUS_NOT_INITIALIZED, GOES) {
    refused_handle(NULL);
}

REFUSES(destroyed_cublas_handle, "each call with a cuBLAS handle", "a handle that was destroyed",
        UNDEFINED, CUBLAS_STATUS_NOT_INITIALIZED, GOES) {
    cublasHandle_t gone;
    OK(cublasCreate(&gone));
    OK(cublasDestroy(gone));
    refused_handle(gone);
}

REFUSES(wrong_value_for_cublas, "cublasCreate, cublasSetMathMode, cublasGetMathMode",
        "NULL, or an unknown mode", ERROR, CUBLAS_STATUS_INVALID_VALUE, GOES) {
    IS_REFUSED(cublasCreate(NULL));
    IS_REFUSED(cublasGetMathMode(blas, NULL));
    IS_REFUSED(cublasSetMathMode(blas, (cublasMath_t)1000));
}

// A 4 x 6 = (4 x 5) (5 x 6) product, with one argument wrong at a time.
static cublasStatus_t sized_product(int transa, int transb, int m, int n, int k, int lda, int ldb,
                                    int ldc) {
    const float one = 1, *a = (float *)memory;
    return cublasSgemm(blas, (cublasOperation_t)transa, (cublasOperation_t)transb, m, n, k, &one, a,
                       lda, a + 32, ldb, &one, (float *)memory + 64, ldc);
}

REFUSES(wrong_size_of_a_matrix, "cublasGemmEx",
        "a negative size, an unknown operation, a leading dimension below the rows, or NULL for a "
        "scalar or C",
        ERROR, CUBLAS_STATUS_INVALID_VALUE, GOES) {
    const float one = 1, *a = (float *)memory;
    float *c = (float *)memory + 64;
    const cublasOperation_t N = CUBLAS_OP_N, T = CUBLAS_OP_T, wrong = (cublasOperation_t)7;
    OK(sized_product(N, N, 4, 6, 5, 4, 5, 4));
    OK(sized_product(T, T, 4, 6, 5, 5, 6, 4));
    OK(sized_product(N, N, 0, 6, 5, 4, 5, 4));
    OK(sized_product(N, N, 4, 0, 5, 4, 5, 4));
    IS_REFUSED(sized_product(wrong, N, 4, 6, 5, 5, 5, 4));
    IS_REFUSED(sized_product(N, wrong, 4, 6, 5, 4, 6, 4));
    IS_REFUSED(sized_product(N, N, -1, 6, 5, 4, 5, 4));
    IS_REFUSED(sized_product(N, N, 4, -1, 5, 4, 5, 4));
    IS_REFUSED(sized_product(N, N, 4, 6, -1, 4, 5, 4));
    IS_REFUSED(sized_product(N, N, 4, 6, 5, 3, 5, 4));
    IS_REFUSED(sized_product(T, N, 4, 6, 5, 4, 5, 4));
    IS_REFUSED(sized_product(N, N, 4, 6, 5, 4, 4, 4));
    IS_REFUSED(sized_product(N, T, 4, 6, 5, 4, 5, 4));
    IS_REFUSED(sized_product(N, N, 4, 6, 5, 4, 5, 3));
    IS_REFUSED(cublasSgemm(blas, N, N, 4, 6, 5, NULL, a, 4, a + 32, 5, &one, c, 4));
    IS_REFUSED(cublasSgemm(blas, N, N, 4, 6, 5, &one, a, 4, a + 32, 5, NULL, c, 4));
    IS_REFUSED(product(blas, 4, 4, NULL));
}

REFUSES(unknown_types_of_a_product, "cublasGemmEx", "types that it cannot combine", ERROR,
        CUBLAS_STATUS_NOT_SUPPORTED, GOES) {
    const cudaDataType fp32 = CUDA_R_32F, fp16 = (cudaDataType)2, bf16 = CUDA_R_16BF;
    IS_REFUSED(typed_product(fp32, bf16, fp32, CUBLAS_COMPUTE_32F));
    IS_REFUSED(typed_product(fp16, bf16, fp32, CUBLAS_COMPUTE_32F));
    IS_REFUSED(typed_product(fp32, fp32, fp16, CUBLAS_COMPUTE_32F));
    IS_REFUSED(typed_product(fp32, fp32, fp32, (cublasComputeType_t)1000));
    IS_REFUSED(typed_product(fp32, fp32, fp32, (cublasComputeType_t)64));
}

REFUSES(matrix_that_is_no_device_memory, "cublasGemmEx",
        "a matrix that is not all inside one allocation of this device", UNDEFINED,
        CUBLAS_STATUS_MAPPING_ERROR, GOES) {
    const float one = 1, *host = (float *)pageable, *a = (float *)memory;
    float *c = (float *)memory + 64;
    const cublasOperation_t N = CUBLAS_OP_N;
    IS_REFUSED(product(blas, 4, 4, (float *)pageable));
    IS_REFUSED(product(blas, 4, 4, (float *)far_memory));
    IS_REFUSED(product(blas, 4, 4, (float *)(memory + BYTES) - 15));
    IS_REFUSED(product(blas, 4, 4000, c));
    IS_REFUSED(cublasSgemm(blas, N, N, 4, 4, 4, &one, host, 4, a, 4, &one, c, 4));
    IS_REFUSED(cublasSgemm(blas, N, N, 4, 4, 4, &one, a, 4, host, 4, &one, c, 4));
    IS_REFUSED(cublasSgemm(blas, N, N, 4, 4, 4, &one, NULL, 4, a, 4, &one, c, 4));
}

REFUSES(product_in_place, "cublasGemmEx", "a matrix C that overlaps A or B", UNDEFINED,
        CUBLAS_STATUS_INVALID_VALUE, GOES) {
    IS_REFUSED(product(blas, 4, 4, (float *)memory + 15));
    IS_REFUSED(product(blas, 4, 4, (float *)memory + 31));
    OK(product(blas, 4, 8, (float *)memory + 32)); // A has gaps of four floats
}

REFUSES(product_on_another_device, "cublasGemmEx",
        "a handle or stream of another device, or a stream that was destroyed", UNDEFINED,
        CUBLAS_STATUS_EXECUTION_FAILED, GOES) {
    float *c = (float *)memory + 32;
    cudaStream_t wrong[] = {far_stream, destroyed_stream()};
    for (int i = 0; i < 2; i++) {
        OK(cublasSetStream(blas, wrong[i]));
        IS_REFUSED(product(blas, 4, 4, c));
    }
    OK(cublasSetStream(blas, NULL));
    OK(cudaSetDevice(1));
    IS_REFUSED(product(blas, 4, 4, c));
}

// cuBLASLt.

// A product of 8 x 8 matrices of floats, which lie at these bytes of memory, and its bias.
static struct light light_product(void) {
    return (struct light){(cublasLtHandle_t)blas,
                          8,
                          8,
                          8,
                          .transb = CUBLAS_OP_T,
                          .compute = CUBLAS_COMPUTE_32F,
                          .epilogue = CUBLASLT_EPILOGUE_BIAS,
                          .base = (uintptr_t)memory,
                          .b = 256,
                          .c = 512,
                          .d = 512,
                          .bias = 1024,
                          .alignment = 256,
                          .find = 1};
}

// Expects that the product with this change is refused, and without it is not.
#define LIGHT_IS_REFUSED(change)                                                                   \
    do {                                                                                           \
        struct light p = light_product();                                                          \
        OK(run_light(&p, NULL));                                                                   \
        change;                                                                                    \
        is_refused(#change, (int)run_light(&p, NULL), "", __LINE__);                               \
    } while (0)

REFUSES(no_light_handle, "cublasLtMatmul, cublasLtMatmulAlgoGetHeuristic", "NULL for the handle",
        ERROR, CUBLAS_STATUS_NOT_INITIALIZED, GOES) {
    LIGHT_IS_REFUSED(p.handle = NULL);
    LIGHT_IS_REFUSED(p.handle = NULL; p.find = 0);
}

REFUSES(wrong_value_for_light_calls,
        "cublasLtMatmulDescCreate, cublasLtMatrixLayoutCreate, cublasLtMatmulPreferenceCreate",
        "NULL", ERROR, CUBLAS_STATUS_INVALID_VALUE, GOES) {
    IS_REFUSED(cublasLtMatmulDescCreate(NULL, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    IS_REFUSED(cublasLtMatrixLayoutCreate(NULL, CUDA_R_32F, 8, 8, 8));
    IS_REFUSED(cublasLtMatmulPreferenceCreate(NULL));
}

REFUSES(wrong_attribute, "cublasLtMatmulDescSetAttribute, cublasLtMatmulPreferenceSetAttribute",
        "NULL, an unknown attribute, or a value of another size", ERROR,
        CUBLAS_STATUS_INVALID_VALUE, GOES) {
    cublasLtMatmulDesc_t d;
    cublasLtMatmulPreference_t preference;
    OK(cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    OK(cublasLtMatmulPreferenceCreate(&preference));
    const cublasLtMatmulDescAttributes_t epilogue = CUBLASLT_MATMUL_DESC_EPILOGUE;
    IS_REFUSED(cublasLtMatmulDescSetAttribute(NULL, epilogue, &value, 4));
    IS_REFUSED(cublasLtMatmulDescSetAttribute(d, epilogue, NULL, 4));
    IS_REFUSED(cublasLtMatmulDescSetAttribute(d, epilogue, &value, 8));
    IS_REFUSED(cublasLtMatmulDescSetAttribute(d, (cublasLtMatmulDescAttributes_t)999, &value, 4));
    const cublasLtMatmulPreferenceAttributes_t a = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    IS_REFUSED(cublasLtMatmulPreferenceSetAttribute(NULL, a, &value, 4));
    IS_REFUSED(cublasLtMatmulPreferenceSetAttribute(preference, a, &(uint64_t){1}, 8));
    IS_REFUSED(cublasLtMatmulPreferenceSetAttribute(
        preference, (cublasLtMatmulPreferenceAttributes_t)999, &value, 4));
    OK(cublasLtMatmulPreferenceDestroy(preference));
    OK(cublasLtMatmulDescDestroy(d));
}

REFUSES(light_product_of_wrong_shape, "cublasLtMatmul, cublasLtMatmulAlgoGetHeuristic",
        "layouts that do not fit, or no bias for an epilogue with a bias", ERROR,
        CUBLAS_STATUS_INVALID_VALUE, GOES) {
    struct light conjugate = light_product();
    conjugate.transa = CUBLAS_OP_C; // for real numbers, the same as CUBLAS_OP_T
    OK(run_light(&conjugate, NULL));
    LIGHT_IS_REFUSED(p.missing = 1);
    LIGHT_IS_REFUSED(p.ld = 7);
    LIGHT_IS_REFUSED(p.transa = 7);
    LIGHT_IS_REFUSED(p.missing = 1; p.find = 0);
    LIGHT_IS_REFUSED(p.bias = 0);
}

REFUSES(bias_without_an_epilogue, "cublasLtMatmul", "a bias that the epilogue does not use",
        UNDEFINED, CUBLAS_STATUS_INVALID_VALUE, GOES) {
    LIGHT_IS_REFUSED(p.epilogue = CUBLASLT_EPILOGUE_DEFAULT);
}

REFUSES(empty_light_product, "cublasLtMatmul, cublasLtMatmulAlgoGetHeuristic",
        "a matrix without elements", UNDEFINED, CUBLAS_STATUS_INVALID_VALUE, GOES) {
    LIGHT_IS_REFUSED(p.missing = 8);
}

REFUSES(unsupported_light_product, "cublasLtMatmul, cublasLtMatmulAlgoGetHeuristic",
        "types that it cannot combine, or BGRADB with B not transposed", ERROR,
        CUBLAS_STATUS_NOT_SUPPORTED, GOES) {
    LIGHT_IS_REFUSED(p.compute = (cublasComputeType_t)64);
    LIGHT_IS_REFUSED(p.out = CUDA_R_16BF);
    LIGHT_IS_REFUSED(p.epilogue = CUBLASLT_EPILOGUE_BGRADB; p.transb = CUBLAS_OP_N);
    LIGHT_IS_REFUSED(p.epilogue = CUBLASLT_EPILOGUE_BGRADB; p.transb = CUBLAS_OP_N; p.find = 0);
}

REFUSES(algorithm_of_another_product, "cublasLtMatmul",
        "an algorithm for another epilogue, or for arrays with a larger alignment", UNDEFINED,
        CUBLAS_STATUS_INVALID_VALUE, GOES) {
    struct light aligned = light_product();
    aligned.alignment = 4;
    aligned.a = 4;
    OK(run_light(&aligned, NULL));
    LIGHT_IS_REFUSED(p.chosen_for = CUBLASLT_EPILOGUE_RELU_BIAS);
    LIGHT_IS_REFUSED(p.a = 4);
    LIGHT_IS_REFUSED(p.b = 260; p.alignment = 8);
    LIGHT_IS_REFUSED(p.c = p.d = 516);
    LIGHT_IS_REFUSED(p.a = 4; p.find = 0);
}

REFUSES(bias_at_an_odd_address, "cublasLtMatmul", "a bias that is not aligned to 16 bytes",
        UNDEFINED, CUBLAS_STATUS_INVALID_VALUE, GOES) {
    LIGHT_IS_REFUSED(p.bias = 1028; p.find = 0);
}

REFUSES(no_algorithm_for_the_bias, "cublasLtMatmulAlgoGetHeuristic",
        "a bias that is not aligned to 16 bytes", UNDEFINED, CUBLAS_STATUS_NOT_SUPPORTED, GOES) {
    LIGHT_IS_REFUSED(p.bias = 1028);
}

REFUSES(workspace, "cublasLtMatmul", "a workspace", ALLOWED, CUBLAS_STATUS_NOT_SUPPORTED, GOES) {
    LIGHT_IS_REFUSED(p.workspace = memory + 2048);
}

REFUSES(light_product_in_place, "cublasLtMatmul",
        "a matrix D that overlaps A, B or the bias, or a bias gradient that overlaps a matrix",
        UNDEFINED, CUBLAS_STATUS_INVALID_VALUE, GOES) {
    LIGHT_IS_REFUSED(p.d = p.c = 256 - 16);
    LIGHT_IS_REFUSED(p.bias = 512);
    LIGHT_IS_REFUSED(p.epilogue = CUBLASLT_EPILOGUE_BGRADB; p.bias = 256);
}

REFUSES(light_array_that_is_no_device_memory, "cublasLtMatmul",
        "an array that is not all inside one allocation of this device", UNDEFINED,
        CUBLAS_STATUS_MAPPING_ERROR, GOES) {
    LIGHT_IS_REFUSED(p.bias = BYTES - 16);
    LIGHT_IS_REFUSED(p.a = BYTES - 16);
    LIGHT_IS_REFUSED(p.bias = (size_t)(far_memory - memory));
}

REFUSES(light_product_on_another_device, "cublasLtMatmul", "a handle of another device", UNDEFINED,
        CUBLAS_STATUS_EXECUTION_FAILED, GOES) {
    struct light p = light_product();
    OK(cudaSetDevice(1));
    is_refused("cublasLtMatmul", (int)run_light(&p, NULL), "", __LINE__);
}

RETURNS(product_does_not_wait, "cublasGemmEx", "a matrix product",
        "before it is done, but after it has read the scalars") {
    OK(cublasSetStream(blas, stream));
    DOES_NOT_WAIT(stream, product(blas, 4, 4, (float *)memory + 32));
    OK(cublasSetStream(blas, NULL));
}

RETURNS(light_product_does_not_wait, "cublasLtMatmul", "a matrix product",
        "before it is done, but after it has read the scalars and descriptors") {
    struct light p = light_product();
    DOES_NOT_WAIT(NULL, run_light(&p, NULL));
}

RETURNS(destroyed_handle_waits, "cublasDestroy", "of a handle", "when the device has no work") {
    cublasHandle_t handle;
    OK(cublasCreate(&handle));
    WAITS(stream, cublasDestroy(handle));
}

// NCCL. The calls that are refused need no other rank.

// Arguments of rank 0 of two ranks, which are right. The buffers have no byte to spare.
struct arguments {
    const char *send;
    char *recv;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
    ncclComm_t comm;
    cudaStream_t stream;
};

#define COLLECTIVE(name, ...)                                                                      \
    static ncclResult_t call_##name(const struct arguments *a) {                                   \
        return nccl##name(__VA_ARGS__, a->comm, a->stream);                                        \
    }
COLLECTIVE(AllReduce, a->send, a->recv, a->count, a->type, a->op)
COLLECTIVE(Broadcast, a->send, a->recv, a->count, a->type, a->root)
COLLECTIVE(Bcast, a->recv, a->count, a->type, a->root)
COLLECTIVE(Reduce, a->send, a->recv, a->count, a->type, a->op, a->root)
COLLECTIVE(AllGather, a->send, a->recv, a->count, a->type)
COLLECTIVE(ReduceScatter, a->send, a->recv, a->count, a->type, a->op)
COLLECTIVE(Send, a->send, a->count, a->type, a->root)
COLLECTIVE(Recv, a->recv, a->count, a->type, a->root)

// How many ranks' shares the buffers of each call hold, and what it names in its messages: nothing
// if it has no such argument.
enum { COLLECTIVES = 8, SHARE = 256 };
static const struct collective {
    ncclResult_t (*call)(const struct arguments *a);
    int send_shares, recv_shares;
    const char *name, *send, *recv, *op, *root;
} collectives[COLLECTIVES] = {
    {call_AllReduce, 1, 1, "AllReduce", "sendbuff", "recvbuff", "operation", NULL},
    {call_Broadcast, 1, 1, "Broadcast", "sendbuff", "recvbuff", NULL, "root"},
    {call_Bcast, 0, 1, "Broadcast", NULL, "buff", NULL, "root"},
    {call_Reduce, 1, 1, "Reduce", "sendbuff", "recvbuff", "operation", "root"},
    {call_AllGather, 1, 2, "AllGather", "sendbuff", "recvbuff", NULL, NULL},
    {call_ReduceScatter, 2, 1, "ReduceScatter", "sendbuff", "recvbuff", "operation", NULL},
    {call_Send, 1, 0, "Send", "sendbuff", NULL, NULL, "peer"},
    {call_Recv, 0, 1, "Recv", NULL, "recvbuff", NULL, "peer"},
};

static struct arguments arguments_of(const struct collective *c) {
    const char *send = memory + BYTES - (size_t)c->send_shares * SHARE * sizeof(float);
    char *recv = more_memory + BYTES - (size_t)c->recv_shares * SHARE * sizeof(float);
    return (struct arguments){send, recv, SHARE, ncclFloat, ncclSum, 0, comms[0], stream};
}

// Expects that each call with the named argument is refused with this change, and names both.
#define EACH_IS_REFUSED(argument, change)                                                          \
    for (const struct collective *c = collectives; c < collectives + COLLECTIVES; c++) {           \
        struct arguments a = arguments_of(c);                                                      \
        if (!(argument))                                                                           \
            continue;                                                                              \
        change;                                                                                    \
        is_refused(#change, (int)c->call(&a), c->name, __LINE__);                                  \
        assert_non_null(strstr(ncclGetLastError(NULL), argument));                                 \
    }

static void refused_communicator(ncclComm_t comm) {
    int n;
    ncclComm_t part;
    NAMES("Count: comm", ncclCommCount(comm, &n));
    NAMES("UserRank: comm", ncclCommUserRank(comm, &n));
    NAMES("AsyncError: comm", ncclCommGetAsyncError(comm, (ncclResult_t *)&n));
    NAMES("Split: comm", ncclCommSplit(comm, 0, 0, &part, NULL));
    EACH_IS_REFUSED("comm", a.comm = comm);
}

REFUSES(no_communicator, "each call with a communicator but those that end it", "NULL", ERROR,
        ncclInvalidArgument, GOES) {
    refused_communicator(NULL);
    OK(ncclCommFinalize(NULL)); // there is nothing to do
    OK(ncclCommDestroy(NULL));
}

REFUSES(destroyed_communicator, "each call with a communicator",
        "a communicator that was destroyed", UNDEFINED, ncclInvalidArgument, GOES) {
    ncclComm_t gone = join_alone();
    OK(ncclCommDestroy(gone));
    refused_communicator(gone);
    NAMES("Finalize: comm", ncclCommFinalize(gone));
    IS_REFUSED(ncclCommDestroy(gone));
}

REFUSES(no_place_for_results,
        "ncclGetUniqueId, ncclGetVersion, ncclCommCount, ncclCommUserRank, ncclCommInitRank",
        "NULL for the result", ERROR, ncclInvalidArgument, GOES) {
    ncclUniqueId id = {""};
    NAMES("UniqueId", ncclGetUniqueId(NULL));
    NAMES("Version", ncclGetVersion(NULL));
    NAMES("Count", ncclCommCount(comms[0], NULL));
    NAMES("UserRank", ncclCommUserRank(comms[0], NULL));
    NAMES("AsyncError", ncclCommGetAsyncError(comms[0], NULL));
    NAMES("InitRank: comm", ncclCommInitRank(NULL, 1, id, 0));
    IS_REFUSED(ncclCommSplit(comms[0], 0, 0, NULL, NULL));
}

REFUSES(rank_out_of_range, "ncclCommInitRank",
        "a rank that is not below the number of ranks, or an id that is none", ERROR,
        ncclInvalidArgument, GOES) {
    ncclComm_t comm;
    ncclUniqueId id, garbage;
    memset(&garbage, 0x5a, sizeof garbage);
    NAMES("ncclGetUniqueId", ncclCommInitRank(&comm, 1, garbage, 0));
    OK(ncclGetUniqueId(&id)); // another one would be refused with the same error
    NAMES("InitRank: rank 2", ncclCommInitRank(&comm, 2, id, 2));
    NAMES("InitRank: rank -1", ncclCommInitRank(&comm, 2, id, -1));
    NAMES("InitRank: nranks", ncclCommInitRank(&comm, 0, id, 0));
}

REFUSES(split_with_a_config, "ncclCommSplit", "a configuration", ALLOWED, ncclInvalidArgument,
        GOES) {
    ncclComm_t comm;
    NAMES("Split: newcomm", ncclCommSplit(comms[0], 0, 0, &comm, (ncclConfig_t *)pageable));
}

REFUSES(two_ranks_on_a_device, "ncclCommInitRank", "two ranks on one device", ERROR,
        ncclInvalidUsage, GOES) {
    ncclComm_t two[2];
    IS_REFUSED(join_two(two, 0));
}

REFUSES(unknown_type_or_operation, "each collective", "an unknown type, operation or root", ERROR,
        ncclInvalidArgument, GOES) {
    EACH_IS_REFUSED("type", a.type = (ncclDataType_t)42);
    EACH_IS_REFUSED(c->op, a.op = (ncclRedOp_t)5);
    EACH_IS_REFUSED(c->op, a.op = (ncclRedOp_t)-1);
    EACH_IS_REFUSED(c->root, a.root = -1);
    EACH_IS_REFUSED(c->root, a.root = 2);
}

REFUSES(buffer_that_is_no_device_memory, "each collective",
        "NULL, pageable memory, or memory of another device", UNDEFINED, ncclInvalidArgument,
        GOES) {
    char *wrong[] = {NULL, pageable, far_memory};
    for (int i = 0; i < 3; i++) {
        EACH_IS_REFUSED(c->send, a.send = wrong[i]);
        EACH_IS_REFUSED(c->recv, a.recv = wrong[i]);
    }
}

REFUSES(short_buffer, "each collective", "bytes that are not all inside one allocation", UNDEFINED,
        ncclInvalidArgument, GOES) {
    const size_t counts[] = {SHARE + 1, SIZE_MAX, (size_t)1 << 62, ((size_t)1 << 62) + 1};
    for (int i = 0; i < 4; i++)
        EACH_IS_REFUSED("buff", a.count = counts[i]);
    EACH_IS_REFUSED("buff", a.type = ncclDouble);
    EACH_IS_REFUSED(c->send, a.send += 4);
    EACH_IS_REFUSED(c->recv, a.recv += 4);
}

REFUSES(buffers_that_overlap, "each collective", "buffers that overlap, and are not in place",
        UNDEFINED, ncclInvalidArgument, GOES) {
    char *m = memory, *x = far_memory;
    IS_REFUSED(ncclAllReduce(m, m + 4, 2, ncclFloat, ncclSum, comms[0], stream));
    IS_REFUSED(ncclBroadcast(m + 4, m, 2, ncclFloat, 0, comms[0], stream));
    IS_REFUSED(ncclReduceScatter(m, m + 8, 2, ncclFloat, ncclSum, comms[0], stream));
    IS_REFUSED(ncclReduceScatter(x, x, 2, ncclFloat, ncclSum, comms[1], far_stream));
    IS_REFUSED(ncclAllGather(m + 8, m, 2, ncclFloat, comms[0], stream));
    IS_REFUSED(ncclAllGather(x, x, 2, ncclFloat, comms[1], far_stream));
}

RETURNS(in_place_forms_are_allowed, "each collective", "in place, as the user guide of NCCL says",
        "before it is done") {
    OK(ncclGroupStart());
    for (int r = 0; r < 2; r++) {
        char *m[4];
        for (int i = 0; i < 4; i++)
            m[i] = (r ? far_memory : memory) + 16 * i; // the calls of a group share no buffer
        cudaStream_t s = r ? far_stream : stream;
        OK(ncclAllReduce(m[0], m[0], 4, ncclFloat, ncclSum, comms[r], s));
        OK(ncclBroadcast(m[1], m[1], 4, ncclFloat, 0, comms[r], s));
        OK(ncclReduceScatter(m[2], m[2] + 8 * r, 2, ncclFloat, ncclSum, comms[r], s));
        OK(ncclAllGather(m[3] + 8 * r, m[3], 2, ncclFloat, comms[r], s));
    }
    DOES_NOT_WAIT(stream, ncclGroupEnd());
    OK(cudaStreamSynchronize(far_stream));
}

REFUSES(collective_on_a_stream_of_another_device, "each collective",
        "a stream of another device, or one that was destroyed", UNDEFINED, ncclUnhandledCudaError,
        GOES) {
    IS_REFUSED(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comms[0], far_stream));
    IS_REFUSED(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comms[0], destroyed_stream()));
}

REFUSES(end_without_start, "ncclGroupEnd", "no ncclGroupStart before it", ERROR, ncclInvalidUsage,
        GOES) {
    IS_REFUSED(ncclGroupEnd());
}

REFUSES(communicator_in_a_group, "ncclCommInitRank, ncclCommSplit", "a new communicator in a group",
        ALLOWED, ncclInvalidUsage, GOES) {
    ncclComm_t comm;
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    NAMES("InitRank: the CPU device accepts it outside of groups",
          ncclCommInitRank(&comm, 1, id, 0));
    NAMES("Split: the CPU device accepts it outside of groups",
          ncclCommSplit(comms[0], 0, 0, &comm, NULL));
    IS_REFUSED(ncclGroupEnd());
}

REFUSES(buffers_that_overlap_in_a_group, "ncclGroupEnd",
        "a call that writes to a buffer of another call", UNDEFINED, ncclInvalidUsage, GOES) {
    char *m = memory;
    ncclComm_t c = comms[0];
#define ARE_REFUSED(first, second)                                                                 \
    do {                                                                                           \
        OK(ncclGroupStart());                                                                      \
        OK(first);                                                                                 \
        OK(second);                                                                                \
        IS_REFUSED(ncclGroupEnd());                                                                \
    } while (0)
#define GATHER ncclAllGather(m + 64, m, 1, ncclFloat, c, stream) // writes 8 bytes
    ARE_REFUSED(ncclRecv(m, 2, ncclFloat, 1, c, stream),
                ncclRecv(m + 7, 2, ncclFloat, 1, c, stream));
    ARE_REFUSED(ncclSend(m + 7, 2, ncclFloat, 1, c, stream),
                ncclRecv(m, 2, ncclFloat, 1, c, stream));
    ARE_REFUSED(GATHER, ncclAllReduce(m + 4, m + 8, 1, ncclFloat, ncclSum, c, stream));
    ARE_REFUSED(GATHER, ncclBcast(m + 7, 1, ncclChar, 1, c, stream));
    ARE_REFUSED(GATHER, ncclReduce(m + 32, m + 64, 1, ncclFloat, ncclSum, 0, c, stream));
}

REFUSES(group_with_a_wrong_call, "ncclGroupEnd", "a group in which a call failed", ERROR,
        ncclInvalidArgument, GOES) {
    OK(ncclGroupStart());
    OK(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comms[0], stream));
    IS_REFUSED(ncclBcast(memory, 1, ncclFloat, 2, comms[0], stream));
    IS_REFUSED(ncclGroupEnd()); // and starts none of its calls
    OK(cudaStreamSynchronize(stream));
}

REFUSES(call_after_finalize, "each call but ncclCommDestroy and ncclCommAbort",
        "a communicator that was finalized", UNDEFINED, ncclInvalidUsage, GOES) {
    ncclComm_t comm = join_alone();
    OK(ncclCommFinalize(comm));
    IS_REFUSED(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comm, stream));
    IS_REFUSED(ncclCommFinalize(comm));
    OK(ncclCommDestroy(comm));
}

REFUSES(destroy_in_a_group, "ncclCommDestroy, ncclCommAbort",
        "a communicator with calls in the open group", UNDEFINED, ncclInvalidUsage, GOES) {
    OK(ncclGroupStart());
    OK(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comms[0], stream));
    IS_REFUSED(ncclCommDestroy(comms[0]));
    IS_REFUSED(ncclCommAbort(comms[0]));
    IS_REFUSED(ncclGroupEnd());
}

RETURNS(collective_waits_for_group_end, "each collective", "in a group",
        "at once; ncclGroupEnd puts it into the stream") {
    OK(ncclGroupStart());
    OK(ncclBcast(memory, 1, ncclFloat, 0, comms[0], stream));
    OK(ncclBcast(far_memory, 1, ncclFloat, 0, comms[1], far_stream));
    block(stream);
    open_gate();
    OK(cudaStreamSynchronize(stream)); // ends, because the collective is not in the stream yet
    DOES_NOT_WAIT(stream, ncclGroupEnd());
    OK(cudaStreamSynchronize(far_stream));
}

RETURNS(destroy_waits_for_collectives, "ncclCommFinalize, ncclCommDestroy",
        "of a communicator with work", "when the work is done") {
    for (int finalize = 0; finalize < 2; finalize++) {
        ncclComm_t comm = join_alone();
        run_for_long(stream);
        OK(ncclAllReduce(memory, memory, 1, ncclFloat, ncclSum, comm, stream));
        if (finalize)
            OK(ncclCommFinalize(comm));
        else
            OK(ncclCommDestroy(comm));
        assert_true(ended);
        if (finalize)
            OK(ncclCommDestroy(comm));
    }
}

int main(int argc, char **argv) {
    setenv("CPU_DEVICES", "2", 1);
    setenv("CPU_DEVICE_MEMORY", "64M", 1);
    if (argc > 1)
        return set_up(NULL) || (use_after_copy(atoi(argv[1])), 0);
    return run_rules(set_up_all);
}
