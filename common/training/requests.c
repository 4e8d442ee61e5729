#include "common/training/requests.h"
#include "common/base/clock.h"
#include "common/base/signals.h"
#include "common/training/report.h"
#include "common/training/training_options.h"
#include <stdatomic.h>
#include <unistd.h>

static atomic_int told_to_stop; // any thread may run the handler
static double saved_at;         // 0: training has not begun

static void on_signal(int number) {
    if (count_request() == SECOND_REQUEST)
        _exit(128 + number); // the exit code that a shell would return
    told_to_stop = 1;
}

void stop_on_signals(void) {
    handle_stop_signals(on_signal);
}

struct requests current_requests(void) {
    if (!saved_at)
        note_save();
    return (struct requests){
        .stop = told_to_stop,
        .save = opt.save_minutes && seconds() > saved_at + 60 * opt.save_minutes,
        .pace = report_pace(),
    };
}

void note_save(void) {
    saved_at = seconds();
}
