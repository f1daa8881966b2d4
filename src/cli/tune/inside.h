/* What the files of gyre tune share: tune.c reads words and starts ranks, measure.c times
 * operations as one of them, trials.c says which, price.c makes prices of the times, file.c keeps
 * the file. */
#ifndef GYRE_CLI_TUNE_INSIDE_H
#define GYRE_CLI_TUNE_INSIDE_H

#include "base/status.h"
#include "collectives/schedule/schedule.h"
#include "collectives/choose/tuning.h"

enum {
    GYRE_TUNE_SIZES = 5,
    GYRE_TUNE_ALGORITHMS = 3,
    GYRE_TUNE_TRIALS = GYRE_TUNE_SIZES * GYRE_TUNE_ALGORITHMS,
    GYRE_TUNE_TRIALS_NEAR = GYRE_TUNE_TRIALS - GYRE_TUNE_ALGORITHMS /* within a machine */
};

struct gyre_measured {
    struct gyre_tuning tuning;
    uint32_t kinds; /* of link, as bits 1 << kind */
    int error_percent;
    int ranks, nodes;
    char load
        [512]; /* what else the machines did meanwhile (base/machine/load.h); "": they were quiet */
};

extern const char *const gyre_tune_algorithm[GYRE_TUNE_ALGORITHMS]; /* of trial % ALGORITHMS */
uint64_t gyre_tune_bytes(int trial);

/* The job as one of its ranks sees it, and the times that all agree on. */
struct gyre_tune_scene {
    struct gyre_comm *comm;
    uint32_t n;
    struct gyre_layout *layout; /* NULL: one node */
    enum gyre_link_kind far;
    int trials;
    uint8_t *input, *output;
    double took_ns[GYRE_TUNE_TRIALS];
};

/* Fits prices to the times. 0 or -ENOMEM. */
int gyre_tune_price(const struct gyre_tune_scene *scene, struct gyre_measured *measured);

/* Joins the job that the environment tells, as one of at least 2 ranks, times all-reduces and fits
 * prices to them. Every rank calls it; *measured is written on all, and *rank is this one's. 0, or
 * the status and the story. */
int gyre_tune_measure(struct gyre_measured *measured, int *rank, struct gyre_trouble *trouble);

/* Writes the prices to the file; of kinds that were not measured those that it had stay. */
int gyre_tune_write(const char *path, const struct gyre_measured *measured,
                    struct gyre_trouble *trouble);

#endif
