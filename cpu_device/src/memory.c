// Device memory of the CPU device: allocations that host code cannot touch by mistake.
//
//   reserved:  | heap: pointers from cudaMalloc, never accessible | view: the bytes themselves |
//               ^ heap                                             ^ heap + heap_bytes
//
// A kernel adds heap_bytes to each of its pointers. If host code uses such a pointer, or a kernel
// uses a freed or overrun one, the access hits a page without access rights, and explain_fault
// prints the reason.
//
// With CPU_DEVICE_CHECK=1, pinned memory has two mappings, too. Devices use one of them. The
// program uses the other one, and cannot touch it while a copy may write to it, nor write to it
// while a copy may read it.
#include "check.h"
#include "internal.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

struct allocation {
    uintptr_t start;
    size_t bytes;
    size_t span; // bytes of its pages, and of a gap of one page after them
    int device;  // or PINNED
    const char *what, *file;
    int line;
    struct allocation *next;       // sorted by address
    uintptr_t view;                // its address for device threads
    struct cpu_use *uses;          // with CPU_DEVICE_CHECK=1
    const struct cpu_place *place; // with CPU_DEVICE_CHECK=1, if the file is unknown
    int access;                    // current rights of host code, as for mprotect
};

enum { PINNED = -1 };

static uintptr_t heap;
static size_t heap_bytes, page;
static int heap_file = -1; // holds the bytes of the views
static uintptr_t cursor;   // the next search starts here, so freed addresses are reused late
static struct allocation *device_list, *pinned_list;
static struct cpu_use *pageable_uses; // of host memory that CUDA did not allocate
static size_t limit_bytes, used_bytes[CPU_MAX_DEVICES];
static struct sigaction previous_segv;

size_t cpu_parse_size(const char *text) {
    char *end;
    double value = strtod(text, &end);
    const char *units = "KMGT";
    double scale = 1;
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        for (const char *u = units; u <= unit; u++)
            scale *= 1024;
        end++;
    }
    if (end == text || *end || !(value > 0) || value * scale > (double)(SIZE_MAX / 2))
        return 0;
    return (size_t)(value * scale);
}

// Returns the allocation whose pages hold the address, or NULL. The gap after it counts, so a
// pointer just past the end names its own allocation.
static struct allocation *find(struct allocation *list, uintptr_t address) {
    while (list && !(address >= list->start && address - list->start < list->span))
        list = list->next;
    return list;
}

// Prints the line and ends the program. A debugger stops at the access before this handler runs.
__attribute__((noreturn)) static void end_with(const char *line, int length, size_t size) {
    ssize_t written = write(STDERR_FILENO, line, (size_t)length < size ? (size_t)length : size - 1);
    (void)written; // there is no other place to report to
    _exit(1);
}

// Returns 1 if the address is in pinned memory, because only cpu_guard_pinned makes that
// inaccessible. Ends the program if an operation may still use the byte.
static int explain_touch(uintptr_t at) {
    int locked = !pthread_mutex_lock(&cpu_lock);
    struct allocation *a = find(pinned_list, at);
    if (a && a->access != (PROT_READ | PROT_WRITE)) {
        const struct cpu_use *use = cpu_unfinished_use(a->uses, at, a->access == PROT_READ);
        char line[1280];
        if (use) // keeps the lock, so that no other thread forgets the use
            end_with(line,
                     snprintf(line, sizeof line,
                              "error: CPU_DEVICE_CHECK: host code at %s touches pinned memory "
                              "while an operation may still use it:\n  %s\n"
                              "  fix: call cudaStreamSynchronize first\n",
                              cpu_describe_place(cpu_here()), cpu_describe_use(use)),
                     sizeof line);
        a->access = PROT_READ | PROT_WRITE; // the operation uses other bytes of the same page
        mprotect((void *)a->start, a->span, a->access);
    }
    if (locked)
        pthread_mutex_unlock(&cpu_lock);
    return a != NULL;
}

// Runs in the thread that caused the fault, at the line of the fault. Unlike handlers of signals
// that arrive at any moment, it may therefore print and take locks. It goes on without cpu_lock if
// this thread holds it already.
static void explain_fault(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr;
    if (cpu_recording && explain_touch(at))
        return;
    int from_host = at - heap < heap_bytes, from_device = at - heap - heap_bytes < heap_bytes;
    if (!from_host && !from_device) {
        sigaction(signal_number, &previous_segv, NULL);
        return;
    }
    const char *who = from_host ? "host code" : "a kernel";
    const char *fix = from_host ? "the host reaches device memory through cudaMemcpy only"
                                : "on a GPU this is cudaErrorIllegalAddress";
    uintptr_t address = from_host ? at : at - heap_bytes;
    char line[512];
    int n, locked = !pthread_mutex_lock(&cpu_lock);
    struct allocation *a = find(device_list, address);
    if (a)
        n = snprintf(line, sizeof line,
                     "error: CPU device: %s touched byte %zu of the %zu bytes from cudaMalloc(%s) "
                     "at %s:%d; %s\n",
                     who, (size_t)(address - a->start), a->bytes, a->what, a->file, a->line, fix);
    else
        n = snprintf(line, sizeof line,
                     "error: CPU device: %s touched device memory at %p that is not allocated "
                     "(freed, or out of range); %s\n",
                     who, (void *)address, fix);
    if (locked)
        pthread_mutex_unlock(&cpu_lock);
    end_with(line, n, sizeof line);
}

// Puts the bytes of the views into a file, so that other ranks can read them (peer_memory.c). There
// is no file in four cases:
// - ulimit -f is set: a file above this limit would end the program.
// - ulimit -v is set: no addresses would be left for the memory of peers.
// - A model computes nothing: a read would fill the file with zeros.
// - A sandbox cannot free a part of a file.
static void back_views(void) {
    struct rlimit addresses;
    if (!cpu_computes || getrlimit(RLIMIT_AS, &addresses) || addresses.rlim_cur != RLIM_INFINITY)
        return;
    int file = cpu_make_memory("device memory", heap_bytes);
    void *views = (void *)(heap + heap_bytes);
    if (file >= 0 && !fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)page) &&
        mmap(views, heap_bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, 0) ==
            views) {
        madvise(views, heap_bytes, MADV_DONTDUMP); // a core dump would fill the whole file
        heap_file = file;
    } else if (file >= 0) {
        close(file);
    }
}

int cpu_make_memory(const char *name, size_t bytes) {
    struct rlimit limit;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < bytes) {
        errno = EFBIG; // ftruncate would end the program with SIGXFSZ
        return -1;
    }
    int file = memfd_create(name, MFD_CLOEXEC);
    if (file < 0 || !ftruncate(file, (off_t)bytes))
        return file;
    int error = errno;
    close(file);
    errno = error;
    return -1;
}

struct cpu_heap cpu_heap(void) {
    return (struct cpu_heap){heap + heap_bytes, heap_bytes, heap_file};
}

void cpu_memory_init(void) {
    page = (size_t)sysconf(_SC_PAGESIZE);
    // Batch systems may limit the address space (ulimit -v), so try smaller and smaller ranges.
    void *range = MAP_FAILED;
    for (heap_bytes = (size_t)1 << 38; heap_bytes >= (size_t)1 << 26; heap_bytes /= 2) {
        range = mmap(NULL, 2 * heap_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);
        if (range != MAP_FAILED)
            break;
    }
    if (range == MAP_FAILED)
        cpu_fail("CPU device: no address space for device memory; raise ulimit -v");
    heap = cursor = (uintptr_t)range;
    back_views();

    const char *wanted = getenv("CPU_DEVICE_MEMORY");
    limit_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * page / 2 / (size_t)cpu_device_count();
    if (!cpu_computes) // no byte of it is touched
        limit_bytes = (size_t)cpu_model->capacity;
    if (wanted && !(limit_bytes = cpu_parse_size(wanted)))
        cpu_fail("CPU_DEVICE_MEMORY=%s: want a size such as 64M or 2G", wanted);

    struct sigaction action = {.sa_sigaction = explain_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, &previous_segv);
}

// Finds a gap of span bytes at or above from. Returns the list's link for the new allocation, or
// NULL.
static struct allocation **find_gap(uintptr_t from, size_t span, uintptr_t *start) {
    struct allocation **link = &device_list;
    uintptr_t free_from = from;
    for (; *link; link = &(*link)->next) {
        if ((*link)->start >= free_from && (*link)->start - free_from >= span)
            break;
        if ((*link)->start + (*link)->span > free_from)
            free_from = (*link)->start + (*link)->span;
    }
    *start = free_from;
    return heap + heap_bytes - free_from >= span ? link : NULL;
}

// Ends the program if Linux cannot make a page readable, which needs no memory, but one more
// mapping between its neighbours. Called with cpu_lock held.
static void explain_mappings(uintptr_t view) {
    size_t live = 0;
    if (!mprotect((void *)view, page, PROT_READ)) {
        mprotect((void *)view, page, PROT_NONE);
        return;
    }
    for (const struct allocation *a = device_list; a; a = a->next)
        live++;
    pthread_mutex_unlock(&cpu_lock);
    cpu_fail(
        "CPU device: Linux allows this process no more mappings of memory, and each of the %zu "
        "live allocations needs two; make fewer and larger ones, or raise the limit with "
        "'sysctl vm.max_map_count=1000000'",
        live);
}

// Finds addresses for an allocation, makes their bytes accessible for device threads, and counts
// them. Called with cpu_lock held.
static cudaError_t allocate(struct allocation *a, size_t size) {
    if (size > limit_bytes - used_bytes[a->device])
        return cudaErrorMemoryAllocation;
    a->bytes = size;
    a->span = (size + page - 1) / page * page + page;
    struct allocation **link = find_gap(cursor, a->span, &a->start);
    if (!link)
        link = find_gap(heap, a->span, &a->start);
    if (!link)
        return cudaErrorMemoryAllocation;
    a->view = a->start + heap_bytes;
    if (mprotect((void *)a->view, a->span - page, PROT_READ | PROT_WRITE)) {
        explain_mappings(a->view);
        return cudaErrorMemoryAllocation;
    }
    a->next = *link;
    *link = a;
    cursor = a->start + a->span;
    used_bytes[a->device] += size;
    return cudaSuccess;
}

// Returns the link to the allocation that starts at the address. Called with cpu_lock held.
static struct allocation **find_link(struct allocation **list, const void *pointer) {
    while (*list && (*list)->start != (uintptr_t)pointer)
        list = &(*list)->next;
    return list;
}

// Removes an allocation from the list, and frees pinned memory, or makes bytes of a device
// inaccessible, before their addresses can be reused. Called with cpu_lock held.
static void give_back(struct allocation **link) {
    struct allocation *a = *link;
    *link = a->next;
    void *view = (void *)a->view;
    if (a->device == PINNED && a->view == a->start) {
        free(view);
    } else if (a->device == PINNED) {
        munmap((void *)a->start, a->span);
        munmap(view, a->span);
    } else if (heap_file >= 0) {
        madvise(view, a->span - page, MADV_REMOVE);
        mprotect(view, a->span - page, PROT_NONE);
    } else {
        mmap(view, a->span - page, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    if (a->device != PINNED)
        used_bytes[a->device] -= a->bytes;
}

// If memory is short, a write to a file in memory ends the program. So the kernel writes to each
// page first, which returns an error instead. Returns 0 on failure. Called without cpu_lock,
// because it takes long.
static int take_pages(const struct allocation *a) {
    for (size_t at = 0; heap_file >= 0 && at < a->span - page; at += page)
        if (syscall(SYS_getcpu, a->view + at, NULL, NULL))
            return 0;
    return 1;
}

cudaError_t cpuDeviceMalloc(void **pointer, size_t size, const char *what, const char *file,
                            int line) {
    cudaError_t error = cpu_begin(pointer != NULL);
    if (error || (error = cpu_capture_forbids(CPU_UNSAFE_CALL, NULL)))
        return cpu_error(error);
    *pointer = NULL;
    if (size == 0)
        return cudaSuccess;
    struct allocation *a = cpu_new(sizeof *a);
    if (!strncmp(what, "(void **)", 9))
        what += 9;
    *a = (struct allocation){
        .device = cpu_current_device(), .what = what, .file = file, .line = line};
    if (cpu_recording && !line)
        a->place = cpu_here();
    pthread_mutex_lock(&cpu_lock);
    error = allocate(a, size);
    pthread_mutex_unlock(&cpu_lock);
    if (!error && !take_pages(a)) {
        pthread_mutex_lock(&cpu_lock);
        give_back(find_link(&device_list, (void *)a->start));
        pthread_mutex_unlock(&cpu_lock);
        error = cudaErrorMemoryAllocation;
    }
    if (error) {
        free(a);
        return cpu_error(error);
    }
    if (cpu_computes) // as float, every element is NaN
        memset((void *)(a->start + heap_bytes), 0xff, a->span - page);
    *pointer = (void *)a->start;
    return cudaSuccess;
}

#undef cudaMalloc
cudaError_t cudaMalloc(void **pointer, size_t size) {
    return cpuDeviceMalloc(pointer, size, "", "?", 0);
}

// The common part of cudaFree and cudaFreeHost. Frees the memory when the work that may still use
// it is done.
static cudaError_t release(struct allocation **list, const void *pointer) {
    cudaError_t error = cpu_enter();
    if (error || !pointer || (error = cpu_capture_forbids(CPU_UNSAFE_CALL, NULL)))
        return cpu_error(error);
    pthread_mutex_lock(&cpu_lock);
    struct allocation *a = *find_link(list, pointer);
    int device = a && a->device != PINNED ? a->device : cpu_current_device();
    if (a)
        cpu_check_free(&a->uses);
    pthread_mutex_unlock(&cpu_lock);
    cpu_check_report();
    cpu_drain_device(device);
    pthread_mutex_lock(&cpu_lock);
    struct allocation **link = find_link(list, pointer);
    if (!(a = *link))
        return cpu_end(cudaErrorInvalidValue);
    give_back(link);
    free(a);
    return cpu_end(cudaSuccess);
}

cudaError_t cudaFree(void *pointer) {
    return release(&device_list, pointer);
}

cudaError_t cudaFreeHost(void *pointer) {
    return release(&pinned_list, pointer);
}

// Maps pinned memory twice, for the program and for the devices. Returns 0 on failure.
static int map_twice(struct allocation *a) {
    a->span = (a->bytes / page + 1) * page;
    int file = cpu_make_memory("pinned memory", a->span);
    if (file < 0)
        cpu_fail("CPU_DEVICE_CHECK=1 needs files in memory for pinned memory: %s",
                 cpu_system_error(errno));
    void *maps[2] = {MAP_FAILED, MAP_FAILED};
    for (int i = 0; i < 2; i++)
        maps[i] = mmap(NULL, a->span, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    a->start = (uintptr_t)maps[0];
    a->view = (uintptr_t)maps[1];
    a->access = PROT_READ | PROT_WRITE;
    a->place = cpu_here();
    return maps[0] != MAP_FAILED && maps[1] != MAP_FAILED;
}

void cpu_guard_pinned(void) {
    static const int access[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};
    for (struct allocation *a = pinned_list; a; a = a->next) {
        int wanted = access[cpu_unfinished_uses(a->uses)];
        if (wanted != a->access)
            mprotect((void *)a->start, a->span, wanted);
        a->access = wanted;
    }
}

cudaError_t cudaMallocHost(void **pointer, size_t size) {
    cudaError_t error = cpu_begin(pointer != NULL);
    if (error || (error = cpu_capture_forbids(CPU_UNSAFE_CALL, NULL)))
        return cpu_error(error);
    struct allocation *a = cpu_new(sizeof *a);
    a->device = PINNED;
    a->bytes = a->span = size;
    if (!cpu_recording)
        a->start = a->view = (uintptr_t)malloc(size ? size : 1);
    if (cpu_recording ? !map_twice(a) : !a->start) {
        free(a);
        return cpu_error(cudaErrorMemoryAllocation);
    }
    *pointer = (void *)a->start;
    memset(*pointer, 0xff, size);
    pthread_mutex_lock(&cpu_lock);
    a->next = pinned_list;
    pinned_list = a;
    pthread_mutex_unlock(&cpu_lock);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    cudaError_t error = cpu_begin_locked(1);
    if (error)
        return error;
    if (available)
        *available = limit_bytes - used_bytes[cpu_current_device()];
    if (total)
        *total = limit_bytes;
    return cpu_end(cudaSuccess);
}

int cpu_is_device_pointer(const void *pointer) {
    return (uintptr_t)pointer - heap < heap_bytes;
}

void *cpu_view_on(const void *pointer, size_t bytes, int *device) {
    uintptr_t address = (uintptr_t)pointer;
    int on_device = cpu_is_device_pointer(pointer);
    pthread_mutex_lock(&cpu_lock);
    struct allocation *a = find(on_device ? device_list : pinned_list, address);
    int inside = a && address - a->start <= a->bytes && bytes <= a->bytes - (address - a->start);
    void *view = inside ? (void *)(a->view + (address - a->start)) : NULL;
    *device = a && on_device ? a->device : -1;
    pthread_mutex_unlock(&cpu_lock);
    return view;
}

void *cpu_view(const void *pointer, size_t bytes) {
    int device;
    return cpu_view_on(pointer, bytes, &device);
}

int cpu_device_of(const void *pointer) {
    int device;
    cpu_view_on(pointer, 0, &device);
    return device;
}

size_t cpu_bytes_from(const void *pointer) {
    uintptr_t address = (uintptr_t)pointer;
    pthread_mutex_lock(&cpu_lock);
    struct allocation *list = cpu_is_device_pointer(pointer) ? device_list : pinned_list;
    struct allocation *a = find(list, address);
    size_t bytes = a && address - a->start <= a->bytes ? a->bytes - (address - a->start) : 0;
    pthread_mutex_unlock(&cpu_lock);
    return bytes;
}

int cpu_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    uintptr_t from = (uintptr_t)a, other = (uintptr_t)b;
    return from < other ? other - from < a_bytes : from - other < b_bytes;
}

void cpu_find_memory(uintptr_t address, struct cpu_memory *memory) {
    int on_device = cpu_is_device_pointer((void *)address);
    struct allocation *a = find(on_device ? device_list : pinned_list, address);
    *memory = (struct cpu_memory){.uses = &pageable_uses};
    if (a)
        *memory = (struct cpu_memory){&a->uses, a->start, a->what, a->file, a->line, a->place};
}

char *cpu_describe_memory(const struct cpu_memory *memory) {
    char *text = NULL;
    const char *what = memory->what ? memory->what : "";
    int length = (int)strlen(what), error; // "&(pointer)" of DEVICE_ALLOC, or "&pointer"
    int before = !strncmp(what, "&(", 2) ? 2 : *what == '&';
    if (memory->place)
        error = asprintf(&text, "the memory allocated at %s", cpu_describe_place(memory->place));
    else if (memory->what)
        error = asprintf(&text, "%.*s (cudaMalloc at %s:%d)", length - before - (before == 2),
                         what + before, memory->file, memory->line);
    else
        error = asprintf(&text, "pageable host memory");
    return error < 0 ? NULL : text;
}
