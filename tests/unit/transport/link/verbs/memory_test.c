/* Memory that the verbs driver's devices read and write by themselves: what is registered and how,
 * what is given up when it has gone, and what becomes of messages where a device refuses. Two wires
 * in this process, on the stand-in for the library. */
#include "unit/transport/link/verbs/verbs_ends.h"

#include "base/clock.h"
#include "rig/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH (3u * PART)

static int callocs_left = -1; /* until the one that fails; -1: none fails */

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    if (callocs_left > 0)
        callocs_left--;
    else if (callocs_left == 0)
        return NULL;
    return __real_calloc(count, bytes);
}

/* The places of messages are regions of their own, and of a life of their own: what was there goes,
 * and something else is there. */
static void replace(uint8_t *place)
{
    struct gyre_shared removed;
    gyre_lookup_remove(&ends_lookup, place, &removed);
    assert_int_not_equal(ends_region(place, MOST, GYRE_MEMORY_HOST), 0);
}

static struct ends *new_ends(const char *device)
{
    ends_memory();
    for (uint32_t i = 0; i < 4 * PLACES; i++)
        replace(&ends_arena[0][0][0][0] + (size_t)i * MOST);
    ends_devices();
    return ends_new(device, device, "1", false);
}

/* Bytes that may be registered, of which so many places' are. */
static uint32_t registered(uint64_t before)
{
    assert_int_equal((before - fake_verbs.memory) % MOST, 0);
    return (uint32_t)((before - fake_verbs.memory) / MOST);
}

/* So that both ends look, also at what they look at now and then. */
static void look_later(struct ends *ends)
{
    ends->ahead += 5 * GYRE_MS;
    ends_look_often(ends);
}

static void what_has_gone_is_given_up(void **state)
{
    (void)state;
    struct ends *ends = new_ends("a");
    fake_verbs.memory = UINT64_C(1) << 40;
    uint64_t before = fake_verbs.memory;
    ends_carry(ends, 0, LENGTH);
    ends_carry(ends, 1, LENGTH);
    assert_int_equal(registered(before), 4);
    look_later(ends);
    assert_int_equal(registered(before), 4);
    replace(ends_arena[0][0][0]);
    replace(ends_arena[1][1][0]);
    look_later(ends);
    assert_int_equal(registered(before), 2);
    ends_carry(ends, 16, LENGTH); /* in the places of message 0, which are others now */
    assert_int_equal(registered(before), 4);
    ends_free(ends);
}

/* A place among those that are registered is free when what it stood for has gone. */
static void places_of_the_gone_are_used_again(void **state)
{
    (void)state;
    struct ends *ends = new_ends("a");
    fake_verbs.memory = UINT64_C(1) << 40;
    uint64_t before = fake_verbs.memory;
    for (uint32_t turn = 0; turn < GYRE_VERBS_REGIONS + 4; turn++) {
        ends_carry(ends, turn, LENGTH);
        replace(ends_arena[0][0][turn % PLACES]);
        replace(ends_arena[1][1][turn % PLACES]);
    }
    look_later(ends);
    assert_int_equal(registered(before), 0);
    ends_free(ends);
}

/* Regions may be written in any order, for only their immediate says that all is there; what is
 * polled in memory may not. */
static void regions_are_in_relaxed_order(void **state)
{
    (void)state;
    struct ends *ends = new_ends("a+b");
    assert_int_equal(fake_verbs.relaxed, 0);
    ends_carry(ends, 0, LENGTH);
    assert_int_equal(fake_verbs.relaxed, 4); /* a region at each end, with two devices */
    ends_carry(ends, 0 + PLACES, LENGTH);
    assert_int_equal(fake_verbs.relaxed, 4);
    ends_free(ends);
}

/* Where the limit of locked memory ends messages go through the rings, at either end or at both. */
static void what_is_refused_goes_through_the_rings(void **state)
{
    (void)state;
    for (uint32_t places = 0; places < 3; places++) {
        struct ends *ends = new_ends("a");
        fake_verbs.memory = places * MOST + 1;
        uint32_t before = ends_inside(ends, 0)->announced;
        for (uint32_t i = 0; i < 4; i++)
            ends_carry(ends, i, LENGTH);
        assert_int_equal(ends_inside(ends, 0)->announced - before, places / 2);
        assert_int_equal(fake_verbs.memory, 1);
        ends_free(ends);
    }
}

/* Each of a wire's own allocations fails once. It says so, and nothing is left open. */
static void a_wire_without_memory_is_refused(void **state)
{
    (void)state;
    for (int failed = 0; failed < 2; failed++) {
        struct ends *ends = calloc(1, sizeof *ends);
        ends_memory();
        ends_devices();
        callocs_left = failed;
        int status = ends_open(ends, 0, "a", "1", false);
        callocs_left = -1;
        assert_int_equal(status, -ENOMEM);
        assert_non_null(strstr(ends->trouble[0].text, "no memory"));
        assert_null(ends->wire[0]);
        ends_free(ends);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_gone_is_given_up),
        cmocka_unit_test(places_of_the_gone_are_used_again),
        cmocka_unit_test(regions_are_in_relaxed_order),
        cmocka_unit_test(what_is_refused_goes_through_the_rings),
        cmocka_unit_test(a_wire_without_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
