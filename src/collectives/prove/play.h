/* Plays a schedule on small integers: all n ranks in one process, round by round.
 *
 * `gyre show --run` prints every buffer after every round. The tests have a second proof here that
 * shares nothing with the checker: numbers instead of provenance, real buffers (one where a rank
 * works in place), and, with a seed, the steps of all ranks in a random order that each round
 * allows. */
#ifndef GYRE_COLLECTIVES_PROVE_PLAY_H
#define GYRE_COLLECTIVES_PROVE_PLAY_H

#include "base/rng.h"
#include "base/status.h"
#include "collectives/schedule/schedule.h"

/* What a buffer holds before it is written. A sum with an undefined term is undefined. */
#define GYRE_PLAY_UNDEFINED INT64_MIN

/* Who works in place. */
enum gyre_play_in_place { GYRE_PLAY_NOBODY, GYRE_PLAY_EVERYBODY, GYRE_PLAY_ODD_RANKS };

struct gyre_play_options {
    bool average; /* a FINAL sum is divided by n; else it stays */
    enum gyre_play_in_place in_place;
    int64_t (*input)(uint32_t rank, uint64_t element); /* NULL: (rank + 1) * 100 + element % 100 */
    uint64_t seed;                    /* 0: steps in the order of ranks and of steps */
    const struct gyre_slice *of_rank; /* n slices, where ranks differ in more than their number */
};

struct gyre_player {
    struct gyre_slice slice;
    struct gyre_round round;
    int64_t *buffer[3]; /* by enum gyre_buffer; in place one of the first two lies in the other */
    uint64_t count[3];  /* elements, also those between blocks */
    int64_t *memory[3]; /* what was allocated */
    size_t first;       /* its turns in the round in work: turn[first …] */
};

struct gyre_play_turn;

struct gyre_play {
    const struct gyre_algorithm *algorithm;
    struct gyre_play_options options;
    uint32_t n;
    uint64_t round, rounds; /* the next one; all of them */
    struct gyre_player *player;
    struct gyre_play_turn *turn; /* the steps of all ranks in the round in work, rank by rank */
    size_t *order;               /* in which they are taken */
    size_t turns;
    struct gyre_rng rng;
};

/* Sets up the buffers; the slice's rank is ignored. 0, or -ENOMEM with `play` ready for deinit. */
int gyre_play_init(struct gyre_play *play, const struct gyre_algorithm *algorithm,
                   const struct gyre_slice *slice, const struct gyre_play_options *options);
void gyre_play_deinit(struct gyre_play *play); /* takes a zeroed one too */

/* What element i of a block of this rank's OUTPUT has to be at the end: from the inputs as they
 * were given and from collectives/schedule/verbs.h's table alone. */
int64_t gyre_play_expected(const struct gyre_play *play, uint32_t rank, uint32_t block, uint64_t i);

/* Plays the next round on all ranks. 0; GYRE_INVALID where a message is lost, nobody waits for it,
 * or a step leaves its buffer; or -ENOMEM. */
int gyre_play_round(struct gyre_play *play, struct gyre_trouble *trouble);

#endif
