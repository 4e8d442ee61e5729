#include "common/base/say.h"
#include <stdarg.h>
#include <stdio.h>

int report_muted;

void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!report_muted)
        vprintf(format, arguments);
    va_end(arguments);
}
