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
 * With restarts a lost rank is started again (again.c). Then too few ranks are a failure only where
 * none of them is awaited, and the leader says so for all. A job that has lost all ranks has nobody
 * whom another could join: it has failed, and may be started again as a whole (restart.c).
 *
 * Tested by tests/program/launch/elastic.c. */
#include "launch/children/inside.h"

#include <signal.h>
#include <stdio.h>

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
    char text[sizeof all->first_failure.text], none[48] = "";
    if (all->elastic.returns && all->restarts.most && left > 0)
        snprintf(none, sizeof none, ", with no restart left");
    snprintf(text, sizeof text, "%d of %d ranks %s left, and --elastic needs %d%s; lost first: %s",
             left, all->elastic.ranks, left == 1 ? "is" : "are", all->elastic.least, none,
             all->elastic.first);
    gyre_children_decide(all, all->elastic.first_code, text, NULL);
}

static int count_left(const struct gyre_children *all)
{
    return all->elastic.ranks - all->elastic.lost;
}

/* Whether the job has failed. Another launcher says so where it also decides on restarts. */
static bool has_too_few(const struct gyre_children *all)
{
    return count_left(all) < all->elastic.least && !gyre_again_asks(all) &&
           (all->elastic.awaited <= 0 || count_left(all) <= 0);
}

static void tell_loss(struct gyre_children *all, const struct gyre_lost_ranks *loss,
                      const char *behind)
{
    char before[64];
    snprintf(before, sizeof before, "%d of %d ranks go on without ", count_left(all),
             all->elastic.ranks);
    gyre_children_say(all, before, loss->text, behind);
}

static void tell_loss_above(struct gyre_children *all, const struct gyre_lost_ranks *loss)
{
    char before[64];
    snprintf(before, sizeof before, GYRE_LOSS_FORMAT, loss->ranks, loss->code);
    gyre_children_say(all, before, loss->text, "");
}

void gyre_children_lose(struct gyre_children *all, const struct gyre_lost_ranks *loss,
                        struct gyre_launcher_line *teller)
{
    char behind[64];
    all->elastic.lost += loss->ranks;
    if (loss->missed)
        gyre_again_note_missed(all, loss, teller);
    note_first(&all->elastic, loss);
    tell_launchers(all, loss, teller);
    gyre_again_ask(all, loss);
    if (all->tells_early) {
        tell_loss_above(all, loss);
        return;
    }
    gyre_again_decide(all, loss, teller, behind);
    if (has_too_few(all))
        end_with_too_few(all, count_left(all));
    else
        tell_loss(all, loss, behind);
}

bool gyre_children_lose_launcher(struct gyre_children *all, struct gyre_launcher_line *gone)
{
    char text[sizeof gone->name + 64];
    struct gyre_lost_ranks loss = {
        .node = gone->node, .ranks = gone->ranks - gone->lost, .code = 1, .text = text};
    if (!gone->ranks || !gyre_children_may_lose(all))
        return false;
    snprintf(text, sizeof text, "%d rank%s of %s, which has gone", loss.ranks,
             loss.ranks == 1 ? "" : "s", gone->name);
    gone->lost = gone->ranks;
    gyre_again_await_none(all, &gone->awaited);
    if (loss.ranks)
        gyre_children_lose(all, &loss, NULL);
    else if (has_too_few(all))
        end_with_too_few(all, count_left(all));
    return true;
}

void gyre_children_release(struct gyre_children *all, int ranks, int lost)
{
    all->elastic.ranks -= ranks;
    all->elastic.lost -= lost;
    gyre_again_look(all);
    if (gyre_children_may_lose(all) && !all->tells_early && has_too_few(all))
        end_with_too_few(all, count_left(all));
}

/* -- and back ---------------------------------------------------------------------------------- */

static void tell_launchers_back(struct gyre_children *all, const struct gyre_lost_ranks *back,
                                const struct gyre_launcher_line *teller)
{
    for (int i = 0; i < all->launcher_lines; i++)
        if (&all->launcher_line[i] != teller && (all->leads || !teller))
            gyre_launcher_line_say(&all->launcher_line[i], "back %d %d %s", back->node, back->ranks,
                                   back->text);
}

void gyre_children_regain(struct gyre_children *all, const struct gyre_lost_ranks *back,
                          const struct gyre_launcher_line *teller)
{
    char text[64];
    all->elastic.lost -= back->ranks;
    all->elastic.awaited -= all->elastic.awaited > 0;
    tell_launchers_back(all, back, teller);
    if (all->tells_early) {
        snprintf(text, sizeof text, GYRE_BACK_FORMAT, back->ranks);
        gyre_children_say(all, text, back->text, "");
        return;
    }
    snprintf(text, sizeof text, "; %d of %d ranks", count_left(all), all->elastic.ranks);
    gyre_children_say(all, "", back->text, text);
    if (gyre_children_may_lose(all) && has_too_few(all))
        end_with_too_few(all, count_left(all));
}
