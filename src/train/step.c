/* One step: the parts of this rank's batch through the model, gradients reduced on the way, and the
 * update that all ranks make alike.
 *
 * Gradients stay sums over samples. One factor, in the optimiser's own pass over them, takes away
 * everything at once: 1 / samples of all ranks, the loss scale, and what clipping asks for. Tested
 * by tests/program/train/train.c. */
#include "train/inside.h"

#include "base/clock.h"
#include "ddp/engine.h"

#include <math.h>
#include <string.h>

/* -- a part: forward and backward -------------------------------------------------------------- */

/* The rows of a batch: the device's where samples are there, or were brought ahead. */
static int rows_of_batch(struct gyre_train *t, const struct gyre_batch *batch, const float **x)
{
    const struct gyre_feed_batch rows = gyre_train_fed(batch);
    *x = batch->x;
    if (gyre_resident_has(&t->resident))
        return gyre_resident_rows(&t->resident, batch->index, batch->samples, x, t->trouble);
    return gyre_feed_has(&t->feed) ? gyre_feed_take(&t->feed, &rows, x, t->trouble) : 0;
}

int gyre_train_bring_next(struct gyre_train *t, struct gyre_feed *feed, struct gyre_loader *loader)
{
    struct gyre_batch next;
    if (!gyre_feed_has(feed) || gyre_loader_look_ahead(loader, &next))
        return 0;
    const struct gyre_feed_batch rows = gyre_train_fed(&next);
    return rows.samples ? gyre_feed_bring(feed, &rows, t->trouble) : 0;
}

static int bring_next(struct gyre_train *t)
{
    return gyre_train_bring_next(t, &t->feed, t->loader);
}

/* A single rank posts its step to the end first, which may be when its passes begin (late.h). */
static bool brings_behind(const struct gyre_train *t, bool last)
{
    return last && gyre_late_loss(&t->replica);
}

static int run_passes(struct gyre_train *t, const struct gyre_batch *batch)
{
    struct gyre_replica *replica = &t->replica;
    const float *x;
    int status = rows_of_batch(t, batch, &x);
    if (!gyre_late_loss(replica) || !gyre_ddp_adds(replica->ddp))
        gyre_replica_clear_loss(replica);
    if (!status)
        status = gyre_replica_forward(replica, x, batch->samples, true,
                                      gyre_train_wanted(&t->data, batch), t->trouble);
    return status ? status
                  : gyre_replica_backward(replica, gyre_ddp_adds(replica->ddp), true, t->trouble);
}

/* A rank without samples passes an empty batch where layers talk to each other. */
static int run_batch(struct gyre_train *t, const struct gyre_batch *batch, bool last,
                     struct gyre_loss *loss)
{
    const bool passes = batch->samples || t->options->sync_bn;
    int status = passes ? run_passes(t, batch) : 0;
    if (!status && !(last && gyre_late_on(&t->replica)))
        status = gyre_late_end_batch(&t->replica, t->trouble);
    if (!status && passes && !brings_behind(t, last))
        status = bring_next(t);
    return status || !passes || gyre_late_loss(&t->replica)
               ? status
               : gyre_replica_take_loss(&t->replica, loss, t->trouble);
}

/* Where the rows of the next batch will be on the device; NULL: they are brought from the host. */
static const float *place_of_rows(const struct gyre_train *t)
{
    return gyre_resident_has(&t->resident) ? t->resident.rows : gyre_feed_next(&t->feed);
}

/* Who waits to join and who wants to leave is told by sums that travel with the gradients. */
static void tell_wishes(struct gyre_train *t)
{
    t->leaves = gyre_leaving(t->comm);
    gyre_ddp_add(t->replica.ddp, GYRE_TRAIN_WAITING_SUM, gyre_waiting(t->comm));
    gyre_ddp_add(t->replica.ddp, GYRE_TRAIN_LEAVING_SUM, t->leaves);
}

static int run_part(struct gyre_train *t, const struct gyre_batch *batch, bool last)
{
    struct gyre_loss loss = {0};
    int status = gyre_ddp_no_sync(t->replica.ddp, !last);
    gyre_late_begin(&t->replica, place_of_rows(t), batch->samples);
    if (!status)
        status = gyre_ddp_begin(t->replica.ddp, batch->samples);
    if (!status)
        status = run_batch(t, batch, last, &loss);
    if (status)
        return status;
    gyre_ddp_add(t->replica.ddp, GYRE_TRAIN_LOSS_SUM, loss.sum);
    gyre_ddp_add(t->replica.ddp, GYRE_TRAIN_RIGHT_SUM, (double)loss.right);
    if (last && t->options->elastic)
        tell_wishes(t);
    if (last && gyre_train_stop_asked())
        gyre_ddp_ask_stop(t->replica.ddp);
    return gyre_ddp_wait(t->replica.ddp);
}

/* -- the update -------------------------------------------------------------------------------- */

static int tell_nonfinite(struct gyre_train *t, const struct gyre_ddp_result *r, uint64_t step)
{
    const char *name = r->culprit_name;
    t->common = true;
    if (r->culprit < 0)
        return gyre_trouble_set(t->trouble, GYRE_INVALID,
                                "step %llu: the sum of all ranks' gradients is not finite: the "
                                "learning rate may be too high, or --clip missing",
                                (unsigned long long)step);
    if (strncmp(name, "sum ", 4) == 0)
        name = name[4] == '0' + GYRE_TRAIN_LOSS_SUM ? "its loss" : "a sum";
    return gyre_trouble_set(
        t->trouble, GYRE_INVALID,
        "step %llu: rank %d has a NaN or an infinity in %s%s: look at its data, "
        "lower --lr, or set --clip",
        (unsigned long long)step, r->culprit, name == r->culprit_name ? "the gradient of " : "",
        name);
}

/* Gradients carry the loss scale, and so do their norm and what it is clipped to. */
static int clip(struct gyre_train *t, const struct gyre_ddp_result *r)
{
    double scale = (double)gyre_scaler_scale(&t->replica.scaler);
    t->norm = r->norm / scale;
    return t->options->clip > 0 ? gyre_ddp_clip(t->replica.ddp, t->options->clip * scale) : 0;
}

static int refuse_step(struct gyre_train *t, const struct gyre_ddp_result *r)
{
    int status = gyre_train_settle(t); /* the step before may be why */
    return status ? status : tell_nonfinite(t, r, t->step + 1);
}

static int update_late(struct gyre_train *t, double rate)
{
    int status = gyre_late_update(&t->replica, rate, t->options->clip, t->trouble);
    return !status && brings_behind(t, true) ? bring_next(t) : status;
}

static int update(struct gyre_train *t, const struct gyre_ddp_result *r)
{
    const double rate = gyre_learning_rate_at(&t->rate, t->step);
    if (r->nonfinite && !t->replica.scaler.enabled)
        return refuse_step(t, r);
    gyre_replica_bind(&t->replica); /* the first step may have moved it */
    if (gyre_late_on(&t->replica))
        return update_late(t, rate);
    int status = clip(t, r);
    return status ? status : gyre_replica_update(&t->replica, rate, t->trouble);
}

int gyre_train_keep_running(struct gyre_train *t)
{
    return t->options->elastic ? gyre_running_keep(&t->replica.running, t->trouble) : 0;
}

static void add_up(struct gyre_train *t, const struct gyre_train_done *done)
{
    const struct gyre_ddp_result *r = &done->result;
    t->tally.loss += r->sum[GYRE_TRAIN_LOSS_SUM];
    t->tally.right += r->sum[GYRE_TRAIN_RIGHT_SUM];
    t->tally.samples += (double)r->samples;
    t->tally.seconds += (double)(gyre_now_ns() - done->since_ns) / 1e9;
    t->tally.exposed += (double)r->waited_ns / 1e9;
    t->tally.steps++;
}

/* -- steps whose end is known late ------------------------------------------------------------- */

/* What the engine would have told of a step of one rank. */
static void take_news(struct gyre_train *t, const struct gyre_late_step *news,
                      struct gyre_ddp_result *r)
{
    const struct gyre_ddp_item *item;
    const bool bad_loss = gyre_late_loss(&t->replica) && !isfinite(news->loss.sum);
    (void)gyre_ddp_items(t->replica.ddp, &item);
    if (gyre_late_loss(&t->replica)) {
        r->sum[GYRE_TRAIN_LOSS_SUM] += news->loss.sum;
        r->sum[GYRE_TRAIN_RIGHT_SUM] += (double)news->loss.right;
    }
    if (news->bad >= 0 || bad_loss) {
        r->culprit = 0;
        r->culprit_name = news->bad >= 0 ? item[news->bad].name : "sum 0";
    }
}

static int settle_one(struct gyre_train *t)
{
    struct gyre_train_done *done = &t->behind;
    struct gyre_late_step news;
    int status = gyre_late_settle(&t->replica, &news, t->trouble);
    if (status)
        return status;
    take_news(t, &news, &done->result);
    if (!news.finite && !t->replica.scaler.enabled)
        return tell_nonfinite(t, &done->result, done->step);
    t->norm = news.norm;
    if (done->since_ns < t->settled_ns)
        done->since_ns = t->settled_ns;
    add_up(t, done);
    gyre_train_tell_step(t, done);
    t->settled_ns = gyre_now_ns();
    return 0;
}

int gyre_train_settle(struct gyre_train *t)
{
    int status = 0;
    while (!status && gyre_late_open(&t->replica))
        status = settle_one(t);
    return status;
}

/* The step before ends now, and this one in the next. */
static int end_late(struct gyre_train *t, const struct gyre_train_done *done)
{
    int status = gyre_late_open(&t->replica) > 1 ? settle_one(t) : 0;
    t->behind = *done;
    return status;
}

static int end_now(struct gyre_train *t, const struct gyre_train_done *done)
{
    add_up(t, done);
    gyre_train_tell_step(t, done);
    return 0;
}

/* -- a step ------------------------------------------------------------------------------------ */

/* All parts of a step; *behind has the position behind the last. At the end of an epoch they are
 * fewer. Every rank has the same number of parts, because spans are of all ranks. */
static int run_parts(struct gyre_train *t, struct gyre_batch *behind)
{
    struct gyre_batch batch;
    int status = 0;
    for (int64_t part = 0; !status && part < t->options->accumulate; part++) {
        status = gyre_loader_next(t->loader, &batch, t->trouble);
        if (status == GYRE_AGAIN)
            return part ? GYRE_INVALID : GYRE_AGAIN;
        if (!status)
            gyre_train_note_samples(t, &batch);
        bool last = part + 1 == t->options->accumulate || batch.last;
        if (!status)
            status = run_part(t, &batch, last);
        *behind = batch;
        if (last)
            break;
    }
    return status;
}

int gyre_train_step(struct gyre_train *t)
{
    uint64_t since = gyre_now_ns();
    struct gyre_batch behind = {0};
    int status = run_parts(t, &behind);
    const struct gyre_ddp_result *r = gyre_ddp_result(t->replica.ddp);
    if (!status)
        status = update(t, r);
    if (status < 0)
        gyre_repeat_forget(&t->replica.late.repeat);
    if (status)
        return gyre_train_explain(t, status);
    t->step++;
    t->epoch = behind.epoch;
    t->cursor = behind.cursor;
    t->stop |= r->stop > 0;
    t->leaving = (int)r->sum[GYRE_TRAIN_LEAVING_SUM];
    t->waiting = r->sum[GYRE_TRAIN_WAITING_SUM] > 0;
    const struct gyre_train_done done = {*r, t->step, t->epoch, since};
    status = gyre_late_on(&t->replica) ? end_late(t, &done) : end_now(t, &done);
    return status ? status : gyre_train_keep_running(t);
}
