/* The sampler: the positions of an epoch, the rank of each, and its sample.
 *
 *     position      0   1   2   3   4   5   6   7   8   9 │10  11     n = 10, 4 ranks
 *     rank          0   1   2   3   0   1   2   3   0   1 │ 2   3     position mod world
 *     sample        4   1   7   5   3   9   0   8   6   2 │ 4   1     order[position mod n]
 *
 * GYRE_TAIL_DROP ends the epoch after position 7, _ONCE after 9, _REPEAT after 11.
 *
 * Both rows are functions of the position alone. So there is one number to keep, the cursor, and
 * resuming means beginning there: the positions behind it are given out as they always would have
 * been, to any number of ranks. Only the end is counted from where the epoch was begun, so that the
 * rest divides by the ranks, also by another number of them.
 *
 * With shares the row "rank" is that of shares.h: the epoch is cut into blocks of `step` positions,
 * all divided alike, and one shorter block at its end. */
#include "sampler/order.h"
#include "sampler/permutation.h"
#include "sampler/shares.h"

#include <gyre/sampler.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define SAMPLES_MAX (UINT64_C(1) << 53)

struct gyre_sampler {
    uint64_t n, seed, epoch;
    uint32_t rank, world;
    enum gyre_tail tail;
    bool shuffles, is_shuffled;     /* the order is the epoch's */
    uint64_t cursor, end;           /* positions; the cursor is at most the end */
    struct gyre_permutation order;  /* samples */
    struct gyre_shares block, last; /* ranks, where they are not alike */
    uint64_t step, blocks;          /* positions of a block; whole blocks of an epoch */
};

/* -- who --------------------------------------------------------------------------------------- */

/* The number of the rank's positions before this one. */
static uint64_t mine_before(const struct gyre_sampler *s, uint64_t position)
{
    if (!s->step)
        return position / s->world + (position % s->world > s->rank);
    uint64_t block = position / s->step, place = position % s->step;
    return block * s->block.count[s->rank] +
           gyre_shares_before(block < s->blocks ? &s->block : &s->last, s->rank, place);
}

/* The position of the rank's sample k. */
static uint64_t mine_at(const struct gyre_sampler *s, uint64_t k)
{
    if (!s->step)
        return k * s->world + s->rank;
    uint64_t each = s->block.count[s->rank];
    if (k < s->blocks * each)
        return k / each * s->step + gyre_shares_place(&s->block, s->rank, k % each);
    return s->blocks * s->step + gyre_shares_place(&s->last, s->rank, k - s->blocks * each);
}

/* -- what -------------------------------------------------------------------------------------- */

static void shuffle(struct gyre_sampler *s)
{
    struct gyre_mt19937 mt;
    if (s->is_shuffled || !s->shuffles)
        return;
    gyre_mt19937_seed(&mt, (uint32_t)(s->seed + s->epoch));
    gyre_permutation_randperm(&s->order, &mt);
    s->is_shuffled = true;
}

/* The end of an epoch that is begun at `cursor`. */
static uint64_t find_end(const struct gyre_sampler *s, uint64_t cursor)
{
    uint64_t rest = s->n - cursor, uneven = rest % s->world;
    if (s->tail == GYRE_TAIL_DROP)
        return s->n - uneven;
    return s->tail == GYRE_TAIL_REPEAT && uneven ? s->n + s->world - uneven : s->n;
}

/* -- making one -------------------------------------------------------------------------------- */

static int check_who(const struct gyre_sampler_options *o, struct gyre_trouble *trouble)
{
    if (o->world < 1 || (uint32_t)o->world > GYRE_SHARES_WORLD_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID, "a world of %d ranks: expected 1 to %u",
                                o->world, GYRE_SHARES_WORLD_MAX);
    if (o->rank < 0 || o->rank >= o->world)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "rank %d of a world of %d ranks: expected 0 to %d", o->rank,
                                o->world, o->world - 1);
    if (o->shares && o->tail != GYRE_TAIL_ONCE)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "shares go with GYRE_TAIL_ONCE, not with tail %d", (int)o->tail);
    return 0;
}

static int check_sampler_options(const struct gyre_sampler_options *o, struct gyre_trouble *trouble)
{
    if (!o)
        return gyre_trouble_set(trouble, GYRE_INVALID, "the options are NULL");
    if (gyre_check_size("gyre_sampler_options", o->size, sizeof *o, trouble))
        return GYRE_INVALID;
    if (o->samples < 1 || o->samples > SAMPLES_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%" PRIu64 " samples: expected 1 to %" PRIu64, o->samples,
                                SAMPLES_MAX);
    if ((unsigned)o->tail > GYRE_TAIL_ONCE)
        return gyre_trouble_set(trouble, GYRE_INVALID, "tail %d is unknown", (int)o->tail);
    return check_who(o, trouble);
}

static int share_out(struct gyre_sampler *s, const struct gyre_sampler_options *o,
                     struct gyre_trouble *trouble)
{
    if (!o->shares)
        return 0;
    s->step = o->step && o->step < s->n ? o->step : s->n;
    s->blocks = s->n / s->step;
    int status = gyre_shares_init(&s->block, o->shares, s->world, s->step, trouble);
    if (!status)
        status = gyre_shares_init(&s->last, o->shares, s->world, s->n % s->step, trouble);
    return status;
}

static int create_sampler(struct gyre_sampler **sampler, const struct gyre_sampler_options *o,
                          struct gyre_trouble *trouble)
{
    int status = check_sampler_options(o, trouble);
    if (status)
        return status;
    struct gyre_sampler *s = calloc(1, sizeof *s);
    if (!s)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory");
    s->n = o->samples;
    s->seed = o->seed;
    s->rank = (uint32_t)o->rank;
    s->world = (uint32_t)o->world;
    s->tail = o->tail;
    s->shuffles = o->shuffle != 0;
    s->end = find_end(s, 0);
    status = share_out(s, o, trouble);
    if (!status && s->shuffles)
        status = gyre_permutation_init(&s->order, s->n, trouble);
    if (status)
        gyre_sampler_destroy(s);
    else
        *sampler = s;
    return status;
}

int gyre_sampler_create(struct gyre_sampler **sampler, const struct gyre_sampler_options *options)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    if (!sampler)
        return gyre_refuse("gyre_sampler_create: sampler is NULL");
    *sampler = NULL;
    *trouble = (struct gyre_trouble){0};
    if (create_sampler(sampler, options, trouble))
        gyre_trouble_wrap(trouble, "gyre_sampler_create");
    return trouble->status;
}

void gyre_sampler_destroy(struct gyre_sampler *sampler)
{
    if (!sampler)
        return;
    gyre_permutation_deinit(&sampler->order);
    gyre_shares_deinit(&sampler->block);
    gyre_shares_deinit(&sampler->last);
    free(sampler);
}

/* -- walking ----------------------------------------------------------------------------------- */

int gyre_sampler_begin(struct gyre_sampler *sampler, uint64_t epoch, uint64_t cursor)
{
    if (!sampler)
        return gyre_refuse("gyre_sampler_begin: the sampler is NULL");
    if (cursor > sampler->n)
        return gyre_refuse("gyre_sampler_begin: cursor %" PRIu64 " of epoch %" PRIu64
                           " is beyond its %" PRIu64
                           " samples: is the position that of other data?",
                           cursor, epoch, sampler->n);
    sampler->is_shuffled = sampler->is_shuffled && sampler->epoch == epoch;
    sampler->epoch = epoch;
    sampler->cursor = cursor;
    sampler->end = find_end(sampler, cursor);
    return 0;
}

int gyre_sampler_next(struct gyre_sampler *sampler, uint64_t span, uint64_t *indices, uint64_t room,
                      uint64_t *count)
{
    if (!sampler || !count || (room && !indices))
        return gyre_refuse("gyre_sampler_next: %s is NULL", !sampler ? "the sampler"
                                                            : !count ? "count"
                                                                     : "indices");
    if (!span)
        return gyre_refuse("gyre_sampler_next: a span of 0 samples: expected 1 or more");
    uint64_t left = sampler->end - sampler->cursor;
    uint64_t to = sampler->cursor + (span < left ? span : left);
    uint64_t first = mine_before(sampler, sampler->cursor);
    *count = mine_before(sampler, to) - first;
    if (*count > room)
        return gyre_refuse("gyre_sampler_next: room for %" PRIu64 " samples, but rank %u gets "
                           "%" PRIu64 " of the next %" PRIu64,
                           room, sampler->rank, *count, to - sampler->cursor);
    shuffle(sampler);
    for (uint64_t i = 0; i < *count; i++) {
        uint64_t position = mine_at(sampler, first + i);
        indices[i] = gyre_permutation_at(&sampler->order, position % sampler->n);
    }
    sampler->cursor = to;
    return 0;
}

uint64_t gyre_sampler_left(const struct gyre_sampler *sampler)
{
    return sampler ? sampler->end - sampler->cursor : 0;
}

uint64_t gyre_sampler_left_here(const struct gyre_sampler *sampler)
{
    if (!sampler)
        return 0;
    return mine_before(sampler, sampler->end) - mine_before(sampler, sampler->cursor);
}

void gyre_sampler_position(const struct gyre_sampler *sampler, uint64_t *epoch, uint64_t *cursor)
{
    if (epoch)
        *epoch = sampler->epoch;
    if (cursor)
        *cursor = sampler->cursor < sampler->n ? sampler->cursor : sampler->n;
}

void gyre_sampler_order(const struct gyre_sampler *sampler, uint64_t *samples, uint64_t *seed)
{
    *samples = sampler->n;
    *seed = sampler->seed;
}
