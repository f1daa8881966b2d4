/* Words and numbers in the form that people read. Tested by tests/unit/report/report_test.c. */
#include "report/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gyre_report_add(struct gyre_report_text *text, const char *format, ...)
{
    size_t room = sizeof text->bytes - text->length;
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(text->bytes + text->length, room, format, arguments);
    va_end(arguments);
    if (wanted > 0)
        text->length += (size_t)wanted < room ? (size_t)wanted : room - 1;
}

void gyre_report_add_count(struct gyre_report_text *text, double count)
{
    char digits[32];
    if (!(count >= 0 && count < 1e15)) {
        gyre_report_add(text, "%.3g", count);
        return;
    }
    int length = snprintf(digits, sizeof digits, "%.0f", count);
    for (int i = 0; i < length; i++)
        gyre_report_add(text, i > 0 && (length - i) % 3 == 0 ? ",%c" : "%c", digits[i]);
}

void gyre_report_add_duration(struct gyre_report_text *text, double seconds)
{
    if (!(seconds >= 0 && seconds < 1e9)) {
        gyre_report_add(text, "-:--");
        return;
    }
    uint64_t whole = (uint64_t)(seconds + 0.5), hours = whole / 3600;
    if (hours >= 24)
        gyre_report_add(text, "%" PRIu64 "d ", hours / 24);
    if (hours > 0)
        gyre_report_add(text, "%" PRIu64 ":%02" PRIu64, hours % 24, whole / 60 % 60);
    else
        gyre_report_add(text, "%" PRIu64, whole / 60);
    gyre_report_add(text, ":%02" PRIu64, whole % 60);
}

void gyre_report_add_real(struct gyre_report_text *text, double value)
{
    double size = fabs(value);
    if (isnan(value)) /* printf may say -nan */
        gyre_report_add(text, "nan");
    else
        gyre_report_add(text, size == 0 || (size >= 0.001 && size < 1000) ? "%.4f" : "%.4g", value);
}
