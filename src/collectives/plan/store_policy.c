/* Which way pieces are stored, by the least time that each way took lately. Tested by
 * tests/unit/collectives/plan/store_policy_test.c. */
#include "collectives/plan/store_policy.h"

#define FIRST_TRY  8u   /* pieces: all before are timed, for the first ones find cold memory */
#define TRY_EVERY  512u /* in the end; what goes to memory is cold for the next piece too */
#define TIME_EVERY 8u
#define RISES_BY   8u /* an eighth, for a sample however long */
#define BETTER_BY  8u /* so much faster the other way must be, or the two would take turns */

/* Is this piece stored the other way? Pieces 8, 16, 32 … 512, 1024, 1536 … are. */
static bool is_try(uint64_t piece)
{
    return piece < TRY_EVERY ? piece >= FIRST_TRY && (piece & (piece - 1)) == 0
                             : piece % TRY_EVERY == 0;
}

struct gyre_store_choice gyre_store_policy_next(struct gyre_store_policy *store_policy)
{
    uint64_t piece = store_policy->pieces++;
    bool other = is_try(piece);
    return (struct gyre_store_choice){.nontemporal = store_policy->nontemporal != other,
                                      .timed =
                                          other || piece < FIRST_TRY || piece % TIME_EVERY == 1};
}

static bool is_better(uint64_t other, uint64_t cost)
{
    return other && other + other / BETTER_BY < cost;
}

void gyre_store_policy_took(struct gyre_store_policy *store_policy, bool nontemporal,
                            uint64_t bytes, uint64_t ns)
{
    uint64_t *cost = &store_policy->cost[nontemporal];
    uint64_t sample = ns * 1000 / (bytes / 1024 + 1) + 1, most = *cost + *cost / RISES_BY;
    *cost = *cost && sample > most ? most : sample;
    if (is_better(store_policy->cost[!store_policy->nontemporal],
                  store_policy->cost[store_policy->nontemporal]))
        store_policy->nontemporal = !store_policy->nontemporal;
}
