/* Real ranks on several nodes, simulated on this machine: every algorithm, on even and uneven
 * nodes, with ranks in order and dealt over the nodes in turn. Within a node messages go over
 * shared memory, between nodes over TCP. */
#include <stdlib.h>

#include "collectives/comm/communicator.h"
#include "rig/comm_rig.h"
#include "rig/test.h"

static int32_t value(int rank, uint64_t i)
{
    return (int32_t)((uint64_t)rank * 31 + i % 1009);
}

/* Elements that are not the sum over all ranks. */
static uint64_t wrong(const int32_t *got, uint64_t count, int n)
{
    uint64_t bad = 0;
    for (uint64_t i = 0; i < count; i++)
        bad += got[i] != n * (n - 1) / 2 * 31 + n * (int32_t)(i % 1009);
    return bad;
}

/* Algorithms see the nodes that the user sees. */
static bool layout_is_right(const struct gyre_comm *comm)
{
    const struct gyre_layout *layout = comm->layout;
    uint32_t node = (uint32_t)gyre_node(comm);
    if (!layout)
        return gyre_nodes(comm) == 1;
    return (int)layout->nodes == gyre_nodes(comm) && layout->node[comm->rank] == node &&
           (int)(layout->start[node + 1] - layout->start[node]) == gyre_local_size(comm) &&
           (int)(layout->place[comm->rank] - layout->start[node]) == gyre_local_rank(comm);
}

static int sums_are_right(struct gyre_comm *comm, struct rig *rig)
{
    static const uint64_t counts[] = {0, 1, 7, 1000, 30011, 600000};
    int rank = gyre_rank(comm), code = layout_is_right(comm) ? 0 : 9;
    int32_t *input = malloc(600000 * sizeof(*input)), *output = malloc(600000 * sizeof(*output));
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]) && code == 0; c++) {
        int32_t *to = c % 2 ? input : output;
        for (uint64_t i = 0; i < counts[c]; i++)
            input[i] = value(rank, i);
        if (gyre_all_reduce(comm, input, to, counts[c], GYRE_I32, GYRE_SUM))
            code = 10 + (int)c;
        else if (wrong(to, counts[c], rig->n))
            code = 20 + (int)c;
    }
    free(input);
    free(output);
    return code ? code : gyre_finalize(comm) ? 30 : 0;
}

static void run_on(const char *algorithm, int n, int per_node, int dealt)
{
    struct rig rig = {.n = n,
                      .algorithm = algorithm,
                      .per_node = per_node,
                      .dealt = dealt,
                      .body = sums_are_right};
    if (rig_run(&rig, 30))
        fail_msg("%s, %d ranks, %d per node, dealt over %d", algorithm, n, per_node, dealt);
}

static void every_algorithm_is_right(void **state)
{
    static const char *const names[] = {"ring",      "direct",           "tree",
                                        "doubling",  "knomial",          "double_tree",
                                        "two_level", "halving_doubling", "chain"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        run_on(names[i], 6, 4, 0); /* 4+2 */
        run_on(names[i], 5, 0, 2); /* 0 1 0 1 0 */
    }
}

static void two_levels_suit_every_layout(void **state)
{
    (void)state;
    run_on("two_level", 6, 5, 0); /* 5+1 */
    run_on("two_level", 3, 1, 0); /* a rank a node */
    run_on("two_level", 4, 2, 0);
    run_on("two_level", 3, 0, 0); /* one node */
    run_on("auto", 6, 4, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_is_right),
        cmocka_unit_test(two_levels_suit_every_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
