/* Whether the job is started again, asked once all ranks of this launcher have ended.
 *
 * A job is started again as a whole: every launcher starts its ranks anew, or none does. So node 0
 * waits for all launchers, decides, and tells them:
 *
 *     node 1 ──ended──▶ node 0            ranks of node 1 have ended, well or not
 *     node 2 ──over───▶ node 0            node 2 was told to end, and does not wait
 *                       node 0 ──again──▶ all: a rank failed, restarts are left, nobody said over
 *                       node 0 ──done───▶ all: otherwise
 *
 * The launchers of an elastic job end together in the same way, for each counts the losses of all.
 *
 * A launcher that has gone counts as one whose ranks have ended, and one that lost node 0 decides
 * for itself: all who are left meet again, and wait there for a new launcher of that node. A job
 * without restarts asks nobody.
 *
 * Another start helps neither where the program cannot be started (126, 127) nor where it was used
 * wrongly (2, as the tool itself, shells, getopt and Python's argparse say it).
 *
 * Tested by tests/program/launch/restarts.c. */
#include "launch/children/inside.h"

#define PAUSE_MOST_MS 30000

/* A launcher behind ssh has nobody to ask: the one above watches for its end. */
static bool asks(const struct gyre_children *all)
{
    return !all->tells_early && (all->restarts.most || all->elastic.least);
}

bool gyre_restart_is_useless(int code)
{
    return code == 2 || code == 126 || code == 127;
}

int gyre_restart_pause_ms(int first_ms, int used)
{
    const int most = first_ms > PAUSE_MOST_MS ? first_ms : PAUSE_MOST_MS;
    int pause_ms = first_ms;
    for (int i = 0; i < used && pause_ms < most; i++)
        pause_ms *= 2;
    return pause_ms < most ? pause_ms : most;
}

static bool has_failed_for_good(const struct gyre_children *all)
{
    return all->for_good || gyre_restart_is_useless(all->first_failure.code);
}

static bool may_help(const struct gyre_children *all)
{
    return all->first_failure.code && !has_failed_for_good(all) &&
           all->restarts.used < all->restarts.most;
}

static void say_to_all(struct gyre_children *all, const char *word)
{
    for (int i = 0; i < all->launcher_lines; i++)
        gyre_launcher_line_say(&all->launcher_line[i], "%s", word);
}

/* Node 0 answers for all. Another launcher has been told the answer, or leaves by its own will. */
static void settle(struct gyre_children *all, bool again)
{
    all->restart = again ? GYRE_RESTART_YES : GYRE_RESTART_NO;
    if (all->leads || !asks(all))
        say_to_all(all, again ? "again" : "done");
    else if (!again)
        say_to_all(all, "over");
    for (int i = 0; i < all->launcher_lines; i++)
        all->launcher_line[i].done = true;
}

static bool all_have_ended(const struct gyre_children *all)
{
    for (int i = 0; i < all->launcher_lines; i++)
        if (all->launcher_line[i].fd >= 0 && !all->launcher_line[i].ended)
            return false;
    return true;
}

void gyre_restart_ask(struct gyre_children *all)
{
    if (all->restart != GYRE_RESTART_UNASKED)
        return; /* node 0 was told to end, and has said so */
    if (!asks(all) || has_failed_for_good(all)) {
        settle(all, false);
        return;
    }
    all->restart = GYRE_RESTART_ASKED;
    if (!all->leads)
        say_to_all(all, "ended");
}

bool gyre_restart_is_open(struct gyre_children *all)
{
    bool lost = !all->leads && all->launcher_line[0].fd < 0;
    if (all->restart != GYRE_RESTART_ASKED)
        return false;
    if (all->for_good)
        settle(all, false);
    else if (lost || (all->leads && all_have_ended(all)))
        settle(all, may_help(all));
    return all->restart == GYRE_RESTART_ASKED;
}

void gyre_restart_hear(struct gyre_children *all, struct gyre_launcher_line *teller,
                       enum gyre_word word)
{
    teller->ended = true;
    all->for_good |= word == GYRE_WORD_OVER && asks(all);
    if (all->leads || all->restart == GYRE_RESTART_NO)
        return;
    if (word == GYRE_WORD_AGAIN)
        all->restart = GYRE_RESTART_YES;
    else if (word == GYRE_WORD_DONE && all->restart == GYRE_RESTART_YES)
        all->for_good = true; /* in the pause */
    else if (word == GYRE_WORD_DONE)
        all->restart = GYRE_RESTART_NO;
}

void gyre_restart_revoke(struct gyre_children *all)
{
    settle(all, false);
}
