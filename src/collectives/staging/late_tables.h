/* Tables of folds that stand on a caller's stream before their addresses are known.
 *
 *     the call      table: nothing to do ─▶ stream: … waits ─▶ kernel, by the table ─▶ …
 *     the lines     the host fills the table and lets the stream go on
 *
 * A table is one operation's until the stream has passed the kernel. All calls: owner. */
#ifndef GYRE_COLLECTIVES_STAGING_LATE_TABLES_H
#define GYRE_COLLECTIVES_STAGING_LATE_TABLES_H

#include "collectives/staging/pinned.h"
#include "collectives/staging/stream_wait.h"

#define GYRE_LATE_FOLDS  8u /* of one table */
#define GYRE_LATE_TABLES 64u

struct gyre_late_tables {
    struct gyre_pinned pinned;       /* made by the first use */
    uint32_t used[GYRE_LATE_TABLES]; /* tables that an operation has from here on; 0: none */
    struct gyre_stream_wait way[GYRE_LATE_TABLES]; /* which is passed when the table is free */
};

/* Returns tables, one behind the other, of at least so many folds, for an operation on that stream;
 * NULL: there are none that devices reach. */
uint8_t *gyre_late_take(struct gyre_late_tables *tables, struct gyre_fold_queue *fold_queue,
                        uint32_t folds, const struct gyre_stream_wait *way);

/* The operation needs its tables no more; the stream may. NULL allowed. */
void gyre_late_give(struct gyre_late_tables *tables, const uint8_t *table);

void gyre_late_deinit(struct gyre_late_tables *tables, struct gyre_fold_queue *fold_queue);

static inline void *gyre_late_fold(uint8_t *table, uint32_t fold)
{
    return table + (uint64_t)fold * GYRE_FOLD_TABLE;
}

#endif
