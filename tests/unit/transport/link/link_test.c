/* Links of a rank that are made at their first use: what is known of a peer before that. */
#include "rig/test.h"
#include "transport/link/links.h"
#include "transport/link/sim/world.h"

#include "transport/link/driver.h"

#include <errno.h>

static struct gyre_links *links_of_rank_0(struct gyre_sim_world *world)
{
    const struct gyre_wire_options options = {.rank = 0, .n = 3, .peers = 2, .world = world};
    struct gyre_links *links;
    struct gyre_wire *wire;
    assert_int_equal(gyre_links_create(2, &links), 0);
    assert_int_equal(gyre_driver_sim.open(&options, &wire, NULL), 0);
    assert_int_equal(gyre_links_add_wire(links, &gyre_driver_sim, wire), 0);
    return links;
}

/* Nothing has come from a peer whose link can still be made, and nothing will from one without a
 * link. To ask makes none. */
static void nothing_is_announced_before_the_first_use(void **state)
{
    const struct gyre_sim_options options = {.seed = 1, .n = 3};
    struct gyre_match match = {.sequence = 1};
    struct gyre_sim_world *world;
    (void)state;
    assert_int_equal(gyre_sim_world_create(&options, &world), 0);
    struct gyre_links *links = links_of_rank_0(world);
    assert_int_equal(gyre_link_announced(links, 1, &match), -ENOTCONN);
    gyre_links_attach_lazily(links, 0);
    assert_int_equal(gyre_link_announced(links, 1, &match), 0);
    assert_int_equal(gyre_links_attached(links, 0), UINT32_MAX);
    assert_false(gyre_link_has_left(links, 2));
    gyre_links_destroy(links);
    gyre_sim_world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_announced_before_the_first_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
