/* The lock-free table of views against a plain model, and under a reader that never rests. */
#include "transport/memory/views.h"

#include "base/rng.h"
#include "rig/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u

/* A region of one page whose first words say its name. */
static struct gyre_region page_of(uint32_t peer, uint32_t id)
{
    uint32_t *base = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(base != MAP_FAILED);
    base[0] = peer;
    base[1] = id;
    return (struct gyre_region){
        .base = base, .length = PAGE, .kind = GYRE_MEMORY_HOST, .device = 0, .fd = -1};
}

static int put(struct gyre_views *views, uint32_t peer, uint32_t id)
{
    struct gyre_region region = page_of(peer, id);
    int status = gyre_views_put(views, peer, id, &region);

    if (status != 0)
        munmap(region.base, PAGE);
    return status;
}

static bool holds(struct gyre_views *views, uint32_t peer, uint32_t id)
{
    const uint32_t *base = gyre_views_find(views, peer, id, GYRE_MEMORY_HOST, PAGE);

    if (base == NULL)
        return false;
    assert_int_equal(base[0], peer);
    assert_int_equal(base[1], id);
    return true;
}

static bool drop(struct gyre_views *views, uint32_t peer, uint32_t id)
{
    struct gyre_region region;
    bool there = gyre_views_take(views, peer, id, &region);

    if (there)
        gyre_device_of(GYRE_MEMORY_HOST)->unimport(&region);
    return there;
}

static void test_names_lengths_and_doubles(void **state)
{
    struct gyre_views *views;

    assert_int_equal(gyre_views_create(&views), 0);
    assert_int_equal(put(views, 3, 5), 0);
    assert_true(holds(views, 3, 5));
    assert_false(holds(views, 5, 3));
    assert_null(gyre_views_find(views, 3, 5, GYRE_MEMORY_HOST, PAGE + 1));
    assert_int_equal(put(views, 3, 5), GYRE_INVALID);
    assert_true(drop(views, 3, 5));
    assert_false(drop(views, 3, 5));
    assert_false(holds(views, 3, 5));
    assert_int_equal(put(views, 3, 5), 0);
    gyre_views_destroy(views);
    gyre_views_destroy(NULL);
}

static void test_full_table_refuses_and_recovers(void **state)
{
    struct gyre_views *views;

    assert_int_equal(gyre_views_create(&views), 0);
    for (uint32_t id = 0; id < GYRE_VIEWS_MAX; id++)
        assert_int_equal(put(views, id % 7, id), 0);
    assert_int_equal(put(views, 9, 9), GYRE_UNSUPPORTED);
    for (uint32_t id = 0; id < GYRE_VIEWS_MAX; id++)
        assert_true(holds(views, id % 7, id));
    assert_true(drop(views, 100 % 7, 100));
    assert_int_equal(put(views, 9, 9), 0);
    gyre_views_destroy(views);
}

static void test_a_kind_is_taken_out(void **state)
{
    struct gyre_views *views;
    struct gyre_region region;
    uint32_t taken = 0;

    assert_int_equal(gyre_views_create(&views), 0);
    for (uint32_t id = 0; id < 20; id++)
        assert_int_equal(put(views, id % 7, id), 0);
    assert_false(gyre_views_take_any(views, GYRE_MEMORY_CUDA, &region));
    for (; gyre_views_take_any(views, GYRE_MEMORY_HOST, &region); taken++) {
        const uint32_t *base = region.base;
        assert_false(holds(views, base[0], base[1]));
        gyre_device_of(GYRE_MEMORY_HOST)->unimport(&region);
    }
    assert_int_equal(taken, 20);
    gyre_views_destroy(views);
}

static void test_random_life_equals_a_plain_array(void **state)
{
    enum { IDS = 600, TURNS = 60000 };
    bool there[IDS] = {false};
    struct gyre_views *views;
    struct gyre_rng rng;

    gyre_rng_seed(&rng, 42);
    assert_int_equal(gyre_views_create(&views), 0);
    for (int turn = 0; turn < TURNS; turn++) {
        uint32_t id = (uint32_t)gyre_rng_below(&rng, IDS);
        if (there[id])
            assert_true(drop(views, 1, id * 4099));
        else
            assert_int_equal(put(views, 1, id * 4099), 0);
        there[id] = !there[id];
        id = (uint32_t)gyre_rng_below(&rng, IDS);
        assert_int_equal(holds(views, 1, id * 4099), there[id]);
    }
    gyre_views_destroy(views);
}

/* -- readers beside the writer ----------------------------------------------------------------- */

#define BUSY_IDS 8

struct race {
    struct gyre_views *views;
    _Atomic bool over;
    _Atomic uint64_t found, wrong;
    void *home[BUSY_IDS]; /* where each name lies whenever it is there */
    uint32_t id[BUSY_IDS];
    bool there[BUSY_IDS];
    struct gyre_rng rng;
};

/* Names that begin their search at one slot, so that the same slots change hands all the time. */
static void choose_clashing_ids(struct race *race)
{
    uint32_t id = 0;

    for (int i = 0; i < BUSY_IDS; id++)
        if ((gyre_mix64((uint64_t)1 << 32 | id) & (2 * GYRE_VIEWS_MAX - 1)) == 0)
            race->id[i++] = id;
}

/* Each name always lies at its own address, so one that leads to another's is seen. */
static void *read_on(void *argument)
{
    struct race *race = argument;
    struct gyre_rng rng;

    gyre_rng_seed(&rng, 7);
    while (!atomic_load(&race->over)) {
        uint32_t i = (uint32_t)gyre_rng_below(&rng, BUSY_IDS);
        void *base = gyre_views_find(race->views, 1, race->id[i], GYRE_MEMORY_HOST, PAGE);
        if (base == NULL)
            continue;
        atomic_fetch_add(&race->found, 1);
        if (base != race->home[i])
            atomic_fetch_add(&race->wrong, 1);
    }
    return NULL;
}

/* Puts the name's own page where a drop unmapped it, as a new mapping at the same address. */
static struct gyre_region page_at_home(void *home)
{
    void *base = mmap(home, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

    assert_ptr_equal(base, home);
    return (struct gyre_region){.base = base, .length = PAGE, .kind = GYRE_MEMORY_HOST, .fd = -1};
}

static void churn(struct race *race, int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        uint32_t i = (uint32_t)gyre_rng_below(&race->rng, BUSY_IDS);
        if (race->there[i]) {
            assert_true(drop(race->views, 1, race->id[i]));
        } else {
            struct gyre_region region = page_at_home(race->home[i]);
            assert_int_equal(gyre_views_put(race->views, 1, race->id[i], &region), 0);
        }
        race->there[i] = !race->there[i];
    }
}

static void test_reader_never_sees_another_name(void **state)
{
    uint8_t *room = mmap(NULL, BUSY_IDS * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct race race = {.over = false};
    pthread_t reader;

    assert_true(room != MAP_FAILED);
    gyre_rng_seed(&race.rng, 11);
    choose_clashing_ids(&race);
    for (uint32_t i = 0; i < BUSY_IDS; i++)
        race.home[i] = room + (size_t)i * PAGE;
    assert_int_equal(gyre_views_create(&race.views), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_on, &race), 0);
    do
        churn(&race, 100 * 1000);
    while (atomic_load(&race.found) < 1000);
    atomic_store(&race.over, true);
    pthread_join(reader, NULL);
    assert_int_equal(atomic_load(&race.wrong), 0);
    gyre_views_destroy(race.views);
    munmap(room, BUSY_IDS * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_lengths_and_doubles),
        cmocka_unit_test(test_full_table_refuses_and_recovers),
        cmocka_unit_test(test_a_kind_is_taken_out),
        cmocka_unit_test(test_random_life_equals_a_plain_array),
        cmocka_unit_test(test_reader_never_sees_another_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
