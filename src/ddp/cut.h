/* Cuts parameters into buckets: a pure function of sizes, order and limits, equal on all ranks.
 *
 *     order of readiness   9   8   7   6   5   4   3   2   1   0
 *     buckets             └─ 0 ─┘└──── 1 ────┘└────── 2 ──────┘
 *
 * A bucket holds parameters of one type and closes once it has reached its limit. The first bucket
 * has a small limit, so that it starts early. A bucket's bytes are a multiple of `unit` elements of
 * its type; there is no gap between its parameters. */
#ifndef GYRE_DDP_CUT_H
#define GYRE_DDP_CUT_H

#include "base/status.h"

#include <stdint.h>

struct gyre_cut_item { /* a parameter */
    uint64_t elements;
    enum gyre_type type;
};

struct gyre_cut_limits {
    uint64_t first_bytes, cap_bytes;
    uint64_t unit; /* elements; at least 1 */
};

struct gyre_bucket {
    enum gyre_type type;
    uint32_t first, items; /* its parameters are order[first … first + items - 1] */
    uint64_t at;           /* its first byte in the memory */
    uint64_t used;         /* elements of its parameters */
    uint64_t elements;     /* those and what fills the bucket up to a multiple of the unit */
};

struct gyre_cut {
    uint32_t items, buckets;
    uint32_t *order;            /* items, in the order of the memory */
    uint32_t *bucket_of;        /* by item */
    uint64_t *at;               /* by item: its first byte in the memory */
    struct gyre_bucket *bucket; /* by number */
    uint64_t bytes;             /* of the memory */
};

/* Cuts the items into buckets. `order` holds every item once. -ENOMEM, or GYRE_INVALID where sizes
 * overflow; *cut is zeroed then. */
int gyre_cut_make(struct gyre_cut *cut, const struct gyre_cut_item *item, uint32_t items,
                  const uint32_t *order, const struct gyre_cut_limits *limits,
                  struct gyre_trouble *trouble);
void gyre_cut_deinit(struct gyre_cut *cut); /* also a zeroed cut */

#endif
