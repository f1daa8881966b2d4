/* The scaling of a training: one run on each of several numbers of ranks, as a table and as a
 * drawing.
 *
 * Samples per second are compared, of the epochs behind the first, which warms up; a run of one
 * epoch has that one only. Speed-up is against the first run, efficiency is the speed-up by the
 * factor of ranks. */
#ifndef GYRE_REPORT_SCALING_H
#define GYRE_REPORT_SCALING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { GYRE_SCALING_RUNS = 32, GYRE_SCALING_NOTES = GYRE_SCALING_RUNS + 2 };

struct gyre_scaling_run {
    int ranks;
    uint64_t epochs;                  /* that ended */
    uint64_t batch;                   /* samples of all ranks in the first step */
    double samples, seconds, exposed; /* of the epochs that count; `exposed` in seconds */
    double loss, accuracy;            /* of the last epoch, on the test set if there is one;
                                         accuracy -1: absent */
};

struct gyre_scaling {
    char title[256], rule[256]; /* what was trained where; what is equal in all rows */
    bool tested;                /* loss and accuracy are those of the test set */
    bool loaded;                /* another program disturbed a run */
    int runs, notes;
    struct gyre_scaling_run run[GYRE_SCALING_RUNS];
    char note[GYRE_SCALING_NOTES][640];
};

/* Adds what a line of the run's JSON lines says. */
void gyre_scaling_take(struct gyre_scaling_run *run, const char *line);

/* The table as text, in parts: a row can be printed when its run has ended. */
void gyre_scaling_put_head(FILE *to, const struct gyre_scaling *scaling);
void gyre_scaling_put_row(FILE *to, const struct gyre_scaling *scaling, int run);

void gyre_scaling_put_markdown(FILE *to, const struct gyre_scaling *scaling);
void gyre_scaling_put_svg(FILE *to, const struct gyre_scaling *scaling);

double gyre_scaling_rate(const struct gyre_scaling_run *run); /* samples per second */
double gyre_scaling_speed_up(const struct gyre_scaling *scaling, int run);
double gyre_scaling_efficiency(const struct gyre_scaling *scaling, int run);
double gyre_scaling_exposed(const struct gyre_scaling_run *run); /* share of the time */

#endif
