/* What a driver is told when a wire is opened: every setting that concerns it, as it was read. */
#include "rig/test.h"
#include "transport/domain/inside.h"
#include "transport/join/joined.h"
#include "transport/link/driver.h"

#include <errno.h>

static struct gyre_wire_options told;

static int listen_to(const struct gyre_wire_options *options, struct gyre_wire **wire,
                     struct gyre_trouble *trouble)
{
    (void)wire, (void)trouble;
    told = *options;
    return -EPROTO;
}

static void open_with(struct gyre_domain_settings settings)
{
    static struct gyre_member members[3];
    static struct gyre_joined joined;
    static struct gyre_domain domain;
    const struct gyre_driver driver = {.name = "listener", .open = listen_to};
    struct gyre_wire *wire = NULL;
    struct gyre_trouble trouble = {0};
    joined = (struct gyre_joined){.rank = 2, .n = 3, .member = members};
    domain = (struct gyre_domain){.joined = &joined, .settings = settings};
    domain.job.epoch = 9;
    domain.job.local_rank = -1;
    assert_int_equal(gyre_domain_open_wire(&domain, &driver, 5, &wire, &trouble), -EPROTO);
    assert_ptr_equal(told.lookup, &domain.lookup);
    assert_ptr_equal(told.address, &members[2].address);
}

static void a_driver_is_told_who_it_serves(void **state)
{
    (void)state;
    open_with((struct gyre_domain_settings){0});
    assert_int_equal(told.rank, 2);
    assert_int_equal(told.n, 3);
    assert_int_equal(told.epoch, 9);
    assert_int_equal(told.peers, 5);
}

static void a_driver_is_told_the_settings(void **state)
{
    (void)state;
    open_with((struct gyre_domain_settings){0});
    assert_false(told.bare_payload);
    assert_false(told.failover);
    assert_null(told.variant);
    open_with((struct gyre_domain_settings){.bare_payload = true});
    assert_true(told.bare_payload);
    assert_false(told.failover);
    open_with((struct gyre_domain_settings){.failover = true, .dead_time_ms = 1234});
    assert_true(told.failover);
    assert_false(told.bare_payload);
    assert_int_equal(told.dead_time_ms, 1234);
    open_with((struct gyre_domain_settings){.poller = "epoll"});
    assert_string_equal(told.variant, "epoll");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_driver_is_told_who_it_serves),
        cmocka_unit_test(a_driver_is_told_the_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
