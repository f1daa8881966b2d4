/* What a simulated job must say in the end, and what it must not, for the tests of the watch's
 * mind. */
#ifndef GYRE_TESTS_UNIT_TRANSPORT_WATCH_DETECT_DETECTOR_STORY_H
#define GYRE_TESTS_UNIT_TRANSPORT_WATCH_DETECT_DETECTOR_STORY_H

#include "rig/haste.h"
#include "unit/transport/watch/detect/detector_sim.h"

#include "base/clock.h"
#include "rig/test.h"

#define DEAD  (400 * GYRE_MS)
#define GRACE (200 * GYRE_MS)
#define BOUND (GRACE + 150 * GYRE_MS) /* after the dead time: verdict, late tick, beat, delays */
#define HOUR  (3600 * GYRE_SECOND)

/* In haste an eighth of them, where all is slow a sixteenth: stage test of continuous integration
 * has all, and a sanitizer looks at the same lines for each seed. */
static inline uint64_t seeds(uint64_t all)
{
    const uint64_t part = all_is_slow() ? 16 : in_haste() ? 8 : 1;
    return (all + part - 1) / part;
}

static inline bool survives(const struct sim *sim, uint32_t rank)
{
    return !sim->rank[rank].dead && sim->rank[rank].paused_until != SIM_FOREVER;
}

/* All survivors tell one story that blames `culprit`, and knew it by `limit`. */
static inline void assert_agreed(struct sim *sim, uint32_t culprit, uint64_t limit)
{
    const struct gyre_detector_record *story = NULL;

    for (uint32_t rank = 0; rank < sim->n; rank++) {
        const struct gyre_detector_record *record = sim_failure(sim, rank);
        if (!survives(sim, rank))
            continue;
        if (record == NULL || record->rank != culprit || sim->rank[rank].failed_at > limit)
            fail_msg(
                "seed %lu, n %u: rank %u says \"%s\" at %.3f s, but rank %u failed, limit %.3f s",
                sim->seed, sim->n, rank, record != NULL ? record->text : "nothing",
                (double)sim->rank[rank].failed_at / 1e9, culprit, (double)limit / 1e9);
        if (story != NULL && culprit != 0)
            assert_string_equal(record->text, story->text);
        story = record;
    }
    assert_non_null(story);
}

static inline void assert_calm(struct sim *sim)
{
    for (uint32_t rank = 0; rank < sim->n; rank++)
        if (survives(sim, rank) && sim_failure(sim, rank) != NULL)
            fail_msg("seed %lu, n %u: rank %u falsely says \"%s\"", sim->seed, sim->n, rank,
                     sim_failure(sim, rank)->text);
}

static inline struct sim sim_of(uint32_t n, uint32_t ranks_per_node, uint64_t seed)
{
    return (struct sim){.n = n,
                        .ranks_per_node = ranks_per_node,
                        .seed = seed,
                        .dead_ns = DEAD,
                        .timeout_ns = HOUR};
}

#endif
