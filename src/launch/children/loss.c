/* Ranks that are lost to an elastic job, which goes on while enough are left.
 *
 *     4 ranks, at least 2     rank 2 killed ──▶ 3 go on      rank 0 exits with 1 ──▶ 2 go on
 *                             rank 3 killed ──▶ too few: the job has failed, and the rest is ended
 *
 * A rank is lost that ended by a signal or with another exit code than 0. Each launcher counts the
 * losses of all, so that all come to one end: those of its own ranks are told to the others, and a
 * launcher that has gone takes with it the ranks that it has not told of. A launcher that was
 * started through ssh only tells, and the launcher above it counts.
 *
 * Lost ranks are not started again: there is no call yet by which they could join. It would be made
 * in gyre_children_lose().
 *
 * Tested by tests/program/launch/elastic.c. */
#include "launch/children/inside.h"

#include <signal.h>
#include <stdio.h>

bool gyre_children_may_lose(const struct gyre_children *all)
{
    return all->elastic.least && all->phase == GYRE_CHILDREN_RUNS && !all->first_failure.code;
}

static void note_first(struct gyre_elastic *elastic, const struct gyre_lost_ranks *loss)
{
    if (elastic->first_code)
        return;
    elastic->first_code = loss->code;
    snprintf(elastic->first, sizeof elastic->first, "%s", loss->text);
}

static void tell_launchers(struct gyre_children *all, const struct gyre_lost_ranks *loss,
                           const struct gyre_launcher_line *teller)
{
    for (int i = 0; i < all->launcher_lines; i++)
        if (&all->launcher_line[i] != teller && (all->leads || !teller))
            gyre_launcher_line_say(&all->launcher_line[i], "lost %d %d %d %s", loss->node,
                                   loss->ranks, loss->code, loss->text);
}

static void end_with_too_few(struct gyre_children *all, int left)
{
    char text[sizeof all->first_failure.text];
    snprintf(text, sizeof text, "%d of %d ranks %s left, and --elastic needs %d; lost first: %s",
             left, all->elastic.ranks, left == 1 ? "is" : "are", all->elastic.least,
             all->elastic.first);
    gyre_children_decide(all, all->elastic.first_code, text, NULL);
}

void gyre_children_lose(struct gyre_children *all, const struct gyre_lost_ranks *loss,
                        const struct gyre_launcher_line *teller)
{
    char before[64];
    int left = all->elastic.ranks - (all->elastic.lost += loss->ranks);
    note_first(&all->elastic, loss);
    tell_launchers(all, loss, teller);
    if (all->tells_early) {
        snprintf(before, sizeof before, GYRE_LOSS_FORMAT, loss->ranks, loss->code);
        gyre_children_say(all, before, loss->text, "");
    } else if (left >= all->elastic.least) {
        snprintf(before, sizeof before, "%d of %d ranks go on without ", left, all->elastic.ranks);
        gyre_children_say(all, before, loss->text, "");
    } else {
        end_with_too_few(all, left);
    }
}

bool gyre_children_lose_launcher(struct gyre_children *all, struct gyre_launcher_line *gone)
{
    char text[sizeof gone->name + 64];
    struct gyre_lost_ranks loss = {gone->node, gone->ranks - gone->lost, 1, text};
    if (!gone->ranks || !gyre_children_may_lose(all))
        return false;
    snprintf(text, sizeof text, "%d rank%s of %s, which has gone", loss.ranks,
             loss.ranks == 1 ? "" : "s", gone->name);
    gone->lost = gone->ranks;
    if (loss.ranks)
        gyre_children_lose(all, &loss, NULL);
    return true;
}
