#include "report.h"
#include "error.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static FILE *csv;

double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void check_csv(int written) {
    if (written < 0 || fflush(csv)) // or lost lines would be missed only after the run
        fail("cannot write the --csv file: %s", strerror(errno));
}

void report_open(const char *path, int append) {
    if (path && !(csv = fopen(path, append ? "a" : "w")))
        fail("--csv %s: %s", path, strerror(errno));
    if (path && ftell(csv) == 0)
        check_csv(fputs("step,loss,epoch,epoch_loss,test_loss,accuracy,seconds\n", csv));
}

void report_steps(long epoch, long epochs, long step, long steps, long total, double loss) {
    const char *bar = "##############################";
    if (isatty(STDOUT_FILENO))
        printf("\repoch %ld/%ld  [%-30.*s] %ld/%ld  loss %.4f ", epoch, epochs,
               (int)(step * 30 / steps), bar, step, steps, loss);
    else
        printf("epoch %ld/%ld  step %ld/%ld  loss %.4f\n", epoch, epochs, step, steps, loss);
    fflush(stdout);
    if (csv)
        check_csv(fprintf(csv, "%ld,%.9g,,,,,\n", total, loss));
}

void report_epoch(long epoch, long epochs, long total, struct stats train, struct stats test,
                  double elapsed, double images_per_second) {
    double loss = train.loss / train.samples, test_loss = test.loss / test.samples;
    double accuracy = 100 * test.correct / test.samples;
    if (isatty(STDOUT_FILENO))
        printf("\r\033[K"); // the bar gives way: to the first column, erase to the end of the line
    printf("epoch %ld/%ld  loss %.4f  test loss %.4f  accuracy %.2f%%  %.2f s  %.0f images/s\n",
           epoch, epochs, loss, test_loss, accuracy, elapsed, images_per_second);
    if (csv)
        check_csv(fprintf(csv, "%ld,,%ld,%.9g,%.9g,%.2f,%.3f\n", total, epoch, loss, test_loss,
                          accuracy, elapsed));
}
