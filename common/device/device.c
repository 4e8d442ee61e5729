#include "common/device/device.h"
#include "common/base/say.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

void cuda_check(cudaError_t error, const char *call, const char *file, int line) {
    const char *advice = "";
    if (error == cudaSuccess)
        return;
    if (error == cudaErrorNoDevice && getenv("CUDA_VISIBLE_DEVICES"))
        advice = "; CUDA_VISIBLE_DEVICES hides all GPUs: unset it, or list some that exist";
    else if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice)
        advice =
            "; no usable NVIDIA driver or GPU: build for the CPU device with DEVICE=cpu after make";
    else if (error == cudaErrorInvalidDevice)
        advice = "; nvidia-smi -L lists the GPUs, CUDA_VISIBLE_DEVICES may hide some";
    else if (error == cudaErrorDevicesUnavailable)
        advice =
            "; another program uses this GPU, and the compute mode of the GPU allows one only: "
            "nvidia-smi -c DEFAULT allows several";
    else if (error == cudaErrorInitializationError)
        advice = "; a process that has called CUDA must not fork and go on in the child";
    fail("%s%s (%s, %.*s at %s:%d)", cudaGetErrorString(error), advice, cudaGetErrorName(error),
         CALL_NAME(call), file, line);
}

void cublas_check(cublasStatus_t status, const char *call, const char *file, int line) {
    const char *advice = "";
    if (status == CUBLAS_STATUS_SUCCESS)
        return;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) // a P100, for example
        advice = "; this GPU has no products of bfloat16 matrices: use --precision fp32";
    fail("%s%s (%s, %.*s at %s:%d)", cublasGetStatusString(status), advice,
         cublasGetStatusName(status), CALL_NAME(call), file, line);
}

// The bytes that DEVICE_ALLOC has allocated, by kind.
static struct {
    const char *kind;
    size_t bytes;
} allocated[16];

static char *format_bytes(char text[32], double bytes) {
    const char *units[] = {"B", "KB", "MB", "GB", "TB"};
    int unit = 0;
    for (; bytes >= 1000 && unit < 4; unit++)
        bytes /= 1000;
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

// Writes a list such as "data 55.2 MB, parameters 2.7 MB" with before in front of it, or nothing if
// nothing is allocated.
static const char *list_allocated(char *text, size_t size, const char *before) {
    char bytes[32];
    *text = 0;
    for (size_t i = 0; allocated[i].kind; i++)
        add_text(text, size, "%s%s %s", i ? ", " : before, allocated[i].kind,
                 format_bytes(bytes, allocated[i].bytes));
    return text;
}

static const char *advice_for(const char *kind) {
    if (!strcmp(kind, "data"))
        return "use --load stream, and lower --batch or --workers";
    if (!strcmp(kind, "vectors"))
        return "lower --max-bytes and --count";
    if (!strcmp(kind, "activations") || !strcmp(kind, "scratch"))
        return "lower --batch, or choose a smaller model";
    return "choose a smaller model, or shard it over more GPUs, as step 5 does";
}

void device_alloc_check(cudaError_t error, const char *kind, size_t bytes, const char *file,
                        int line) {
    size_t left = 0, total = 0, i = 0;
    char texts[3][32], in_use[512];
    if (error == cudaErrorMemoryAllocation && cudaMemGetInfo(&left, &total) == cudaSuccess)
        fail("out of device memory: asked for %s of %s, %s of %s are left%s; %s (%s, cudaMalloc at "
             "%s:%d)",
             format_bytes(texts[0], bytes), kind, format_bytes(texts[1], left),
             format_bytes(texts[2], total), list_allocated(in_use, sizeof in_use, " after "),
             advice_for(kind), cudaGetErrorName(error), file, line);
    cuda_check(error, "cudaMalloc", file, line);
    if (bytes == 0)
        return;
    while (allocated[i].kind && strcmp(allocated[i].kind, kind))
        i++;
    allocated[i].kind = kind;
    allocated[i].bytes += bytes;
}

static int name_has(const char *text) {
    struct cudaDeviceProp properties;
    return cudaGetDeviceProperties(&properties, 0) == cudaSuccess && strstr(properties.name, text);
}

const char *device_kind(void) {
    return name_has("CPU device") ? "the CPU device" : "a GPU";
}

int cpu_device_computes(void) __attribute__((weak)); // only the CPU device has it

int device_computes(void) {
    return !cpu_device_computes || cpu_device_computes();
}

int device_is_modelled(void) {
    return name_has("modelled");
}

double device_seconds(cudaStream_t stream) {
    static cudaEvent_t events[2]; // of this call and of the last one
    static int call;              // the calls use them in turn
    static double sum;
    float ms = 0;
    call = !call;
    cudaEvent_t *now = &events[call], *last = &events[!call];
    if (!*now)
        CUDA_CHECK(cudaEventCreate(now));
    CUDA_CHECK(cudaEventRecord(*now, stream));
    CUDA_CHECK(cudaEventSynchronize(*now));
    if (*last)
        CUDA_CHECK(cudaEventElapsedTime(&ms, *last, *now));
    return sum += ms / 1e3;
}

uint32_t device_checksum(const float *values, size_t count, cudaStream_t stream) {
    enum { PIECE = 1 << 16 };
    static float copy[PIECE];
    uLong crc = 0;
    if (!device_computes()) // the bytes of a large model would take long, and say nothing
        return 0;
    for (size_t first = 0, piece; first < count; first += piece) {
        piece = count - first < PIECE ? count - first : PIECE;
        size_t bytes = piece * sizeof(float);
        CUDA_CHECK(cudaMemcpyAsync(copy, values + first, bytes, cudaMemcpyDeviceToHost, stream));
        CUDA_CHECK(cudaStreamSynchronize(stream));
        crc = crc32_z(crc, (const unsigned char *)copy, bytes);
    }
    return crc;
}

size_t device_bytes(const char *kind) {
    for (size_t i = 0; allocated[i].kind; i++)
        if (!strcmp(allocated[i].kind, kind))
            return allocated[i].bytes;
    return 0;
}

void print_device(void) {
    int device;
    char text[32];
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    if (getenv("NO_GPU_HERE")) // set by fallback.c
        say("note      no NVIDIA driver here has a GPU: the program runs on the CPU device\n");
    say("device    %d: %s, %s\n", device, properties.name,
        format_bytes(text, properties.totalGlobalMem));
    char memory[512];
    say("memory   %s\n", list_allocated(memory, sizeof memory, " "));
}
