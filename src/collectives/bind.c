/* The binder: from a schedule to passes over mapped memory.
 *
 * A schedule moves bytes hop by hop. Where all ranks can read and write each other's buffers, most
 * hops are not needed: what counts is in which INPUTs a block of OUTPUT begins, who folds it, and
 * in which OUTPUTs it ends.
 *
 *      rank 0   INPUT ──SEND──▶ SCRATCH ─┐
 *      rank 1   INPUT ───────────────────┴─REDUCE─▶ OUTPUT ──SEND──▶ OUTPUT   rank 0
 *
 *   becomes, on rank 1:  move { source 0.INPUT, 1.INPUT;  destination 1.OUTPUT, 0.OUTPUT }
 *
 * The binder plays the rounds of all n ranks and keeps two kinds of facts per rank: what its
 * SCRATCH holds (a piece of some rank's INPUT), and its moves. A step that fits neither (a partial
 * sum sent on, as in a ring) ends the attempt: the schedule then runs as it is, over messages.
 * Nothing here knows an algorithm by name.
 *
 * Safety: moves of different ranks run at different times, and every rank may run in place. A move
 * may write a rank's OUTPUT only where no other move reads that rank's INPUT. */
#include "collectives/plan.h"

#include <errno.h>
#include <stdlib.h>

struct held { /* SCRATCH [at, at + length) holds bytes of tap.rank's INPUT */
    uint64_t at, length;
    struct gyre_tap tap;
};

struct player {
    struct gyre_round round;
    struct gyre_fused fused;
    struct held *held;
    uint32_t helds;
};

struct game {
    const struct gyre_algorithm *algorithm;
    struct gyre_slice slice;
    uint32_t n;
    uint32_t held_max;
    struct player *player; /* n */
};

static void game_destroy(struct game *game)
{
    for (uint32_t i = 0; game->player && i < game->n; i++) {
        free(game->player[i].round.step);
        free(game->player[i].round.source);
        free(game->player[i].held);
    }
    free(game->player);
}

static bool game_create(struct game *game, const struct gyre_algorithm *algorithm,
                        const struct gyre_slice *slice)
{
    *game = (struct game){
        .algorithm = algorithm, .slice = *slice, .n = slice->n, .held_max = 2 * slice->n};
    game->player = calloc(game->n, sizeof(*game->player));
    if (!game->player)
        return false;
    for (uint32_t i = 0; i < game->n; i++) {
        struct player *player = &game->player[i];
        struct gyre_slice mine = *slice;
        mine.rank = i;
        struct gyre_extent extent = algorithm->extent(&mine);
        player->round.step_max = extent.step_max;
        player->round.source_max = extent.source_max;
        player->round.step = calloc(extent.step_max + 1, sizeof(*player->round.step));
        player->round.source = calloc(extent.source_max + 1, sizeof(*player->round.source));
        player->held = calloc(game->held_max, sizeof(*player->held));
        if (!player->round.step || !player->round.source || !player->held)
            return false;
    }
    return true;
}

static bool deal(struct game *game, uint64_t index)
{
    for (uint32_t i = 0; i < game->n; i++) {
        struct gyre_slice mine = game->slice;
        mine.rank = i;
        gyre_round_clear(&game->player[i].round);
        if (index < game->algorithm->extent(&mine).rounds)
            game->algorithm->round(&mine, index, &game->player[i].round);
        if (game->player[i].round.overflow)
            return false;
    }
    return true;
}

static const struct gyre_step *matching_send(const struct gyre_round *round, uint32_t to)
{
    for (uint32_t s = 0; s < round->steps; s++)
        if (round->step[s].kind == GYRE_SEND && round->step[s].peer == to)
            return &round->step[s];
    return NULL;
}

static struct gyre_move *new_move(struct player *player, uint32_t rank, uint64_t offset,
                                  uint64_t length)
{
    if (player->fused.moves == GYRE_MOVES_MAX)
        return NULL;
    struct gyre_move *move = &player->fused.move[player->fused.moves++];
    move->length = length;
    move->destinations = 1;
    move->destination[0] = (struct gyre_tap){rank, offset};
    return move;
}

static struct gyre_move *find_move(struct player *player, uint32_t rank, uint64_t offset,
                                   uint64_t length)
{
    for (uint32_t m = 0; m < player->fused.moves; m++) {
        struct gyre_move *move = &player->fused.move[m];
        if (move->destination[0].rank == rank && move->destination[0].offset == offset &&
            move->length == length)
            return move;
    }
    return NULL;
}

static bool copy_from(struct player *player, uint32_t rank, uint64_t to, struct gyre_tap from,
                      uint64_t length)
{
    struct gyre_move *move = new_move(player, rank, to, length);
    if (!move)
        return false;
    move->sources = 1;
    move->source[0] = from;
    return true;
}

/* RECV: a piece of the peer's INPUT, or a block that the peer has finished. */
static bool follow_recv(struct game *game, uint32_t rank, const struct gyre_step *step)
{
    struct player *player = &game->player[rank], *peer = &game->player[step->peer];
    const struct gyre_step *send = matching_send(&peer->round, rank);
    if (!send || send->length != step->length || send->at.buffer == GYRE_SCRATCH)
        return false;
    if (send->at.buffer == GYRE_INPUT) {
        struct gyre_tap from = {step->peer, send->at.offset};
        if (step->at.buffer == GYRE_OUTPUT)
            return copy_from(player, rank, step->at.offset, from, step->length);
        if (player->helds == game->held_max)
            return false;
        player->held[player->helds++] = (struct held){step->at.offset, step->length, from};
        return true;
    }
    struct gyre_move *move = find_move(peer, step->peer, send->at.offset, send->length);
    if (!move || step->at.buffer != GYRE_OUTPUT || move->destinations == GYRE_PEERS_MAPPED_MAX)
        return false;
    move->destination[move->destinations++] = (struct gyre_tap){rank, step->at.offset};
    return true;
}

static const struct held *find_held(const struct player *player, uint64_t at, uint64_t length)
{
    for (uint32_t h = 0; h < player->helds; h++)
        if (player->held[h].at == at && player->held[h].length == length)
            return &player->held[h];
    return NULL;
}

static bool follow_reduce(struct game *game, uint32_t rank, const struct gyre_step *step)
{
    struct player *player = &game->player[rank];
    if (step->at.buffer != GYRE_OUTPUT || !(step->flags & GYRE_STEP_FINAL) ||
        step->sources > GYRE_PEERS_MAPPED_MAX)
        return false;
    struct gyre_move *move = new_move(player, rank, step->at.offset, step->length);
    for (uint32_t s = 0; move && s < step->sources; s++) {
        const struct gyre_place *place = &player->round.source[step->first + s];
        const struct held *held = find_held(player, place->offset, step->length);
        if (place->buffer == GYRE_INPUT)
            move->source[move->sources++] = (struct gyre_tap){rank, place->offset};
        else if (place->buffer == GYRE_SCRATCH && held)
            move->source[move->sources++] = held->tap;
        else
            return false;
    }
    return move != NULL;
}

static bool follow_copy(struct game *game, uint32_t rank, const struct gyre_step *step)
{
    struct player *player = &game->player[rank];
    const struct gyre_place *from = &player->round.source[step->first];
    return step->at.buffer == GYRE_OUTPUT && from->buffer == GYRE_INPUT &&
           copy_from(player, rank, step->at.offset, (struct gyre_tap){rank, from->offset},
                     step->length);
}

/* Receives first: what a peer sends in this round was finished in an earlier one. */
static bool follow_round(struct game *game)
{
    for (uint32_t rank = 0; rank < game->n; rank++)
        for (uint32_t s = 0; s < game->player[rank].round.steps; s++) {
            const struct gyre_step *step = &game->player[rank].round.step[s];
            if (step->kind == GYRE_RECV && !follow_recv(game, rank, step))
                return false;
        }
    for (uint32_t rank = 0; rank < game->n; rank++)
        for (uint32_t s = 0; s < game->player[rank].round.steps; s++) {
            const struct gyre_step *step = &game->player[rank].round.step[s];
            if (step->kind == GYRE_REDUCE && !follow_reduce(game, rank, step))
                return false;
            if (step->kind == GYRE_COPY && !follow_copy(game, rank, step))
                return false;
        }
    return true;
}

static bool overlap(uint64_t a, uint64_t b, uint64_t a_length, uint64_t b_length)
{
    return a < b + b_length && b < a + a_length;
}

/* May `writer` (move w of rank q) write `to` while `reader` (move r of rank p) reads `from` of the
 * same rank? */
static bool compatible(const struct gyre_move *writer, const struct gyre_tap *to, uint32_t q,
                       uint32_t w, const struct gyre_move *reader, const struct gyre_tap *from,
                       uint32_t p, uint32_t r)
{
    if (to->rank != from->rank ||
        !overlap(to->offset, from->offset, writer->length, reader->length))
        return true;
    return p == q && (r < w || (r == w && to->offset == from->offset));
}

/* In place, such a copy writes what is there already. */
static bool copies_onto_itself(const struct gyre_move *move, const struct gyre_tap *to)
{
    return move->sources == 1 && move->source[0].rank == to->rank &&
           move->source[0].offset == to->offset;
}

static bool write_is_safe(const struct game *game, uint32_t q, uint32_t w,
                          const struct gyre_tap *to)
{
    const struct gyre_move *writer = &game->player[q].fused.move[w];
    if (copies_onto_itself(writer, to))
        return true;
    for (uint32_t p = 0; p < game->n; p++)
        for (uint32_t r = 0; r < game->player[p].fused.moves; r++) {
            const struct gyre_move *reader = &game->player[p].fused.move[r];
            for (uint32_t s = 0; s < reader->sources; s++)
                if (!compatible(writer, to, q, w, reader, &reader->source[s], p, r))
                    return false;
        }
    return true;
}

static bool safe_in_place(const struct game *game)
{
    for (uint32_t q = 0; q < game->n; q++)
        for (uint32_t w = 0; w < game->player[q].fused.moves; w++) {
            const struct gyre_move *writer = &game->player[q].fused.move[w];
            for (uint32_t d = 0; d < writer->destinations; d++)
                if (!write_is_safe(game, q, w, &writer->destination[d]))
                    return false;
        }
    return true;
}

static bool stays_at_home(const struct game *game)
{
    for (uint32_t q = 0; q < game->n; q++)
        for (uint32_t m = 0; m < game->player[q].fused.moves; m++)
            if (game->player[q].fused.move[m].destinations > 1)
                return false;
    return true;
}

static bool is_read(const struct game *game, uint32_t rank)
{
    for (uint32_t q = 0; q < game->n; q++)
        for (uint32_t m = 0; q != rank && m < game->player[q].fused.moves; m++)
            for (uint32_t s = 0; s < game->player[q].fused.move[m].sources; s++)
                if (game->player[q].fused.move[m].source[s].rank == rank)
                    return true;
    return false;
}

static bool play(struct game *game)
{
    uint64_t rounds = 0;
    for (uint32_t i = 0; i < game->n; i++) {
        struct gyre_slice mine = game->slice;
        mine.rank = i;
        uint64_t own = game->algorithm->extent(&mine).rounds;
        rounds = own > rounds ? own : rounds;
    }
    for (uint64_t r = 0; r < rounds; r++)
        if (!deal(game, r) || !follow_round(game))
            return false;
    return true;
}

bool gyre_bind_fused(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                     struct gyre_fused *fused, struct gyre_binding *binding)
{
    struct game game;
    if (slice->n > GYRE_PEERS_MAPPED_MAX)
        return false;
    bool bound = game_create(&game, algorithm, slice) && play(&game);
    if (bound) {
        *fused = game.player[slice->rank].fused;
        binding->stays_at_home = stays_at_home(&game);
        binding->safe_in_place = safe_in_place(&game);
        binding->read_by_peers = is_read(&game, slice->rank);
    }
    game_destroy(&game);
    return bound;
}
