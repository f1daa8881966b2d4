/* What a check-up found: one finding a line, in the order in which they were made. */
#ifndef GYRE_CLI_DOCTOR_REPORT_H
#define GYRE_CLI_DOCTOR_REPORT_H

#include <stdbool.h>
#include <stdio.h>

enum gyre_doctor_state {
    GYRE_DOCTOR_OK,
    GYRE_DOCTOR_NOTE,    /* a job runs; it could run better, or its user should know */
    GYRE_DOCTOR_PROBLEM, /* a job fails, or does not do what was asked for */
    GYRE_DOCTOR_ABSENT   /* this machine has none */
};

#define GYRE_DOCTOR_FIGURES 8

struct gyre_doctor_finding {
    const char *check; /* its name, which never changes: scripts read it */
    char *subject;     /* what was checked, where one check looks at several; NULL otherwise */
    enum gyre_doctor_state state;
    char *found;
    char *advice; /* what to do; NULL: nothing */
    char **detail;
    int details, figures;
    struct {
        const char *name;
        double value;
    } figure[GYRE_DOCTOR_FIGURES];
};

struct gyre_doctor_report {
    struct gyre_doctor_finding *finding;
    int findings;
    bool cut; /* there was no memory for all */
};

void gyre_doctor_report_deinit(struct gyre_doctor_report *report);

/* Begins a finding; `check` lives as long as the report. */
void gyre_doctor_find(struct gyre_doctor_report *report, const char *check,
                      enum gyre_doctor_state state, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Each adds to the last finding: what it is about, what to do (behind what it has of that), a line
 * below it, a number. */
void gyre_doctor_name_subject(struct gyre_doctor_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gyre_doctor_advise(struct gyre_doctor_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gyre_doctor_detail(struct gyre_doctor_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gyre_doctor_figure(struct gyre_doctor_report *report, const char *name, double value);

/* Replaces what the last finding found. */
void gyre_doctor_rephrase(struct gyre_doctor_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Moves all findings of `from` behind those of `report`. */
void gyre_doctor_report_append(struct gyre_doctor_report *report, struct gyre_doctor_report *from);

/* Makes the last finding as bad as `state`, if that is worse. */
void gyre_doctor_worsen(struct gyre_doctor_report *report, enum gyre_doctor_state state);

enum gyre_doctor_state gyre_doctor_last_state(const struct gyre_doctor_report *report);
int gyre_doctor_count(const struct gyre_doctor_report *report, enum gyre_doctor_state state);

/* What stands above the findings. */
struct gyre_doctor_title {
    char version[32], host[64], system[128];
};
void gyre_doctor_title_fill(struct gyre_doctor_title *title);

/* For people. `colours` are a terminal's; lines are wrapped at `width`, 0: not at all. */
void gyre_doctor_print(const struct gyre_doctor_report *report,
                       const struct gyre_doctor_title *title, FILE *out, bool colours, int width);

/* For programs: one JSON document. */
void gyre_doctor_print_json(const struct gyre_doctor_report *report,
                            const struct gyre_doctor_title *title, FILE *out);

/* "ok", "note", "problem", "absent". */
const char *gyre_doctor_state_word(enum gyre_doctor_state state);

#endif
