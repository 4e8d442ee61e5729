// Linked with a CPU device that is compiled with -finstrument-functions. If one of its functions
// runs in the parent process, and not in a child, the program ends.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile int is_child;

static void in_child(void) {
    is_child = 1;
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, in_child);
}

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_enter(void *function, void *caller) {
    Dl_info info = {0};
    (void)caller;
    if (is_child)
        return;
    dladdr(function, &info);
    // This function only reads the environment. Programs for a GPU have it, too.
    if (info.dli_sname && !strcmp(info.dli_sname, "cpu_device_computes"))
        return;
    is_child = 1; // or the device's handlers at exit would be caught, too
    fprintf(stderr, "the parent called %s\n",
            info.dli_sname ? info.dli_sname : "a function of the device");
    _Exit(3);
}

void __cyg_profile_func_exit(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller) {
    (void)function;
    (void)caller;
}
