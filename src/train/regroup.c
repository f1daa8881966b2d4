/* Ranks that go on after a loss: --elastic.
 *
 *     a collective fails with GYRE_PEER_LOST, on every rank that is left
 *       ─▶ gyre_shrink() ─▶ a smaller communicator ◀──────── another rank is lost meanwhile ──╮
 *            ─▶ running means back to those behind the last step                              │
 *                 ─▶ the engine gives all ranks the values of the one that is ahead           │
 *                      ─▶ position, sums and optimiser from the rank that is furthest ────────┤
 *                           ─▶ samples are dealt anew, from there on                          │
 *                                ─▶ the next step                                             │
 *
 * Ranks differ by one step at most. A step that one rank has completed has the samples of all, the
 * lost one's too, so all take it over. A step that none has completed is made again, by those that
 * are left, over the same samples. So no sample is lost, and none counts twice.
 *
 * Tested by tests/program/train/elastic.c. */
#include "train/inside.h"

#include "base/clock.h"
#include "base/env.h"
#include "model/network/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TOLD_MOST = 8 }; /* lost ranks that a line names */

/* What a rank must have alike behind a step, beside weights and optimiser. */
struct train_position {
    uint64_t step, epoch, cursor;
    struct gyre_train_best best;
    struct gyre_train_tally tally;
    double norm;
    bool stop;
};

/* -- who is left ------------------------------------------------------------------------------- */

size_t gyre_train_list_rank(char *text, size_t used, size_t size, bool first, int rank,
                            const char *host, int pid)
{
    if (used >= size)
        return used;
    return used + (size_t)snprintf(text + used, size - used, "%srank %d on %.63s (pid %d)",
                                   first ? "" : ", ", rank, host, pid);
}

/* Appends the ranks that `old` has lost. Those that have left are named as such. */
static void list_lost(struct gyre_comm *old, char *text, size_t size)
{
    struct gyre_lost_rank lost[TOLD_MOST];
    int count = 0;
    size_t used = strlen(text);
    bool left = true;
    gyre_failure(old, lost, TOLD_MOST, &count);
    for (int i = 0; i < count && i < TOLD_MOST; i++)
        left = left && lost[i].reason == GYRE_LOST_LEFT;
    if (!used)
        used = (size_t)snprintf(text, size, "%s", left ? "let go " : "lost ");
    for (int i = 0; i < count && i < TOLD_MOST; i++)
        used = gyre_train_list_rank(text, used, size, text[used - 1] == ' ', lost[i].rank,
                                    lost[i].host, lost[i].pid);
    if (count > TOLD_MOST && used < size)
        snprintf(text + used, size - used, " and %d more", count - TOLD_MOST);
}

static int refuse_so_few(struct gyre_train *t, const char *lost)
{
    t->common = true;
    return gyre_trouble_set(t->trouble, GYRE_PEER_LOST,
                            "%s: %d rank%s left, and --elastic wants %" PRId64, lost, t->n,
                            t->n > 1 ? "s are" : " is", t->options->elastic);
}

int gyre_train_change_ranks(struct gyre_train *t)
{
    int status = gyre_train_explain(t, gyre_replica_regroup(&t->replica, t->comm));
    gyre_finalize(t->former); /* has a story of its own */
    t->former = NULL;
    return status;
}

/* Makes the communicator of those that are left this training's. */
static int take_those_left(struct gyre_train *t, char *lost, size_t size)
{
    struct gyre_comm *old = t->comm, *smaller;
    int status = gyre_shrink(old, &smaller);
    t->common = status != 0; /* there is nobody to try again with */
    if (status)
        return gyre_trouble_set(t->trouble, status, "%s", gyre_error(NULL));
    list_lost(old, lost, size);
    t->comm = *t->owned = smaller;
    t->rank = gyre_rank(smaller);
    t->n = gyre_size(smaller);
    if (t->former) /* the engine has not come to `old` */
        gyre_finalize(old);
    else
        t->former = old;
    gyre_running_restore(&t->replica.running);
    return gyre_train_change_ranks(t);
}

/* -- from where -------------------------------------------------------------------------------- */

/* Finds the lowest of the ranks that are furthest. */
static int find_foremost(struct gyre_train *t, int *furthest)
{
    uint64_t mine[2] = {t->step, t->epoch}, *all = calloc(2 * (size_t)t->n, sizeof *all);
    int status = all ? gyre_all_gather(t->comm, mine, all, 2, GYRE_U64) : -ENOMEM;
    *furthest = 0;
    for (int rank = 1; !status && rank < t->n; rank++) {
        const uint64_t *best = &all[2 * *furthest], *here = &all[2 * rank];
        if (here[0] > best[0] || (here[0] == best[0] && here[1] > best[1]))
            *furthest = rank;
    }
    free(all);
    return status;
}

static int share_position(struct gyre_train *t, int from)
{
    struct train_position position = {t->step,  t->epoch, t->cursor, t->best,
                                      t->tally, t->norm,  t->stop};
    int status = gyre_broadcast(t->comm, &position, &position, sizeof position, GYRE_U8, from);
    if (status)
        return status;
    t->step = position.step;
    t->epoch = position.epoch;
    t->cursor = position.cursor;
    t->best = position.best;
    t->tally = position.tally;
    t->norm = position.norm;
    t->stop = position.stop;
    return 0;
}

/* Reports the step that this rank has not completed, and has taken over: what the sums of the epoch
 * have grown by. */
static void tell_taken_over(struct gyre_train *t, const struct gyre_train_tally *before)
{
    const struct gyre_train_tally *now = &t->tally;
    uint64_t took_ns = (uint64_t)((now->seconds - before->seconds) * 1e9);
    struct gyre_train_done done = {
        .step = t->step, .epoch = t->epoch, .since_ns = gyre_now_ns() - took_ns};
    done.result.samples = (uint64_t)(now->samples - before->samples);
    done.result.sum[GYRE_TRAIN_LOSS_SUM] = now->loss - before->loss;
    done.result.sum[GYRE_TRAIN_RIGHT_SUM] = now->right - before->right;
    if (now->steps > before->steps)
        gyre_train_tell_step(t, &done);
}

int gyre_train_catch_up(struct gyre_train *t)
{
    struct gyre_train_tally before = t->tally;
    int from;
    int status = find_foremost(t, &from);
    if (!status)
        status = share_position(t, from);
    if (!status)
        status = gyre_replica_follow(&t->replica, from, t->trouble);
    if (!status)
        status = gyre_train_keep_running(t);
    if (!status)
        status = gyre_train_compare_state(t);
    if (!status)
        tell_taken_over(t, &before);
    return gyre_train_explain(t, status);
}

/* -- what depends on the ranks ----------------------------------------------------------------- */

int gyre_train_open_books(struct gyre_train *t)
{
    gyre_checkpoint_destroy(t->checkpoint);
    t->checkpoint = NULL;
    int status = gyre_train_list_checkpoint(t);
    if (!status)
        status = gyre_train_deal(t);
    if (status || t->rank || t->report)
        return status;
    t->terminal = t->any_terminal; /* the rank that spoke is lost */
    return gyre_train_open_report(t);
}

void gyre_train_tell_ranks(const struct gyre_train *t, const char *what)
{
    if (t->report)
        gyre_report_note(t->report,
                         "%s; %d rank%s on from step %" PRIu64 ", sample %" PRIu64
                         " of epoch %" PRIu64,
                         what, t->n, t->n > 1 ? "s go" : " goes", t->step, t->cursor, t->epoch + 1);
}

/* Adds those that are lost now to those that were in an attempt before. */
static int regroup_once(struct gyre_train *t, char lost[700])
{
    *t->trouble = (struct gyre_trouble){0};
    int status = gyre_train_settle(t);
    if (!status)
        status = take_those_left(t, lost, 700);
    if (!status && t->n < t->options->elastic && !t->patient)
        return refuse_so_few(t, lost);
    if (!status)
        status = gyre_train_catch_up(t);
    if (!status)
        status = gyre_train_agree(t, gyre_train_open_books(t));
    if (!status)
        gyre_train_tell_ranks(t, lost);
    return status ? status : gyre_train_let_wait(t);
}

/* A launcher that starts lost ranks again says how often, and how few a job may have. */
static bool are_lost_ranks_started_again(void)
{
    int64_t most = 0, used = 0;
    (void)gyre_env_int("TORCHELASTIC_MAX_RESTARTS", 0, INT32_MAX, &most, NULL);
    (void)gyre_env_int("TORCHELASTIC_RESTART_COUNT", 0, INT32_MAX, &used, NULL);
    return getenv("GYRE_ELASTIC") && most > used;
}

int gyre_train_let_wait(struct gyre_train *t)
{
    struct gyre_comm *none;
    t->patient = are_lost_ranks_started_again();
    int status = t->options->elastic ? gyre_grow(t->comm, 0, &none) : 0;
    if (!status || status == GYRE_PEER_LOST)
        return status;
    if (gyre_failure(t->comm, NULL, 0, NULL))
        return gyre_train_explain(t, status);
    if (t->report && status != GYRE_UNSUPPORTED)
        gyre_report_note(t->report, "warning: nobody can join: %s", gyre_error(NULL));
    return 0;
}

int gyre_train_regroup(struct gyre_train *t)
{
    char lost[700] = "";
    int status;
    do
        status = regroup_once(t, lost);
    while (status == GYRE_PEER_LOST && !t->common);
    return status;
}

/* Leaves the others. Who speaks closes the report first: the next rank 0 opens it. */
static int leave_training(struct gyre_train *t)
{
    struct gyre_trouble unwritten = {0};
    gyre_report_close(t->report, &unwritten);
    t->report = NULL;
    t->gone = t->common = true;
    int status = gyre_shrink(t->comm, NULL);
    return status ? gyre_trouble_set(t->trouble, status, "%s", gyre_error(NULL)) : 0;
}

int gyre_train_part(struct gyre_train *t)
{
    const bool enough = t->n - t->leaving >= t->options->elastic;
    t->leaving = 0;
    if (!enough)
        return 0;
    return t->leaves ? leave_training(t) : gyre_train_regroup(t);
}
