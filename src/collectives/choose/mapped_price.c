/* The price of mapped memory by the length of an operation. Tested by
 * tests/unit/collectives/choose/choose_test.c. */
#include "collectives/choose/mapped_price.h"

#include "collectives/choose/buffers.h"
#include "collectives/choose/limits.h"

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
    struct gyre_buffers buffers = gyre_buffers_of(slice, slice->n);
    price.exchanges = buffers.longest_input <= GYRE_EXCHANGE_MAX;
    price.kib_ps += beyond(buffers.all, tuning->own_cache_kib, tuning->shared_kib_ps);
    price.kib_ps += beyond(buffers.all, tuning->shared_cache_kib, tuning->memory_kib_ps);
    return price;
}
