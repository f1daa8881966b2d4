/* Whether a bound schedule may run in place.
 *
 * Acts of different ranks run at different times, and every rank may run in place. So an act may
 * write a rank's OUTPUT only where no other act reads that rank's INPUT. Where one of the two is a
 * single block and the other has n, in place means that the one is block `rank` of the other:
 *
 *     OUTPUT of rank 1   [ block 0 │ block 1 │ block 2 ]   any rank may write blocks 0 and 2
 *     its INPUT                    [  block  ]             0 and 2 read it: no rank may write here
 *
 * The moves of one rank run in order, and the schedule was proved for that.
 *
 * Tested by tests/unit/collectives/plan/bind_safety_test.c. */
#include "collectives/plan/bind_inside.h"

#include <stdlib.h>

/* The reference, moved into the longer of its rank's two buffers as for a rank that runs in
 * place. */
static struct gyre_block_ref in_place(const struct gyre_bind_game *game,
                                      const struct gyre_bind_use *use)
{
    int nests = gyre_verb_nests(game->slice.verb);
    struct gyre_block_ref ref = use->ref;
    if (nests && use->writes == (nests < 0))
        ref.block = ref.rank;
    return ref;
}

static bool overlap(struct gyre_block_ref a, uint64_t a_length, struct gyre_block_ref b,
                    uint64_t b_length)
{
    return a.rank == b.rank && a.block == b.block && a_length && b_length &&
           a.offset < b.offset + b_length && b.offset < a.offset + a_length;
}

/* Whether a copy writes, in place, what is there already. */
static bool copies_onto_itself(const struct gyre_bind_game *game,
                               const struct gyre_bind_use *writer)
{
    const struct gyre_bind_act *act = gyre_bind_act_of(game, writer);
    return act->sources == 1 &&
           gyre_bind_same_ref(in_place(game, &game->use[act->first]), in_place(game, writer));
}

/* Whether the one may be written while, or before, the other is read. */
static bool compatible(const struct gyre_bind_game *game, const struct gyre_bind_use *writer,
                       const struct gyre_bind_use *reader)
{
    struct gyre_block_ref to = in_place(game, writer), from = in_place(game, reader);
    if (!overlap(to, gyre_bind_act_of(game, writer)->length, from,
                 gyre_bind_act_of(game, reader)->length))
        return true;
    return writer->by == reader->by &&
           (reader->act < writer->act ||
            (reader->act == writer->act && gyre_bind_same_ref(to, from)));
}

/* The uses that read, grouped by the rank whose INPUT they read: those of rank r are
 * reader[begin[r]] … before reader[begin[r + 1]]. */
struct readers {
    const struct gyre_bind_use **reader;
    uint32_t *begin;
};

static bool readers_create(const struct gyre_bind_game *game, struct readers *readers)
{
    uint32_t *begin = calloc(game->n + 1, sizeof(*begin));
    readers->begin = begin;
    readers->reader = calloc(game->uses + 1, sizeof(readers->reader[0]));
    if (!begin || !readers->reader)
        return false;
    for (uint32_t u = 0; u < game->uses; u++)
        begin[game->use[u].ref.rank] += !game->use[u].writes;
    for (uint32_t r = 1; r <= game->n; r++)
        begin[r] += begin[r - 1];
    for (uint32_t u = game->uses; u-- > 0;)
        if (!game->use[u].writes)
            readers->reader[--begin[game->use[u].ref.rank]] = &game->use[u];
    return true;
}

static void readers_destroy(struct readers *readers)
{
    free(readers->reader);
    free(readers->begin);
}

static bool write_is_safe(const struct gyre_bind_game *game, const struct readers *readers,
                          const struct gyre_bind_use *writer)
{
    uint32_t rank = writer->ref.rank;
    if (copies_onto_itself(game, writer))
        return true;
    for (uint32_t r = readers->begin[rank]; r < readers->begin[rank + 1]; r++)
        if (!compatible(game, writer, readers->reader[r]))
            return false;
    return true;
}

bool gyre_bind_safe_in_place(const struct gyre_bind_game *game)
{
    struct readers readers;
    bool safe = readers_create(game, &readers);
    for (uint32_t u = 0; safe && u < game->uses; u++)
        safe = !game->use[u].writes || write_is_safe(game, &readers, &game->use[u]);
    readers_destroy(&readers);
    return safe;
}

bool gyre_bind_stays_at_home(const struct gyre_bind_game *game)
{
    for (uint32_t u = 0; u < game->uses; u++)
        if (game->use[u].writes && game->use[u].ref.rank != game->use[u].by)
            return false;
    return true;
}
