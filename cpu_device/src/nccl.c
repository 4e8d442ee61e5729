// NCCL's collectives, sends and receives. This file checks their arguments, at least as strictly as
// NCCL. groups.c puts the calls into streams, and collectives.c runs them.
#include "comm.h"
#include "reduce.h"
#include <stdarg.h>

static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_error[640], wait_text[WHY_BYTES];

ncclResult_t cpu_refuse(ncclResult_t result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&text_lock);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    pthread_mutex_unlock(&text_lock);
    va_end(arguments);
    if (result == ncclUnhandledCudaError)
        cudaGetLastError(); // NCCL returns the error, and does not leave it to the next launch
    return result;
}

void cpu_explain_wait(const char *text) {
    pthread_mutex_lock(&text_lock);
    snprintf(wait_text, sizeof wait_text, "%s", text);
    pthread_mutex_unlock(&text_lock);
}

const char *ncclGetLastError(ncclComm_t comm) {
    static _Thread_local char copy[sizeof last_error];
    (void)comm;
    pthread_mutex_lock(&text_lock);
    snprintf(copy, sizeof copy, "%s", *last_error ? last_error : wait_text);
    pthread_mutex_unlock(&text_lock);
    return copy;
}

const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
        "timeout",
    };
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}

ncclResult_t ncclGetVersion(int *version) {
    if (!version)
        return cpu_refuse(ncclInvalidArgument, "ncclGetVersion: version is NULL");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

double cpu_timeout(void) {
    // Longer than the limits of a program's own watchdog, which can say more about the program.
    return (double)cpu_positive_number("CPU_DEVICE_TIMEOUT", 300);
}

// Stores the buffer's address for device threads, or NULL if this rank needs no elements of it.
static ncclResult_t view(const char *name, const char *argument, const struct ncclComm *c,
                         const void *pointer, size_t elements, size_t element, void **out) {
    *out = NULL;
    if (elements == 0)
        return ncclSuccess;
    if (!pointer)
        return cpu_refuse(ncclInvalidArgument, "%s: %s is NULL", name, argument);
    int device, fits = elements <= SIZE_MAX / 16;
    void *there = cpu_view_on(pointer, fits ? elements * element : 0, &device);
    if (device >= 0 && device != c->device)
        return cpu_refuse(ncclInvalidArgument,
                          "%s: %s is memory of device %d, and the communicator uses device %d",
                          name, argument, device, c->device);
    if (fits && (*out = there))
        return ncclSuccess;
    size_t bytes = cpu_bytes_from(pointer);
    if (!bytes)
        return cpu_refuse(ncclInvalidArgument, "%s: %s is not device memory", name, argument);
    return cpu_refuse(ncclInvalidArgument,
                      "%s: %s is too short: the call needs %zu elements, and only %zu fit", name,
                      argument, elements, bytes / element);
}

// Counts the elements that this rank uses of both buffers.
static void count_elements(const struct ncclComm *c, const struct call *call, size_t *send,
                           size_t *recv) {
    size_t ranks = (size_t)c->ranks,
           of_all = call->count > SIZE_MAX / ranks ? SIZE_MAX : call->count * ranks;
    *send = *recv = call->count;
    if (call->kind == CALL_ALL_GATHER)
        *recv = of_all;
    else if (call->kind == CALL_REDUCE_SCATTER)
        *send = of_all;
    else if (call->kind == CALL_RECV || (call->kind == CALL_BROADCAST && c->rank != call->root))
        *send = 0;
    else if (call->kind == CALL_SEND || (call->kind == CALL_REDUCE && c->rank != call->root))
        *recv = 0;
}

// Returns an error if the buffers have bytes in common, except in the form that NCCL calls in
// place.
static ncclResult_t check_overlap(const char *name, const struct ncclComm *c,
                                  const struct call *call, const char *send, size_t to_send,
                                  const char *recv, size_t to_receive, size_t element) {
    size_t block = (size_t)c->rank * call->count * element; // of this rank, in the longer buffer
    int in_place = to_send == to_receive  ? send == recv
                   : to_send > to_receive ? recv == send + block
                                          : send == recv + block;
    if (in_place || !cpu_overlap(send, to_send * element, recv, to_receive * element))
        return ncclSuccess;
    return cpu_refuse(ncclInvalidArgument,
                      "%s: sendbuff and recvbuff overlap, which is undefined; %s", name,
                      to_send > to_receive   ? "in place, recvbuff is sendbuff + rank * count"
                      : to_send < to_receive ? "in place, sendbuff is recvbuff + rank * count"
                                             : "in place, both are the same pointer");
}

// Returns an error if an argument is wrong that does not depend on the buffers.
static ncclResult_t check_call(const char *name, const struct call *call, struct ncclComm *c) {
    int transfer = call->kind == CALL_SEND || call->kind == CALL_RECV;
    ncclResult_t result = cpu_ready_comm(c, name);
    if (result)
        return result;
    if (!cpu_type_size((ncclDataType_t)call->type))
        return cpu_refuse(ncclInvalidArgument, "%s: datatype %d is not supported", name,
                          call->type);
    if (call->root < 0 || call->root >= c->ranks)
        return cpu_refuse(ncclInvalidArgument, "%s: %s %d is not one of %d ranks", name,
                          transfer ? "peer" : "root", call->root, c->ranks);
    if (call->op < 0 || call->op >= ncclNumOps)
        return cpu_refuse(ncclInvalidArgument, "%s: there is no operation %d", name, call->op);
    return ncclSuccess;
}

// Checks the arguments, and returns the work of the call in *out.
static ncclResult_t make_work(const char *name, struct call call, const void *send, void *recv,
                              struct ncclComm *c, struct work **out) {
    ncclResult_t result = check_call(name, &call, c);
    size_t element = cpu_type_size((ncclDataType_t)call.type), to_send, to_receive;
    void *from, *to;
    if (result)
        return result;
    count_elements(c, &call, &to_send, &to_receive);
    if ((result = view(name, "sendbuff", c, send, to_send, element, &from)))
        return result;
    to = from;
    if ((recv != send || to_receive != to_send) &&
        (result = view(name, "recvbuff", c, recv, to_receive, element, &to)))
        return result;
    if (from && to &&
        (result = check_overlap(name, c, &call, send, to_send, recv, to_receive, element)))
        return result;
    struct work *work = *out =
        cpu_resized(NULL, sizeof *work + sizeof(struct transfer)); // calloc is slower
    call.comm = c->name;
    call.named = c->peers[call.root].named;
    *work = (struct work){c, .call = call, .send = from, .recv = to};
    work->send_bytes = to_send * element;
    work->recv_bytes = to_receive * element;
    work->transfers = call.kind == CALL_SEND || call.kind == CALL_RECV;
    if (work->transfers)
        work->transfer[0] = (struct transfer){.call = call,
                                              .data = call.kind == CALL_SEND ? from : to,
                                              .bytes = cpu_computes ? call.count * element : 0,
                                              .peer = call.root};
    return ncclSuccess;
}

// The common part of all collectives, sends and receives: checks the arguments and queues the call.
// op and root: 0 if the call has none.
static ncclResult_t enqueue(const char *name, int kind, const void *send, void *recv, size_t count,
                            ncclDataType_t type, int op, int root, ncclComm_t c,
                            cudaStream_t stream) {
    struct call call = {kind, (int)type, op, root, count, 0, 0};
    struct work *work;
    ncclResult_t result = make_work(name, call, send, recv, c, &work);
    if (result)
        return cpu_noted(result);
    if (cpu_recording) {
        cpu_uses(name, send, work->send_bytes, 0);
        cpu_uses(name, recv, work->recv_bytes, 1);
        cpu_take_cost();
    }
    work->cost = (struct cpu_cost){.kind = CPU_COLLECTIVE, .name = name};
    work->cost.comm = work->transfers ? 0 : c->label;
    work->cost.bytes = fmax((double)work->send_bytes, (double)work->recv_bytes);
    if ((work->note = cpu_take_note())) {
        work->note->comm = c;
        work->place = work->note->place;
    }
    return cpu_noted(cpu_enqueue(work, stream));
}

ncclResult_t pncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, ncclComm_t c, cudaStream_t stream) {
    return enqueue("ncclAllReduce", CALL_ALL_REDUCE, send, recv, count, type, (int)op, 0, c,
                   stream);
}

ncclResult_t pncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                            int root, ncclComm_t c, cudaStream_t stream) {
    return enqueue("ncclBroadcast", CALL_BROADCAST, send, recv, count, type, 0, root, c, stream);
}

ncclResult_t pncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t c,
                        cudaStream_t stream) {
    return ncclBroadcast(buffer, buffer, count, type, root, c, stream);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t stream) {
    return enqueue("ncclReduce", CALL_REDUCE, send, recv, count, type, (int)op, root, c, stream);
}

ncclResult_t pncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                            ncclComm_t c, cudaStream_t stream) {
    return enqueue("ncclAllGather", CALL_ALL_GATHER, send, recv, count, type, 0, 0, c, stream);
}

ncclResult_t pncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t c, cudaStream_t stream) {
    return enqueue("ncclReduceScatter", CALL_REDUCE_SCATTER, send, recv, count, type, (int)op, 0, c,
                   stream);
}

ncclResult_t pncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                       cudaStream_t stream) {
    return enqueue("ncclSend", CALL_SEND, send, NULL, count, type, 0, peer, c, stream);
}

ncclResult_t pncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                       cudaStream_t stream) {
    return enqueue("ncclRecv", CALL_RECV, NULL, recv, count, type, 0, peer, c, stream);
}

MAY_BE_REPLACED(ncclAllReduce);
MAY_BE_REPLACED(ncclBcast);
MAY_BE_REPLACED(ncclAllGather);
MAY_BE_REPLACED(ncclReduceScatter);
MAY_BE_REPLACED(ncclBroadcast);
MAY_BE_REPLACED(ncclSend);
MAY_BE_REPLACED(ncclRecv);
