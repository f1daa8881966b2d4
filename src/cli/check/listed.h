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

/* The schedule as an algorithm. The next call ends what this one returned. */
const struct gyre_algorithm *gyre_listed_algorithm(const struct gyre_listed *listed);

#endif
