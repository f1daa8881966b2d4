/* The rules of the children's end: the phases, and the failure that is reported.
 *
 * The first failure is the one reported. The launchers of other nodes are told the failure and
 * report the same. Where a launcher above waits for the report (ssh), the failure is printed at
 * once, because the launcher above must hear of the cause before the consequences:
 *
 *     rank 4 on b killed ──report──▶ launcher above: first failure ──▶ last line
 *     rank 0 on a lost its peer ────────────────────▶ (dropped: there is a first failure)
 *
 * An exit code may be the consequence of a death that is noticed later: a dying process closes its
 * sockets, and may then lose its core for some milliseconds before its parent hears of the death.
 * So an exit code is doubted for a moment, in which a death by signal or a failure told by another
 * launcher replaces it. Where in that moment all ranks ended with one code and the same last
 * message, they failed alike, and none of them was first. A message that a report ends with is left
 * out where the reader still has it before him.
 *
 * An elastic job has losses before it has a failure (loss.c). A launcher behind ssh that a signal
 * ends is one to it, so it reports nothing then.
 *
 * Tested by tests/program/launch/launch.c. */
#include "launch/children/inside.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- phases ----------------------------------------------------------------------------------- */

void gyre_children_enter(struct gyre_children *all, enum gyre_children_phase phase, int limit_ms)
{
    all->phase = phase;
    all->deadline_ns = limit_ms ? gyre_now_ns() + (uint64_t)limit_ms * GYRE_MS : 0;
}

void gyre_children_signal(struct gyre_children *all, int number)
{
    char line[32];
    snprintf(line, sizeof line, "signal %d\n", number);
    if (!all->remote)
        gyre_process_group_signal(&all->group, number);
    for (int i = 0; all->remote && i < all->children; i++)
        gyre_child_say(&all->child[i], line);
}

void gyre_children_end(struct gyre_children *all, int number)
{
    gyre_children_signal(all, number);
    /* A launcher behind ssh gives its ranks the same time and needs a little more to report. */
    gyre_children_enter(all, GYRE_CHILDREN_ENDS,
                        GYRE_CHILDREN_TERM_MS + (all->remote ? GYRE_CHILDREN_LAST_WORDS_MS : 0));
}

void gyre_children_kill(struct gyre_children *all)
{
    gyre_process_group_signal(&all->group, SIGKILL);
    gyre_children_enter(all, GYRE_CHILDREN_KILLED, 0);
}

/* --- the first failure ------------------------------------------------------------------------ */

static void set_verdict(struct gyre_children *all, int code, const char *text)
{
    all->first_failure.code = code;
    all->first_failure.suspected = false;
    snprintf(all->first_failure.text, sizeof all->first_failure.text, "%s", text);
}

/* The last message of the children that wrote one; NULL where two children's messages differ. */
static const char *common_word(const struct gyre_children *all)
{
    const char *word = "";
    for (int i = 0; i < all->children; i++) {
        const char *last = all->child[i].err.last;
        if (*last && *word && strcmp(last, word) != 0)
            return NULL;
        word = *last ? last : word;
    }
    return word;
}

static bool ended_alike(const struct gyre_children *all)
{
    const int status = all->child[0].status;
    for (int i = 0; i < all->children; i++)
        if (all->child[i].pidfd >= 0 || all->child[i].status != status)
            return false;
    return all->children > 1 && WIFEXITED(status);
}

static void join_verdicts(struct gyre_children *all)
{
    char text[sizeof all->first_failure.text];
    const char *word = all->first_failure.suspected && !all->remote ? common_word(all) : NULL;
    if (!word || !ended_alike(all))
        return;
    snprintf(text, sizeof text, "all %d ranks on %s failed alike: exit code %d%s%s%s",
             all->children, gyre_host_name(), all->first_failure.code, *word ? "; the" : "",
             *word ? GYRE_QUOTE : "", word);
    set_verdict(all, all->first_failure.code, text);
}

bool gyre_children_may_lose(const struct gyre_children *all)
{
    return all->elastic.least && all->phase == GYRE_CHILDREN_RUNS && !all->first_failure.code;
}

/* The length of a failure's text without the message that it ends with, where the reader still has
 * that before him. */
static size_t untold_length(const struct gyre_children *all, const char *text)
{
    const char *quote = strstr(text, GYRE_QUOTE);
    if (!quote || !gyre_shown_recently(&all->shown, quote + strlen(GYRE_QUOTE)))
        return strlen(text);
    return (size_t)(quote - text) - strlen("; its");
}

/* "restart 1 of 3 in 2 s: " before the failure, or " (after 3 restarts)" behind it. */
static void tell_restarts(const struct gyre_children *all, char before[64], char behind[64])
{
    int used = all->restarts.used, pause_ms = all->restarts.pause_ms;
    char pause[32] = "";
    *before = *behind = 0;
    if (pause_ms)
        snprintf(pause, sizeof pause, " in %g s", pause_ms / 1e3);
    if (all->restart == GYRE_RESTART_YES)
        snprintf(before, 64, "restart %d of %d%s: ", used + 1, all->restarts.most, pause);
    else if (used)
        snprintf(behind, 64, " (after %d restart%s)", used, used > 1 ? "s" : "");
}

void gyre_children_say(struct gyre_children *all, const char *before, const char *text,
                       const char *behind)
{
    struct gyre_line_tap line = {.fd = -1, .log_fd = -1, .sink = &all->err};
    char whole[sizeof all->first_failure.text + 256];
    snprintf(whole, sizeof whole, GYRE_REPORT_PREFIX "%s%.*s%s", before,
             (int)untold_length(all, text), text, behind);
    line.line = whole;
    line.length = strlen(whole);
    gyre_line_tap_finish(&line);
}

void gyre_children_report(struct gyre_children *all)
{
    char before[64], behind[64], more[160];
    join_verdicts(all);
    tell_restarts(all, before, behind);
    snprintf(more, sizeof more, "%s", behind);
    if (all->shown.left_out)
        snprintf(more, sizeof more,
                 "%s (%u more failures are not shown; --log-dir FOLDER keeps all)", behind,
                 all->shown.left_out);
    gyre_children_say(all, before, all->first_failure.text, more);
}

void gyre_children_announce(struct gyre_children *all, const struct gyre_launcher_line *teller)
{
    if (all->first_failure.announced || !all->first_failure.code)
        return;
    join_verdicts(all);
    all->first_failure.announced = true;
    for (int i = 0; i < all->launcher_lines; i++)
        if (&all->launcher_line[i] != teller && (all->leads || !teller))
            gyre_launcher_line_say(&all->launcher_line[i], "failed %d %s", all->first_failure.code,
                                   all->first_failure.text);
    if (all->tells_early && !teller && !(all->elastic.least && all->for_good))
        gyre_children_report(all);
}

void gyre_children_decide(struct gyre_children *all, int code, const char *text,
                          const struct gyre_launcher_line *teller)
{
    if (all->first_failure.code && all->phase != GYRE_CHILDREN_DOUBTS &&
        all->phase != GYRE_CHILDREN_PAUSES)
        return;
    set_verdict(all, code, text);
    gyre_children_announce(all, teller);
    if (all->phase <= GYRE_CHILDREN_DOUBTS && all->alive)
        gyre_children_enter(all, GYRE_CHILDREN_LAST_WORDS, GYRE_CHILDREN_LAST_WORDS_MS);
}

void gyre_children_suspect(struct gyre_children *all, int code, const char *text)
{
    if (all->first_failure.code)
        return;
    set_verdict(all, code, text);
    all->first_failure.suspected = true;
    gyre_children_enter(all, GYRE_CHILDREN_DOUBTS, GYRE_CHILDREN_DOUBT_MS);
}
