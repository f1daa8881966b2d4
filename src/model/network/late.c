/* See late.h. Also tested by tests/program/cuda/train.sh. */
#include "model/network/late.h"

#include "ddp/engine.h"
#include "model/network/update.h"

bool gyre_late_on(const struct gyre_replica *r)
{
    return r->late.terms != NULL;
}

bool gyre_late_loss(const struct gyre_replica *r)
{
    return gyre_late_on(r) && gyre_size(r->comm) == 1;
}

int gyre_late_open(const struct gyre_replica *r)
{
    return (int)(r->late.sent - r->late.settled);
}

/* -- its begin --------------------------------------------------------------------------------- */

/* A graph has the addresses of values and gradients, and a part for each bucket. */
static void forget_moved(struct gyre_replica *r)
{
    const uint64_t layout = gyre_ddp_layout(r->ddp);
    if (r->late.layout != layout)
        gyre_repeat_forget(&r->late.repeat);
    r->late.layout = layout;
}

static enum gyre_repeat_kind kind_of_batch(const struct gyre_ddp *ddp)
{
    if (gyre_ddp_is_part(ddp))
        return gyre_ddp_adds(ddp) ? GYRE_REPEAT_BETWEEN : GYRE_REPEAT_FIRST;
    return gyre_ddp_adds(ddp) ? GYRE_REPEAT_LAST : GYRE_REPEAT_ALL;
}

/* Not the first step, in whose wait the engine lays out its memory. */
static bool may_repeat(const struct gyre_replica *r)
{
    return r->late.repeats && r->late.news && gyre_ddp_result(r->ddp)->number &&
           (r->optimizer || !gyre_late_on(r));
}

void gyre_late_begin(struct gyre_replica *r, const float *x, uint64_t samples)
{
    if (!may_repeat(r))
        return;
    const bool quiet = gyre_ddp_quiet_begin();
    const struct gyre_repeat_batch batch = {kind_of_batch(r->ddp), samples,
                                            gyre_processor_owns(r->device.on, x) ? x : r->device.x,
                                            quiet};
    gyre_replica_bind(r);
    if (quiet)
        forget_moved(r);
    if (r->late.layout == gyre_ddp_layout(r->ddp))
        gyre_repeat_begin(&r->late.repeat, &batch);
    if (quiet)
        gyre_ddp_quiet_end();
}

int gyre_late_end_batch(struct gyre_replica *r, struct gyre_trouble *trouble)
{
    return gyre_repeat_end(&r->late.repeat, trouble);
}

/* -- the end of a step ------------------------------------------------------------------------- */

static struct gyre_evidence evidence_of(const struct gyre_replica *r, double clip)
{
    const struct gyre_ddp_result *result = gyre_ddp_result(r->ddp);
    const struct gyre_ddp_found found = gyre_ddp_found(r->ddp);
    const struct gyre_scaler *scaler = &r->scaler;
    return (struct gyre_evidence){
        .squares = found.gathered ? &r->late.terms->squares : found.squares,
        .loss = gyre_late_loss(r) ? &r->meter.tally->sum : NULL,
        .bad = found.bad,
        .factor = result->factor,
        .most = clip,
        .refused = result->nonfinite != 0,
        .skips = result->skip != 0,
        .growth = scaler->growth_factor,
        .backoff = scaler->backoff_factor,
        .growth_interval = scaler->enabled ? scaler->growth_interval : 0,
    };
}

static int bring_terms(struct gyre_replica *r, double rate, double clip,
                       struct gyre_trouble *trouble)
{
    struct gyre_processor *on = r->device.on;
    const double *gathered = gyre_ddp_found(r->ddp).gathered;
    const struct gyre_step_terms terms = {
        .evidence = evidence_of(r, clip),
        .constants = gyre_optimizer_judged_by(r->optimizer, rate, &r->late.news->verdict),
        .squares = gathered ? *gathered : 0};
    return on->table->put(on, r->late.terms, &terms, sizeof terms, trouble);
}

static int send_news(struct gyre_replica *r, struct gyre_trouble *trouble)
{
    const struct gyre_processor_table *table = r->device.on->table;
    struct gyre_late_news *news = r->late.news;
    const int slot = (int)(r->late.sent % GYRE_SENT_SLOTS);
    int status = table->send(r->device.on, slot, news, sizeof *news, trouble);
    r->late.sent += !status;
    return status;
}

int gyre_late_update(struct gyre_replica *r, double rate, double clip, struct gyre_trouble *trouble)
{
    struct gyre_processor *on = r->device.on;
    const struct gyre_step_terms *terms = r->late.terms;
    struct gyre_verdict *verdict = &r->late.news->verdict;
    int status = on->table->after(on, gyre_ddp_found(r->ddp).passes, trouble);
    if (!status && !r->optimizer)
        status = gyre_replica_make_optimizer(r, trouble);
    if (status)
        return status;
    forget_moved(r); /* in the engine's wait */
    gyre_replica_list_stretches(r);
    gyre_repeat_resume(&r->late.repeat);
    status = bring_terms(r, rate, clip, trouble);
    if (status)
        return status;
    on->table->judge(on, &terms->evidence, verdict);
    status = gyre_optimizer_apply_judged(r->optimizer, r->stretch, (size_t)r->pieces,
                                         &terms->constants, trouble);
    on->table->copy(on, &r->late.news->tally, r->meter.tally, sizeof r->late.news->tally);
    if (!status)
        status = gyre_repeat_end(&r->late.repeat, trouble);
    if (!status)
        status = send_news(r, trouble);
    return status || !r->sharded || gyre_late_loss(r) ? status : gyre_ddp_gather(r->ddp);
}

/* -- a step later ------------------------------------------------------------------------------ */

/* The host's scaler goes the way that the device's has gone. */
static int follow_verdict(struct gyre_replica *r, const struct gyre_verdict *verdict,
                          struct gyre_trouble *trouble)
{
    float factor;
    bool skips;
    int status = gyre_scaler_unscale(&r->scaler, verdict->finite, &factor, trouble);
    if (!status)
        status = gyre_scaler_step(&r->scaler, &skips, trouble);
    r->optimizer->steps += verdict->goes;
    return status ? status : gyre_scaler_update(&r->scaler, trouble);
}

int gyre_late_settle(struct gyre_replica *r, struct gyre_late_step *step,
                     struct gyre_trouble *trouble)
{
    struct gyre_processor *on = r->device.on;
    const double scale = (double)gyre_scaler_scale(&r->scaler);
    struct gyre_late_news news;
    if (!gyre_late_open(r))
        return GYRE_AGAIN;
    int status = on->table->receive(on, (int)(r->late.settled % GYRE_SENT_SLOTS), &news,
                                    sizeof news, trouble);
    if (status)
        return status;
    r->late.settled++;
    *step = (struct gyre_late_step){.norm = news.verdict.norm / scale,
                                    .finite = news.verdict.finite,
                                    .bad = news.verdict.bad,
                                    .loss = {.sum = news.tally.sum, .right = news.tally.right}};
    status = follow_verdict(r, &news.verdict, trouble);
    r->late.known = news.verdict;
    return status;
}
