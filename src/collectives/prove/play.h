/* Plays a schedule on small integers: all n ranks in one process, round by round.
 *
 * `gyre show --run` prints every buffer after every round. The tests have here a second proof that
 * shares nothing with the checker: numbers instead of provenance, real buffers (one where a rank
 * works in place) and, with a seed, the steps of all ranks in a random order that each round
 * allows. */
#ifndef GYRE_COLLECTIVES_PROVE_PLAY_H
#define GYRE_COLLECTIVES_PROVE_PLAY_H

#include "base/rng.h"
#include "base/status.h"
#include "collectives/schedule/schedule.h"

/* The content of a buffer that is not written yet. A sum with an undefined term is undefined. */
#define GYRE_PLAY_UNDEFINED INT64_MIN

/* The ranks that work in place. */
enum gyre_play_in_place { GYRE_PLAY_NOBODY, GYRE_PLAY_EVERYBODY, GYRE_PLAY_ODD_RANKS };

struct gyre_play_options {
    bool average; /* a FINAL sum is divided by n */
    enum gyre_play_in_place in_place;
    int64_t (*input)(uint32_t rank, uint64_t element); /* NULL: (rank + 1) * 100 + element % 100 */
    uint64_t seed; /* of the order of steps; 0: in the order of ranks */
    /* N slices where ranks differ in more than their number; or NULL. */
    const struct gyre_slice *of_rank;
};

struct gyre_player {
    struct gyre_slice slice;
    struct gyre_round round;
    int64_t *buffer[3]; /* by enum gyre_buffer; in place one of the first two lies in the other */
    uint64_t count[3];  /* elements, also those between blocks */
    int64_t *memory[3]; /* the allocated memory */
    size_t first;       /* its first turn in the round in work */
};

struct gyre_play_turn;

struct gyre_play {
    const struct gyre_algorithm *algorithm;
    struct gyre_play_options options;
    uint32_t n;
    uint64_t round, rounds; /* the next round; the number of rounds */
    struct gyre_player *player;
    struct gyre_play_turn *turn; /* the steps of all ranks in the round in work, rank by rank */
    size_t *order;               /* the order in which turns are taken */
    size_t turns;
    struct gyre_rng rng;
};

/* Sets up the buffers; the slice's rank is ignored. 0, or -ENOMEM with `play` ready for deinit. */
int gyre_play_init(struct gyre_play *play, const struct gyre_algorithm *algorithm,
                   const struct gyre_slice *slice, const struct gyre_play_options *options);
void gyre_play_deinit(struct gyre_play *play); /* also a zeroed one */

/* The value of element i of a block of this rank's OUTPUT at the end. It follows from the inputs
 * and from the table in collectives/schedule/verbs.h alone. */
int64_t gyre_play_expected(const struct gyre_play *play, uint32_t rank, uint32_t block, uint64_t i);

/* Compares every OUTPUT with what it should be at the end. 0, or GYRE_CORRUPT. */
int gyre_play_check(const struct gyre_play *play, struct gyre_trouble *trouble);

/* Plays the next round on all ranks. 0; GYRE_INVALID where a message is lost, no rank receives one,
 * or a step leaves its buffer; or -ENOMEM. */
int gyre_play_round(struct gyre_play *play, struct gyre_trouble *trouble);

#endif
