/* The meaning of a child's end: nothing, a failure, or a loss to an elastic job.
 *
 *     a rank               ended by a signal            failure, at once
 *                          ended with an exit code      failure, doubted for a moment (outcome.c)
 *     a launcher           "gyre run: rank 4 on b …"    failure, told before its exit code is known
 *     behind ssh           "gyre run: lost 1 137 …"     loss
 *
 * Tested by tests/program/launch/launch.c and elastic.c. */
#include "launch/children/inside.h"

#include "base/machine/starved.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static int exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ", by the kernel because memory is short (…)" of a child that the kernel killed, else nothing. */
static void describe_hunger(const struct gyre_children *all, const struct gyre_child *child,
                            char *text, size_t capacity)
{
    char limit[512];
    *text = 0;
    if (WTERMSIG(child->status) != SIGKILL || gyre_starved_count("") == all->starved)
        return;
    gyre_starved_by("", limit, sizeof limit);
    snprintf(text, capacity,
             ", by the kernel because memory is short (%s): raise the limit, or use fewer ranks or "
             "smaller batches",
             limit);
}

/* "rank 3 on b" … ": exit code 2; its last message: …" */
static void describe_end(const struct gyre_children *all, const struct gyre_child *child,
                         const char *who, char *text, size_t capacity)
{
    char hunger[700];
    int length;
    describe_hunger(all, child, hunger, sizeof hunger);
    if (WIFSIGNALED(child->status))
        length = snprintf(text, capacity, "%s: killed by signal %d (SIG%s)%s", who,
                          WTERMSIG(child->status), sigabbrev_np(WTERMSIG(child->status)), hunger);
    else
        length = snprintf(text, capacity, "%s: exit code %d", who, WEXITSTATUS(child->status));
    if (*child->err.last && (size_t)length < capacity)
        snprintf(text + length, capacity - (size_t)length, "; its" GYRE_QUOTE "%s",
                 child->err.last);
}

/* A launcher behind ssh has told of some of its ranks before; those that are left go with it. */
static void lose_child(struct gyre_children *all, struct gyre_child *child)
{
    char who[sizeof child->name + 32], text[sizeof all->elastic.first];
    struct gyre_lost_ranks loss = {.node = all->node,
                                   .ranks = child->ranks - child->lost,
                                   .code = exit_code(child->status),
                                   .text = text,
                                   .child = child};
    bool awaited = child->awaited > 0;
    child->lost = child->ranks;
    gyre_again_await_none(all, &child->awaited);
    if (all->remote)
        snprintf(who, sizeof who, "%d rank%s behind %s", loss.ranks, loss.ranks == 1 ? "" : "s",
                 child->name);
    else
        snprintf(who, sizeof who, "%s", child->name);
    describe_end(all, child, who, text, sizeof text);
    if (loss.ranks || awaited)
        gyre_children_lose(all, &loss, NULL);
}

void gyre_children_judge(struct gyre_children *all, int index)
{
    const struct gyre_child *child = &all->child[index];
    char who[sizeof child->name + 32], text[sizeof all->first_failure.text];
    if (child->leaves && gyre_children_may_lose(all)) {
        gyre_change_note_gone(all, index);
        return;
    }
    if (all->first_failure.child == index) {
        all->first_failure.child = -1;
        all->first_failure.code =
            child->status ? exit_code(child->status) : all->first_failure.code;
    }
    if (!child->status) {
        if (!all->remote) /* a launcher behind ssh tells of each rank */
            gyre_again_note_well(all);
        return;
    }
    if (gyre_children_may_lose(all)) {
        lose_child(all, &all->child[index]);
        return;
    }
    snprintf(who, sizeof who, "%s failed first", child->name);
    describe_end(all, child, who, text, sizeof text);
    if (WIFSIGNALED(child->status))
        gyre_children_decide(all, exit_code(child->status), text, NULL);
    else
        gyre_children_suspect(all, exit_code(child->status), text);
}

static bool hear_far_loss(struct gyre_children *all, struct gyre_child *child, const char *line)
{
    struct gyre_lost_ranks loss = {.ssh = child};
    int text = 0;
    if (sscanf(line, GYRE_LOSS_FORMAT "%n", &loss.ranks, &loss.code, &text) != 2 || !text)
        return false;
    loss.text = line + text;
    loss.missed = loss.ranks == 0;
    if (child->leaves) {
        gyre_change_note_left(all, child, loss.ranks);
        return true;
    }
    child->lost += loss.ranks;
    if (gyre_children_may_lose(all))
        gyre_children_lose(all, &loss, NULL);
    return true;
}

static bool hear_far_return(struct gyre_children *all, struct gyre_child *child, const char *line)
{
    struct gyre_lost_ranks back = {0};
    int text = 0;
    if (sscanf(line, GYRE_BACK_FORMAT "%n", &back.ranks, &text) != 1 || !text)
        return false;
    back.text = line + text;
    child->lost -= back.ranks;
    child->awaited -= child->awaited > 0;
    gyre_children_regain(all, &back, NULL);
    return true;
}

/* Takes a line about ranks that an elastic job has lost, has again, or needs no more. */
static bool hear_of_ranks(struct gyre_children *all, struct gyre_child *child, const char *line)
{
    bool well = !strcmp(line, GYRE_WELL), left = !strcmp(line, GYRE_LEFT);
    if (well)
        gyre_again_note_well(all);
    if (left)
        gyre_change_note_left(all, child, 1);
    return well || left || hear_far_loss(all, child, line) || hear_far_return(all, child, line);
}

/* A launcher behind ssh reports while its ssh still runs. The report therefore comes before the
 * exit code. */
void gyre_children_hear_report(struct gyre_children *all, int index)
{
    char text[GYRE_LAST_MAX];
    while (gyre_line_tap_take(&all->child[index].err, text)) {
        if (hear_of_ranks(all, &all->child[index], text))
            continue;
        if (all->first_failure.code && all->phase != GYRE_CHILDREN_DOUBTS)
            continue;
        gyre_children_decide(all, 1, text, NULL);
        all->first_failure.child = index;
    }
}
