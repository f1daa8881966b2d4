/* The price of mapped memory by the length of an operation. Tested by
 * tests/unit/collectives/choose/choose_test.c. */
#include "collectives/choose/mapped_price.h"

#include "collectives/choose/limits.h"

/* More than memory holds counts as this much, so that no sum overflows. */
#define MOST (UINT64_C(1) << 56)

/* The bytes of the rank's INPUT or OUTPUT, of the whole operation. */
static uint64_t whole_buffer(const struct gyre_slice *slice, enum gyre_buffer buffer)
{
    uint64_t count = slice->stride > slice->count ? slice->stride : slice->count, bytes;
    uint64_t elements = (uint64_t)gyre_slice_blocks(slice, buffer) * slice->element;
    return __builtin_mul_overflow(count, elements, &bytes) || bytes > MOST ? MOST : bytes;
}

/* Returns what the bytes beyond `kib` KiB add to the price of each of `all` bytes. */
static uint64_t beyond(uint64_t all, uint64_t kib, uint64_t price)
{
    const uint64_t within = kib * 1024;
    return all > within ? (uint64_t)((unsigned __int128)price * (all - within) / all) : 0;
}

struct gyre_mapped_price gyre_mapped_price(const struct gyre_slice *slice,
                                           const struct gyre_tuning *tuning)
{
    struct gyre_mapped_price price = {.kib_ps = tuning->link[GYRE_LINK_MAPPED].kib_ps};
    struct gyre_slice of = *slice;
    uint64_t longest = 0, all = 0;
    for (of.rank = 0; of.rank < of.n && of.rank < GYRE_PEERS_MAPPED_MAX; of.rank++) {
        uint64_t input = whole_buffer(&of, GYRE_INPUT);
        longest = input > longest ? input : longest;
        all += input + whole_buffer(&of, GYRE_OUTPUT);
    }
    price.exchanges = longest <= GYRE_EXCHANGE_MAX;
    price.kib_ps += beyond(all, tuning->own_cache_kib, tuning->shared_kib_ps);
    price.kib_ps += beyond(all, tuning->shared_cache_kib, tuning->memory_kib_ps);
    return price;
}
