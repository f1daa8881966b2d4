/* A row of tables in pinned memory. Tested by tests/program/cuda/streams.c. */
#include "collectives/staging/late_tables.h"

#define TABLE_BYTES ((uint64_t)GYRE_LATE_FOLDS * GYRE_FOLD_TABLE)

static bool is_free_table(const struct gyre_late_tables *tables, uint32_t i)
{
    return !tables->used[i] && gyre_stream_wait_passed(&tables->way[i]);
}

/* Whether devices reach the tables: their memory is made here where there is none. */
static bool has_tables(struct gyre_late_tables *tables, struct gyre_fold_queue *fold_queue)
{
    if (!tables->pinned.memory)
        gyre_pinned_make(fold_queue, GYRE_LATE_TABLES * TABLE_BYTES, &tables->pinned);
    else
        gyre_pinned_lock(fold_queue, &tables->pinned);
    return tables->pinned.locked;
}

uint8_t *gyre_late_take(struct gyre_late_tables *tables, struct gyre_fold_queue *fold_queue,
                        const struct gyre_stream_wait *way)
{
    uint32_t i = 0;
    if (!has_tables(tables, fold_queue))
        return NULL;
    while (i < GYRE_LATE_TABLES && !is_free_table(tables, i))
        i++;
    if (i == GYRE_LATE_TABLES)
        return NULL;
    tables->used[i] = true;
    tables->way[i] = *way;
    return tables->pinned.memory + i * TABLE_BYTES;
}

void gyre_late_give(struct gyre_late_tables *tables, const uint8_t *table)
{
    if (table)
        tables->used[(uint64_t)(table - tables->pinned.memory) / TABLE_BYTES] = false;
}

void gyre_late_deinit(struct gyre_late_tables *tables, struct gyre_fold_queue *fold_queue)
{
    bool idle = true;
    for (uint32_t i = 0; i < GYRE_LATE_TABLES; i++)
        idle &= is_free_table(tables, i);
    if (tables->pinned.memory)
        gyre_pinned_drop(fold_queue, &tables->pinned, idle);
}
