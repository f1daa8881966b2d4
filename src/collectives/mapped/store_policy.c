#include "collectives/mapped/store_policy.h"

#define FIRST_TRY  8u   /* pieces: all before are timed, for the first ones find cold memory */
#define TRY_EVERY  512u /* in the end; what goes to memory is cold for the next piece too */
#define TIME_EVERY 8u
#define RISES_BY   8u /* an eighth, for a sample however long */
#define BETTER_BY  8u /* so much faster the other way must be, or the two would take turns */

/* The other way at 8, 16, 32 … 512, 1024, 1536 … */
static bool is_try(uint64_t piece)
{
    return piece < TRY_EVERY ? piece >= FIRST_TRY && (piece & (piece - 1)) == 0
                             : piece % TRY_EVERY == 0;
}

struct gyre_pace_way gyre_pace_next(struct gyre_pace *pace)
{
    uint64_t piece = pace->pieces++;
    bool other = is_try(piece);
    return (struct gyre_pace_way){.around = pace->around != other,
                                  .timed = other || piece < FIRST_TRY || piece % TIME_EVERY == 1};
}

static bool is_better(uint64_t other, uint64_t cost)
{
    return other && other + other / BETTER_BY < cost;
}

void gyre_pace_took(struct gyre_pace *pace, bool around, uint64_t bytes, uint64_t ns)
{
    uint64_t *cost = &pace->cost[around];
    uint64_t sample = ns * 1000 / (bytes / 1024 + 1) + 1, most = *cost + *cost / RISES_BY;
    *cost = *cost && sample > most ? most : sample;
    if (is_better(pace->cost[!pace->around], pace->cost[pace->around]))
        pace->around = !pace->around;
}
