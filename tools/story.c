// Prints the text of --data text, and on stderr the loss below which no model can get on stories of
// this kind.
#include "zoo/data/story.h"
#include <stdio.h>

int main(void) {
    static char story[STORY_BYTES];
    double floor = write_stories(story);
    fprintf(stderr, "%.2f nats per byte\n", floor);
    return fwrite(story, 1, sizeof story, stdout) != sizeof story;
}
