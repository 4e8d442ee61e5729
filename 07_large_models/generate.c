// Continues a text with a language model that any step has trained. The model computes a logit for
// each byte that may come next. The program chooses one of them at random, a byte with a larger
// logit more often, and the model sees it as part of the text.
#include "07_large_models/predict.h"
#include "common/base/clock.h"
#include "common/base/options.h"
#include "common/base/rng.h"
#include "common/snapshots/snapshot.h"
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>
#include <wctype.h>

static struct {
    const char *snapshot, *prompt;
    double temperature;
    long top_k, seed, tokens, cache, check, time;
} generate = {.prompt = "\n"};

static const struct option_spec options[] = {
    {"snapshot", OPTION_TEXT, &generate.snapshot, NULL, 0, 0, "file that training has saved"},
    {"prompt", OPTION_TEXT, &generate.prompt, NULL, 0, 0, "text to continue, default: a new line"},
    {"temperature", OPTION_REAL, &generate.temperature, "0.8", 0, 100,
     "below 1: likely bytes become more likely, 0: always the most likely one"},
    {"top-k", OPTION_INT, &generate.top_k, "0", 0, 256, "choose among so many bytes, 0: among all"},
    {"seed", OPTION_INT, &generate.seed, "1", 0, 1e15, "seed of the choices"},
    {"tokens", OPTION_INT, &generate.tokens, "500", 1, 1e9, "bytes to generate"},
    {"cache", OPTION_INT, &generate.cache, "1", 0, 1, "1: keep the keys and values of tokens"},
    {"check", OPTION_FLAG, &generate.check, NULL, 0, 0, "computes logits both ways, and compares"},
    {"time", OPTION_FLAG, &generate.time, NULL, 0, 0, "prints the speed, on stderr"},
    {0},
};

static const struct option_table tables[] = {{NULL, options}, {0}};

// Loads the parameters. All else that the program must know about the model is in the snapshot.
static void load(struct predictor *p) {
    char why[WHY_SIZE];
    struct snapshot run;
    if (!generate.snapshot)
        wrong_usage("--snapshot FILE is missing: a file that train --model gpt has saved");
    int found = snapshot_identify(generate.snapshot, &run, why);
    if (found == 0)
        fail("--snapshot %s: no such file: train --model gpt saves one", generate.snapshot);
    if (found < 0)
        fail("%s", why);
    if (predictor_build(p, run.model, why))
        fail("--snapshot %s: %s", generate.snapshot, why);
    if (run.parameters != p->whole.model.parameters)
        fail("--snapshot %s: %zu parameters, want %zu", generate.snapshot, run.parameters,
             p->whole.model.parameters);
    struct snapshot *s = snapshot_like(&run, run.parameters, run.state_size);
    if (snapshot_load(generate.snapshot, s, why) < 1)
        fail("%s", why);
    predictor_start(p, s->values, generate.cache || generate.check);
    free(s);
}

struct choice {
    int token;
    double logit;
};

// The largest logit first, and of equal ones the smallest token.
static int compare(const void *first, const void *second) {
    const struct choice *a = first, *b = second;
    return a->logit == b->logit ? a->token - b->token : a->logit < b->logit ? 1 : -1;
}

// Chooses token number i of the text with the probabilities softmax(logits / temperature).
static uint8_t choose(const float *logits, int classes, long i) {
    struct choice choices[256] = {{0}};
    double weights[256], sum = 0;
    int k = generate.top_k ? (int)generate.top_k : classes;
    for (int token = 0; token < classes; token++)
        choices[token] = (struct choice){token, logits[token]};
    qsort(choices, classes, sizeof *choices, compare);
    if (generate.temperature == 0)
        return choices[0].token;
    for (int j = 0; j < k; j++)
        sum += weights[j] = exp((choices[j].logit - choices[0].logit) / generate.temperature);
    double left = rng_uniform(generate.seed, i) * sum;
    for (int j = 0; j < k - 1; j++)
        if ((left -= weights[j]) < 0)
            return choices[j].token;
    return choices[k - 1].token;
}

// Prints a byte or, in UTF-8, a character of several bytes as soon as it is complete. ? stands for
// bytes that are no character, and for control characters, which a terminal would obey.
static void print(uint8_t byte) {
    static char character[MB_LEN_MAX];
    static int size;
    wchar_t wide = 0;
    mbstate_t state = {0};
    character[size++] = (char)byte;
    size_t result = mbrtowc(&wide, character, size, &state);
    if (result == (size_t)-2) // more bytes must follow
        return;
    int bytes = size;
    size = 0;
    if (result != (size_t)-1 && (iswprint(wide) || wide == '\n' || wide == '\t'))
        fwrite(character, 1, bytes, stdout);
    else
        putchar('?');
    fflush(stdout);
    if (result == (size_t)-1 && bytes > 1) // the last byte may begin a character
        print(byte);
}

// The window is the end of the text that the model sees. When it is full, its first half leaves it.
// Then its tokens have new places, and the cache begins again; it would be of no use if the window
// moved with each token.
static void continue_text(struct predictor *p) {
    long length = strlen(generate.prompt), end = length + generate.tokens;
    long begin = length > p->context ? length - p->context : 0;
    predict *const with_cache[] = {predict_whole, predict_cached};
    predict *logits = generate.check ? predict_checked : with_cache[generate.cache];
    uint8_t *text = malloc(end);
    if (!text)
        fail("no memory for %ld tokens", end);
    memcpy(text, generate.prompt, length);
    for (long i = 0; i < length; i++)
        print(text[i]);
    for (long i = length; i < end; i++) {
        if (i - begin > p->context) {
            begin = i - (p->context + 1) / 2;
            p->cached = 0;
        }
        text[i] = choose(logits(p, text + begin, (int)(i - begin)), p->classes, i - length);
        print(text[i]);
    }
    print('\n'); // also ends a character that lacks bytes
    free(text);
}

int main(int argc, char **argv) {
    static struct predictor p;
    options_parse(tables, "Continues a text with a language model.", argc, argv);
    setlocale(LC_CTYPE, "C.UTF-8");
    load(&p);
    double start = seconds();
    continue_text(&p);
    if (generate.time)
        fprintf(stderr, "%.0f tokens/s\n", generate.tokens / (seconds() - start));
    return 0;
}
