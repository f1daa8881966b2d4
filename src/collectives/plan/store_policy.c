/* Chooses the way to store pieces, by the least time that each way took lately. Tested by
 * tests/unit/collectives/plan/store_policy_test.c. */
#include "collectives/plan/store_policy.h"

#define FIRST_TRY  8u   /* operations: the earlier ones are timed too, but find cold memory */
#define TRY_EVERY  512u /* in the end */
#define TIME_EVERY 8u
#define TIMED      5u /* of so many: the lines are again where the usual way leaves them */
#define RISES_BY   8u /* an eighth, for a sample of any length */
#define BETTER_BY  8u /* the other way must be this much faster, or the two would take turns */

/* Whether this operation is the first of two that are stored the other way: the operations 8, 16,
 * 32 … 512, 1024, 1536 … are. */
static bool begins_try(uint64_t operation)
{
    return operation < TRY_EVERY ? operation >= FIRST_TRY && (operation & (operation - 1)) == 0
                                 : operation % TRY_EVERY == 0;
}

static bool is_better(uint64_t other, uint64_t cost)
{
    return other && other + other / BETTER_BY < cost;
}

void gyre_store_policy_begin(struct gyre_store_policy *store_policy)
{
    store_policy->operations++;
    if (is_better(store_policy->cost[!store_policy->nontemporal],
                  store_policy->cost[store_policy->nontemporal]))
        store_policy->nontemporal = !store_policy->nontemporal;
}

struct gyre_store_choice gyre_store_policy_next(const struct gyre_store_policy *store_policy)
{
    const uint64_t operation = store_policy->operations;
    const bool first = begins_try(operation), second = !first && begins_try(operation - 1);
    return (struct gyre_store_choice){.nontemporal = store_policy->nontemporal != (first || second),
                                      .timed = second || operation < FIRST_TRY ||
                                               operation % TIME_EVERY == TIMED};
}

void gyre_store_policy_took(struct gyre_store_policy *store_policy, bool nontemporal,
                            uint64_t bytes, uint64_t ns)
{
    uint64_t *cost = &store_policy->cost[nontemporal];
    uint64_t sample = ns * 1000 / (bytes / 1024 + 1) + 1, most = *cost + *cost / RISES_BY;
    *cost = *cost && sample > most ? most : sample;
}
