/* What one rank keeps of a bound schedule: its own moves, and what others do with its buffers.
 *
 *     one piece of memory:   fused │ moves │ taps of all moves │ parts read │ parts written */
#include "collectives/plan/bind_inside.h"

#include <stdlib.h>

/* Adds to the parts, or to the one that it touches. Many peers may read the same. */
static uint32_t add_part(struct gyre_part *part, uint32_t parts, struct gyre_tap tap,
                         uint64_t length)
{
    uint64_t end = tap.offset + length;
    for (uint32_t p = 0; p < parts; p++) {
        uint64_t there = part[p].offset + part[p].length;
        if (part[p].block != tap.block || tap.offset > there || end < part[p].offset)
            continue;
        part[p].offset = tap.offset < part[p].offset ? tap.offset : part[p].offset;
        part[p].length = (end > there ? end : there) - part[p].offset;
        return parts;
    }
    part[parts] = (struct gyre_part){tap.block, tap.offset, length};
    return parts + 1;
}

/* What others do with this rank's buffer. */
static uint32_t collect_parts(const struct gyre_bind_game *game, bool writes,
                              struct gyre_part *part)
{
    uint32_t parts = 0;
    for (uint32_t u = 0; u < game->uses; u++) {
        const struct gyre_bind_use *use = &game->use[u];
        uint64_t length = gyre_bind_act_of(game, use)->length;
        if (use->writes == writes && use->tap.rank == game->slice.rank && use->by != use->tap.rank)
            parts = add_part(part, parts, use->tap, length);
    }
    return parts;
}

static void pack_moves(const struct gyre_bind_game *game, struct gyre_fused *fused,
                       struct gyre_tap *tap)
{
    const struct gyre_bind_player *player = &game->player[game->slice.rank];
    for (uint32_t a = 0; a < player->acts; a++) {
        const struct gyre_bind_act *act = &player->act[a];
        struct gyre_tap *source = tap, *destination = tap + act->sources;
        for (uint32_t u = act->first; u < game->uses; u++)
            if (game->use[u].by == game->slice.rank && game->use[u].act == a)
                *(game->use[u].writes ? destination++ : tap++) = game->use[u].tap;
        fused->move[a] = (struct gyre_move){.length = act->length,
                                            .sources = act->sources,
                                            .destinations = act->destinations,
                                            .source = source,
                                            .destination = source + act->sources};
        tap = destination;
    }
}

static uint64_t own_uses(const struct gyre_bind_game *game)
{
    uint64_t own = 0;
    for (uint32_t u = 0; u < game->uses; u++)
        own += game->use[u].by == game->slice.rank || game->use[u].tap.rank == game->slice.rank;
    return own;
}

struct gyre_fused *gyre_bind_pack(const struct gyre_bind_game *game)
{
    uint64_t moves = game->player[game->slice.rank].acts, uses = own_uses(game);
    struct gyre_fused *fused =
        calloc(1, sizeof(*fused) + moves * sizeof(struct gyre_move) +
                      uses * (sizeof(struct gyre_tap) + 2 * sizeof(struct gyre_part)));
    if (!fused)
        return NULL;
    fused->move = (struct gyre_move *)(fused + 1);
    struct gyre_tap *tap = (struct gyre_tap *)(fused->move + moves);
    fused->moves = (uint32_t)moves;
    fused->read = (struct gyre_part *)(tap + uses);
    fused->reads = collect_parts(game, false, fused->read);
    fused->written = fused->read + fused->reads;
    fused->writes = collect_parts(game, true, fused->written);
    pack_moves(game, fused, tap);
    return fused;
}
