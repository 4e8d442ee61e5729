// The environment variables of the CPU device. A misspelt one must not pass in silence: the program
// would run without the checker or the model that its user has asked for.
#include "internal.h"

static const struct setting {
    const char *name;
    int is_shown; // 0: the other words of the device's name show what it does
} settings[] = {
    {"CPU_DEVICES", 0},         {"CPU_DEVICE_MEMORY", 1},  {"CPU_DEVICE_CHAOS", 1},
    {"CPU_DEVICE_CHECK", 1},    {"CPU_DEVICE_TIMEOUT", 1}, {"CPU_DEVICE_MODEL", 0},
    {"CPU_DEVICE_TOPOLOGY", 1}, {"CPU_DEVICE_SLOW", 1},    {"CPU_DEVICE_LOST", 1},
    {"CPU_DEVICE_COUNTS", 1},   {"CPU_DEVICE_COMPUTE", 0},
};
enum { SETTINGS = sizeof settings / sizeof *settings, LONGEST = 32 };

// Returns how many letters of a name [length] one must insert, remove or replace to make the other
// one (Levenshtein).
static size_t count_edits(const char *name, size_t length, const char *other) {
    size_t edits[LONGEST], n = strlen(other);
    for (size_t j = 0; j <= n; j++)
        edits[j] = j;
    for (size_t i = 0; i < length; i++) {
        size_t diagonal = edits[0];
        edits[0] = i + 1;
        for (size_t j = 1; j <= n; j++) {
            size_t fewest = diagonal + (name[i] != other[j - 1]);
            fewest = edits[j] < fewest ? edits[j] + 1 : fewest;
            fewest = edits[j - 1] < fewest ? edits[j - 1] + 1 : fewest;
            diagonal = edits[j];
            edits[j] = fewest;
        }
    }
    return edits[n];
}

void cpu_check_settings(void) {
    for (char **variable = environ; *variable; variable++) {
        const char *nearest = NULL;
        size_t length = strcspn(*variable, "="), fewest = SIZE_MAX;
        for (int i = 0; i < SETTINGS && **variable == 'C'; i++) {
            size_t edits = count_edits(*variable, length, settings[i].name);
            nearest = edits < fewest ? settings[i].name : nearest;
            fewest = edits < fewest ? edits : fewest;
        }
        if (nearest && fewest && (fewest <= 2 || !strncmp(*variable, "CPU_DEVICE", 10)))
            cpu_fail("%s: the CPU device has no such variable; the nearest one is %s", *variable,
                     nearest);
    }
}

void cpu_list_settings(char *text, size_t size) {
    for (int i = 0; i < SETTINGS; i++)
        if (settings[i].is_shown && getenv(settings[i].name))
            cpu_add_text(text, size, ", %s=%s", settings[i].name, getenv(settings[i].name));
}
