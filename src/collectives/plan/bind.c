/* The binder: from a schedule to passes over mapped memory.
 *
 * A schedule moves bytes hop by hop. Where all ranks can read and write each other's buffers, most
 * hops are not needed. Three facts of each part of OUTPUT matter: the INPUTs in which it begins,
 * the rank that folds it, and the OUTPUTs in which the result ends.
 *
 *      rank 0   INPUT ──SEND──▶ SCRATCH ─┐
 *      rank 1   INPUT ───────────────────┴─REDUCE─▶ OUTPUT ──SEND──▶ OUTPUT   rank 0
 *
 *   becomes, on rank 1:  move { source 0.INPUT, 1.INPUT;  destination 1.OUTPUT, 0.OUTPUT }
 *
 * The binder plays the rounds of all n ranks. For each rank it keeps what the rank's SCRATCH holds
 * (pieces of some rank's INPUT) and the rank's acts, each with the place where its rank has the
 * result; for all ranks together it keeps which act uses which part of which buffer. A step of any
 * other kind (a partial sum sent on, as in a ring; several blocks in one message) ends the attempt:
 * the schedule then runs as it is, over messages. The binder knows no algorithm by name.
 *
 * bind_safety.c asks whether the moves may run in place, and bind_pack.c keeps what one rank needs.
 *
 * Tested by tests/unit/collectives/plan/plan_test.c. */
#include "collectives/plan/bind.h"

#include "collectives/plan/bind_inside.h"

#include <stdlib.h>

/* -- the table --------------------------------------------------------------------------------- */

static void game_destroy(struct gyre_bind_game *game)
{
    for (uint32_t i = 0; game->player && i < game->n; i++) {
        gyre_round_deinit(&game->player[i].round);
        free(game->player[i].act);
        free(game->player[i].held);
    }
    free(game->player);
    free(game->use);
}

static struct gyre_slice slice_of(const struct gyre_bind_game *game, uint32_t rank)
{
    struct gyre_slice slice = game->slice;
    slice.rank = rank;
    return slice;
}

static bool player_create(const struct gyre_bind_game *game, uint32_t rank)
{
    struct gyre_bind_player *player = &game->player[rank];
    struct gyre_slice slice = slice_of(game, rank);
    struct gyre_extent extent = game->algorithm->extent(&slice);
    player->act = calloc(game->act_max, sizeof(*player->act));
    player->held = calloc(game->held_max, sizeof(*player->held));
    return !gyre_round_init(&player->round, &extent) && player->act && player->held;
}

static bool game_create(struct gyre_bind_game *game, const struct gyre_algorithm *algorithm,
                        const struct gyre_slice *slice, enum gyre_copier copier)
{
    *game = (struct gyre_bind_game){.algorithm = algorithm,
                                    .slice = *slice,
                                    .copier = copier,
                                    .n = slice->n,
                                    .act_max = slice->n + 2,
                                    .held_max = 2 * slice->n,
                                    .use_max = 4 * slice->n * slice->n};
    game->slice.in = game->slice.out = (struct gyre_blocks){NULL, NULL};
    game->slice.in_place = false;
    game->player = calloc(game->n, sizeof(*game->player));
    game->use = malloc(game->use_max * sizeof(*game->use));
    bool made = game->player && game->use;
    for (uint32_t i = 0; made && i < game->n; i++)
        made = player_create(game, i);
    return made;
}

static bool deal(struct gyre_bind_game *game, uint64_t index)
{
    for (uint32_t i = 0; i < game->n; i++) {
        struct gyre_slice mine = slice_of(game, i);
        gyre_round_clear(&game->player[i].round);
        if (index < game->algorithm->extent(&mine).rounds)
            game->algorithm->round(&mine, index, &game->player[i].round);
        if (game->player[i].round.overflow)
            return false;
    }
    return true;
}

/* -- acts -------------------------------------------------------------------------------------- */

/* Finds the part of the block at `place` of `rank`; false: the place is not inside one block. */
static bool locate_block(const struct gyre_bind_game *game, uint32_t rank, struct gyre_place place,
                         uint64_t length, struct gyre_block_ref *ref)
{
    const struct gyre_slice *slice = &game->slice;
    bool blocks = place.buffer == GYRE_INPUT ? gyre_verb_scatters(slice->verb)
                                             : gyre_verb_gathers(slice->verb);
    uint64_t pitch = slice->stride * slice->element;
    *ref = (struct gyre_block_ref){.rank = rank};
    if (!length)
        return true;
    ref->block = blocks ? (uint32_t)(place.offset / pitch) : 0;
    ref->offset = place.offset - ref->block * pitch;
    return ref->offset + length <= slice->count * slice->element;
}

static bool add_use(struct gyre_bind_game *game, uint32_t by, struct gyre_block_ref ref,
                    bool writes)
{
    struct gyre_bind_player *player = &game->player[by];
    struct gyre_bind_act *act = &player->act[player->acts - 1];
    if (game->uses == game->use_max || act->sources + !writes > GYRE_PEERS_MAPPED_MAX)
        return false;
    game->use[game->uses++] = (struct gyre_bind_use){ref, by, player->acts - 1, writes};
    act->sources += !writes;
    act->destinations += writes;
    return true;
}

static bool add_act(struct gyre_bind_game *game, uint32_t by, uint64_t length,
                    struct gyre_place result)
{
    struct gyre_bind_player *player = &game->player[by];
    if (player->acts == game->act_max)
        return false;
    player->act[player->acts++] =
        (struct gyre_bind_act){.length = length, .first = game->uses, .result = result};
    return true;
}

/* Adds a destination to an act, which may be of an earlier round. */
static bool add_destination(struct gyre_bind_game *game, uint32_t by, uint32_t act,
                            struct gyre_block_ref ref)
{
    if (game->uses == game->use_max ||
        game->player[by].act[act].destinations == GYRE_PEERS_MAPPED_MAX)
        return false;
    game->use[game->uses++] = (struct gyre_bind_use){ref, by, act, true};
    game->player[by].act[act].destinations++;
    return true;
}

/* Finds the sender's copy of the same bytes to another rank; none: the sender's number of acts. */
static uint32_t find_copy(const struct gyre_bind_game *game, uint32_t by,
                          struct gyre_block_ref from, uint64_t length)
{
    const struct gyre_bind_player *player = &game->player[by];
    uint32_t a = 0;
    while (a < player->acts && !(player->act[a].sources == 1 && player->act[a].length == length &&
                                 player->act[a].result.buffer == GYRE_INPUT &&
                                 gyre_bind_same_ref(game->use[player->act[a].first].ref, from)))
        a++;
    return a;
}

/* Adds a copy from an INPUT to the OUTPUT of `rank`, of the same rank or of another. */
static bool add_copy(struct gyre_bind_game *game, uint32_t rank, struct gyre_place at,
                     struct gyre_block_ref from, uint64_t length)
{
    struct gyre_block_ref to;
    bool pushed = game->copier == GYRE_SENDER_COPIES;
    uint32_t by = pushed ? from.rank : rank;
    if (!locate_block(game, rank, at, length, &to))
        return false;
    uint32_t known = pushed ? find_copy(game, by, from, length) : game->player[by].acts;
    if (known < game->player[by].acts)
        return add_destination(game, by, known, to);
    struct gyre_place result = pushed ? gyre_at(GYRE_INPUT, 0) : at;
    return add_act(game, by, length, result) && add_use(game, by, from, false) &&
           add_use(game, by, to, true);
}

/* -- following the steps ----------------------------------------------------------------------- */

static const struct gyre_step *matching_send(const struct gyre_round *round, uint32_t to)
{
    for (uint32_t s = 0; s < round->steps; s++)
        if (round->step[s].kind == GYRE_SEND && round->step[s].peer == to)
            return &round->step[s];
    return NULL;
}

/* Remembers what SCRATCH holds; the former content of the written part is forgotten. */
static bool remember_held(struct gyre_bind_game *game, uint32_t rank, uint64_t at, uint64_t length,
                          struct gyre_block_ref ref)
{
    struct gyre_bind_player *player = &game->player[rank];
    uint32_t kept = 0;
    for (uint32_t h = 0; h < player->held_count; h++)
        if (player->held[h].at >= at + length || at >= player->held[h].at + player->held[h].length)
            player->held[kept++] = player->held[h];
    player->held_count = kept;
    if (player->held_count == game->held_max)
        return false;
    player->held[player->held_count++] = (struct gyre_bind_held){at, length, ref};
    return true;
}

static const struct gyre_bind_held *find_held(const struct gyre_bind_player *player, uint64_t at,
                                              uint64_t length)
{
    for (uint32_t h = 0; h < player->held_count; h++)
        if (player->held[h].at == at && player->held[h].length == length)
            return &player->held[h];
    return NULL;
}

/* Follows the RECV of a finished result: the act that makes the result gets one more
 * destination. */
static bool follow_result(struct gyre_bind_game *game, uint32_t rank, const struct gyre_step *step,
                          const struct gyre_step *send)
{
    const struct gyre_bind_player *peer = &game->player[step->peer];
    struct gyre_block_ref to;
    uint32_t a = 0;
    while (a < peer->acts &&
           !(peer->act[a].result.buffer == send->at.buffer &&
             peer->act[a].result.offset == send->at.offset && peer->act[a].length == send->length))
        a++;
    return a < peer->acts && step->at.buffer == GYRE_OUTPUT &&
           locate_block(game, rank, step->at, step->length, &to) &&
           add_destination(game, step->peer, a, to);
}

/* Follows a RECV: of a piece of the peer's INPUT, or of a result that the peer has finished. */
static bool follow_recv(struct gyre_bind_game *game, uint32_t rank, const struct gyre_step *step)
{
    const struct gyre_step *send = matching_send(&game->player[step->peer].round, rank);
    struct gyre_block_ref from;
    if (!send || send->length != step->length)
        return false;
    if (send->at.buffer != GYRE_INPUT)
        return follow_result(game, rank, step, send);
    if (!locate_block(game, step->peer, send->at, send->length, &from))
        return false;
    return step->at.buffer == GYRE_OUTPUT
               ? add_copy(game, rank, step->at, from, step->length)
               : remember_held(game, rank, step->at.offset, step->length, from);
}

static bool follow_source(struct gyre_bind_game *game, uint32_t rank, struct gyre_place place,
                          uint64_t length)
{
    const struct gyre_bind_held *held = find_held(&game->player[rank], place.offset, length);
    struct gyre_block_ref own;
    if (place.buffer == GYRE_SCRATCH)
        return held && add_use(game, rank, held->ref, false);
    return place.buffer == GYRE_INPUT && locate_block(game, rank, place, length, &own) &&
           add_use(game, rank, own, false);
}

/* Follows a REDUCE. On a rank without OUTPUT the result waits in SCRATCH until it is sent. */
static bool follow_reduce(struct gyre_bind_game *game, uint32_t rank, const struct gyre_step *step)
{
    const struct gyre_bind_player *player = &game->player[rank];
    struct gyre_block_ref to;
    if (!(step->flags & GYRE_STEP_FINAL) || !add_act(game, rank, step->length, step->at))
        return false;
    for (uint32_t s = 0; s < step->sources; s++)
        if (!follow_source(game, rank, player->round.source[step->first + s], step->length))
            return false;
    return step->at.buffer == GYRE_SCRATCH ||
           (locate_block(game, rank, step->at, step->length, &to) && add_use(game, rank, to, true));
}

static bool follow_copy(struct gyre_bind_game *game, uint32_t rank, const struct gyre_step *step)
{
    const struct gyre_place *from = &game->player[rank].round.source[step->first];
    struct gyre_block_ref own;
    return step->at.buffer == GYRE_OUTPUT && from->buffer == GYRE_INPUT &&
           locate_block(game, rank, *from, step->length, &own) &&
           add_copy(game, rank, step->at, own, step->length);
}

static bool follow(struct gyre_bind_game *game, uint32_t rank, const struct gyre_step *step)
{
    switch (step->kind) {
    case GYRE_RECV:
        return follow_recv(game, rank, step);
    case GYRE_REDUCE:
        return follow_reduce(game, rank, step);
    case GYRE_COPY:
        return follow_copy(game, rank, step);
    case GYRE_SEND:
        return true;
    }
    return false;
}

/* Follows a round, receives first: what a peer sends in this round was finished in an earlier
 * one. */
static bool follow_round(struct gyre_bind_game *game)
{
    for (int local = 0; local < 2; local++)
        for (uint32_t rank = 0; rank < game->n; rank++)
            for (uint32_t s = 0; s < game->player[rank].round.steps; s++) {
                const struct gyre_step *step = &game->player[rank].round.step[s];
                if ((step->kind != GYRE_RECV) == local && !follow(game, rank, step))
                    return false;
            }
    return true;
}

static bool play(struct gyre_bind_game *game)
{
    uint64_t rounds = 0;
    for (uint32_t i = 0; i < game->n; i++) {
        struct gyre_slice mine = slice_of(game, i);
        uint64_t own = game->algorithm->extent(&mine).rounds;
        rounds = own > rounds ? own : rounds;
    }
    for (uint64_t r = 0; r < rounds; r++)
        if (!deal(game, r) || !follow_round(game))
            return false;
    return true;
}

/* -- the whole ------------------------------------------------------------------------------- */

struct gyre_rank_moves *gyre_bind_rank_moves(const struct gyre_algorithm *algorithm,
                                             const struct gyre_slice *slice,
                                             enum gyre_copier copier, struct gyre_binding *binding)
{
    struct gyre_bind_game game;
    struct gyre_rank_moves *rank_moves = NULL;
    *binding = (struct gyre_binding){0};
    if (slice->n > GYRE_PEERS_MAPPED_MAX)
        return NULL;
    binding->lacks_memory = !game_create(&game, algorithm, slice, copier);
    if (!binding->lacks_memory && play(&game)) {
        rank_moves = gyre_bind_pack(&game);
        binding->lacks_memory = !rank_moves;
        binding->stays_at_home = gyre_bind_stays_at_home(&game);
        binding->safe_in_place = gyre_bind_safe_in_place(&game);
    }
    game_destroy(&game);
    return rank_moves;
}
