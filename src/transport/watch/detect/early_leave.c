/* Finds ranks that have left too early.
 *
 * A goodbye carries how far its sender got. The sender starts nothing more:
 *
 *      rank 1:  operation 1, 2, goodbye(2)     rank 0:  operation 1, 2, 3 … waits for rank 1
 *
 * On shared memory nothing breaks when a rank leaves, so only the watch can tell. The watch
 * compares when a goodbye comes, at every beat, and once more when this rank says its own goodbye:
 * both ranks have then finished everything, and must have finished the same. The last comparison
 * also finds a root whose broadcast no rank followed, or a root that refused a call which the
 * others made. Both ends compare both numbers, so the order of goodbyes does not matter. Rank 0 has
 * all goodbyes and compares each before it says that all have left: no rank ends well while another
 * does not.
 *
 * Tested by tests/unit/transport/watch/detect/early_leave_test.c. */
#include "transport/watch/detect/inside.h"

#include <stdio.h>

/* The first operation that this rank has started and the other never will start; 0: none. */
static uint64_t never_joined(const struct gyre_watch_state *mine,
                             const struct gyre_watch_state *last)
{
    uint64_t sequence, finished;

    if (mine->comm == GYRE_WATCH_POINT_TO_POINT || mine->finished >= mine->sequence ||
        !gyre_audit_progress(last, mine->comm, &sequence, &finished) || sequence >= mine->sequence)
        return 0;
    return (sequence > mine->finished ? sequence : mine->finished) + 1;
}

static void tell_left(struct gyre_failure_detector *detector,
                      const struct gyre_audit_early_leave *parted)
{
    struct gyre_audit_finding finding;
    struct gyre_detector_record record;

    gyre_audit_tell_left(parted, &finding);
    gyre_detector_compose(detector, &record, GYRE_MISMATCH, finding.rank, "%s", finding.text);
    gyre_detector_found(detector, &record);
}

/* Compares the operations that both ranks have finished. An operation that a state does not tell
 * was over long ago. */
static bool compare_numbers(struct gyre_failure_detector *detector,
                            const struct gyre_watch_state *last, uint32_t comm, uint64_t number)
{
    const struct gyre_watch_state *mine = &detector->mine;
    uint64_t sequence, finished;

    if (comm == GYRE_WATCH_POINT_TO_POINT ||
        !gyre_audit_progress(last, comm, &sequence, &finished) || sequence == number)
        return false;
    bool first = sequence < number;
    tell_left(detector,
              &(struct gyre_audit_early_leave){first ? last : mine, first ? mine : last, comm,
                                               first ? number : sequence, "has called"});
    return true;
}

static void compare_ends(struct gyre_failure_detector *detector,
                         const struct gyre_watch_state *last)
{
    const struct gyre_watch_state *mine = &detector->mine;
    struct gyre_audit_finding finding;
    struct gyre_detector_record record = {.status = GYRE_MISMATCH, .rank = GYRE_NOBODY};
    bool differ = compare_numbers(detector, last, mine->comm, mine->sequence);

    for (uint32_t i = 0; !differ && i < mine->elsewhere_count; i++)
        differ = compare_numbers(detector, last, (uint32_t)mine->elsewhere[i].comm,
                                 mine->elsewhere[i].sequence);
    if (differ || mine->comm != last->comm || mine->comm == GYRE_WATCH_POINT_TO_POINT ||
        last->fingerprint == mine->fingerprint)
        return;
    gyre_audit_tell(mine, last, &finding);
    snprintf(record.text, sizeof record.text, "%s", finding.text);
    gyre_detector_found(detector, &record);
}

void gyre_detector_compare(struct gyre_failure_detector *detector,
                           const struct gyre_detector_channel *channel)
{
    const struct gyre_watch_state *last = &channel->last;
    uint64_t number;

    if (!channel->left || detector->stage >= GYRE_DETECTOR_PROPOSED || detector->all_left)
        return;
    number = never_joined(&detector->mine, last);
    if (number > 0)
        tell_left(detector, &(struct gyre_audit_early_leave){
                                last, &detector->mine, detector->mine.comm, number, "waits in"});
    else if (detector->leaving)
        compare_ends(detector, last);
}
