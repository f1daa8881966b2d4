/* The inside of the binder, for bind.c, bind_safety.c and bind_pack.c only. */
#ifndef GYRE_COLLECTIVES_PLAN_BIND_INSIDE_H
#define GYRE_COLLECTIVES_PLAN_BIND_INSIDE_H

#include "collectives/choose/limits.h"
#include "collectives/plan/bind.h"

/* Bytes of an INPUT in SCRATCH [at, at + length). */
struct gyre_bind_held {
    uint64_t at, length;
    struct gyre_block_ref ref;
};

/* A move in the making. */
struct gyre_bind_act {
    uint64_t length;
    uint32_t sources, destinations;
    uint32_t first;           /* use of its first source; the other sources follow */
    struct gyre_place result; /* where its rank has the result; GYRE_INPUT: nowhere */
};

/* The bytes that act `act` of rank `by` reads or writes. */
struct gyre_bind_use {
    struct gyre_block_ref ref;
    uint32_t by, act;
    bool writes;
};

struct gyre_bind_player {
    struct gyre_round round;
    struct gyre_bind_act *act;
    struct gyre_bind_held *held;
    uint32_t acts, held_count;
};

struct gyre_bind_game {
    const struct gyre_algorithm *algorithm;
    struct gyre_slice slice;
    enum gyre_copier copier;
    uint32_t n;
    uint32_t act_max, held_max;      /* of a player */
    struct gyre_bind_player *player; /* n */
    struct gyre_bind_use *use;
    uint32_t uses, use_max;
};

static inline const struct gyre_bind_act *gyre_bind_act_of(const struct gyre_bind_game *game,
                                                           const struct gyre_bind_use *use)
{
    return &game->player[use->by].act[use->act];
}

static inline bool gyre_bind_same_ref(struct gyre_block_ref a, struct gyre_block_ref b)
{
    return a.rank == b.rank && a.block == b.block && a.offset == b.offset;
}

/* Whether every rank writes its own OUTPUT only. */
bool gyre_bind_stays_at_home(const struct gyre_bind_game *game);

/* Whether no rank's INPUT is written while another may read it, whichever ranks run in place. */
bool gyre_bind_safe_in_place(const struct gyre_bind_game *game);

/* The moves of rank game->slice.rank, in one piece of memory. NULL: no memory. */
struct gyre_rank_moves *gyre_bind_pack(const struct gyre_bind_game *game);

#endif
