/* Choices are told by an all-reduce: each rank's row has its color and key, where those of all
 * others are 0, and rows are summed.
 *
 * Tested by tests/program/collectives/split.c. */
#include "collectives/lifecycle/colors.h"

#include "collectives/comm/operations.h"

#include <stdlib.h>

struct part_choice {
    int64_t key;
    uint32_t rank;
};

int gyre_colors_reduce(struct gyre_comm *comm, void *table, uint64_t count, enum gyre_type type,
                       enum gyre_op op)
{
    const struct gyre_request request = {
        .shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = type, .op = op, .count = count},
        .input.address = table,
        .output.address = table};
    return gyre_comm_enter_and_run(comm, &request);
}

int gyre_colors_tell(struct gyre_comm *comm, int color, int key, struct gyre_color *choice)
{
    for (uint32_t rank = 0; rank < comm->n; rank++)
        choice[rank] = (struct gyre_color){0};
    choice[comm->rank] = (struct gyre_color){color, key};
    return gyre_colors_reduce(comm, choice, 2 * (uint64_t)comm->n, GYRE_I64, GYRE_SUM);
}

static int by_key(const void *a, const void *b)
{
    const struct part_choice *one = a, *two = b;
    if (one->key != two->key)
        return one->key < two->key ? -1 : 1;
    return one->rank < two->rank ? -1 : 1;
}

uint32_t gyre_colors_list(const struct gyre_comm *comm, const struct gyre_color *choice,
                          uint32_t *rank)
{
    struct part_choice *member = calloc(comm->n, sizeof *member);
    uint32_t count = 0;
    if (!member)
        return 0;
    for (uint32_t i = 0; i < comm->n; i++)
        if (choice[i].color == choice[comm->rank].color)
            member[count++] = (struct part_choice){choice[i].key, i};
    qsort(member, count, sizeof *member, by_key);
    for (uint32_t i = 0; i < count; i++)
        rank[i] = member[i].rank;
    free(member);
    return count;
}
