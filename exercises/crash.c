// Linked into the attendee's programs. At a crash, it prints the addresses of the calls in lines
// such as "crash 0x1f3a", from which addr2line gets functions and lines.
#include <elf.h>
#include <execinfo.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>

extern const Elf64_Ehdr __executable_start; // the linker sets these
extern const char etext;

static void print_calls(int number) {
    void *calls[30];
    uintptr_t begin = (uintptr_t)&__executable_start, end = (uintptr_t)&etext;
    int count = backtrace(calls, 30);
    if (number == SIGILL || number == SIGTRAP)
        dprintf(2, "error: an index is outside of its array\n");
    for (int i = 0; i < count; i++) {
        // Frame 2 is the fault; the others hold the address after their call.
        uintptr_t at = (uintptr_t)calls[i] - (i > 2);
        if (i > 1 && at >= begin && at < end)
            dprintf(2, "crash %#zx\n", at - (__executable_start.e_type == ET_DYN ? begin : 0));
    }
    raise(number);
}

__attribute__((constructor)) static void explain_crashes(void) {
    struct sigaction action = {.sa_handler = print_calls, .sa_flags = SA_RESETHAND | SA_NODEFER};
    void *call;
    backtrace(&call, 1); // the first call loads a library
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
    sigaction(SIGABRT, &action, NULL);
    sigaction(SIGILL, &action, NULL); // -fsanitize=bounds; SIGTRAP on ARM
    sigaction(SIGTRAP, &action, NULL);
}
