/* The price of a KiB to an operation on mapped memory.
 *
 *     INPUT of each rank up to 4 KiB   EXCHANGE: it comes out of an entry line, which another core
 *                                      has just written
 *     more                             PUSH: buffers stay in caches from call to call, as far as
 *                                      these hold the buffers of all ranks
 *
 *     time             ╱  kib_ps + shared_kib_ps + memory_kib_ps
 *     │              ╱
 *     │         ╱      kib_ps + shared_kib_ps
 *     │    ╱
 *     │ ─        kib_ps
 *     └───┴─────────┴──────────── bytes of all ranks' INPUTs and OUTPUTs
 *     own_cache_kib  shared_cache_kib */
#ifndef GYRE_COLLECTIVES_CHOOSE_MAPPED_PRICE_H
#define GYRE_COLLECTIVES_CHOOSE_MAPPED_PRICE_H

#include "collectives/choose/tuning.h"
#include "collectives/schedule/schedule.h"

#include <stdbool.h>

struct gyre_mapped_price {
    bool exchanges;  /* bytes travel in the entry lines */
    uint64_t kib_ps; /* of a KiB of this operation's buffers, on average */
};

/* The slice may be a part of the operation: its stride says how long the whole is. */
struct gyre_mapped_price gyre_mapped_price(const struct gyre_slice *slice,
                                           const struct gyre_tuning *tuning);

#endif
