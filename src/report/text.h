/* Lines of text, and numbers in them as people read them. */
#ifndef GYRE_REPORT_TEXT_H
#define GYRE_REPORT_TEXT_H

#include <stddef.h>

/* A line in the making. Text beyond its room is cut. */
struct gyre_report_text {
    size_t length;
    char bytes[2048];
};

void gyre_report_add(struct gyre_report_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gyre_report_add_count(struct gyre_report_text *text, double count);      /* 12,345 */
void gyre_report_add_duration(struct gyre_report_text *text, double seconds); /* 0:42, 1:02:03 */
void gyre_report_add_real(struct gyre_report_text *text, double value); /* four digits or so */

#endif
