/* The tables of a layout: which ranks share a node. Here six ranks are dealt over two nodes in
 * turn:
 *
 *     rank     0  1  2  3  4  5
 *     node     0  1  0  1  0  0       given
 *     order    0  2  4  5 │ 1  3      ranks, node after node, ascending within a node
 *     place    0  4  1  5  2  3       of a rank in `order`
 *     start    0            4         of a node in `order`; the last entry is n
 *
 * Every algorithm that knows nodes reads these tables. A walk along `order` enters and leaves each
 * node once. */
#include "collectives/schedule/layout.h"

#include <errno.h>
#include <stdlib.h>

#define RANKS_MAX (UINT32_C(1) << 20)

struct tables {
    struct gyre_layout layout; /* first: the caller gets its address */
    uint32_t entry[];          /* node, order, place: n each; start: up to n + 1 */
};

static int ascending(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Fills the tables from `key`, which has an entry for each rank (the node above, the rank below)
 * and is sorted. */
static void fill_layout(struct tables *tables, const uint64_t *key, uint32_t n)
{
    uint32_t *node = tables->entry, *order = node + n, *place = order + n, *start = place + n;
    uint32_t nodes = 0;
    for (uint32_t p = 0; p < n; p++) {
        uint32_t rank = (uint32_t)key[p];
        if (p == 0 || key[p] >> 32 != key[p - 1] >> 32)
            start[nodes++] = p;
        node[rank] = nodes - 1;
        order[p] = rank;
        place[rank] = p;
    }
    start[nodes] = n;
    tables->layout = (struct gyre_layout){nodes, node, order, place, start};
}

int gyre_layout_create(const uint32_t *node, uint32_t n, struct gyre_layout **layout,
                       struct gyre_trouble *trouble)
{
    if (n == 0 || n > RANKS_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID, "no layout of %u ranks: 1 … %u can be", n,
                                RANKS_MAX);
    struct tables *tables = malloc(sizeof *tables + (4 * (size_t)n + 1) * sizeof *tables->entry);
    uint64_t *key = malloc(n * sizeof *key);
    int status = tables && key ? 0 : -ENOMEM;
    if (status == 0) {
        for (uint32_t rank = 0; rank < n; rank++)
            key[rank] = (uint64_t)node[rank] << 32 | rank;
        qsort(key, n, sizeof *key, ascending);
        fill_layout(tables, key, n);
        *layout = &tables->layout;
    } else {
        gyre_trouble_set(trouble, status, "no memory for the layout of %u ranks", n);
        free(tables);
    }
    free(key);
    return status;
}

void gyre_layout_destroy(struct gyre_layout *layout)
{
    free(layout); /* the first field of the allocated struct */
}

/* -- from text --------------------------------------------------------------------------------- */

/* Reads a number from 1 to RANKS_MAX and moves *text behind the number; 0: there is none. */
static uint32_t read_node_size(const char **text)
{
    uint32_t number = 0;
    for (; **text >= '0' && **text <= '9' && number <= RANKS_MAX; ++*text)
        number = 10 * number + (uint32_t)(**text - '0');
    return number <= RANKS_MAX ? number : 0;
}

/* Reads one term: "4" is a node of 4 ranks, "2x3" are two nodes of 3. */
static bool read_term(const char **text, uint32_t *nodes, uint32_t *size)
{
    *nodes = 1;
    *size = read_node_size(text);
    if (**text == 'x') {
        ++*text;
        *nodes = *size;
        *size = read_node_size(text);
    }
    return *nodes > 0 && *size > 0;
}

/* Returns the number of ranks that the text means, 0 where the text means none. Writes the node of
 * each rank where `node` is given. */
static uint32_t read_nodes(const char *text, uint32_t *node)
{
    uint32_t n = 0, nodes, size, before = 0;
    do {
        if (!read_term(&text, &nodes, &size) || (uint64_t)nodes * size > RANKS_MAX - n)
            return 0;
        for (uint32_t i = 0; node && i < nodes * size; i++)
            node[n + i] = before + i / size;
        n += nodes * size;
        before += nodes;
    } while (*text++ == '+');
    return text[-1] == '\0' ? n : 0;
}

int gyre_layout_read(const char *flag, const char *text, struct gyre_layout **layout, uint32_t *n,
                     struct gyre_trouble *trouble)
{
    *n = read_nodes(text, NULL);
    if (*n == 0)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s %s: it should be the ranks of each node, as 4+2 or 2x3, at "
                                "most %u together",
                                flag, text, RANKS_MAX);
    uint32_t *node = malloc(*n * sizeof *node);
    if (!node)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for the layout of %u ranks", *n);
    read_nodes(text, node);
    int status = gyre_layout_create(node, *n, layout, trouble);
    free(node);
    return status;
}
