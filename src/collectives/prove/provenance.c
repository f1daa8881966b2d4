/* Values and stretches.
 *
 * The book of values is a hash table of expressions. An expression is known by its 64-bit hash
 * alone. Two of the few million that a check meets have equal hashes by chance once in 10^6 runs,
 * and a collision could only hide a fault of that run.
 *
 *     id    0        1        2        n                     n + 1
 *           {0}      {1}      {2}      {0,1} = (0 + 1)       {0,1,2} = ((0 + 1) + 2)
 *
 * A list of stretches is an array. A write replaces what it covers and leaves the two ends:
 *
 *     before    [ a          )[ b   )      [ c     )
 *     write             [ w              )
 *     after     [ a     )[ w             ) [ c     )
 *
 * Tested by tests/unit/collectives/prove/check_test.c. */
#include "collectives/prove/provenance.h"
#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `more` items behind `used`; the capacity of the array doubles. */
static void *reserve(void *array, size_t used, size_t more, size_t *room, size_t item)
{
    if (used + more <= *room)
        return array;
    size_t wanted = 2 * *room > used + more ? 2 * *room : used + more + 8;
    void *moved = realloc(array, wanted * item);
    if (moved != NULL)
        *room = wanted;
    return moved;
}

/* -- values ------------------------------------------------------------------------------------ */

static bool reserve_values(struct gyre_value_book *book, size_t values, size_t ranges)
{
    void *value =
        reserve(book->value, book->values, values, &book->value_room, sizeof *book->value);
    if (value != NULL)
        book->value = value;
    void *range =
        reserve(book->range, book->ranges, ranges, &book->range_room, sizeof *book->range);
    if (range != NULL)
        book->range = range;
    return value != NULL && range != NULL;
}

/* The slot of the value with this hash, or the free slot for it. */
static uint32_t *slot_of(const struct gyre_value_book *book, uint64_t hash)
{
    size_t at = hash & (book->slots - 1);
    while (book->slot[at] != 0 && book->value[book->slot[at] - 1].hash != hash)
        at = (at + 1) & (book->slots - 1);
    return &book->slot[at];
}

static bool grow_slots(struct gyre_value_book *book)
{
    if (2 * (book->values + 1) < book->slots)
        return true;
    size_t slots = book->slots == 0 ? 64 : 2 * book->slots;
    while (slots < 4 * book->values)
        slots *= 2;
    uint32_t *fresh = calloc(slots, sizeof *fresh);
    if (fresh == NULL)
        return false;
    free(book->slot);
    book->slot = fresh;
    book->slots = slots;
    for (size_t i = 0; i < book->values; i++)
        *slot_of(book, book->value[i].hash) = (uint32_t)i + 1;
    return true;
}

int gyre_value_book_init(struct gyre_value_book *book, uint32_t n, bool rounds_partials)
{
    *book = (struct gyre_value_book){.n = n, .rounds_partials = rounds_partials};
    if (!reserve_values(book, n, n))
        return -ENOMEM;
    for (uint32_t rank = 0; rank < n; rank++) {
        book->range[rank] = (struct gyre_rank_range){rank, rank + 1};
        book->value[rank] = (struct gyre_value){gyre_mix64(rank + 1), rank, 1, false, rank == 0};
    }
    book->values = book->ranges = n;
    return grow_slots(book) ? 0 : -ENOMEM;
}

void gyre_value_book_deinit(struct gyre_value_book *book)
{
    free(book->value);
    free(book->range);
    free(book->slot);
    *book = (struct gyre_value_book){0};
}

static uint64_t hash_fold(const struct gyre_value_book *book, const uint32_t *term, uint32_t terms,
                          bool final)
{
    uint64_t hash = final ? 0x66696e616cu : 0x666f6c64u;
    for (uint32_t i = 0; i < terms; i++)
        hash = gyre_mix64(3 * hash + book->value[term[i]].hash);
    return hash;
}

static int by_from(const void *a, const void *b)
{
    uint32_t left = ((const struct gyre_rank_range *)a)->from;
    uint32_t right = ((const struct gyre_rank_range *)b)->from;
    return (left > right) - (left < right);
}

/* Unites `count` ranges behind the arena's end. Returns the number of ranges left; 0 where rank
 * *twice is in two of them. */
static uint32_t unite(struct gyre_rank_range *range, size_t count, uint32_t *twice)
{
    uint32_t last = 0;
    qsort(range, count, sizeof *range, by_from);
    for (size_t i = 1; i < count; i++) {
        if (range[i].from < range[last].to) {
            *twice = range[i].from;
            return 0;
        }
        if (range[i].from == range[last].to)
            range[last].to = range[i].to;
        else
            range[++last] = range[i];
    }
    return last + 1;
}

/* Copies the ranges of all terms behind the arena's end, which stays; *count becomes their
 * number. */
static int gather_ranges(struct gyre_value_book *book, const uint32_t *term, uint32_t terms,
                         size_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < terms; i++)
        *count += book->value[term[i]].ranges;
    if (!reserve_values(book, 1, *count))
        return -ENOMEM;
    struct gyre_rank_range *to = book->range + book->ranges;
    for (uint32_t i = 0; i < terms; i++) {
        const struct gyre_value *value = &book->value[term[i]];
        memcpy(to, book->range + value->first, value->ranges * sizeof *to);
        to += value->ranges;
    }
    return 0;
}

/* The ranks of the left fold that these terms make, 0 if none: the next ranks' own inputs must
 * follow, in order. */
static uint32_t prefix_of(const struct gyre_value_book *book, const uint32_t *term, uint32_t terms)
{
    uint32_t prefix = book->value[term[0]].prefix;
    bool partial = term[0] >= book->n;
    for (uint32_t i = 1; i < terms; i++)
        if (term[i] != prefix + i - 1)
            return 0;
    return prefix == 0 || (partial && book->rounds_partials) ? 0 : prefix + terms - 1;
}

/* The lowest rank missing in the set. */
static uint32_t first_missing(const struct gyre_rank_range *range)
{
    return range->from > 0 ? 0 : range->to;
}

int gyre_value_fold(struct gyre_value_book *book, const uint32_t *term, uint32_t terms, bool final,
                    uint32_t *id, uint32_t *culprit)
{
    size_t count;
    uint64_t hash = hash_fold(book, term, terms, final);
    if (*slot_of(book, hash) != 0) {
        *id = *slot_of(book, hash) - 1;
        return 0;
    }
    for (*culprit = 0; *culprit < terms; ++*culprit)
        if (book->value[term[*culprit]].final)
            return GYRE_VALUE_CLOSED;
    if (gather_ranges(book, term, terms, &count) != 0)
        return -ENOMEM;
    struct gyre_rank_range *range = book->range + book->ranges;
    uint32_t ranges = unite(range, count, culprit);
    if (ranges == 0)
        return GYRE_VALUE_TWICE;
    *culprit = first_missing(range);
    if (final && *culprit < book->n)
        return GYRE_VALUE_PARTIAL;
    *id = (uint32_t)book->values++;
    book->value[*id] = (struct gyre_value){hash, (uint32_t)book->ranges, ranges, final,
                                           prefix_of(book, term, terms)};
    book->ranges += ranges;
    *slot_of(book, hash) = *id + 1;
    return grow_slots(book) ? 0 : -ENOMEM;
}

/* -- stretches --------------------------------------------------------------------------------- */

void gyre_stretches_deinit(struct gyre_stretches *stretches)
{
    free(stretches->stretch);
    *stretches = (struct gyre_stretches){0};
}

size_t gyre_stretches_find(const struct gyre_stretches *stretches, uint64_t at)
{
    size_t low = 0, high = stretches->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (stretches->stretch[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool reserve_stretches(struct gyre_stretches *stretches, size_t more)
{
    void *stretch = reserve(stretches->stretch, stretches->count, more, &stretches->room,
                            sizeof *stretches->stretch);
    if (stretch == NULL)
        return false;
    stretches->stretch = stretch;
    return true;
}

int gyre_stretches_append(struct gyre_stretches *stretches, struct gyre_stretch stretch)
{
    if (!reserve_stretches(stretches, 1))
        return -ENOMEM;
    stretches->stretch[stretches->count++] = stretch;
    return 0;
}

static struct gyre_stretch without_head(struct gyre_stretch stretch, uint64_t start)
{
    stretch.origin += start - stretch.start;
    stretch.start = start;
    return stretch;
}

static struct gyre_stretch without_tail(struct gyre_stretch stretch, uint64_t end)
{
    stretch.end = end;
    return stretch;
}

int gyre_stretches_write(struct gyre_stretches *stretches, struct gyre_stretch stretch)
{
    if (stretch.start == stretch.end)
        return 0;
    if (!reserve_stretches(stretches, 2))
        return -ENOMEM;

    struct gyre_stretch *all = stretches->stretch, with[3];
    size_t low = gyre_stretches_find(stretches, stretch.start), high = low, count = 0;
    while (high < stretches->count && all[high].start < stretch.end)
        high++;
    if (low < high && all[low].start < stretch.start)
        with[count++] = without_tail(all[low], stretch.start);
    with[count++] = stretch;
    if (low < high && all[high - 1].end > stretch.end)
        with[count++] = without_head(all[high - 1], stretch.end);

    memmove(all + low + count, all + high, (stretches->count - high) * sizeof *all);
    memcpy(all + low, with, count * sizeof *with);
    stretches->count = stretches->count + count - (high - low);
    return 0;
}
