#include "common/snapshots/conditions.h"
#include "common/base/say.h"
#include "common/training/training_options.h"
#include <stdio.h>

void set_conditions(struct snapshot *s, const struct dataset *train, const char *optimizer,
                    const struct option_table *tables) {
    struct conditions *c = &s->conditions;
    snprintf(c->folder, sizeof c->folder, "%s", opt.data);
    make_printable(c->folder);
    c->samples = train->count;
    c->checksum = train->checksum;
    size_t used = snprintf(c->settings, sizeof c->settings, "%s", optimizer);
    options_list_changes(tables, c->settings + used, sizeof c->settings - used);
}

void print_resumed(const char *path, const struct snapshot *s, int finished) {
    long epochs = s->progress.epochs, steps = s->progress.step;
    say("resumed   %s: %ld epoch%s and %ld step%s are done%s\n", path, epochs, PLURAL(epochs),
        steps, PLURAL(steps), finished ? "; nothing is left to do" : "");
    if (*s->settings_before)
        say("note      differs from the snapshot: %s; before: %s\n", s->conditions.settings,
            s->settings_before);
}
