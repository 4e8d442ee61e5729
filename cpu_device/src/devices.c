// The devices: how many there are, what they are called, and the errors of their functions. The
// first call of CUDA reads the environment here.
#include "internal.h"
#include "record.h"
#include "sgemm.h"
#include <ctype.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/utsname.h>

uint64_t cpu_chaos_seed;
static int device_count, physical[CPU_MAX_DEVICES];
static volatile sig_atomic_t forked;
static _Thread_local int current_device;
static _Thread_local cudaError_t last_error;

static void in_child(void) {
    forked = 1;
}

void cpu_fail(const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fprintf(stderr, "error: %s\n", message); // in one piece, because all ranks print it
    exit(1);
}

void cpu_add_text(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

const char *cpu_system_error(int error) {
    static _Thread_local char text[160];
    struct rlimit addresses;
    getrlimit(RLIMIT_AS, &addresses);
    int few = addresses.rlim_cur != RLIM_INFINITY; // pthread_create says EAGAIN then, too
    snprintf(text, sizeof text, "%s%s", strerror(error),
             few && (error == EAGAIN || error == ENOMEM)
                 ? "; raise the limit of memory with 'ulimit -v unlimited'"
             : error == EAGAIN ? "; raise the limit of threads with 'ulimit -u 4096'"
             : error == EMFILE ? "; raise the limit of open files with 'ulimit -n 4096'"
             : error == EFBIG  ? "; raise the limit with 'ulimit -f unlimited'"
                               : "");
    return text;
}

long cpu_positive_number(const char *name, long otherwise) {
    const char *text = getenv(name);
    if (!text)
        return otherwise;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 1)
        cpu_fail("%s=%s: want a whole number from 1 up", name, text);
    return value;
}

// Takes the listed devices up to the first one that does not exist, as CUDA does.
static void choose_visible_devices(int present) {
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (!list) {
        for (device_count = 0; device_count < present; device_count++)
            physical[device_count] = device_count;
        return;
    }
    while (device_count < present && isdigit((unsigned char)*list)) {
        char *end;
        long number = strtol(list, &end, 10);
        if (number >= present)
            return;
        physical[device_count++] = (int)number;
        list = *end == ',' ? end + 1 : "";
    }
}

static void initialise(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_check_settings();
    cpu_model_init();
    long usual = cpu_model_devices() ? cpu_model_devices() : cores < 2 ? 2 : cores;
    long present = cpu_positive_number("CPU_DEVICES", usual);
    if (present > CPU_MAX_DEVICES && getenv("CPU_DEVICES"))
        cpu_fail("CPU_DEVICES=%ld: want at most %d", present, CPU_MAX_DEVICES);
    present = present > CPU_MAX_DEVICES ? CPU_MAX_DEVICES : present; // on a machine with more cores
    cpu_model_check_faults((int)present);
    choose_visible_devices((int)present);
    if (getenv("CPU_DEVICE_CHAOS"))
        cpu_chaos_seed = (uint64_t)cpu_positive_number("CPU_DEVICE_CHAOS", 1);
    const char *check = getenv("CPU_DEVICE_CHECK");
    cpu_recording = check && !strcmp(check, "1");
    if (check && !cpu_recording && strcmp(check, "0"))
        cpu_fail("CPU_DEVICE_CHECK=%s: want 1 or 0", check);
    cpu_positive_number("CPU_DEVICE_TIMEOUT", 1); // a wrong one is refused before it is needed
    if (device_count)
        cpu_memory_init();
    pthread_atfork(NULL, NULL, in_child);
    cpu_counts_init();
    cpu_stop_at_exit();
}

cudaError_t cpu_enter(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (forked || cpu_exiting())
        return cudaErrorInitializationError;
    pthread_once(&once, initialise);
    cpu_thread_begins();
    return device_count ? cudaSuccess : cudaErrorNoDevice;
}

static void *checked(void *memory) {
    if (!memory) { // without exit, which takes locks that the caller may hold
        fprintf(stderr, "error: CPU device: %s\n", cpu_system_error(ENOMEM));
        _exit(1);
    }
    return memory;
}

void *cpu_new(size_t bytes) {
    return checked(calloc(1, bytes));
}

void *cpu_resized(void *memory, size_t bytes) {
    return checked(realloc(memory, bytes));
}

cudaError_t cpu_error(cudaError_t error) {
    if (error && error != cudaErrorNotReady) // NotReady is an answer, so CUDA does not keep it
        last_error = error;
    return error;
}

cudaError_t cpu_begin(int valid) {
    cudaError_t error = cpu_enter();
    return cpu_error(error || valid ? error : cudaErrorInvalidValue);
}

cudaError_t cpu_begin_locked(int valid) {
    cudaError_t error = cpu_begin(valid);
    if (!error)
        pthread_mutex_lock(&cpu_lock);
    return error;
}

cudaError_t cpu_end(cudaError_t error) {
    pthread_mutex_unlock(&cpu_lock);
    return cpu_error(error);
}

int cpu_is_forked(void) {
    return forked;
}

int cpu_physical(int device) {
    return physical[device];
}

int cpu_current_device(void) {
    return current_device;
}

int cpu_device_count(void) {
    return device_count;
}

cudaError_t cudaGetDeviceCount(int *count) {
    cudaError_t error = cpu_begin(count != NULL);
    if (!error)
        *count = device_count;
    return error;
}

cudaError_t cudaSetDevice(int device) {
    cudaError_t error = cpu_begin(1);
    if (error)
        return error;
    if (device < 0 || device >= device_count)
        return cpu_error(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    cudaError_t error = cpu_begin(device != NULL);
    if (!error)
        *device = current_device;
    return error;
}

static void processor_name(char *name, size_t size) {
    struct utsname machine;
    uname(&machine);
    snprintf(name, size, "%s", machine.machine);
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            snprintf(name, size, "%s", strchr(line, ':') + 2);
            name[strcspn(name, "\n")] = 0;
            break;
        }
    if (f)
        fclose(f);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device) {
    cudaError_t error = cpu_begin(prop != NULL);
    if (error)
        return error;
    if (device < 0 || device >= device_count)
        return cpu_error(cudaErrorInvalidDevice);
    *prop = (struct cudaDeviceProp){.major = 9, .pciBusID = physical[device]};
    prop->multiProcessorCount = (int)sysconf(_SC_NPROCESSORS_ONLN);
    char processor[128], library[96];
    processor_name(processor, sizeof processor);
    cpu_sgemm_library(library, sizeof library);
    if (cpu_model)
        snprintf(prop->name, sizeof prop->name, "CPU device (all times modelled as %s%s, no GPU",
                 cpu_model->name, cpu_computes ? "" : ", nothing computed");
    else
        snprintf(prop->name, sizeof prop->name, "CPU device (%s, %d core%s, %s, no GPU", processor,
                 prop->multiProcessorCount, prop->multiProcessorCount == 1 ? "" : "s", library);
    cpu_list_settings(prop->name, sizeof prop->name - 1);
    strcat(prop->name, ")");
    size_t available;
    return cudaMemGetInfo(&available, &prop->totalGlobalMem);
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) {
    cudaError_t error = cpu_begin(id && length >= (int)sizeof "0000:00:00.0");
    if (error)
        return error;
    if (device < 0 || device >= device_count)
        return cpu_error(cudaErrorInvalidDevice);
    snprintf(id, (size_t)length, "0000:%02x:00.0", (unsigned)physical[device]);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

#define ERROR(name, text)                                                                          \
    { name, #name, text }
static const struct {
    cudaError_t error;
    const char *name, *text;
} error_texts[] = {
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR(cudaErrorInsufficientDriver,
          "CUDA driver version is insufficient for CUDA runtime version"),
    ERROR(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR(cudaErrorStreamCaptureInvalidated,
          "operation failed due to a previous error during capture"),
    ERROR(cudaErrorStreamCaptureImplicit,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    ERROR(cudaErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread"),
    ERROR(cudaErrorUnknown, "unknown error"),
};

const char *cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < sizeof error_texts / sizeof *error_texts; i++)
        if (error_texts[i].error == error)
            return error_texts[i].name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    if (error == cudaErrorLaunchFailure && cpu_why_stopped())
        return cpu_why_stopped();
    for (size_t i = 0; i < sizeof error_texts / sizeof *error_texts; i++)
        if (error_texts[i].error == error)
            return error_texts[i].text;
    return "unrecognized error code";
}
