/* Processes that join a training that runs, between two of its steps: --elastic.
 *
 *     ranks       a step's sums say that somebody waits ─▶ gyre_grow() ─╮
 *     newcomer    data, model ─▶ gyre_init(), which waits ──────────────┤ a larger communicator
 *                                                                       ▼
 *     all         options and data compared ─▶ engine ─▶ means of --scale
 *                   ─▶ weights, optimiser, scaler and position of the rank that is furthest
 *                     ─▶ their digests compared ─▶ samples are dealt anew ─▶ the next step
 *
 * The newcomer reads its data before it asks, so the ranks wait for the hand-over only. A newcomer
 * that does not fit says why, and leaves; the others go on as after a loss. Where a rank is lost on
 * the way, the newcomer asks again.
 *
 * Tested by tests/program/train/newcomers.c. */
#include "train/inside.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NEWCOMERS_AT_ONCE = 64, WAIT_MS = 300000, LOOK_NS = 20000000 };

/* -- what is handed over ----------------------------------------------------------------------- */

/* Gives all the means that rank 0 has, which may be a checkpoint's. */
static int share_scale(struct gyre_train *t)
{
    uint64_t columns = t->scale.columns;
    int status = gyre_broadcast(t->comm, &columns, &columns, 1, GYRE_U64, 0);
    if (!status && columns && !t->scale.columns)
        status = gyre_scale_init(&t->scale, columns, t->trouble);
    if (!status && columns)
        status = gyre_broadcast(t->comm, t->scale.mean, t->scale.mean, 2 * columns, GYRE_F64, 0);
    return gyre_train_explain(t, status);
}

/* What a newcomer does by itself, once it has the means. */
static int finish_own(struct gyre_train *t)
{
    int status = t->scaled ? 0 : gyre_train_apply_scale(t);
    t->scaled = true;
    if (!status && t->options->sync_bn)
        gyre_model_sync_batches(t->replica.model);
    return status ? status : gyre_train_prepare_elastic(t);
}

static int hand_over(struct gyre_train *t, bool comes)
{
    int status = gyre_train_compare_options(t);
    if (!status)
        status = gyre_train_compare_data(t);
    if (!status)
        status =
            gyre_train_agree(t, comes ? gyre_train_make_engine(t) : gyre_train_change_ranks(t));
    if (!status)
        status = share_scale(t);
    if (!status)
        status = gyre_train_agree(t, comes ? finish_own(t) : 0);
    if (!status)
        status = gyre_train_catch_up(t);
    return status ? status : gyre_train_agree(t, gyre_train_open_books(t));
}

/* -- who comes --------------------------------------------------------------------------------- */

struct introduction {
    char host[64];
    int32_t pid;
};

/* Tells who has come: those from rank `first` on. */
static int introduce(struct gyre_train *t, int first)
{
    char what[700] = "taken in ";
    struct introduction me = {.pid = getpid()}, *all = calloc((size_t)t->n, sizeof *all);
    snprintf(me.host, sizeof me.host, "%s", gyre_host_name());
    int status = all ? gyre_all_gather(t->comm, &me, all, sizeof me, GYRE_U8) : -ENOMEM;
    if (!status && !t->rank) {
        size_t used = strlen(what);
        for (int rank = first; rank < t->n; rank++)
            used = gyre_train_list_rank(what, used, sizeof what, rank == first, rank,
                                        all[rank].host, all[rank].pid);
        gyre_train_tell_ranks(t, what);
    }
    free(all);
    return gyre_train_explain(t, status);
}

/* -- ranks that take in ------------------------------------------------------------------------ */

/* How many more there may be: --elastic MIN:MAX of the launcher, and a sample for each. */
static int most_newcomers(const struct gyre_train *t)
{
    const char *text = getenv("GYRE_ELASTIC"), *colon = text ? strchr(text, ':') : NULL;
    int64_t most = INT32_MAX, samples = (int64_t)t->data.samples;
    if (colon)
        (void)gyre_parse_int("GYRE_ELASTIC", colon + 1, 1, INT32_MAX, &most, NULL);
    most = (most < samples ? most : samples) - t->n;
    return most < 0 ? 0 : most < NEWCOMERS_AT_ONCE ? (int)most : NEWCOMERS_AT_ONCE;
}

/* A newcomer that does not fit leaves: the others go on as after a loss. */
static int part_from_newcomer(struct gyre_train *t, int status)
{
    if (status == GYRE_PEER_LOST || status == GYRE_CORRUPT || !t->common)
        return status;
    if (t->report)
        gyre_report_note(t->report, "warning: who wanted to join does not fit: %s",
                         t->trouble->text);
    t->common = false;
    return GYRE_PEER_LOST;
}

int gyre_train_take_in(struct gyre_train *t)
{
    const int before = t->n;
    struct gyre_comm *larger;
    t->waiting = false;
    int status = gyre_grow(t->comm, most_newcomers(t), &larger);
    if (status)
        return gyre_train_explain(t, status);
    if (!larger)
        return 0;
    t->former = t->comm;
    t->comm = *t->owned = larger;
    t->n = gyre_size(larger);
    status = hand_over(t, false);
    return status ? part_from_newcomer(t, status) : introduce(t, before);
}

static void pause_before_look(void)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    nanosleep(&pause, NULL);
}

/* Rank 0 decides for all: 1: looks once more, 0: it has waited long enough, -1: it was told to
 * stop. */
static int decide_on_wait(struct gyre_train *t, uint64_t until, int32_t *decision)
{
    if (!t->rank)
        pause_before_look();
    *decision = gyre_train_stop_asked() ? -1 : gyre_now_ns() < until;
    return gyre_train_explain(t, gyre_broadcast(t->comm, decision, decision, 1, GYRE_I32, 0));
}

static int end_wait(struct gyre_train *t, bool stopped)
{
    t->stop = stopped;
    if (stopped)
        return t->options->save ? gyre_train_save(t) : 0;
    t->common = true;
    return gyre_trouble_set(t->trouble, GYRE_TIMED_OUT,
                            "%d rank%s left, --elastic wants %" PRId64 ", and nobody came", t->n,
                            t->n > 1 ? "s are" : " is", t->options->elastic);
}

int gyre_train_wait_for_ranks(struct gyre_train *t)
{
    int64_t limit_ms = WAIT_MS;
    int32_t decision = 1;
    int status = gyre_env_duration_ms("GYRE_JOIN_TIMEOUT", &limit_ms, t->trouble);
    uint64_t until = gyre_now_ns() + (uint64_t)limit_ms * GYRE_MS;
    if (t->report)
        gyre_report_note(t->report, "waits for ranks: %d of at least %" PRId64, t->n,
                         t->options->elastic);
    while (!status && t->n < t->options->elastic) {
        status = decide_on_wait(t, until, &decision);
        if (!status && decision < 1)
            return end_wait(t, decision < 0);
        if (!status)
            status = gyre_train_take_in(t);
    }
    return status;
}

/* -- the newcomer ------------------------------------------------------------------------------ */

static int be_taken_in(struct gyre_train *t)
{
    int status = gyre_init(&t->comm, NULL);
    if (status)
        return gyre_trouble_set(t->trouble, status, "%s", gyre_error(NULL));
    *t->owned = t->comm;
    t->rank = gyre_rank(t->comm);
    t->n = gyre_size(t->comm);
    status = hand_over(t, true);
    return status ? status : introduce(t, t->n);
}

/* Leaves the ranks that it could not join. */
static void step_back(struct gyre_train *t)
{
    if (t->common)
        gyre_shrink(t->comm, NULL);
    gyre_checkpoint_destroy(t->checkpoint);
    t->checkpoint = NULL;
    gyre_ddp_destroy(t->replica.ddp);
    t->replica.ddp = NULL;
    gyre_finalize(t->comm);
    t->comm = *t->owned = NULL;
}

int gyre_train_come(struct gyre_train *t)
{
    if (!t->options->elastic || t->options->evaluate)
        return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                "this process was started to join a training that runs "
                                "(GYRE_JOINING), which goes with --elastic only");
    t->rank = 1; /* rank 0 begins with weights, and speaks */
    t->n = (int)t->options->elastic;
    t->terminal = NULL;
    int status = gyre_train_make_own(t);
    for (bool again = !status; again;) {
        *t->trouble = (struct gyre_trouble){0};
        status = be_taken_in(t);
        again = status == GYRE_PEER_LOST && t->comm && !t->common;
        if (status && t->comm)
            step_back(t);
    }
    return status;
}
