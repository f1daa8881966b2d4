/* A schedule that is listed step by step, as `gyre show --json` prints it, behind the face of an
 * algorithm: so the checker and the page take it as they take any other.
 *
 * An algorithm is a function without a context, so one schedule is listed at a time. */
#ifndef GYRE_CLI_CHECK_LISTED_H
#define GYRE_CLI_CHECK_LISTED_H

#include "base/status.h"
#include "collectives/schedule/schedule.h"

#define GYRE_LISTED_NAME_MAX  40
#define GYRE_LISTED_RANKS_MAX 1024

/* A rank's rounds are round_start[first_round] … of the schedule. */
struct gyre_listed_rank {
    size_t first_round;
    uint64_t rounds;
    uint64_t sent_bytes, scratch_bytes; /* as promised, else as counted */
    bool promises_sent, promises_scratch;
};

struct gyre_listed {
    char name[GYRE_LISTED_NAME_MAX + 1];
    struct gyre_slice slice; /* its rank is 0; its tables are `at` and `count` */
    uint64_t *at, *count;    /* of unequal blocks; NULL: equal */
    uint64_t scale;          /* every element of the text stands for so many; 0: for one */
    struct gyre_listed_rank *rank;
    size_t ranks, rank_room;
    size_t *round_start; /* of each round of each rank: its first step */
    size_t rounds, round_room;
    struct gyre_step *step; /* `first` counts from the first source of all */
    size_t steps, step_room;
    struct gyre_place *source;
    size_t sources, source_room;
};

/* Makes room for one more entry. -ENOMEM. */
int gyre_listed_grow(void **array, size_t *room, size_t count, size_t size);

/* Reads a text. `name` is the file's, for messages. 0; GYRE_INVALID with line and column; or
 * -ENOMEM. gyre_listed_deinit() in any case. */
int gyre_listed_read(struct gyre_listed *listed, const char *name, const void *text,
                     uint64_t length, struct gyre_trouble *trouble);
void gyre_listed_deinit(struct gyre_listed *listed); /* also a zeroed one */

/* The schedule as an algorithm. The next call ends what this one returned. A later change of the
 * scale holds for what is asked from then on. */
const struct gyre_algorithm *gyre_listed_algorithm(const struct gyre_listed *listed);

/* Proves it for all ranks. 0; GYRE_CORRUPT with the first defect; or -ENOMEM. */
int gyre_listed_prove(const struct gyre_listed *listed, struct gyre_trouble *trouble);

/* Writes the page that plays it, up to a defect. 0, GYRE_INVALID, -errno. */
int gyre_listed_page(const struct gyre_listed *listed, const char *path,
                     struct gyre_trouble *trouble);

/* One rank of `gyre show FILE --run`: runs a proved schedule and a known algorithm in turns, and
 * prints what came out and how long both took. Every rank calls it. 0, or the status and the
 * story. */
int gyre_listed_run(struct gyre_listed *listed, struct gyre_trouble *trouble);

#endif
