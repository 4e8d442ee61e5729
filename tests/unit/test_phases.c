// Tests where the time of a training step goes, with examples that are computed by hand.
#include "tests/test.h"
#include "watch/phases.h"

#define ADD(sums, length, reported, ...)                                                           \
    do {                                                                                           \
        struct interval intervals[] = {__VA_ARGS__};                                               \
        phases_add(sums, intervals, sizeof intervals / sizeof *intervals, length, reported);       \
    } while (0)

// All times are multiples of 1/4, so the sums are exact.
static void check_exact(double got, double want) {
    assert_true(got == want);
}

static void check_comm(const struct phases *sums, double shown, double hidden) {
    double all = sums->report + sums->idle;
    for (int i = 0; i < PHASES; i++)
        all += sums->ms[i];
    check_exact(sums->ms[PHASE_COMMUNICATION], shown);
    check_exact(sums->hidden, hidden);
    check_exact(all, sums->step);
}

TEST(phases_of_one_stream) {
    struct phases sums = {0};
    ADD(&sums, 10, 0, {PHASE_COPY, 0, 1}, {PHASE_FORWARD, 1, 2}, {PHASE_FORWARD, 2, 3.5},
        {PHASE_LOSS, 3.5, 4}, {PHASE_BACKWARD, 4.25, 8}, {PHASE_UPDATE, 8, 9});
    check_exact(sums.ms[PHASE_COPY], 1);
    check_exact(sums.ms[PHASE_FORWARD], 2.5);
    check_exact(sums.ms[PHASE_LOSS], 0.5);
    check_exact(sums.ms[PHASE_BACKWARD], 3.75);
    check_exact(sums.ms[PHASE_UPDATE], 1);
    check_exact(sums.idle, 1.25); // before backward, and after the update
    check_exact(sums.report, 0);
    check_comm(&sums, 0, 0);

    // The second training step ends with a report. The sums are those of both.
    ADD(&sums, 5, 1, {PHASE_COPY, 0, 1}, {PHASE_UPDATE, 2, 3});
    assert_int_equal(sums.steps, 2);
    check_exact(sums.step, 15);
    check_exact(sums.idle, 2.25);
    check_exact(sums.report, 2);
    check_comm(&sums, 0, 0);
}

TEST(communication_beside_backward) {
    struct phases sums = {0};
    // The first sum is hidden, and the second one half an ms longer than backward, after a gap.
    ADD(&sums, 10, 0, {PHASE_BACKWARD, 0, 4}, {PHASE_BACKWARD, 4, 8}, {PHASE_COMMUNICATION, 4, 6},
        {PHASE_COMMUNICATION, 7, 8.5}, {PHASE_UPDATE, 8.5, 10});
    check_comm(&sums, 0.5, 3);
    check_exact(sums.idle, 0);
}

TEST(the_computing_stream_waits_in_between) {
    struct phases sums = {0};
    // As in step 5: a layer waits for its parameters. The intervals are in no order.
    ADD(&sums, 10, 0, {PHASE_UPDATE, 9, 10}, {PHASE_COMMUNICATION, 0.5, 3}, {PHASE_FORWARD, 6, 9},
        {PHASE_FORWARD, 3, 5}, {PHASE_COMMUNICATION, 3, 5.75}, {PHASE_COPY, 0, 1});
    check_comm(&sums, 2 + 0.75, 0.5 + 2);
    check_exact(sums.idle, 0.25);
}

TEST(communication_on_two_streams_counts_once) {
    struct phases sums = {0};
    ADD(&sums, 12, 0, {PHASE_FORWARD, 0, 5}, {PHASE_COMMUNICATION, 2, 6},
        {PHASE_COMMUNICATION, 3, 4}, {PHASE_COMMUNICATION, 4, 8}, {PHASE_BACKWARD, 7, 9},
        {PHASE_UPDATE, 9, 12});
    check_comm(&sums, 2, 3 + 1);
    check_exact(sums.idle, 0);
}

TEST(communication_after_the_update_is_the_report) {
    struct phases sums = {0};
    ADD(&sums, 9, 1, {PHASE_COPY, 0, 1}, {PHASE_BACKWARD, 1, 3}, {PHASE_COMMUNICATION, 3, 4},
        {PHASE_UPDATE, 4, 5}, {PHASE_COMMUNICATION, 6, 8});
    check_comm(&sums, 1, 0);
    check_exact(sums.report, 4);
}

TEST(columns) {
    char text[512];
    struct phases sums = {0};
    phases_csv_titles(text, sizeof text, "modelled_");
    assert_string_equal(text,
                        ",modelled_data_ms,modelled_copy_ms,modelled_forward_ms,modelled_loss_ms,"
                        "modelled_backward_ms,modelled_update_ms,modelled_comm_ms,"
                        "modelled_report_ms,modelled_idle_ms,modelled_step_ms,"
                        "modelled_hidden_ms");
    phases_csv(text, sizeof text, &sums);
    assert_string_equal(text, ",,,,,,,,,,,");
    ADD(&sums, 3, 0, {PHASE_COPY, 0, 1}, {PHASE_UPDATE, 1, 2.5});
    ADD(&sums, 4, 1, {PHASE_COPY, 0, 2}, {PHASE_COMMUNICATION, 1, 3}, {PHASE_UPDATE, 3, 3.5});
    phases_csv(text, sizeof text, &sums); // the means of two training steps
    assert_string_equal(text, ",0,1.5,0,0,0,1,0.5,0.25,0.25,3.5,0.5");
}

int main(void) {
    return run_all_tests((struct around){NULL});
}
