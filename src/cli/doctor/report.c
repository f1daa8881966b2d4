/* Findings, kept until all are made. Tested by tests/unit/cli/doctor/report_test.c. */
#include "cli/doctor/report.h"

#include "base/log.h"

#include <gyre/gyre.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static char *print_text(struct gyre_doctor_report *report, const char *format, va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) >= 0)
        return text;
    report->cut = true;
    return NULL;
}

static void *grow(struct gyre_doctor_report *report, void *array, int count, size_t each)
{
    void *grown = realloc(array, (size_t)(count + 1) * each);
    report->cut |= !grown;
    return grown;
}

/* NULL before the first, and where there was no memory for it. */
static struct gyre_doctor_finding *last(const struct gyre_doctor_report *report)
{
    return report->findings && !report->cut ? &report->finding[report->findings - 1] : NULL;
}

void gyre_doctor_find(struct gyre_doctor_report *report, const char *check,
                      enum gyre_doctor_state state, const char *format, ...)
{
    va_list arguments;
    struct gyre_doctor_finding *grown =
        grow(report, report->finding, report->findings, sizeof *report->finding);
    if (!grown)
        return;
    report->finding = grown;
    va_start(arguments, format);
    grown[report->findings++] = (struct gyre_doctor_finding){
        .check = check, .state = state, .found = print_text(report, format, arguments)};
    va_end(arguments);
}

static void replace_text(struct gyre_doctor_report *report, char **place, const char *format,
                         va_list arguments)
{
    free(*place);
    *place = print_text(report, format, arguments);
}

void gyre_doctor_name_subject(struct gyre_doctor_report *report, const char *format, ...)
{
    va_list arguments;
    struct gyre_doctor_finding *finding = last(report);
    va_start(arguments, format);
    if (finding)
        replace_text(report, &finding->subject, format, arguments);
    va_end(arguments);
}

void gyre_doctor_rephrase(struct gyre_doctor_report *report, const char *format, ...)
{
    va_list arguments;
    struct gyre_doctor_finding *finding = last(report);
    va_start(arguments, format);
    if (finding)
        replace_text(report, &finding->found, format, arguments);
    va_end(arguments);
}

/* "first; second" */
static void append_advice(struct gyre_doctor_report *report, char **place, const char *text)
{
    char *joined = NULL;
    if (asprintf(&joined, "%s%s%s", *place ? *place : "", *place ? "; " : "", text) < 0) {
        report->cut = true;
        return;
    }
    free(*place);
    *place = joined;
}

void gyre_doctor_advise(struct gyre_doctor_report *report, const char *format, ...)
{
    va_list arguments;
    struct gyre_doctor_finding *finding = last(report);
    va_start(arguments, format);
    char *text = print_text(report, format, arguments);
    va_end(arguments);
    if (finding && text)
        append_advice(report, &finding->advice, text);
    free(text);
}

void gyre_doctor_detail(struct gyre_doctor_report *report, const char *format, ...)
{
    va_list arguments;
    struct gyre_doctor_finding *finding = last(report);
    char **grown =
        finding ? grow(report, finding->detail, finding->details, sizeof *finding->detail) : NULL;
    if (!grown)
        return;
    finding->detail = grown;
    va_start(arguments, format);
    grown[finding->details++] = print_text(report, format, arguments);
    va_end(arguments);
}

void gyre_doctor_figure(struct gyre_doctor_report *report, const char *name, double value)
{
    struct gyre_doctor_finding *finding = last(report);
    if (!finding || finding->figures == GYRE_DOCTOR_FIGURES)
        return;
    finding->figure[finding->figures].name = name;
    finding->figure[finding->figures++].value = value;
}

void gyre_doctor_report_append(struct gyre_doctor_report *report, struct gyre_doctor_report *from)
{
    for (int i = 0; i < from->findings; i++) {
        struct gyre_doctor_finding *grown =
            grow(report, report->finding, report->findings, sizeof *report->finding);
        if (!grown)
            break;
        report->finding = grown;
        grown[report->findings++] = from->finding[i];
        from->finding[i] = (struct gyre_doctor_finding){0};
    }
    report->cut |= from->cut;
    gyre_doctor_report_deinit(from);
}

static int gravity(enum gyre_doctor_state state)
{
    static const int of[] = {[GYRE_DOCTOR_ABSENT] = 0,
                             [GYRE_DOCTOR_OK] = 1,
                             [GYRE_DOCTOR_NOTE] = 2,
                             [GYRE_DOCTOR_PROBLEM] = 3};
    return of[state];
}

void gyre_doctor_worsen(struct gyre_doctor_report *report, enum gyre_doctor_state state)
{
    struct gyre_doctor_finding *finding = last(report);
    if (finding && gravity(state) > gravity(finding->state))
        finding->state = state;
}

enum gyre_doctor_state gyre_doctor_last_state(const struct gyre_doctor_report *report)
{
    const struct gyre_doctor_finding *finding = last(report);
    return finding ? finding->state : GYRE_DOCTOR_ABSENT;
}

int gyre_doctor_count(const struct gyre_doctor_report *report, enum gyre_doctor_state state)
{
    int count = 0;
    for (int i = 0; i < report->findings; i++)
        count += report->finding[i].state == state;
    return count;
}

const char *gyre_doctor_state_word(enum gyre_doctor_state state)
{
    static const char *const words[] = {[GYRE_DOCTOR_OK] = "ok",
                                        [GYRE_DOCTOR_NOTE] = "note",
                                        [GYRE_DOCTOR_PROBLEM] = "problem",
                                        [GYRE_DOCTOR_ABSENT] = "absent"};
    return words[state];
}

void gyre_doctor_title_fill(struct gyre_doctor_title *title)
{
    struct utsname system = {0};
    uname(&system);
    snprintf(title->version, sizeof title->version, "%d.%d.%d", GYRE_VERSION_MAJOR,
             GYRE_VERSION_MINOR, GYRE_VERSION_PATCH);
    snprintf(title->host, sizeof title->host, "%s", gyre_host_name());
    snprintf(title->system, sizeof title->system, "%.40s %.50s, %.30s", system.sysname,
             system.release, system.machine);
}

static void free_finding(struct gyre_doctor_finding *finding)
{
    for (int i = 0; i < finding->details; i++)
        free(finding->detail[i]);
    free(finding->detail);
    free(finding->subject);
    free(finding->found);
    free(finding->advice);
}

void gyre_doctor_report_deinit(struct gyre_doctor_report *report)
{
    for (int i = 0; i < report->findings; i++)
        free_finding(&report->finding[i]);
    free(report->finding);
    *report = (struct gyre_doctor_report){0};
}
