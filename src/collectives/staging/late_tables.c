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

/* Finds the first stretch of so many free tables; GYRE_LATE_TABLES: there is none. */
static uint32_t find_tables(const struct gyre_late_tables *tables, uint32_t count)
{
    uint32_t begin = 0;
    for (uint32_t i = 0; i < GYRE_LATE_TABLES; i++) {
        if (!is_free_table(tables, i))
            begin = i + 1;
        else if (i + 1 - begin == count)
            return begin;
    }
    return GYRE_LATE_TABLES;
}

uint8_t *gyre_late_take(struct gyre_late_tables *tables, struct gyre_fold_queue *fold_queue,
                        uint32_t folds, const struct gyre_stream_wait *way)
{
    const uint32_t count = folds ? (folds + GYRE_LATE_FOLDS - 1) / GYRE_LATE_FOLDS : 1;
    if (!has_tables(tables, fold_queue))
        return NULL;
    const uint32_t begin = find_tables(tables, count);
    if (begin == GYRE_LATE_TABLES)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        tables->used[begin + i] = count - i;
        tables->way[begin + i] = *way;
    }
    return tables->pinned.memory + begin * TABLE_BYTES;
}

void gyre_late_give(struct gyre_late_tables *tables, const uint8_t *table)
{
    if (!table)
        return;
    const uint64_t begin = (uint64_t)(table - tables->pinned.memory) / TABLE_BYTES;
    for (uint64_t i = begin, end = begin + tables->used[begin]; i < end; i++)
        tables->used[i] = 0;
}

void gyre_late_deinit(struct gyre_late_tables *tables, struct gyre_fold_queue *fold_queue)
{
    bool idle = true;
    for (uint32_t i = 0; i < GYRE_LATE_TABLES; i++)
        idle &= is_free_table(tables, i);
    if (tables->pinned.memory)
        gyre_pinned_drop(fold_queue, &tables->pinned, idle);
}
