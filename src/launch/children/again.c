/* Ranks of an elastic job that are started again, each in the place of one that was lost.
 *
 *     lost ─▶ the leader decides ─▶ a pause, longer each time ─▶ the caller starts it ─▶ back
 *
 * The leader decides for all: the launcher above those behind ssh, or node 0 of those that have
 * met. Whoever tells it a loss waits for its answer:
 *
 *     node 1 ──lost…───▶ node 0
 *                        node 0 ──restart 1 3…─▶ node 1    start the place that was lost first
 *                        node 0 ──forget───────▶ node 1    it stays empty
 *     node 1 ──back…───▶ all                               its rank is no loss any more
 *     node 1 ──well────▶ node 0                            a rank has ended well
 *                        node 0 ──closing──────▶ all       nobody runs any more
 *
 * A place stays empty when all restarts are used, when its rank has ended with a code that another
 * start does not mend, and when nobody is left whom the rank could join. Ranks of a job end one
 * soon after the other. So no rank is started within CALM after another has ended well.
 *
 * Tested by tests/program/launch/elastic.c, hosts.c and meet.c. */
#include "launch/children/inside.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CALM (2 * GYRE_SECOND)

/* -- the leader -------------------------------------------------------------------------------- */

static bool decides(const struct gyre_children *all)
{
    return all->leads && !all->tells_early;
}

static int count_running(const struct gyre_children *all)
{
    return all->elastic.ranks - all->elastic.lost - all->elastic.well;
}

static void close_if_over(struct gyre_children *all)
{
    if (count_running(all) > 0 || all->elastic.closing)
        return;
    all->elastic.closing = true;
    for (int i = 0; i < all->launcher_lines; i++)
        gyre_launcher_line_say(&all->launcher_line[i], "closing");
    for (int i = 0; all->remote && i < all->children; i++)
        gyre_child_say(&all->child[i], "closing\n");
}

/* Answers whoever told a loss. */
static void answer_teller(const struct gyre_lost_ranks *loss, struct gyre_launcher_line *teller,
                          const char *word)
{
    char line[GYRE_HOSTS_TEXT + 64];
    snprintf(line, sizeof line, "%s\n", word);
    if (teller)
        gyre_launcher_line_say(teller, "%s", word);
    if (loss->ssh)
        gyre_child_say(loss->ssh, line);
}

static void add_host_name(char text[GYRE_HOSTS_TEXT], int *count, const char *host)
{
    size_t used = strlen(text);
    if (!*host || *count == GYRE_HOSTS_MOST || used + strlen(host) + 2 > GYRE_HOSTS_TEXT)
        return;
    snprintf(text + used, GYRE_HOSTS_TEXT - used, "%s%s", used ? "," : "", host);
    ++*count;
}

static bool is_old(const struct gyre_child *child)
{
    return child->returns == 0 && !child->young;
}

void gyre_children_list_hosts(const struct gyre_children *all, char text[GYRE_HOSTS_TEXT])
{
    int count = 0;
    *text = 0;
    if (!decides(all)) {
        snprintf(text, GYRE_HOSTS_TEXT, "%s", all->hosts);
        return;
    }
    for (int old = 1; all->remote && old >= 0; old--)
        for (int i = 0; i < all->children; i++)
            if (all->child[i].pidfd >= 0 && is_old(&all->child[i]) == old)
                add_host_name(text, &count, all->child[i].host);
    add_host_name(text, &count, all->here);
    for (int i = 0; i < all->launcher_lines; i++)
        if (all->launcher_line[i].fd >= 0)
            add_host_name(text, &count, all->launcher_line[i].host);
}

static void start_later(struct gyre_children *all, struct gyre_child *child, int restart)
{
    int pause_ms = gyre_restart_pause_ms(all->restarts.first_pause_ms, child->returns++);
    child->again = GYRE_CHILD_RETURNS;
    child->restart = restart;
    child->due_ns = gyre_now_ns() + (uint64_t)pause_ms * GYRE_MS;
}

static void grant_restart(struct gyre_children *all, const struct gyre_lost_ranks *loss,
                          struct gyre_launcher_line *teller)
{
    char word[GYRE_HOSTS_TEXT + 48], hosts[GYRE_HOSTS_TEXT];
    all->elastic.awaited++;
    if (teller)
        teller->awaited++;
    if (loss->ssh)
        loss->ssh->awaited++;
    gyre_children_list_hosts(all, hosts);
    snprintf(word, sizeof word, "restart %d %d %s", ++all->restarts.used, all->restarts.most,
             hosts);
    if (loss->child)
        start_later(all, loss->child, all->restarts.used);
    else
        answer_teller(loss, teller, word);
}

static void describe_restart(const struct gyre_children *all, const struct gyre_child *child,
                             char behind[64])
{
    char pause[32] = "";
    int pause_ms =
        child ? gyre_restart_pause_ms(all->restarts.first_pause_ms, child->returns - 1) : 0;
    if (pause_ms)
        snprintf(pause, sizeof pause, " in %g s", pause_ms / 1e3);
    snprintf(behind, 64, "; restart %d of %d%s", all->restarts.used, all->restarts.most, pause);
}

bool gyre_again_decide(struct gyre_children *all, const struct gyre_lost_ranks *loss,
                       struct gyre_launcher_line *teller, char behind[64])
{
    *behind = 0;
    if (!decides(all) || !all->elastic.returns)
        return false;
    if (all->restarts.used >= all->restarts.most || gyre_restart_is_useless(loss->code) ||
        count_running(all) <= 0 || !(loss->child || loss->ssh || teller)) {
        answer_teller(loss, teller, "forget");
        close_if_over(all);
        return false;
    }
    grant_restart(all, loss, teller);
    describe_restart(all, loss->child, behind);
    return true;
}

void gyre_again_note_missed(struct gyre_children *all, const struct gyre_lost_ranks *loss,
                            struct gyre_launcher_line *teller)
{
    all->elastic.awaited -= all->elastic.awaited > 0;
    if (teller)
        teller->awaited -= teller->awaited > 0;
    if (loss->ssh)
        loss->ssh->awaited -= loss->ssh->awaited > 0;
}

void gyre_again_await_none(struct gyre_children *all, int *awaited)
{
    all->elastic.awaited -= *awaited;
    *awaited = 0;
}

/* -- whoever has lost a rank ------------------------------------------------------------------- */

bool gyre_again_asks(const struct gyre_children *all)
{
    return all->elastic.returns && !decides(all) && all->launcher_lines &&
           all->launcher_line[0].fd >= 0;
}

void gyre_again_ask(struct gyre_children *all, const struct gyre_lost_ranks *loss)
{
    if (!loss->child || all->leaving || !gyre_again_asks(all))
        return;
    loss->child->again = GYRE_CHILD_ASKS;
    loss->child->due_ns = gyre_now_ns(); /* since when it asks */
}

/* The child that asks for longest; NULL: none. */
static struct gyre_child *find_asker(struct gyre_children *all)
{
    struct gyre_child *first = NULL;
    for (int i = 0; i < all->children; i++)
        if (all->child[i].again == GYRE_CHILD_ASKS &&
            (!first || all->child[i].due_ns < first->due_ns))
            first = &all->child[i];
    return first;
}

void gyre_again_note_well(struct gyre_children *all)
{
    if (!all->elastic.returns)
        return;
    if (all->leaving && all->tells_early) {
        gyre_children_say(all, GYRE_LEFT, "", "");
        return;
    }
    all->elastic.well++;
    all->elastic.calm_ns = gyre_now_ns() + CALM;
    if (all->tells_early)
        gyre_children_say(all, GYRE_WELL, "", "");
    else if (all->leads)
        close_if_over(all);
    else
        gyre_launcher_line_say(&all->launcher_line[0], "well");
}

void gyre_again_stop(struct gyre_children *all)
{
    for (int i = 0; i < all->children; i++)
        all->child[i].again = GYRE_CHILD_ENDS;
}

void gyre_again_look(struct gyre_children *all)
{
    if (decides(all) && all->elastic.returns)
        close_if_over(all);
}

/* -- words of other launchers ------------------------------------------------------------------ */

static void take_restart(struct gyre_children *all, const struct gyre_heard *heard)
{
    struct gyre_child *child = find_asker(all);
    all->restarts.used = heard->number;
    all->restarts.most = heard->ranks;
    snprintf(all->hosts, sizeof all->hosts, "%s", heard->text);
    if (child)
        start_later(all, child, heard->number);
}

void gyre_again_hear(struct gyre_children *all, const struct gyre_heard *heard)
{
    struct gyre_child *child;
    if (!all->elastic.returns)
        return;
    if (heard->word == GYRE_WORD_RESTART)
        take_restart(all, heard);
    else if (heard->word == GYRE_WORD_FORGET && (child = find_asker(all)))
        child->again = GYRE_CHILD_ENDS;
    else if (heard->word == GYRE_WORD_CLOSING)
        all->elastic.closing = true;
    else if (heard->word == GYRE_WORD_WELL && all->leads)
        gyre_again_note_well(all);
}

/* -- when -------------------------------------------------------------------------------------- */

bool gyre_again_waits(const struct gyre_children *all)
{
    if (!gyre_children_may_lose(all) || all->elastic.closing)
        return false;
    for (int i = 0; i < all->children; i++)
        if (all->child[i].again == GYRE_CHILD_RETURNS ||
            (all->child[i].again == GYRE_CHILD_ASKS && gyre_again_asks(all)))
            return true;
    return false;
}

static uint64_t start_time(const struct gyre_children *all, const struct gyre_child *child)
{
    return child->due_ns > all->elastic.calm_ns ? child->due_ns : all->elastic.calm_ns;
}

/* The child that is started next; -1: none. */
static int find_next(const struct gyre_children *all)
{
    int next = -1;
    if (!gyre_again_waits(all))
        return -1;
    for (int i = 0; i < all->children; i++)
        if (all->child[i].again == GYRE_CHILD_RETURNS &&
            (next < 0 || all->child[i].due_ns < all->child[next].due_ns))
            next = i;
    return next;
}

uint64_t gyre_again_next_ns(const struct gyre_children *all)
{
    int next = find_next(all);
    return next < 0 ? 0 : start_time(all, &all->child[next]);
}

int gyre_again_due(const struct gyre_children *all)
{
    int next = find_next(all);
    return next >= 0 && gyre_now_ns() >= start_time(all, &all->child[next]) ? next : -1;
}
