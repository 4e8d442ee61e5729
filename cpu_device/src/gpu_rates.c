#include "gpu_rates.h"
#include "internal.h"

enum { RATES = 28, MODELS = 5 };

static const char *const model_names[MODELS] = {"a100", "h100", "h200", "b200", "l4"};

#define RATE(member, unit, factor) #member, unit, factor, offsetof(struct cpu_model, member)
#define GIB 1073741824.0
#define US 1e-6
#define GB_S 1e9
#define THOUSAND 1e3
#define TFLOP_S 1e12

// One line of a model file, and the values of the models that are built in. A model holds the value
// times the factor. README.md has the sources of each line.
// clang-format off
static const struct rate {
    const char *key, *unit;
    double factor;
    size_t member; // its offset in struct cpu_model
    double values[MODELS];
} rates[RATES] = {
    //                                               A100  H100  H200  B200    L4
    {RATE(capacity, "GiB", GIB),                    {  80, 79.6, 139.8,  179, 22.5}},
    {RATE(launch_call, "us", US),                   { 4.3,  4.3,  4.3,   4.3,  4.3}},
    {RATE(product_call, "us", US),                  {12.9, 12.9, 12.9,  12.9, 12.9}},
    {RATE(event_call, "us", US),                    { 0.8,  0.8,  0.8,   0.8,  0.8}},
    {RATE(collective_call, "us", US),               {   6,    6,    6,     6,    6}},
    {RATE(graph_node, "us", US),                    {.0125, .0125, .0125, .0125, .0125}},
    {RATE(wake, "us", US),                          { 2.2,  2.2,  2.2,   2.2,  2.2}},
    {RATE(latency, "us", US),                       {   2,    2,    2,     2,    2}},
    {RATE(gap, "us", US),                           {   1,    1,    1,     1,    1}},
    {RATE(graph_gap, "us", US),                     { 0.5,  0.5,  0.5,   0.5,  0.5}},
    {RATE(memory, "GB/s", GB_S),                    {1700, 2970, 4150,  6900,  250}},
    {RATE(fp32, "TFLOP/s", TFLOP_S),                {16.8, 53.8, 53.8,  58.2, 12.5}},
    {RATE(tf32, "TFLOP/s", TFLOP_S),                { 134,  397,  397,   873,   26}},
    {RATE(bf16, "TFLOP/s", TFLOP_S),                { 268,  794,  794,  1745,   58}},
    {RATE(mma, "TFLOP/s", TFLOP_S),                 { 312,  613,  613,   687,   58}},
    {RATE(instructions, "T/s", TFLOP_S),            {11.7,   20,   20,  22.5,    9}},
    {RATE(threads, "thousand", THOUSAND),           { 221,  270,  270,   303,   89}},
    {RATE(wait, "us", US),                          { 0.4,  0.4,  0.4,   0.4,  0.4}},
    {RATE(kernel, "us", US),                        {   2,    2,    2,     2,    2}},
    {RATE(product, "us", US),                       { 8.5,    7,    7,     7,  8.5}},
    {RATE(pcie, "GB/s", GB_S),                      {26.3, 55.6, 55.6,  55.6, 26.3}},
    {RATE(pageable, "GB/s", GB_S),                  {  10,   10,   10,    10,   10}},
    {RATE(link, "GB/s", GB_S),                      { 235,  371,  371,   680,   20}},
    {RATE(pair, "GB/s", GB_S),                      {  55,   80,   80,    85,   20}},
    {RATE(link_latency, "us", US),                  { 3.4,  3.4,  3.4,   3.4,  5.7}},
    {RATE(network, "GB/s", GB_S),                   {  24,   48,   48,    48,  1.5}},
    {RATE(network_latency, "us", US),               {  14,   14,   14,    18,   14}},
    {RATE(nvls, "GB/s", GB_S),                      {   0,  309,  309,   545,    0}},
};
// clang-format on

static void set(struct cpu_model *model, const struct rate *rate, double value) {
    value *= rate->factor;
    memcpy((char *)model + rate->member, &value, sizeof value);
}

static int find_key(const char *key) {
    int i = 0;
    while (i < RATES && strcmp(key, rates[i].key) != 0)
        i++;
    return i;
}

// Only nvls may be 0, because other times are divided by the rates.
static double parse_value(const char *path, int line, const char *key, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0 ||
        (value == 0 && strcmp(key, "nvls") != 0))
        cpu_fail("%s:%d: %s %s: want a number above 0", path, line, key, text);
    return value;
}

// Removes the comment, and splits a line into a key and a value. Returns the number of words.
static int split(char *line, char *words[3]) {
    int n = 0;
    line[strcspn(line, "#\r\n")] = 0;
    for (char *word = strtok(line, " \t"); word && n < 3; word = strtok(NULL, " \t"))
        words[n++] = word;
    return n;
}

static void read_file(const char *path, struct cpu_model *model) {
    char line[256], *words[3];
    int seen[RATES] = {0};
    FILE *file = fopen(path, "r");
    if (!file)
        cpu_fail("CPU_DEVICE_MODEL=%s: cannot open the file: %s", path, strerror(errno));
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        int n = split(line, words);
        if (n == 0)
            continue;
        int key = find_key(words[0]);
        if (n != 2)
            cpu_fail("%s:%d: want a name and one number, such as \"memory 2970\"", path, number);
        if (key == RATES)
            cpu_fail("%s:%d: %s is not the name of a rate; see cpu_device/h100.model", path, number,
                     words[0]);
        if (seen[key]++)
            cpu_fail("%s:%d: %s appears twice; remove one line", path, number, words[0]);
        set(model, &rates[key], parse_value(path, number, words[0], words[1]));
    }
    fclose(file);
    for (int i = 0; i < RATES; i++)
        if (!seen[i])
            cpu_fail("%s: the line \"%s NUMBER\" is missing (in %s); see cpu_device/h100.model",
                     path, rates[i].key, rates[i].unit);
}

void cpu_model_read(const char *name, struct cpu_model *model) {
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    size_t length = strlen(base), suffix = strlen(".model");
    int is_file = length > suffix && !strcmp(base + length - suffix, ".model");
    *model = (struct cpu_model){0};
    snprintf(model->name, sizeof model->name, "%.*s", (int)(is_file ? length - suffix : length),
             base);
    if (slash || is_file) {
        read_file(name, model);
        return;
    }
    int i = 0;
    while (i < MODELS && strcmp(name, model_names[i]) != 0)
        i++;
    if (i == MODELS)
        cpu_fail("CPU_DEVICE_MODEL=%s: want a100, h100, h200, b200, l4, or a file such as "
                 "cpu_device/h100.model",
                 name);
    for (int r = 0; r < RATES; r++)
        set(model, &rates[r], rates[r].values[i]);
}
