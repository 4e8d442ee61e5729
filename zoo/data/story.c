#include "zoo/data/story.h"
#include "common/base/rng.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEED = 1, WORDS = 8, LONGEST = 160 };

// A letter after % stands for a word or a number. A story chooses it at the first place that needs
// it, and repeats it at the others: people A and B, their pronouns h and j (H and J at the
// beginning of a sentence), a thing t that is c (C: with an article), an animal a, a place p,
// numbers m and n, their sum s, and m plus 1, 2, 3 and 4.
static const char *const stories[] = {
    "%A has %C %t. %H gives the %t to %B. Now %B has the %c %t.",
    "%A picks up %m shells, and then %n more. %m plus %n is %s, so %h has %s shells.",
    "%A counts: %m, %1, %2, %3, %4.",
    "%A asks %B: \"What is %m plus %n?\" %J says: \"It is %s.\"",
    "%B asks %A: \"What is %s minus %n?\" %H says: \"It is %m.\"",
    "The %a sleeps in the %p. %A looks for it. %H looks in the %p, and there is the %a.",
    "%A loses %C %t in the %p. %B goes to the %p and finds it. %A thanks %B for the %c %t.",
    "%A is as old as %B. %H is %m, so %j is %m, too. Next year, they are both %1.",
    "\"I like the %a more than the %t. And you, %B?\" asks %A. %J likes the %t.",
    "In the %p, %A meets %C %a. %H tells %B, but %j sees no %a in the %p.",
};
static const char *const words[128][WORDS] = {
    ['A'] = {"Ada", "Alan", "Grace", "Dennis", "Maria", "Ken", "Rosa", "Tim"},
    ['B'] = {"Ada", "Alan", "Grace", "Dennis", "Maria", "Ken", "Rosa", "Tim"},
    ['H'] = {"She", "He"}, // women and men take turns above
    ['h'] = {"she", "he"},
    ['J'] = {"She", "He"},
    ['j'] = {"she", "he"},
    ['c'] = {"red", "old", "small", "orange", "blue", "huge", "ugly", "new"},
    ['C'] = {"a red", "an old", "a small", "an orange", "a blue", "a huge", "an ugly", "a new"},
    ['t'] = {"ball", "kite", "boat", "hat", "lamp", "drum", "book", "coat"},
    ['a'] = {"cat", "dog", "owl", "fox", "mouse", "horse", "goose", "hen"},
    ['p'] = {"garden", "kitchen", "forest", "cellar", "market", "school", "attic", "street"},
};

struct writer {
    uint64_t draws;  // random numbers so far
    double nats;     // their information
    int chosen[128]; // in this story, by letter: 0, or 1 + the choice
};

static int draw(struct writer *w, int count) {
    w->nats += log(count);
    return (int)(rng_bits(SEED, w->draws++) % count);
}

static int choose(struct writer *w, int letter, int count) {
    if (!w->chosen[letter])
        w->chosen[letter] = 1 + draw(w, count);
    return w->chosen[letter] - 1;
}

// Returns the number, or which of the words it is.
static int meaning(struct writer *w, int letter) {
    switch (letter) {
    case 'B': // another person than A
        return (meaning(w, 'A') + 1 + choose(w, 'B', WORDS - 1)) % WORDS;
    case 'H':
    case 'h':
        return meaning(w, 'A') % 2;
    case 'J':
    case 'j':
        return meaning(w, 'B') % 2;
    case 'C':
        return meaning(w, 'c');
    case 'm':
    case 'n':
        return 2 + choose(w, letter, 8);
    case 's':
        return meaning(w, 'm') + meaning(w, 'n');
    case '1':
    case '2':
    case '3':
    case '4':
        return meaning(w, 'm') + letter - '0';
    default:
        return choose(w, letter, WORDS);
    }
}

static void write_story(struct writer *w, char line[LONGEST]) {
    memset(w->chosen, 0, sizeof w->chosen);
    const char *p = stories[draw(w, sizeof stories / sizeof *stories)];
    for (; *p; p++) {
        if (*p != '%') {
            *line++ = *p;
            continue;
        }
        int letter = *++p, value = meaning(w, letter);
        line += words[letter][0] ? sprintf(line, "%s", words[letter][value])
                                 : sprintf(line, "%d", value);
    }
    strcpy(line, "\n");
}

double write_stories(char *text) {
    struct writer w = {0};
    char line[LONGEST];
    for (size_t at = 0, length; at < STORY_BYTES; at += length) {
        write_story(&w, line);
        length = strlen(line);
        memcpy(text + at, line, length < STORY_BYTES - at ? length : STORY_BYTES - at);
    }
    return w.nats / STORY_BYTES;
}
