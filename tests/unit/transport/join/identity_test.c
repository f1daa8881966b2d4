/* Who runs on a machine, by a roster of ranks of two machines, and who shares memory there. */
#include "transport/join/identity.h"

#include "rig/test.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

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

/* Rank 4 has met 2, which has met 0. Rank 8 has met 6, which has met nobody. */
static void who_shares_with_one_that_does_shares_with_all(void **state)
{
    struct gyre_rank_identity identity[RANKS];
    uint8_t share[RANKS][RANKS] = {{0}};
    (void)state;
    fill(identity);
    share[0][2] = share[2][0] = share[2][4] = share[4][2] = share[6][8] = share[8][6] = 1;
    gyre_nodes_share_by_lowest(identity, RANKS, 4, &share[0][0]);
    for (uint32_t a = 0; a < RANKS; a += 2)
        for (uint32_t b = 0; b < RANKS; b += 2)
            assert_int_equal(share[a][b], a != b && a < 6 && b < 6);
}

/* Every second of 800 ranks is on the machine, so rank 798 has place 399 there, below 24, below 1.
 */
static void ranks_above_lead_to_the_lowest(void **state)
{
    enum { MANY = 800 };
    static struct gyre_rank_identity identity[MANY];
    uint32_t above[GYRE_JOIN_FLOORS];
    (void)state;
    for (uint32_t i = 0; i < MANY; i++)
        identity[i].boot[3] = i % 2 ? 1 : 2;
    assert_int_equal(gyre_identity_ranks_above(identity, MANY, 798, above), 3);
    assert_int_equal(above[0], 48);
    assert_int_equal(above[1], 2);
    assert_int_equal(above[2], 0);
    assert_int_equal(gyre_identity_ranks_above(identity, MANY, 33, above), 1);
    assert_int_equal(above[0], 1);
    assert_int_equal(gyre_identity_ranks_above(identity, MANY, 1, above), 0);
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

static bool no_namespaces;

/* stat(), as all of the tree is built: with offsets of 64 bits. */
int __real_stat64(const char *path, struct stat *info);
int __wrap_stat64(const char *path, struct stat *info);
int __wrap_stat64(const char *path, struct stat *info)
{
    if (no_namespaces && !strncmp(path, "/proc/self/ns/", 14)) {
        errno = ENOENT;
        return -1;
    }
    return __real_stat64(path, info);
}

/* A namespace that cannot be asked for is 0, which no namespace is. Such ranks still differ from
 * one that knows its own. */
static void namespaces_are_told_where_they_are_known(void **state)
{
    static const char *const path[] = {"/proc/self/ns/net", "/proc/self/ns/user",
                                       "/proc/self/ns/mnt", "/proc/self/ns/pid"};
    struct gyre_rank_identity identity[2];
    const struct gyre_job job = {.simulated_node = -1};
    char text[512];
    (void)state;
    assert_int_equal(gyre_identity_gather(&job, &identity[0]), 0);
    no_namespaces = true;
    assert_int_equal(gyre_identity_gather(&job, &identity[1]), 0);
    no_namespaces = false;
    for (int i = 0; i < GYRE_JOIN_SPACES; i++) {
        struct stat info;
        assert_int_equal(identity[0].space[i], stat(path[i], &info) ? 0 : info.st_ino);
        assert_int_equal(identity[1].space[i], 0);
    }
    gyre_identity_difference(&identity[0], &identity[1], text, sizeof text);
    assert_non_null(strstr(text, "another network namespace ("));
    gyre_identity_difference(&identity[1], &identity[1], text, sizeof text);
    assert_string_equal(text, "same namespaces and user id");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_and_the_number_are_known),
        cmocka_unit_test(simulated_nodes_are_machines),
        cmocka_unit_test(who_shares_with_the_lowest_shares_with_all),
        cmocka_unit_test(who_shares_with_one_that_does_shares_with_all),
        cmocka_unit_test(ranks_above_lead_to_the_lowest),
        cmocka_unit_test(small_machines_stay_as_told),
        cmocka_unit_test(namespaces_are_told_where_they_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
