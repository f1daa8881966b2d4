/* Channels of links that are made at their first use: both ends compute the same keys, each
 * direction and each connection has its own, and another session's key leads to others. */
#include "transport/link/on_demand.h"

#include "rig/test.h"

#include <string.h>

#define RANKS   5
#define SOCKETS 3

static struct gyre_on_demand_peer peers[RANKS];

static struct gyre_on_demand plan_of(uint32_t rank, uint8_t key)
{
    struct gyre_on_demand plan = {.rank = rank, .n = RANKS, .sockets = SOCKETS, .peer = peers};
    memset(plan.key, key, sizeof plan.key);
    return plan;
}

static void keys_between(uint32_t rank, uint32_t peer, uint8_t key,
                         struct gyre_traffic_keys keys[GYRE_CHANNEL_SOCKETS])
{
    const struct gyre_on_demand plan = plan_of(rank, key);
    struct gyre_channel channel;
    assert_int_equal(gyre_on_demand_channel(&plan, peer, keys, &channel), 0);
    assert_int_equal(channel.peer, peer);
    assert_int_equal(channel.fds, SOCKETS);
    assert_ptr_equal(channel.keys, keys);
    for (int i = 0; i < SOCKETS; i++)
        assert_int_equal(channel.fd[i], -1);
}

static void both_ends_have_the_same_keys(void **state)
{
    struct gyre_traffic_keys one[GYRE_CHANNEL_SOCKETS], other[GYRE_CHANNEL_SOCKETS];
    (void)state;
    keys_between(1, 4, 7, one);
    keys_between(4, 1, 7, other);
    for (int i = 0; i < SOCKETS; i++) {
        assert_memory_equal(one[i].out, other[i].in, sizeof one[i].out);
        assert_memory_equal(one[i].in, other[i].out, sizeof one[i].in);
    }
}

/* Collects the keys of all pairs, sockets and directions, of two sessions. */
static int collect_keys(uint8_t all[][GYRE_TRAFFIC_KEY_BYTES])
{
    int count = 0;
    for (uint8_t session = 1; session < 3; session++)
        for (uint32_t rank = 0; rank < RANKS; rank++)
            for (uint32_t peer = 0; peer < rank; peer++) {
                struct gyre_traffic_keys keys[GYRE_CHANNEL_SOCKETS];
                keys_between(rank, peer, session, keys);
                for (int i = 0; i < SOCKETS; i++) {
                    memcpy(all[count++], keys[i].out, GYRE_TRAFFIC_KEY_BYTES);
                    memcpy(all[count++], keys[i].in, GYRE_TRAFFIC_KEY_BYTES);
                }
            }
    return count;
}

static void no_key_serves_twice(void **state)
{
    static uint8_t all[2 * RANKS * RANKS * SOCKETS * 2][GYRE_TRAFFIC_KEY_BYTES];
    int count = collect_keys(all);
    (void)state;
    for (int a = 0; a < count; a++)
        for (int b = 0; b < a; b++)
            assert_memory_not_equal(all[a], all[b], GYRE_TRAFFIC_KEY_BYTES);
}

static void only_far_peers_are_served(void **state)
{
    struct gyre_on_demand plan = plan_of(0, 1);
    (void)state;
    peers[2] =
        (struct gyre_on_demand_peer){.far = true, .renewable = true, .security = GYRE_SEAL_ENCRYPT};
    struct gyre_traffic_keys keys[GYRE_CHANNEL_SOCKETS];
    struct gyre_channel channel;
    assert_true(gyre_on_demand_serves(&plan, 2));
    assert_false(gyre_on_demand_serves(&plan, 1));
    assert_false(gyre_on_demand_serves(&plan, RANKS));
    assert_false(gyre_on_demand_serves(NULL, 2));
    assert_int_equal(gyre_on_demand_channel(&plan, 2, keys, &channel), 0);
    assert_true(channel.renewable);
    assert_int_equal(channel.security, GYRE_SEAL_ENCRYPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_have_the_same_keys),
        cmocka_unit_test(no_key_serves_twice),
        cmocka_unit_test(only_far_peers_are_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
