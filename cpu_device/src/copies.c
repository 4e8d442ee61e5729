// cudaMemcpy and cudaMemset: which memory they accept, when they return, and the operations that
// they queue. memory.c has the memory itself.
#include "internal.h"
#include "record.h"

struct copy {
    void *to;
    const void *from; // NULL: fills with the value
    size_t bytes;
    int value;
    void *staged; // freed afterwards
};

static void run_copy(void *arguments) {
    struct copy *c = arguments;
    if (c->from)
        memcpy(c->to, c->from, c->bytes);
    else
        memset(c->to, c->value, c->bytes);
    free(c->staged);
}

// With CPU_DEVICE_CHECK=1, pinned memory has a separate view.
static void *view_of_host(const void *pointer, size_t bytes) {
    void *view = cpu_recording ? cpu_view(pointer, bytes) : NULL;
    return view ? view : (void *)pointer;
}

// Returns 1 for host memory that CUDA did not allocate.
static int is_pageable(const void *pointer) {
    return !cpu_is_device_pointer(pointer) && !cpu_view(pointer, 1);
}

// As with CUDA, cudaMemcpy returns when the last bytes are in a staging buffer. They may reach the
// device later.
static cudaError_t copy_staged(const struct copy *c) {
    enum { STAGED = 64 << 10 };
    size_t last = c->bytes < STAGED ? c->bytes : STAGED;
    struct copy head = {c->to, c->from, c->bytes - last}, tail = {.bytes = last};
    tail.to = (char *)c->to + head.bytes;
    tail.from = tail.staged = malloc(last);
    if (!tail.staged)
        return cpu_error(cudaErrorMemoryAllocation);
    memcpy(tail.staged, (const char *)c->from + head.bytes, last);
    cudaError_t error = cpu_launch(NULL, run_copy, &head, sizeof head);
    cpu_wait_unnoticed(NULL);
    if (!error)
        error = cpu_launch_always(NULL, run_copy, &tail, sizeof tail);
    if (error)
        free(tail.staged);
    return error;
}

// The common part of cudaMemcpy (waits is 1) and cudaMemcpyAsync. name is the function for the
// checker's reports.
static cudaError_t copy(const char *name, void *dst, const void *src, size_t count,
                        enum cudaMemcpyKind kind, cudaStream_t stream, int waits) {
    cudaError_t error = cpu_enter();
    if (error || count == 0)
        return cpu_error(error);
    if (waits && (error = cpu_capture_forbids(CPU_COPY_CALL, NULL)))
        return cpu_error(error);
    if ((unsigned)kind > cudaMemcpyDefault)
        return cpu_error(cudaErrorInvalidMemcpyDirection);
    int to_device = cpu_is_device_pointer(dst), from_device = cpu_is_device_pointer(src);
    if (kind != cudaMemcpyDefault &&
        (to_device != (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) ||
         from_device != (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice)))
        return cpu_error(cudaErrorInvalidValue);
    struct copy c = {to_device ? cpu_view(dst, count) : view_of_host(dst, count),
                     from_device ? cpu_view(src, count) : view_of_host(src, count), count};
    if (!c.to || !c.from || cpu_overlap(dst, count, src, count))
        return cpu_error(cudaErrorInvalidValue);
    int on_device = to_device && from_device, on_host = !to_device && !from_device;
    int pageable = is_pageable(to_device ? src : dst);
    int staged = waits && to_device && pageable && !cpu_model; // the model has no staging buffer
    if (staged && (error = cudaStreamSynchronize(NULL)))
        return error;
    if (pageable && !on_device && (error = cpu_capture_forbids(CPU_PAGEABLE_COPY, stream)))
        return cpu_error(error);
    cpu_needs((struct cpu_cost){.kind = on_device   ? CPU_COPY_ON_DEVICE
                                        : pageable  ? CPU_COPY_PAGEABLE
                                        : to_device ? CPU_COPY_TO_DEVICE
                                                    : CPU_COPY_TO_HOST,
                                .name = name,
                                .bytes = (double)count});
    cpu_uses(name, src, count, 0);
    cpu_uses(name, dst, count, 1);
    if (staged)
        return copy_staged(&c);
    if (!cpu_computes && !to_device) { // the host reads zeros
        c.from = NULL;
        error = cpu_launch_always(stream, run_copy, &c, sizeof c);
    } else {
        error = cpu_launch(stream, run_copy, &c, sizeof c);
    }
    if (!error && (on_host || (waits && !on_device)))
        return cudaStreamSynchronize(stream);
    if (!error && pageable && cpu_model) // CUDA waits for the stream to stage the copy
        cpu_wait_unnoticed(stream);
    return error;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return copy("cudaMemcpyAsync", dst, src, count, kind, stream, 0);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind) {
    return copy("cudaMemcpy", dst, src, count, kind, NULL, 1);
}

// The common part of cudaMemset and cudaMemsetAsync.
static cudaError_t fill(const char *name, void *pointer, int value, size_t count,
                        cudaStream_t stream) {
    cudaError_t error = cpu_enter();
    if (error || count == 0)
        return cpu_error(error);
    struct copy c = {cpu_view(pointer, count), NULL, count, value};
    if (!c.to)
        return cpu_error(cudaErrorInvalidValue);
    cpu_uses(name, pointer, count, 1);
    return cpu_launch(stream, run_copy, &c, sizeof c);
}

cudaError_t cudaMemsetAsync(void *pointer, int value, size_t count, cudaStream_t stream) {
    return fill("cudaMemsetAsync", pointer, value, count, stream);
}

cudaError_t cudaMemset(void *pointer, int value, size_t count) {
    cudaError_t error = fill("cudaMemset", pointer, value, count, NULL);
    return error || cpu_is_device_pointer(pointer) ? error : cudaStreamSynchronize(NULL);
}
