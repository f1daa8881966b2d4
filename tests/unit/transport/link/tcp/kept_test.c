/* The ring of kept bytes, against the whole stream: whatever is added, acknowledged and gathered,
 * the kept bytes are the stream's, and none is missing that fits. A sample of 200,000 steps. */
#include "transport/link/tcp/kept.h"

#include "base/rng.h"
#include "rig/test.h"

#include <string.h>

#define FIRST 625 /* no power of two */
#define TWICE 3
#define RING  (FIRST << TWICE)
#define STEPS 200000

static uint8_t byte_at(uint64_t position)
{
    return (uint8_t)(position * 151 + (position >> 8) * 17 + (position >> 16));
}

static void expect_kept(const struct gyre_kept *kept, uint64_t at)
{
    struct iovec iov[2];
    int count = gyre_kept_gather(kept, at, iov, 2);
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < iov[i].iov_len; k++)
            assert_int_equal(((const uint8_t *)iov[i].iov_base)[k], byte_at(at++));
    assert_int_equal(at, kept->to);
}

/* Adds `length` of the stream's bytes in up to three vectors, the last with more behind. */
static void add(struct gyre_kept *kept, struct gyre_rng *rng, size_t length, uint64_t acknowledged)
{
    static uint8_t bytes[4 * RING];
    size_t first = gyre_rng_below(rng, length + 1),
           second = gyre_rng_below(rng, length - first + 1);
    struct iovec iov[3] = {{bytes, first},
                           {bytes + first, second},
                           {bytes + first + second, length - first - second + 100}};
    for (size_t i = 0; i < length; i++)
        bytes[i] = byte_at(kept->to + i);
    memset(bytes + length, 0xEE, 100);
    gyre_kept_add(kept, iov, 3, length, acknowledged);
}

static void a_ring_keeps_what_is_not_acknowledged(void **state)
{
    struct gyre_kept kept = {0};
    struct gyre_rng rng;
    uint64_t to = 0, from = 0;
    gyre_rng_seed(&rng, 7);
    assert_int_equal(gyre_kept_init(&kept, FIRST, TWICE), 0);
    for (int step = 0; step < STEPS; step++) {
        size_t most = gyre_rng_below(&rng, 20) ? 600 : 3 * RING;
        size_t length = gyre_rng_below(&rng, most);
        uint64_t known = from + gyre_rng_below(&rng, to + length - from + 1);
        if (gyre_rng_below(&rng, 3)) {
            add(&kept, &rng, length, known);
            to += length;
        } else {
            known = known < to ? known : to;
            gyre_kept_forget(&kept, known);
        }
        from = known > from ? known : from;
        from = to - from > RING ? to - RING : from;
        assert_int_equal(kept.to, to);
        assert_int_equal(kept.from, from);
        assert_true(gyre_kept_reaches(&kept, from) && gyre_kept_reaches(&kept, to));
        assert_false(gyre_kept_reaches(&kept, to + 1));
        assert_false(from > 0 && gyre_kept_reaches(&kept, from - 1));
        if (step % 5000 == 0) { /* small again */
            gyre_kept_deinit(&kept);
            assert_int_equal(gyre_kept_init(&kept, FIRST, TWICE), 0);
            to = from = 0;
        }
        if (step % 7 == 0)
            expect_kept(&kept, from + gyre_rng_below(&rng, to - from + 1));
    }
    gyre_kept_deinit(&kept);
    gyre_kept_deinit(&kept);
}

/* Small traffic that is acknowledged stays in the ring's first bytes. */
static void an_empty_ring_begins_anew(void **state)
{
    struct gyre_kept kept = {0};
    struct gyre_rng rng;
    struct iovec iov[2];
    gyre_rng_seed(&rng, 8);
    assert_int_equal(gyre_kept_init(&kept, FIRST, TWICE), 0);
    for (int i = 0; i < 100; i++) {
        add(&kept, &rng, 300, 0);
        assert_int_equal(gyre_kept_gather(&kept, kept.from, iov, 2), 1);
        assert_ptr_equal(iov[0].iov_base, kept.ring);
        gyre_kept_forget(&kept, kept.to);
        assert_int_equal(gyre_kept_gather(&kept, kept.to, iov, 2), 0);
    }
    gyre_kept_deinit(&kept);
}

/* A gather into one vector gives the part up to the ring's end. */
static void a_gather_obeys_its_limit(void **state)
{
    struct gyre_kept kept = {0};
    struct gyre_rng rng;
    struct iovec iov[2];
    gyre_rng_seed(&rng, 9);
    assert_int_equal(gyre_kept_init(&kept, RING, 0), 0);
    add(&kept, &rng, RING - 10, 0);
    gyre_kept_forget(&kept, RING - 20);
    add(&kept, &rng, 100, 0);
    assert_int_equal(gyre_kept_gather(&kept, kept.from, iov, 2), 2);
    assert_int_equal(gyre_kept_gather(&kept, kept.from, iov, 1), 1);
    assert_int_equal(iov[0].iov_len, 20);
    gyre_kept_deinit(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_keeps_what_is_not_acknowledged),
        cmocka_unit_test(an_empty_ring_begins_anew),
        cmocka_unit_test(a_gather_obeys_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
