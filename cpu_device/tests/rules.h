// Tests of rules of CUDA, cuBLAS and NCCL. The tables in API.md are made from the lines
// that begin with REFUSES and RETURNS, by api_table.py.
#pragma once
#include "test.h"
#include <cpu_device.h>
#include <nccl.h>
#include <semaphore.h>

enum { MOST_RULES = 128 };

// One row of the table. REFUSES: a call that fails with this error, which stays the thread's last
// error or not. RETURNS: when a call returns.
static struct rule {
    const char *name;
    void (*test)(void);
    int error, stays;
} rules[MOST_RULES];
static const struct rule *rule; // that is tested now
static int rule_count;

// What NVIDIA's documentation says of the call.
#define ERROR "error"
#define UNDEFINED "undefined"
#define ALLOWED "allowed" // the CPU device does not support it
enum { STAYS = 1, GOES = 0 };
#define REFUSES(rule_name, function, what, nvidia, error, stays)                                   \
    static void rule_name(void);                                                                   \
    __attribute__((constructor)) static void add_##rule_name(void) {                               \
        rules[rule_count++] = (struct rule){#rule_name, rule_name, (int)(error), stays};           \
    }                                                                                              \
    static void rule_name(void)
#define RETURNS(rule_name, function, what, when) REFUSES(rule_name, function, what, "", 0, GOES)

#define IS_REFUSED(call) is_refused(#call, (int)(call), "", __LINE__)
#define NAMES(words, call) is_refused(#call, (int)(call), words, __LINE__) // in NCCL's text

static void is_refused(const char *call, int error, const char *words, int line) {
    int last = (int)cudaGetLastError();
    if (error != rule->error)
        fail_msg("line %d: %s returned %d, not %d", line, call, error, rule->error);
    if (last != (rule->stays ? error : cudaSuccess))
        fail_msg("line %d: after %s the last error is %d", line, call, last);
    if (!strstr(ncclGetLastError(NULL), words))
        fail_msg("line %d: %s: not a word of %s: %s", line, call, words, ncclGetLastError(NULL));
}

// A kernel that blocks a stream until the gate opens.
static sem_t gate;

static void run_wait(void *arguments) {
    sem_wait(&gate);
}

static void block(cudaStream_t s) {
    OK(cpu_launch(s, run_wait, &(int){0}, sizeof(int)));
}

static void open_gate(void) {
    sem_post(&gate);
}

static ncclComm_t join_alone(void) {
    ncclComm_t comm;
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 1, id, 0));
    return comm;
}

static void run_rule(void **state) {
    rule = *state;
    OK(cudaSetDevice(0));
    rule->test();
    OK(cudaDeviceSynchronize());
    OK(cudaGetLastError());
}

static int run_rules(int (*set_up)(void **state)) {
    alarm(120); // instead of hanging for ever
    sem_init(&gate, 0, 0);
    for (int i = 0; i < rule_count; i++)
        add_test(rules[i].name, run_rule, &rules[i]);
    return run_all_tests((struct around){.begin_all = set_up});
}
