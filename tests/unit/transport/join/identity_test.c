/* Who runs on a machine, by a roster of ranks of two machines, and who shares memory there. */
#include "transport/join/identity.h"

#include "rig/test.h"

#include <string.h>

enum { RANKS = 9 };

/* Ranks of two machines in turn: odd ones on the first, even ones on the second. */
static void fill(struct gyre_rank_identity identity[RANKS])
{
    memset(identity, 0, RANKS * sizeof *identity);
    for (uint32_t i = 0; i < RANKS; i++)
        identity[i].boot[3] = i % 2 ? 1 : 2;
}

static void the_lowest_and_the_number_are_known(void **state)
{
    struct gyre_rank_identity identity[RANKS];
    (void)state;
    fill(identity);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct gyre_machine machine = gyre_identity_machine(identity, RANKS, rank);
        assert_int_equal(machine.lowest, rank % 2);
        assert_int_equal(machine.ranks, rank % 2 ? 4 : 5);
    }
}

static void simulated_nodes_are_machines(void **state)
{
    struct gyre_rank_identity identity[RANKS];
    (void)state;
    fill(identity);
    for (uint32_t i = 0; i < RANKS; i++)
        identity[i].simulated = (int)i / 3;
    struct gyre_machine machine = gyre_identity_machine(identity, RANKS, 5);
    assert_int_equal(machine.lowest, 3);
    assert_int_equal(machine.ranks, 2);
}

/* Rank 6 could not share memory with rank 0, the lowest of its machine, so it shares none. The
 * small machine's pairs stay as they were told. */
static void who_shares_with_the_lowest_shares_with_all(void **state)
{
    struct gyre_rank_identity identity[RANKS];
    uint8_t share[RANKS][RANKS] = {{0}};
    (void)state;
    fill(identity);
    for (uint32_t rank = 2; rank < RANKS; rank += 2)
        share[0][rank] = share[rank][0] = rank != 6;
    share[3][1] = share[1][3] = 1;
    gyre_nodes_share_by_lowest(identity, RANKS, 4, &share[0][0]);
    for (uint32_t a = 0; a < RANKS; a++)
        for (uint32_t b = 0; b < RANKS; b++) {
            bool large = a % 2 == 0 && b % 2 == 0 && a != 6 && b != 6;
            bool told = (a == 1 && b == 3) || (a == 3 && b == 1);
            assert_int_equal(share[a][b], a != b && (large || told));
        }
}

/* Where all have met, the matrix is what they have told. */
static void small_machines_stay_as_told(void **state)
{
    struct gyre_rank_identity identity[RANKS];
    uint8_t share[RANKS][RANKS] = {{0}}, before[RANKS][RANKS];
    (void)state;
    fill(identity);
    share[0][2] = share[2][0] = share[0][4] = share[4][0] = 1;
    memcpy(before, share, sizeof share);
    gyre_nodes_share_by_lowest(identity, RANKS, 5, &share[0][0]);
    assert_memory_equal(share, before, sizeof share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_and_the_number_are_known),
        cmocka_unit_test(simulated_nodes_are_machines),
        cmocka_unit_test(who_shares_with_the_lowest_shares_with_all),
        cmocka_unit_test(small_machines_stay_as_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
