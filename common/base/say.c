#include "common/base/say.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int report_muted;

void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!report_muted)
        vprintf(format, arguments);
    va_end(arguments);
}

void add_text(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}
