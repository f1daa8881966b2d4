/* The origin of bytes: the checker's picture of a buffer.
 *
 * Instead of numbers the checker moves *values*: "element e, summed over ranks 0, 3 and 4 in this
 * bracketing". A buffer is a list of stretches, and all elements of a stretch have the same value
 * but for their index. So a buffer of 2^40 bytes costs as much as its number of cuts, and a set of
 * 1,024 ranks as much as its number of gaps. */
#ifndef GYRE_COLLECTIVES_PROVE_PROVENANCE_H
#define GYRE_COLLECTIVES_PROVE_PROVENANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gyre_rank_range {
    uint32_t from, to; /* from … to - 1 */
};

/* One way of summing. Values are interned: equal sums have equal ids, and id r < n is rank r's own
 * input. */
struct gyre_value {
    uint64_t hash;          /* of the whole expression: order, brackets, FINAL */
    uint32_t first, ranges; /* the set of ranks: book->range[first … first + ranges), ascending */
    bool final;             /* of a REDUCE with GYRE_STEP_FINAL */
    uint32_t prefix;        /* a left fold over ranks 0 … prefix - 1; 0: no left fold */
};

struct gyre_value_book {
    uint32_t n;
    bool rounds_partials; /* a partial sum is rounded: a left fold is one REDUCE */
    struct gyre_value *value;
    struct gyre_rank_range *range;
    uint32_t *slot; /* hash table of ids + 1 */
    size_t values, value_room, ranges, range_room, slots;
};

/* Make and free a book. 0 or -ENOMEM; deinit takes a zeroed and a half-built book. */
int gyre_value_book_init(struct gyre_value_book *book, uint32_t n, bool rounds_partials);
void gyre_value_book_deinit(struct gyre_value_book *book);

/* Why values cannot be summed. `culprit` of gyre_value_fold() is the rank, or the place of the
 * term. */
enum gyre_value_fault {
    GYRE_VALUE_TWICE = 1, /* this rank would be in the sum twice */
    GYRE_VALUE_CLOSED,    /* the term at this place is marked final already */
    GYRE_VALUE_PARTIAL,   /* the sum is marked final, but lacks this rank */
};

/* Makes the value of one REDUCE over `terms` values. Returns 0 with its id in *id, a
 * gyre_value_fault, or -ENOMEM. */
int gyre_value_fold(struct gyre_value_book *book, const uint32_t *term, uint32_t terms, bool final,
                    uint32_t *id, uint32_t *culprit);

/* Bytes start … end - 1 of a buffer hold bytes origin … of the collective's data, summed as `value`
 * says. */
struct gyre_stretch {
    uint64_t start, end, origin;
    uint32_t value;
};

/* Stretches, ascending and not overlapping; a gap was never written. A zeroed list is empty. */
struct gyre_stretches {
    struct gyre_stretch *stretch;
    size_t count, room;
};

void gyre_stretches_deinit(struct gyre_stretches *stretches);
/* The first stretch that ends behind `at`; stretches->count: there is none. */
size_t gyre_stretches_find(const struct gyre_stretches *stretches, uint64_t at);

/* Appends a stretch behind the last one. 0 or -ENOMEM. */
int gyre_stretches_append(struct gyre_stretches *stretches, struct gyre_stretch stretch);

/* Writes a stretch over the former content. 0 or -ENOMEM. */
int gyre_stretches_write(struct gyre_stretches *stretches, struct gyre_stretch stretch);

#endif
