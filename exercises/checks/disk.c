// disk watch FILE PROGRAM...: runs the program, and stops it at each system call of its first
// thread. There, it could be killed, or the machine could fail: is the snapshot FILE whole then?
// disk kill PROGRAM...: runs the program, and kills it when it calls rename.
// disk fail PROGRAM...: runs the program on a disk that fails: fsync reports EIO.
// Prints the first mistake and what it means. The exit code is that of the program, 1 after a
// mistake, and 77 if this machine allows no tracing.
#include <errno.h>
#include <libgen.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

enum { NO_TRACING = 77, PATH_SIZE = 4096, MOST_FILES = 256 };

// Files that the program has written to. After a power failure, a file that is not on the disk may
// be empty.
static struct file {
    ino_t inode;
    int on_disk;
    char folder[PATH_SIZE];
} files[MOST_FILES];

static struct file *file_of(ino_t inode) {
    struct file *f = files;
    while (f < files + MOST_FILES - 1 && f->inode && f->inode != inode)
        f++;
    f->inode = inode;
    return f;
}

static const char *name_of_call(long number) {
    static const struct {
        long number;
        const char *name;
    } calls[] = {
        {SYS_write, "write"},         {SYS_writev, "writev"},       {SYS_pwrite64, "pwrite"},
        {SYS_fsync, "fsync"},         {SYS_fdatasync, "fdatasync"}, {SYS_close, "close"},
        {SYS_openat, "open"},         {SYS_unlinkat, "unlink"},     {SYS_renameat2, "rename"},
        {SYS_ftruncate, "ftruncate"}, {SYS_linkat, "link"},
#ifdef SYS_rename
        {SYS_rename, "rename"},       {SYS_unlink, "unlink"},       {SYS_open, "open"},
        {SYS_link, "link"},
#endif
        {SYS_renameat, "rename"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].number == number)
            return calls[i].name;
    return "another function";
}

// The file that a descriptor of the process leads to, or NULL.
static struct file *opened(pid_t process, long descriptor) {
    char link[64], path[PATH_SIZE];
    struct stat status;
    snprintf(link, sizeof link, "/proc/%d/fd/%ld", process, descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0 || stat(link, &status) || !S_ISREG(status.st_mode))
        return NULL;
    path[length] = 0;
    struct file *f = file_of(status.st_ino);
    snprintf(f->folder, sizeof f->folder, "%s", dirname(path));
    return f;
}

// A snapshot ends with a checksum of all bytes before it.
static int is_whole(const char *path, size_t bytes) {
    unsigned char *text = malloc(bytes + 1);
    FILE *file = fopen(path, "rb");
    uint32_t sum = 0;
    int whole = file && bytes > sizeof sum && fread(text, 1, bytes, file) == bytes;
    if (whole) {
        memcpy(&sum, text + bytes - sizeof sum, sizeof sum);
        whole = sum == crc32(0, text, bytes - sizeof sum);
    }
    if (file)
        fclose(file);
    free(text);
    return whole;
}

// Returns 1 and prints the reason if this is no good moment to be killed.
static int damaged(const char *path, const char *call) {
    static ino_t seen;
    struct stat status;
    char real[PATH_SIZE];
    if (stat(path, &status)) {
        if (!seen)
            return 0;
        printf("if the program is killed after it has called %s, there is no snapshot\n"
               "The old one was removed too early. rename replaces it, so no other call needs to "
               "remove it.\n",
               call);
        return 1;
    }
    if (!is_whole(path, status.st_size)) {
        printf(
            "if the program is killed after it has called %s, the snapshot is a part of one: %ld "
            "bytes\n"
            "The next start then refuses it, and the older snapshot is lost. Write a second "
            "file, and rename it when\nit is complete.\n",
            call, (long)status.st_size);
        return 1;
    }
    const struct file *f = file_of(status.st_ino);
    if (f->folder[0] && strcmp(f->folder, dirname(realpath(path, real)))) {
        printf("the temporary file is in the folder %s, and the snapshot is not\n"
               "rename works only within one file system, so both must be in the same folder.\n",
               f->folder);
        return 1;
    }
    if (f->folder[0] && !f->on_disk) {
        printf("the new snapshot has its name before its bytes are on the disk\n"
               "After a power failure, the disk may have the new name, but not the bytes. Call "
               "fsync before rename. fsync\nknows nothing about bytes that fwrite still holds in "
               "its buffer, so call fflush before.\n");
        return 1;
    }
    seen = status.st_ino;
    return 0;
}

// path is NULL: kills the program when it calls rename.
static int watch(const char *path, char **program) {
    pid_t child = fork();
    int status, entering = 1;
    struct __ptrace_syscall_info entry = {0}, call;
    const char *last = NULL;
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(NO_TRACING);
        execvp(*program, program);
        _exit(126);
    }
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status))
        return NO_TRACING;
    ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (int signal = 0;;) {
        if (ptrace(PTRACE_SYSCALL, child, NULL, signal) || waitpid(child, &status, 0) < 0)
            return NO_TRACING;
        if (WIFEXITED(status) || WIFSIGNALED(status))
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        signal = WSTOPSIG(status);
        if (signal != (SIGTRAP | 0x80)) {
            signal = signal == SIGTRAP ? 0 : signal; // of execve
            continue;
        }
        signal = 0;
        if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof call, &call) <= 0) {
            kill(child, SIGKILL);
            return NO_TRACING;
        }
        entering = call.op == PTRACE_SYSCALL_INFO_ENTRY;
        if (entering && path && damaged(path, last)) {
            kill(child, SIGKILL);
            return 1;
        }
        if (entering)
            entry = call;
        if (!path && !strcmp(name_of_call(entry.entry.nr), "rename")) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return 0;
        }
        long number = entry.entry.nr;
        last = name_of_call(number);
        struct file *f;
        if (entering && (number == SYS_write || number == SYS_writev || number == SYS_pwrite64) &&
            (f = opened(child, entry.entry.args[0])))
            f->on_disk = 0;
        if (!entering && (number == SYS_fsync || number == SYS_fdatasync) && !call.exit.rval &&
            (f = opened(child, entry.entry.args[0])))
            f->on_disk = 1;
        for (f = files; !entering && (number == SYS_sync || number == SYS_syncfs) && f->inode; f++)
            f->on_disk = 1;
    }
}

static void let_fsync_fail(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsync, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fdatasync, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))
        exit(NO_TRACING);
}

int main(int argc, char **argv) {
    if (argc > 3 && !strcmp(argv[1], "watch"))
        return watch(argv[2], argv + 3);
    if (!strcmp(argv[1], "kill"))
        return watch(NULL, argv + 2);
    let_fsync_fail();
    execvp(argv[2], argv + 2);
    return 126;
}
