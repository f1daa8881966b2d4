/* Chooses between plain stores and stores around the cache.
 *
 * Out of place a fold overwrites lines that another core had last. A plain store fetches a line
 * first, which is cheap from a cache that both cores share, and dear from another cache or another
 * socket. A store around the cache fetches nothing, but goes to memory. No size tells which is
 * faster: on one virtual machine 1 MiB of two ranks took 21 µs with plain stores and 50 around, and
 * an hour later, on other cores of its host, 84 and 50. So now and then the pieces of two
 * operations are stored the other way, and the clock decides. The first of the two finds the lines
 * where the usual way has left them, so only the second is timed. The sums have the same bits, and
 * every rank decides for itself.
 *
 * The cost of a way is the least time that pieces took lately. A sample that was too long (another
 * process had the core) raises the cost by an eighth at most. */
#ifndef GYRE_COLLECTIVES_PLAN_STORE_POLICY_H
#define GYRE_COLLECTIVES_PLAN_STORE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* In bytes. The clock says little about shorter pieces. */
#define GYRE_STORE_POLICY_LEAST (UINT64_C(16) << 10)

struct gyre_store_policy {
    uint64_t operations; /* that have begun */
    uint64_t cost[2];    /* ps for a KiB, plain and around; 0: never tried */
    bool nontemporal;    /* the faster way */
};

struct gyre_store_choice {
    bool nontemporal, timed;
};

/* Begins an operation, whose pieces follow. */
void gyre_store_policy_begin(struct gyre_store_policy *store_policy);

/* Chooses how the next piece is stored. `timed`: gyre_store_policy_took() is then told how long the
 * piece took. */
struct gyre_store_choice gyre_store_policy_next(const struct gyre_store_policy *store_policy);
void gyre_store_policy_took(struct gyre_store_policy *store_policy, bool nontemporal,
                            uint64_t bytes, uint64_t ns);

#endif
