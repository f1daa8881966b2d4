/* How a crew ends: the phases, and the one story that is told about it.
 *
 * The first failure decides. It is told to the launchers of other nodes, which tell it as theirs;
 * and where a launcher above us waits for it (ssh), it is printed at once, because that launcher
 * must hear of the cause before it sees the echo:
 *
 *     rank 4 on b killed ──report──▶ launcher above: verdict ──▶ last line
 *     rank 0 on a lost its peer ────────────────────▶ (dropped: a verdict stands)
 *
 * An exit code may itself be the echo of a death whose news is slower: a dying process closes its
 * sockets, and may then lose its core for some milliseconds before its parent hears of it. So a
 * mere exit code is doubted for a moment, in which a death by signal, or word from another
 * launcher, takes its place. Where in that moment all ranks ended with one and the same code, and what
 * they said is the same, they refused alike: then none of them was first. */
#include "launch/children_inside.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- phases ----------------------------------------------------------------------------------- */

void gyre_crew_enter(struct gyre_crew *crew, enum gyre_crew_phase phase, int limit_ms)
{
    crew->phase = phase;
    crew->deadline_ns = limit_ms ? gyre_now_ns() + (uint64_t)limit_ms * GYRE_MS : 0;
}

void gyre_crew_signal(struct gyre_crew *crew, int number)
{
    char line[32];
    int length = snprintf(line, sizeof line, "signal %d\n", number);
    if (!crew->remote)
        gyre_group_signal(&crew->group, number);
    for (int i = 0; crew->remote && i < crew->children; i++)
        if (crew->child[i].pidfd >= 0 && write(crew->child[i].input, line, (size_t)length) < 0)
            continue; /* its ssh has just ended: seen as such in a moment */
}

void gyre_crew_end(struct gyre_crew *crew, int number)
{
    gyre_crew_signal(crew, number);
    /* A launcher behind ssh needs the same time for its ranks and a little more for the way back.
     */
    gyre_crew_enter(crew, GYRE_CREW_ENDS,
                    GYRE_CREW_TERM_MS + (crew->remote ? GYRE_CREW_LAST_WORDS_MS : 0));
}

void gyre_crew_kill(struct gyre_crew *crew)
{
    gyre_group_signal(&crew->group, SIGKILL);
    gyre_crew_enter(crew, GYRE_CREW_KILLED, 0);
}

/* --- the first failure ------------------------------------------------------------------------ */

static void set_verdict(struct gyre_crew *crew, int code, const char *text)
{
    crew->verdict.code = code;
    crew->verdict.suspected = false;
    snprintf(crew->verdict.text, sizeof crew->verdict.text, "%s", text);
}

/* What all children said at last, as far as they said something; NULL if that differs. */
static const char *common_word(const struct gyre_crew *crew)
{
    const char *word = "";
    for (int i = 0; i < crew->children; i++) {
        const char *last = crew->child[i].err.last;
        if (*last && *word && strcmp(last, word) != 0)
            return NULL;
        word = *last ? last : word;
    }
    return word;
}

static bool ended_alike(const struct gyre_crew *crew)
{
    const int status = crew->child[0].status;
    for (int i = 0; i < crew->children; i++)
        if (crew->child[i].pidfd >= 0 || crew->child[i].status != status)
            return false;
    return crew->children > 1 && WIFEXITED(status);
}

static void join_verdicts(struct gyre_crew *crew)
{
    char text[sizeof crew->verdict.text];
    const char *word = crew->verdict.suspected && !crew->remote ? common_word(crew) : NULL;
    if (!word || !ended_alike(crew))
        return;
    snprintf(text, sizeof text, "all %d ranks on %s failed alike: exit code %d%s%s", crew->children,
             gyre_host_name(), crew->verdict.code, *word ? "; the last message: " : "", word);
    set_verdict(crew, crew->verdict.code, text);
}

void gyre_crew_report(struct gyre_crew *crew)
{
    struct gyre_tap line = {.fd = -1, .log_fd = -1};
    char text[sizeof crew->verdict.text + sizeof GYRE_REPORT_PREFIX];
    join_verdicts(crew);
    snprintf(text, sizeof text, "%s%s", GYRE_REPORT_PREFIX, crew->verdict.text);
    line.sink = &crew->err;
    line.line = text;
    line.length = strlen(text);
    gyre_tap_finish(&line);
}

void gyre_crew_announce(struct gyre_crew *crew, const struct gyre_ear *teller)
{
    if (crew->verdict.announced || !crew->verdict.code)
        return;
    join_verdicts(crew);
    crew->verdict.announced = true;
    for (int i = 0; i < crew->ears; i++)
        if (&crew->ear[i] != teller && (crew->relays || !teller))
            gyre_ear_say(&crew->ear[i], "failed %d %s", crew->verdict.code, crew->verdict.text);
    if (crew->tells_early && !teller)
        gyre_crew_report(crew);
}

void gyre_crew_decide(struct gyre_crew *crew, int code, const char *text,
                      const struct gyre_ear *teller)
{
    if (crew->verdict.code && crew->phase != GYRE_CREW_DOUBTS)
        return;
    set_verdict(crew, code, text);
    gyre_crew_announce(crew, teller);
    if (crew->phase <= GYRE_CREW_DOUBTS)
        gyre_crew_enter(crew, GYRE_CREW_LAST_WORDS, GYRE_CREW_LAST_WORDS_MS);
}

static void suspect(struct gyre_crew *crew, int code, const char *text)
{
    if (crew->verdict.code)
        return;
    set_verdict(crew, code, text);
    crew->verdict.suspected = true;
    gyre_crew_enter(crew, GYRE_CREW_DOUBTS, GYRE_CREW_DOUBT_MS);
}

static int exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void describe(const struct gyre_child *child, char *text, size_t capacity)
{
    int length;
    if (WIFSIGNALED(child->status))
        length =
            snprintf(text, capacity, "%s failed first: killed by signal %d (SIG%s)", child->name,
                     WTERMSIG(child->status), sigabbrev_np(WTERMSIG(child->status)));
    else
        length = snprintf(text, capacity, "%s failed first: exit code %d", child->name,
                          WEXITSTATUS(child->status));
    if (*child->err.last && (size_t)length < capacity)
        snprintf(text + length, capacity - (size_t)length, "; its last message: %s",
                 child->err.last);
}

void gyre_crew_judge(struct gyre_crew *crew, int index)
{
    const struct gyre_child *child = &crew->child[index];
    char text[sizeof crew->verdict.text];
    if (crew->verdict.child == index) {
        crew->verdict.child = -1;
        crew->verdict.code = child->status ? exit_code(child->status) : crew->verdict.code;
    }
    if (!child->status)
        return;
    describe(child, text, sizeof text);
    if (WIFSIGNALED(child->status))
        gyre_crew_decide(crew, exit_code(child->status), text, NULL);
    else
        suspect(crew, exit_code(child->status), text);
}

/* A launcher behind ssh reports while its ssh still runs: the story comes before the exit code. */
void gyre_crew_hear_report(struct gyre_crew *crew, int index)
{
    const struct gyre_tap *tap = &crew->child[index].err;
    if (!*tap->kept || (crew->verdict.code && crew->phase != GYRE_CREW_DOUBTS))
        return;
    gyre_crew_decide(crew, 1, tap->kept + strlen(tap->aside), NULL);
    crew->verdict.child = index;
}
