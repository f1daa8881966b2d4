/* What the files of gyre tune share: tune.c reads words and starts ranks, measure.c times
 * operations as one of them, trials.c says which, price.c makes prices of the times, file.c keeps
 * the file. */
#ifndef GYRE_CLI_TUNE_INSIDE_H
#define GYRE_CLI_TUNE_INSIDE_H

#include "base/status.h"
#include "collectives/schedule/schedule.h"
#include "collectives/choose/tuning.h"

enum { GYRE_TUNE_TRIALS_MAX = 32 };

/* Where a trial is timed, as bits. */
enum gyre_tune_place {
    GYRE_TUNE_RINGS = 1,    /* on one node, of more ranks than share memory */
    GYRE_TUNE_MAPPED = 2,   /* where all ranks share memory */
    GYRE_TUNE_LOOPBACK = 4, /* over sockets inside one machine */
    GYRE_TUNE_FAR = 8,      /* between machines */
    GYRE_TUNE_SOCKETS = GYRE_TUNE_LOOPBACK | GYRE_TUNE_FAR,
    GYRE_TUNE_LONG = GYRE_TUNE_MAPPED | GYRE_TUNE_LOOPBACK, /* where caches may be outgrown */
    GYRE_TUNE_EVERYWHERE = GYRE_TUNE_RINGS | GYRE_TUNE_MAPPED | GYRE_TUNE_SOCKETS
};

struct gyre_tune_trial { /* one operation whose algorithm GYRE_ALGO names, as no other is so long */
    const char *algorithm;
    uint64_t bytes;
    unsigned places;
};

struct gyre_measured {
    struct gyre_tuning tuning;
    uint32_t kinds; /* of link, as bits 1 << kind */
    int error_percent;
    int ranks, nodes;
    char load
        [512]; /* what else the machines did meanwhile (base/machine/load.h); "": they were quiet */
};

/* All trials of all places, ascending by bytes; the last has no algorithm. */
extern const struct gyre_tune_trial gyre_tune_trial[];

/* The job as one of its ranks sees it, and the times that all agree on. */
struct gyre_tune_scene {
    struct gyre_comm *comm;
    uint32_t n;
    struct gyre_layout *layout; /* NULL: one node */
    enum gyre_link_kind far;
    bool mapped; /* all ranks share memory */
    const struct gyre_tune_trial *trial[GYRE_TUNE_TRIALS_MAX];
    int trials;
    uint8_t *input, *output;
    double took_ns[GYRE_TUNE_TRIALS_MAX];
};

/* Lists the trials of a scene whose ranks, links and memory are known. */
void gyre_tune_list(struct gyre_tune_scene *scene);

/* Fits prices to the times. 0 or -ENOMEM. */
int gyre_tune_price(const struct gyre_tune_scene *scene, struct gyre_measured *measured);

/* Joins the job that the environment tells, as one of at least 2 ranks, times all-reduces and fits
 * prices to them. Every rank calls it; *measured is written on all, and *rank is this one's. 0, or
 * the status and the story. Where rank 0 could not write the file nobody measures, and rank 0 alone
 * tells why. */
int gyre_tune_measure(const char *path, struct gyre_measured *measured, int *rank,
                      struct gyre_trouble *trouble);

/* Whether prices could be written there: before long measurements. */
int gyre_tune_check(const char *path, struct gyre_trouble *trouble);

/* Writes the prices to the file; of kinds that were not measured those that it had stay. */
int gyre_tune_write(const char *path, const struct gyre_measured *measured,
                    struct gyre_trouble *trouble);

#endif
