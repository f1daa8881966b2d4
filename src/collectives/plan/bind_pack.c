/* Packs one rank's part of a bound schedule: its own moves, and the parts of its buffers that
 * others use.
 *
 *     one piece of memory:   moves │ block references │ parts read │ parts written
 *
 * Tested by tests/unit/collectives/plan/plan_test.c. */
#include "collectives/plan/bind_inside.h"

#include <stdlib.h>

/* Adds a part, or extends the one that it touches. Many peers may read the same bytes. */
static uint32_t add_part(struct gyre_block_part *part, uint32_t parts, struct gyre_block_ref ref,
                         uint64_t length)
{
    uint64_t end = ref.offset + length;
    for (uint32_t p = 0; p < parts; p++) {
        uint64_t there = part[p].offset + part[p].length;
        if (part[p].block != ref.block || ref.offset > there || end < part[p].offset)
            continue;
        part[p].offset = ref.offset < part[p].offset ? ref.offset : part[p].offset;
        part[p].length = (end > there ? end : there) - part[p].offset;
        return parts;
    }
    part[parts] = (struct gyre_block_part){ref.block, ref.offset, length};
    return parts + 1;
}

/* Collects the parts of this rank's buffer that others read or write. */
static uint32_t collect_parts(const struct gyre_bind_game *game, bool writes,
                              struct gyre_block_part *part)
{
    uint32_t parts = 0;
    for (uint32_t u = 0; u < game->uses; u++) {
        const struct gyre_bind_use *use = &game->use[u];
        uint64_t length = gyre_bind_act_of(game, use)->length;
        if (use->writes == writes && use->ref.rank == game->slice.rank && use->by != use->ref.rank)
            parts = add_part(part, parts, use->ref, length);
    }
    return parts;
}

static void pack_moves(const struct gyre_bind_game *game, struct gyre_rank_moves *rank_moves,
                       struct gyre_block_ref *ref)
{
    const struct gyre_bind_player *player = &game->player[game->slice.rank];
    for (uint32_t a = 0; a < player->acts; a++) {
        const struct gyre_bind_act *act = &player->act[a];
        struct gyre_block_ref *source = ref, *destination = ref + act->sources;
        for (uint32_t u = act->first; u < game->uses; u++)
            if (game->use[u].by == game->slice.rank && game->use[u].act == a)
                *(game->use[u].writes ? destination++ : ref++) = game->use[u].ref;
        rank_moves->move[a] = (struct gyre_move){.length = act->length,
                                                 .sources = act->sources,
                                                 .destinations = act->destinations,
                                                 .source = source,
                                                 .destination = source + act->sources};
        ref = destination;
    }
}

static uint64_t own_uses(const struct gyre_bind_game *game)
{
    uint64_t own = 0;
    for (uint32_t u = 0; u < game->uses; u++)
        own += game->use[u].by == game->slice.rank || game->use[u].ref.rank == game->slice.rank;
    return own;
}

struct gyre_rank_moves *gyre_bind_pack(const struct gyre_bind_game *game)
{
    uint64_t moves = game->player[game->slice.rank].acts, uses = own_uses(game);
    struct gyre_rank_moves *rank_moves =
        calloc(1, sizeof(*rank_moves) + moves * sizeof(struct gyre_move) +
                      uses * (sizeof(struct gyre_block_ref) + 2 * sizeof(struct gyre_block_part)));
    if (!rank_moves)
        return NULL;
    rank_moves->move = (struct gyre_move *)(rank_moves + 1);
    struct gyre_block_ref *ref = (struct gyre_block_ref *)(rank_moves->move + moves);
    rank_moves->moves = (uint32_t)moves;
    rank_moves->read = (struct gyre_block_part *)(ref + uses);
    rank_moves->reads = collect_parts(game, false, rank_moves->read);
    rank_moves->written = rank_moves->read + rank_moves->reads;
    rank_moves->writes = collect_parts(game, true, rank_moves->written);
    pack_moves(game, rank_moves, ref);
    return rank_moves;
}
