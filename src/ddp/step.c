/* A step, from begin to wait.
 *
 *     begin          ready(9) ready(8) … ready(3)   …   ready(0)          wait
 *                       └─ bucket 0 ─┘└─ bucket 1 ─┘ … └─ last ─┘
 *                                     │ started, in order            │
 *     helper thread   ................└── reduces bucket 0, 1, … ────┤
 *     wait                                                           └ last bucket and notes, rest
 *
 * The waiting thread itself reduces the last bucket, because no work is left to hide it behind
 * (launch.c). The ranks' notes travel in the last bucket (notes.c). The last bucket is part of
 * every step on every rank, so all ranks know all notes and decide alike. Tested by
 * tests/program/ddp/ddp.c. */
#include "base/clock.h"
#include "base/log.h"
#include "ddp/inside.h"

#include <math.h>
#include <string.h>

#define LOOK_SMALL 16384u /* elements */

/* -- begin ------------------------------------------------------------------------------------- */

static int compare_now(struct gyre_ddp *ddp)
{
    struct gyre_trouble told = {0};
    int status = ddp->n > 1 ? gyre_ddp_compare_values(ddp, &told) : 0;
    if (told.status)
        *gyre_thread_trouble() = told;
    return gyre_ddp_fail(ddp, status);
}

static bool compares_next(const struct gyre_ddp *ddp)
{
    int every = ddp->options.compare_every;
    bool due = every > 0 && ddp->steps && ddp->steps % (uint64_t)every == 0;
    return due && !ddp->adds;
}

int gyre_ddp_compare(struct gyre_ddp *ddp)
{
    if (!ddp)
        return gyre_refuse("gyre_ddp_compare: the engine is NULL");
    if (ddp->failed)
        return ddp->failed;
    if (ddp->open)
        return gyre_refuse("gyre_ddp_compare: within a step, between begin and wait");
    return compare_now(ddp);
}

static void clear_part(struct gyre_ddp *ddp)
{
    memset(ddp->ready, 0, ddp->items * sizeof *ddp->ready);
    for (uint32_t b = 0; b < ddp->cut.buckets; b++)
        ddp->missing[b] = ddp->cut.bucket[b].items;
    ddp->launched = 0;
    ddp->seen_count = 0;
}

int gyre_ddp_begin(struct gyre_ddp *ddp, uint64_t samples)
{
    if (!ddp)
        return gyre_refuse("gyre_ddp_begin: the engine is NULL");
    if (ddp->failed)
        return ddp->failed;
    if (ddp->open)
        return gyre_refuse("gyre_ddp_begin: the step before was not ended by gyre_ddp_wait()");
    int status = compares_next(ddp) ? compare_now(ddp) : 0;
    if (status)
        return status;
    struct gyre_ddp_note *own = gyre_ddp_own_note(ddp);
    if (!ddp->adds) {
        memset(ddp->written, 0, ddp->items * sizeof *ddp->written);
        ddp->result.reduced_bytes = 0;
        ddp->squares = 0;
        *own = (struct gyre_ddp_note){.bad = GYRE_BAD_NONE, .unused = -1};
        status = gyre_ddp_clear_block(ddp);
        if (status)
            return gyre_ddp_fail(ddp, status);
    }
    clear_part(ddp);
    ddp->clips = false;
    own->samples += samples;
    ddp->open = true;
    return 0;
}

int gyre_ddp_no_sync(struct gyre_ddp *ddp, int on)
{
    if (!ddp)
        return gyre_refuse("gyre_ddp_no_sync: the engine is NULL");
    if (ddp->open)
        return gyre_refuse("gyre_ddp_no_sync: within a step, between begin and wait");
    ddp->no_sync = on != 0;
    return 0;
}

/* -- ready ------------------------------------------------------------------------------------- */

static bool wants_look(const struct gyre_ddp *ddp, uint32_t i)
{
    return ddp->options.look == GYRE_DDP_LOOK_ALL ||
           (ddp->options.look == GYRE_DDP_LOOK_SMALL && ddp->item[i].elements <= LOOK_SMALL);
}

bool gyre_ddp_wants_look(const struct gyre_ddp *ddp, int parameter)
{
    return ddp->place.owner && wants_look(ddp, (uint32_t)parameter);
}

static int look_at_bucket(struct gyre_ddp *ddp, uint32_t i)
{
    const struct gyre_ddp_item *item = &ddp->item[i];
    int status = gyre_ddp_meet_stream(ddp);
    if (!status)
        gyre_ddp_look(ddp, ddp->gradients + ddp->cut.at[i], item->elements, item->type, (int32_t)i,
                      &gyre_ddp_own_note(ddp)->bad);
    return gyre_ddp_fail(ddp, status);
}

static void note_ready(struct gyre_ddp *ddp, uint32_t i)
{
    ddp->ready[i] = ddp->written[i] = true;
    ddp->missing[ddp->cut.bucket_of[i]]--;
}

static int check_call(const struct gyre_ddp *ddp, const char *call, int parameter)
{
    if (!ddp)
        return gyre_refuse("%s: the engine is NULL", call);
    if (ddp->failed)
        return ddp->failed;
    if (parameter < 0 || (uint32_t)parameter >= ddp->items)
        return gyre_refuse("%s: parameter %d is not one of 0 … %d", call, parameter,
                           (int)ddp->items - 1);
    if (!ddp->open)
        return gyre_refuse("%s: '%s' outside of a step: gyre_ddp_begin() comes first", call,
                           ddp->item[parameter].name);
    return 0;
}

int gyre_ddp_look_at(struct gyre_ddp *ddp, int parameter)
{
    int status = check_call(ddp, "gyre_ddp_look_at", parameter);
    return status ? status : look_at_bucket(ddp, (uint32_t)parameter);
}

int gyre_ddp_ready(struct gyre_ddp *ddp, int parameter)
{
    int status = check_call(ddp, "gyre_ddp_ready", parameter);
    if (status)
        return status;
    if (ddp->ready[parameter])
        return gyre_refuse("gyre_ddp_ready: '%s' was said to be ready in this step already",
                           ddp->item[parameter].name);
    if (!ddp->place.owner && wants_look(ddp, (uint32_t)parameter))
        status = look_at_bucket(ddp, (uint32_t)parameter);
    if (status)
        return status;
    note_ready(ddp, (uint32_t)parameter);
    ddp->seen[ddp->seen_count++] = (uint32_t)parameter;
    return ddp->no_sync ? 0 : gyre_ddp_launch_complete(ddp);
}

/* Warns of an unused parameter, once for each. */
static void warn_unused(struct gyre_ddp *ddp, uint32_t i)
{
    if (ddp->named[i])
        return;
    ddp->named[i] = true;
    gyre_log(GYRE_LOG_WARN,
             "step %llu: '%s' got no gradient on this rank (gyre_ddp_ready() was not called for "
             "it); it is taken as zeros, now and later",
             (unsigned long long)ddp->steps + 1, ddp->item[i].name);
}

static void note_unused(struct gyre_ddp *ddp, uint32_t i)
{
    struct gyre_ddp_note *own = gyre_ddp_own_note(ddp);
    if (own->unused < 0)
        own->unused = (int32_t)i;
    warn_unused(ddp, i);
}

/* Writes zeros for the parameters that no part of the step has written. */
static void fill_unused(struct gyre_ddp *ddp)
{
    for (uint32_t i = 0; i < ddp->items; i++) {
        if (ddp->ready[i])
            continue;
        if (!ddp->written[i]) {
            const struct gyre_ddp_item *item = &ddp->item[i];
            gyre_ddp_zero(ddp, ddp->gradients + ddp->cut.at[i],
                          item->elements * gyre_type_size(item->type));
            if (gyre_ddp_own_note(ddp)->samples)
                note_unused(ddp, i);
        }
        note_ready(ddp, i);
    }
}

/* -- this rank's note -------------------------------------------------------------------------- */

static bool open_step(const struct gyre_ddp *ddp, const char *call)
{
    if (ddp && ddp->open)
        return true;
    gyre_refuse("%s: %s", call, ddp ? "outside of a step" : "the engine is NULL");
    return false;
}

int gyre_ddp_add(struct gyre_ddp *ddp, int which, double value)
{
    if (!open_step(ddp, "gyre_ddp_add"))
        return GYRE_INVALID;
    if (which < 0 || which >= GYRE_DDP_SUMS)
        return gyre_refuse("gyre_ddp_add: sum %d is not one of 0 … %d", which, GYRE_DDP_SUMS - 1);
    gyre_ddp_own_note(ddp)->sum[which] += value;
    return 0;
}

int gyre_ddp_ask_stop(struct gyre_ddp *ddp)
{
    if (!open_step(ddp, "gyre_ddp_ask_stop"))
        return GYRE_INVALID;
    gyre_ddp_own_note(ddp)->asks |= GYRE_ASKS_STOP;
    return 0;
}

int gyre_ddp_ask_skip(struct gyre_ddp *ddp)
{
    if (!open_step(ddp, "gyre_ddp_ask_skip"))
        return GYRE_INVALID;
    gyre_ddp_own_note(ddp)->asks |= GYRE_ASKS_SKIP;
    return 0;
}

static int finish_note(struct gyre_ddp *ddp)
{
    struct gyre_ddp_note *own = gyre_ddp_own_note(ddp);
    bool taken = ddp->place.looked && !gyre_ddp_leaves_all(ddp);
    int status = taken ? gyre_ddp_take_block(ddp, &own->bad, NULL) : 0;
    own->seen_count = ddp->seen_count;
    for (int k = 0; k < GYRE_DDP_SUMS; k++)
        if (!isfinite(own->sum[k]) && own->bad == GYRE_BAD_NONE)
            own->bad = GYRE_BAD_SUM(k);
    return status;
}

/* -- what the notes say ------------------------------------------------------------------------ */

static const char *name_bad(const struct gyre_ddp *ddp, int32_t bad)
{
    static const char *const sums[GYRE_DDP_SUMS] = {"sum 0", "sum 1", "sum 2", "sum 3",
                                                    "sum 4", "sum 5", "sum 6", "sum 7"};
    return bad >= 0 ? ddp->item[bad].name : sums[GYRE_BAD_SUM(bad)];
}

static void publish_note(struct gyre_ddp *ddp, int rank)
{
    struct gyre_ddp_result *r = &ddp->result;
    const struct gyre_ddp_note *note = &ddp->note[rank];
    r->samples += note->samples;
    for (int k = 0; k < GYRE_DDP_SUMS; k++)
        r->sum[k] += note->sum[k];
    r->stop += (note->asks & GYRE_ASKS_STOP) != 0;
    r->skip += (note->asks & GYRE_ASKS_SKIP) != 0;
    if (note->bad == GYRE_BAD_NONE)
        return;
    if (!r->nonfinite++) {
        r->culprit = rank;
        r->culprit_name = name_bad(ddp, note->bad);
    }
}

/* Sums the notes in the order of ranks, so sums are the same on every rank, to the last bit. */
static void publish_result(struct gyre_ddp *ddp)
{
    struct gyre_ddp_result *r = &ddp->result;
    uint64_t divisor = 0;
    *r = (struct gyre_ddp_result){.number = ddp->steps,
                                  .culprit = -1,
                                  .reduced_bytes = r->reduced_bytes,
                                  .buckets = (int)ddp->cut.buckets};
    for (int rank = 0; rank < ddp->n; rank++)
        publish_note(ddp, rank);
    r->done = r->samples == 0;
    if (ddp->options.mean == GYRE_DDP_MEAN_OF_RANKS && ddp->n > 1)
        for (int rank = 0; rank < ddp->n; rank++)
            divisor += ddp->note[rank].samples != 0;
    else
        divisor = r->samples;
    r->factor = divisor ? 1 / (double)divisor : 1;
}

static int check_unused(const struct gyre_ddp *ddp)
{
    for (int rank = 0; ddp->options.strict && rank < ddp->n; rank++)
        if (ddp->note[rank].unused >= 0)
            return gyre_refuse("step %llu: '%s' got no gradient on rank %d, and the engine is "
                               "strict",
                               (unsigned long long)ddp->steps,
                               ddp->item[ddp->note[rank].unused].name, rank);
    return 0;
}

/* -- wait -------------------------------------------------------------------------------------- */

static void scale_gradients(struct gyre_ddp *ddp, double factor)
{
    for (uint32_t b = 0; factor != 1 && b < ddp->cut.buckets; b++) {
        const struct gyre_bucket *bucket = &ddp->cut.bucket[b];
        gyre_ddp_scale(ddp, gyre_ddp_own_gradient(ddp, bucket), gyre_ddp_own_count(ddp, bucket),
                       bucket->type, factor);
    }
}

/* Makes the sum the mean, and the norm the norm of the mean. */
static int finish_gradients(struct gyre_ddp *ddp)
{
    bool gathered = gyre_ddp_norm_is_gathered(ddp);
    bool taken = ddp->options.norm && !gathered && !ddp->place.leaves;
    double factor = ddp->result.factor, squares = 0;
    for (int rank = 0; gathered && rank < ddp->n; rank++)
        squares += ddp->note[rank].squares;
    ddp->squares = squares;
    if (ddp->options.norm && !gathered)
        gyre_ddp_add_own_squares(ddp, &squares);
    int status = gyre_ddp_end_behind(ddp);
    if (!ddp->options.unscaled)
        scale_gradients(ddp, factor);
    if (!status && taken)
        status = gyre_ddp_take_block(ddp, NULL, &squares);
    ddp->result.norm = sqrt(squares) * factor;
    if (!ddp->options.unscaled)
        ddp->result.factor = 1;
    if (ddp->options.norm && !isfinite(squares) && !ddp->result.nonfinite)
        ddp->result.nonfinite = ddp->n; /* only the sum of all squares is too large */
    return status;
}

/* Scales the wire so that encoded numbers have about the size of the mean, from the second step on.
 * All ranks know the number of samples of the step before. */
static void rescale_wire(struct gyre_ddp *ddp, double factor)
{
    if (ddp->wire.data)
        ddp->wire.scale = (float)exp2(floor(log2(factor)));
}

static int end_step(struct gyre_ddp *ddp)
{
    int status = ddp->n > 1 ? gyre_ddp_reduce_rest(ddp) : 0;
    ddp->steps++;
    if (status)
        return status;
    publish_result(ddp);
    status = check_unused(ddp);
    if (status)
        return status;
    double factor = ddp->result.factor;
    if (ddp->result.samples)
        status = finish_gradients(ddp);
    if (!status && !ddp->settled && ddp->note[0].seen_count && ddp->n > 1)
        status = gyre_ddp_settle(ddp);
    if (!status && ddp->result.samples)
        rescale_wire(ddp, factor);
    return status || ddp->place.leaves ? status : gyre_ddp_await_passes(ddp);
}

/* That is not communication. A part of a step is waited for, since the next one writes where its
 * passes read. */
static int await_backward(struct gyre_ddp *ddp)
{
    return gyre_ddp_leaves_all(ddp) && !ddp->no_sync ? gyre_ddp_meet_stream(ddp)
                                                     : gyre_ddp_await_stream(ddp);
}

int gyre_ddp_wait(struct gyre_ddp *ddp)
{
    if (!open_step(ddp, "gyre_ddp_wait"))
        return GYRE_INVALID;
    if (ddp->failed)
        return ddp->failed;
    int status = await_backward(ddp);
    uint64_t start = gyre_now_ns();
    ddp->open = false;
    fill_unused(ddp);
    if (ddp->no_sync) {
        ddp->adds = true;
        return gyre_ddp_fail(ddp, status ? status : gyre_ddp_await_passes(ddp));
    }
    ddp->adds = false;
    if (!status)
        status = finish_note(ddp);
    if (!status)
        status = end_step(ddp);
    ddp->steps -= status != 0; /* a step that failed is not completed */
    ddp->clips = !status;
    ddp->result.waited_ns = gyre_now_ns() - start;
    return gyre_ddp_fail(ddp, status);
}

/* -- what it came to --------------------------------------------------------------------------- */

int gyre_ddp_adds(const struct gyre_ddp *ddp)
{
    return ddp && ddp->adds;
}

const struct gyre_ddp_result *gyre_ddp_result(const struct gyre_ddp *ddp)
{
    return ddp ? &ddp->result : NULL;
}
