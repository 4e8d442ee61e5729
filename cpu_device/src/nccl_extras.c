// Calls of NCCL that few programs make, such as nccl-tests.
#include "comm.h"
#include "reduce.h"
#include <stdlib.h>
#include <string.h>

ncclResult_t ncclCommInitAll(ncclComm_t *comms_out, int count, const int *devices) {
    ncclUniqueId id;
    int before = cpu_current_device();
    if (!comms_out || count < 1 || count > MOST_PEERS)
        return cpu_refuse(ncclInvalidArgument, "ncclCommInitAll: comm is NULL, or ndev is %d",
                          count);
    ncclResult_t result = cpu_make_id(&id);
    if (result)
        return result;
    pncclGroupStart();
    for (int i = 0; i < count && !result; i++) {
        int device = devices ? devices[i] : i;
        if (cudaSetDevice(device))
            result = cpu_noted(
                cpu_refuse(ncclInvalidArgument, "ncclCommInitAll: there is no device %d", device));
        else
            result = ncclCommInitRank(&comms_out[i], count, id, i);
    }
    cudaSetDevice(before);
    return pncclGroupEnd();
}

ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank) {
    return cpu_ask(c, "ncclCommUserRank", rank, offsetof(struct ncclComm, rank));
}

ncclResult_t ncclCommCuDevice(const ncclComm_t c, int *device) {
    return cpu_ask(c, "ncclCommCuDevice", device, offsetof(struct ncclComm, device));
}

ncclResult_t ncclMemAlloc(void **pointer, size_t size) {
    return (cudaMalloc)(pointer, size)
               ? cpu_refuse(ncclUnhandledCudaError, "ncclMemAlloc: out of memory")
               : ncclSuccess;
}

ncclResult_t ncclMemFree(void *pointer) {
    return cudaFree(pointer) ? cpu_refuse(ncclUnhandledCudaError, "ncclMemFree: not an allocation")
                             : ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t c, void *buffer, size_t size, void **handle) {
    ncclResult_t result = cpu_ready_comm(c, "ncclCommRegister");
    if (!result && (!handle || !cpu_view(buffer, size)))
        result = cpu_refuse(ncclInvalidArgument,
                            "ncclCommRegister: buff is not device memory, or handle is NULL");
    if (!result)
        *handle = buffer;
    return result;
}

ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle) {
    (void)handle;
    return cpu_ready_comm(c, "ncclCommDeregister");
}

ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *buffer, size_t size, ncclWindow_t *window,
                                    int flags) {
    ncclResult_t result = cpu_ready_comm(c, "ncclCommWindowRegister");
    if (!result && (!window || !cpu_view(buffer, size)))
        result = cpu_refuse(ncclInvalidArgument,
                            "ncclCommWindowRegister: buff is not device memory, or win is NULL");
    if (!result && (uintptr_t)buffer % NCCL_WIN_REQUIRED_ALIGNMENT)
        result =
            cpu_refuse(ncclInvalidArgument, "ncclCommWindowRegister: buff is not a multiple of %d",
                       NCCL_WIN_REQUIRED_ALIGNMENT);
    if (!result && (flags & ~NCCL_WIN_COLL_SYMMETRIC))
        result = cpu_refuse(ncclInvalidArgument, "ncclCommWindowRegister: winFlags %#x is unknown",
                            (unsigned)flags);
    if (result)
        return cpu_noted(result);
    struct ncclWindow_vidmem *w = cpu_new(sizeof *w);
    w->next = c->windows;
    *window = c->windows = w;
    return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t window) {
    ncclResult_t result = cpu_ready_comm(c, "ncclCommWindowDeregister");
    if (result)
        return cpu_noted(result);
    struct ncclWindow_vidmem **link = &c->windows;
    while (*link && *link != window)
        link = &(*link)->next;
    if (!*link)
        return cpu_noted(
            cpu_refuse(ncclInvalidArgument,
                       "ncclCommWindowDeregister: win is not a window of this communicator"));
    *link = window->next;
    free(window);
    return ncclSuccess;
}

// Returns the link to the scaling with this number, or the list's last link, which is NULL.
static struct scaling **find_scaling(ncclComm_t c, int op) {
    struct scaling **link = &c->scalings;
    while (*link && (*link)->op != op)
        link = &(*link)->next;
    return link;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t c) {
    // Numbers are unique in a process, so a communicator rejects the operations of another one.
    static atomic_int last = ncclNumOps;
    ncclResult_t result = cpu_ready_comm(c, "ncclRedOpCreatePreMulSum");
    size_t bytes = cpu_type_size(type);
    if (!result && (!op || !scalar))
        result = cpu_refuse(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: op or scalar is NULL");
    else if (!result && !bytes)
        result = cpu_refuse(ncclInvalidArgument,
                            "ncclRedOpCreatePreMulSum: datatype %d is not supported", (int)type);
    else if (!result && residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
        result = cpu_refuse(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: residence is %d",
                            (int)residence);
    else if (!result && (residence == ncclScalarDevice ? !cpu_view(scalar, bytes)
                                                       : cpu_is_device_pointer(scalar)))
        result = cpu_refuse(ncclInvalidArgument,
                            "ncclRedOpCreatePreMulSum: scalar is not in the memory of residence");
    if (result)
        return cpu_noted(result);
    struct scaling *s = cpu_new(sizeof *s);
    *s = (struct scaling){.op = ++last, .type = type, .next = c->scalings};
    if (residence == ncclScalarDevice)
        s->on_device = scalar;
    else
        memcpy(s->value, scalar, bytes);
    c->scalings = s;
    *op = (ncclRedOp_t)s->op;
    return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t c) {
    ncclResult_t result = cpu_ready_comm(c, "ncclRedOpDestroy");
    if (result)
        return cpu_noted(result);
    struct scaling **link = find_scaling(c, (int)op), *s = *link;
    if (!s)
        return cpu_noted(cpu_refuse(
            ncclInvalidArgument, "ncclRedOpDestroy: op %d was not made for this communicator", op));
    *link = s->next;
    free(s);
    return ncclSuccess;
}

ncclResult_t cpu_take_scalar(const char *name, struct work *work) {
    const struct scaling *s = *find_scaling(work->comm, work->call.op);
    if (!s)
        return cpu_refuse(ncclInvalidArgument, "%s: there is no operation %d", name, work->call.op);
    if ((int)s->type != work->call.type)
        return cpu_refuse(ncclInvalidArgument,
                          "%s: the operation was made for datatype %d, not for %d", name,
                          (int)s->type, work->call.type);
    if (s->on_device && !(work->scalar = cpu_view(s->on_device, cpu_type_size(s->type))))
        return cpu_refuse(ncclInvalidArgument, "%s: the operation's scalar has been freed", name);
    memcpy(work->scalar_value, s->value, sizeof s->value);
    if (s->on_device)
        cpu_uses(name, s->on_device, cpu_type_size(s->type), 0);
    work->scaled = 1;
    work->call.op = OP_PRE_MUL_SUM;
    return ncclSuccess;
}

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
                          ncclComm_t c, cudaStream_t stream) {
    return cpu_call("ncclAlltoAll", (struct call){CALL_ALL_TO_ALL, (int)type, 0, 0, count, 0, 0},
                    send, recv, c, stream);
}

ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                        ncclComm_t c, cudaStream_t stream) {
    return cpu_call("ncclGather", (struct call){CALL_GATHER, (int)type, 0, root, count, 0, 0}, send,
                    recv, c, stream);
}

ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                         ncclComm_t c, cudaStream_t stream) {
    return cpu_call("ncclScatter", (struct call){CALL_SCATTER, (int)type, 0, root, count, 0, 0},
                    send, recv, c, stream);
}
