/* Random payloads through a ring: no two that live overlap, and none leaves the ring. */
#include "transport/seal/cipher_ring.h"

#include "base/rng.h"
#include "rig/test.h"

#define SIZE  400u
#define MOST  100u
#define LIVES 400

struct payload {
    uint32_t begin, end;
};

static void no_payload_lies_in_another(void **state)
{
    static uint8_t bytes[SIZE];
    static struct payload live[LIVES];
    struct gyre_cipher_ring ring = {.bytes = bytes, .size = SIZE, .most = MOST};
    struct gyre_rng rng;
    uint32_t first = 0, next = 0, taken = 0;
    gyre_rng_seed(&rng, 1);
    for (int i = 0; i < 200000; i++) {
        if (gyre_cipher_ring_has_room(&ring) && gyre_rng_below(&rng, 5) > 1) {
            uint32_t length = 1 + (uint32_t)gyre_rng_below(&rng, MOST);
            uint32_t at = (uint32_t)(gyre_cipher_ring_take(&ring, length) - bytes);
            assert_true(at + length <= SIZE);
            for (uint32_t k = first; k != next; k++)
                assert_true(at >= live[k % LIVES].end || at + length <= live[k % LIVES].begin);
            live[next++ % LIVES] = (struct payload){at, at + length};
            taken++;
        } else if (first != next) {
            gyre_cipher_ring_give(&ring, live[first++ % LIVES].end);
        }
        assert_true(first != next || gyre_cipher_ring_has_room(&ring));
    }
    assert_in_range(taken, 50000, 200000);
}

static void without_bytes_there_is_always_room(void **state)
{
    struct gyre_cipher_ring none = {0};
    assert_true(gyre_cipher_ring_has_room(&none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_payload_lies_in_another),
                                       cmocka_unit_test(without_bytes_there_is_always_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
