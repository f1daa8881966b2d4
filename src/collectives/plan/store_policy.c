/* Chooses the way to store pieces, by the least time that each way took lately. Tested by
 * tests/unit/collectives/plan/store_policy_test.c. */
#include "collectives/plan/store_policy.h"

#define FIRST_TRY  8u   /* pieces: the earlier ones are timed too, but find cold memory */
#define TRY_EVERY  512u /* in the end; a piece stored to memory is cold for the next one too */
#define TIME_EVERY 8u
#define RISES_BY   8u /* an eighth, for a sample of any length */
#define BETTER_BY  8u /* the other way must be this much faster, or the two would take turns */

/* Whether this piece is stored the other way: pieces 8, 16, 32 … 512, 1024, 1536 … are. */
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
