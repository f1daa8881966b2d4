/* Cuts parameters into buckets. An item goes to the open bucket of its type. Buckets are numbered
 * by their first item. So a model of one type, which is nearly every model, has its items in the
 * given order, and a model of two types has two such rows, interleaved.
 *
 * Buckets begin at multiples of 256 bytes, so that no two share a cache line. */
#include "ddp/cut.h"

#include "base/size.h"

#include <errno.h>
#include <stdlib.h>

#define ALIGN 256u

/* -- which bucket ------------------------------------------------------------------------------ */

/* The bucket of each type that still takes items. */
struct open_buckets {
    bool open[2];
    uint32_t number[2];
};

static int type_group(enum gyre_type type)
{
    return type == GYRE_F64;
}

static uint64_t item_bytes(const struct gyre_cut_item *item)
{
    return item->elements * gyre_type_size(item->type);
}

static void assign(struct gyre_cut *cut, const struct gyre_cut_item *item,
                   const struct gyre_cut_limits *limits)
{
    struct open_buckets now = {0};
    for (uint32_t place = 0; place < cut->items; place++) {
        uint32_t i = cut->order[place];
        int kind = type_group(item[i].type);
        if (!now.open[kind]) {
            now.open[kind] = true;
            now.number[kind] = cut->buckets++;
            cut->bucket[now.number[kind]] = (struct gyre_bucket){.type = item[i].type};
        }
        struct gyre_bucket *bucket = &cut->bucket[now.number[kind]];
        bucket->elements += item[i].elements;
        bucket->items++;
        cut->bucket_of[i] = now.number[kind];
        uint64_t limit = now.number[kind] ? limits->cap_bytes : limits->first_bytes;
        now.open[kind] = bucket->elements * gyre_type_size(bucket->type) < limit;
    }
}

/* -- where ------------------------------------------------------------------------------------- */

/* Puts the items of a bucket side by side, in their given order. */
static void sort_order(struct gyre_cut *cut, uint32_t *by_bucket)
{
    uint32_t first = 0;
    for (uint32_t b = 0; b < cut->buckets; b++) {
        cut->bucket[b].first = first;
        first += cut->bucket[b].items;
        cut->bucket[b].items = 0;
    }
    for (uint32_t place = 0; place < cut->items; place++) {
        struct gyre_bucket *bucket = &cut->bucket[cut->bucket_of[cut->order[place]]];
        by_bucket[bucket->first + bucket->items++] = cut->order[place];
    }
    for (uint32_t place = 0; place < cut->items; place++)
        cut->order[place] = by_bucket[place];
}

static void lay_out_buckets(struct gyre_cut *cut, const struct gyre_cut_item *item,
                            const struct gyre_cut_limits *limits)
{
    for (uint32_t b = 0; b < cut->buckets; b++) {
        struct gyre_bucket *bucket = &cut->bucket[b];
        bucket->at = cut->bytes;
        for (uint32_t k = 0; k < bucket->items; k++) {
            uint32_t i = cut->order[bucket->first + k];
            cut->at[i] = cut->bytes;
            cut->bytes += item_bytes(&item[i]);
        }
        bucket->used = bucket->elements;
        bucket->elements = gyre_round_up(bucket->used, limits->unit);
        cut->bytes =
            gyre_round_up(bucket->at + bucket->elements * gyre_type_size(bucket->type), ALIGN);
    }
}

/* -- all of it --------------------------------------------------------------------------------- */

static int check_sizes(const struct gyre_cut_item *item, uint32_t items,
                       const struct gyre_cut_limits *limits, struct gyre_trouble *trouble)
{
    uint64_t sum = 0, bytes, slack;
    bool fits =
        gyre_mul_u64(limits->unit * 8 + ALIGN, items, &slack) && gyre_add_u64(sum, slack, &sum);
    for (uint32_t i = 0; i < items && fits; i++)
        fits = gyre_mul_u64(item[i].elements, gyre_type_size(item[i].type), &bytes) &&
               gyre_add_u64(sum, bytes, &sum);
    return fits && sum < UINT64_MAX / 2
               ? 0
               : gyre_trouble_set(trouble, GYRE_INVALID,
                                  "the parameters together are larger than memory can be");
}

static int allocate_cut(struct gyre_cut *cut, uint32_t items)
{
    size_t room = items ? items : 1;
    cut->order = malloc(room * sizeof *cut->order);
    cut->bucket_of = malloc(room * sizeof *cut->bucket_of);
    cut->at = malloc(room * sizeof *cut->at);
    cut->bucket = malloc(room * sizeof *cut->bucket);
    return cut->order && cut->bucket_of && cut->at && cut->bucket ? 0 : -ENOMEM;
}

int gyre_cut_make(struct gyre_cut *cut, const struct gyre_cut_item *item, uint32_t items,
                  const uint32_t *order, const struct gyre_cut_limits *limits,
                  struct gyre_trouble *trouble)
{
    *cut = (struct gyre_cut){.items = items};
    int status = check_sizes(item, items, limits, trouble);
    uint32_t *by_bucket = malloc((items ? items : 1) * sizeof *by_bucket);
    if (!status && (allocate_cut(cut, items) || !by_bucket))
        status =
            gyre_trouble_set(trouble, -ENOMEM, "no memory for the buckets of %u parameters", items);
    if (!status) {
        for (uint32_t place = 0; place < items; place++)
            cut->order[place] = order[place];
        assign(cut, item, limits);
        sort_order(cut, by_bucket);
        lay_out_buckets(cut, item, limits);
    }
    free(by_bucket);
    if (status)
        gyre_cut_deinit(cut);
    return status;
}

void gyre_cut_deinit(struct gyre_cut *cut)
{
    free(cut->order);
    free(cut->bucket_of);
    free(cut->at);
    free(cut->bucket);
    *cut = (struct gyre_cut){0};
}
