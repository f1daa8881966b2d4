/* Layouts: their tables, what text means, and every algorithm of the table proved on them: even and
 * uneven nodes, ranks in order and dealt over the nodes in turn.
 *
 * To 64 ranks at every count of the list, above at one. On the largest, 1,024 ranks, only sums for
 * all, without rings: what else there is does not depend on the layout, or in the same way with 256
 * ranks. In haste nothing above 64 ranks. */
#include "rig/haste.h"

#include "collectives/algorithms/table.h"
#include "collectives/schedule/layout.h"

#include "collectives/prove/check.h"
#include "rig/test.h"

#include <stdlib.h>
#include <string.h>

static struct gyre_layout *read_layout(const char *text, uint32_t *n)
{
    struct gyre_layout *layout = NULL;
    struct gyre_trouble trouble = {0};
    if (gyre_layout_read("--nodes", text, &layout, n, &trouble) != 0)
        fail_msg("%s", trouble.text);
    return layout;
}

/* The same nodes, with their ranks dealt in turn: 3+2 becomes 0 1 0 1 0. */
static struct gyre_layout *interleave(const struct gyre_layout *from, uint32_t n)
{
    uint32_t *node = calloc(n, sizeof *node), rank = 0;
    struct gyre_layout *layout = NULL;
    for (uint32_t turn = 0; rank < n; turn++)
        for (uint32_t i = 0; i < from->nodes; i++)
            if (from->start[i] + turn < from->start[i + 1])
                node[rank++] = i;
    assert_int_equal(gyre_layout_create(node, n, &layout, NULL), 0);
    free(node);
    return layout;
}

static void test_tables(void **state)
{
    static const uint32_t given[] = {7, 9, 7, 9, 7, 7}, node[] = {0, 1, 0, 1, 0, 0},
                          order[] = {0, 2, 4, 5, 1, 3}, place[] = {0, 4, 1, 5, 2, 3},
                          start[] = {0, 4, 6};
    struct gyre_layout *layout;
    assert_int_equal(gyre_layout_create(given, 6, &layout, NULL), 0);
    assert_int_equal(layout->nodes, 2);
    assert_memory_equal(layout->node, node, sizeof node);
    assert_memory_equal(layout->order, order, sizeof order);
    assert_memory_equal(layout->place, place, sizeof place);
    assert_memory_equal(layout->start, start, sizeof start);
    gyre_layout_destroy(layout);
    gyre_layout_destroy(NULL);
}

static void test_text(void **state)
{
    uint32_t n;
    struct gyre_layout *layout = read_layout("4+2x3+1", &n);
    assert_int_equal(n, 11);
    assert_int_equal(layout->nodes, 4);
    assert_int_equal(layout->node[3], 0);
    assert_int_equal(layout->node[4], 1);
    assert_int_equal(layout->node[7], 2);
    assert_int_equal(layout->start[3], 10);
    gyre_layout_destroy(layout);
    layout = read_layout("1024x1024", &n);
    assert_int_equal(n, 1 << 20);
    gyre_layout_destroy(layout);
}

static void test_bad_text(void **state)
{
    static const char *const bad[] = {
        "",     "0",           "4+",      "+4",          "4,2",      "4+0", "2x",
        "x2",   "0x2",         "2x3x4",   "4 + 2",       "-1",       "1e3", "four",
        "4+2 ", "99999999999", "2097152", "65536x65536", "1048576+1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct gyre_layout *layout = NULL;
        struct gyre_trouble trouble = {0};
        uint32_t n;
        assert_int_equal(gyre_layout_read("--nodes", bad[i], &layout, &n, &trouble), GYRE_INVALID);
        assert_null(layout);
        assert_non_null(strstr(trouble.text, "--nodes"));
        assert_non_null(strstr(trouble.text, bad[i]));
    }
    struct gyre_layout *layout = NULL;
    assert_int_equal(gyre_layout_create(NULL, 0, &layout, NULL), GYRE_INVALID);
}

/* -- every algorithm on every layout ----------------------------------------------------------- */

static void prove(const struct gyre_algorithm *algorithm, struct gyre_slice slice)
{
    static const uint64_t counts[] = {0, 1, 5, 97, 4099, 1000003};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct gyre_trouble trouble = {0};
        slice.count = slice.stride = counts[i];
        slice.root = gyre_verb_has_root(slice.verb) ? (uint32_t)i * slice.n / 6 : 0;
        if (!gyre_algorithm_builds(algorithm, &slice) || (slice.n > 64 && i != 5))
            continue;
        if (slice.n > 256 &&
            (slice.verb != GYRE_VERB_ALL_REDUCE || algorithm->extent(&slice).rounds > slice.n / 2))
            continue;
        if (gyre_check_schedule(algorithm, &slice, &trouble) != 0)
            fail_msg("%s, %u nodes", trouble.text, slice.layout->nodes);
    }
}

static void prove_all(const struct gyre_layout *layout, uint32_t n)
{
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        for (unsigned verb = 0; verb < GYRE_VERBS; verb++)
            prove(*it, (struct gyre_slice){.verb = verb, .n = n, .element = 4, .layout = layout});
}

static void test_every_algorithm(void **state)
{
    static const char *const text[] = {"1",    "5",     "1+1",  "2x2",    "4x4",     "3x5",
                                       "6x1",  "4+2",   "5+1",  "1+7+3",  "2+3+4+5", "1+2",
                                       "40+9", "33+35", "3x21", "12x1+1", "8x32",    "8x128"};
    const uint32_t most = in_haste() ? 64 : 1024;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        uint32_t n;
        struct gyre_layout *ordered = read_layout(text[i], &n), *dealt = interleave(ordered, n);
        if (n <= most)
            prove_all(ordered, n);
        if (n <= most / 4)
            prove_all(dealt, n);
        gyre_layout_destroy(ordered);
        gyre_layout_destroy(dealt);
    }
}

/* -- what crosses between nodes -----------------------------------------------------------------
 */

#define ROOM 64 /* steps and sources of a round under test */

/* Bytes that the slice's rank sends to other nodes. */
static uint64_t crossing(const struct gyre_algorithm *algorithm, const struct gyre_slice *s)
{
    struct gyre_step step[ROOM];
    struct gyre_place source[ROOM];
    uint64_t bytes = 0, rounds = algorithm->extent(s).rounds;
    for (uint64_t index = 0; index < rounds; index++) {
        struct gyre_round round = {step, source, 0, ROOM, 0, ROOM, false};
        algorithm->round(s, index, &round);
        for (uint32_t i = 0; i < round.steps; i++)
            if (step[i].kind == GYRE_SEND &&
                s->layout->node[step[i].peer] != s->layout->node[s->rank])
                bytes += step[i].length;
    }
    return bytes;
}

/* The busiest rank's bytes in all, and in *out those that leave the busiest node. */
static uint64_t busiest(const char *name, const struct gyre_layout *layout, uint32_t n,
                        uint64_t *out)
{
    const struct gyre_algorithm *algorithm = gyre_algorithm_find(name);
    struct gyre_slice slice = {.n = n, .element = 1, .count = 840 * n, .layout = layout};
    uint64_t most = 0;
    *out = 0;
    for (uint32_t node = 0; node < layout->nodes; node++) {
        uint64_t leaves = 0;
        for (uint32_t place = layout->start[node]; place < layout->start[node + 1]; place++) {
            slice.rank = layout->order[place];
            leaves += crossing(algorithm, &slice);
            most = algorithm->sent_bytes(&slice) > most ? algorithm->sent_bytes(&slice) : most;
        }
        *out = leaves > *out ? leaves : *out;
    }
    return most;
}

/* From each node: two levels 2(N-1)/N of the data, a ring in the order of nodes 2(n-1)/n; and in
 * all, two levels pay for nodes of different sizes, the ring does not. */
static void test_bytes_between_nodes(void **state)
{
    static const struct {
        const char *text;
        bool ring_sends_less; /* from the busiest rank */
    } layouts[] = {{"2x4", false}, {"4x4", false}, {"3+2", true}, {"4+2", true}, {"5+1", true}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        uint32_t n;
        uint64_t of_levels, of_ring;
        struct gyre_layout *ordered = read_layout(layouts[i].text, &n);
        struct gyre_layout *dealt = interleave(ordered, n);
        uint64_t levels = busiest("two_level", dealt, n, &of_levels);
        uint64_t ring = busiest("ring", dealt, n, &of_ring);
        assert_int_equal(of_levels, 2 * 840 * n * (dealt->nodes - 1) / dealt->nodes);
        assert_int_equal(of_ring, 2 * 840 * (n - 1));
        assert_int_equal(ring < levels, layouts[i].ring_sends_less);
        gyre_layout_destroy(ordered);
        gyre_layout_destroy(dealt);
    }
}

/* Two ranks: both directions at once, and nobody sends more than the data once. */
static void test_two_ranks(void **state)
{
    const struct gyre_algorithm *direct = gyre_algorithm_find("direct");
    struct gyre_slice slice = {.n = 2, .element = 4};
    for (slice.count = 0; slice.count < 100000; slice.count = 3 * slice.count + 1)
        for (slice.rank = 0; slice.rank < 2; slice.rank++)
            assert_int_equal(direct->sent_bytes(&slice), 4 * slice.count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_every_algorithm),
        cmocka_unit_test(test_bytes_between_nodes),
        cmocka_unit_test(test_two_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
