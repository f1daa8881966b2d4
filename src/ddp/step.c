/* A step, from begin to wait.
 *
 *     begin          ready(9) ready(8) … ready(3)   …   ready(0)          wait
 *                       └─ bucket 0 ─┘└─ bucket 1 ─┘ … └─ last ─┘
 *                                     │ started, in order            │
 *     helper thread   ................└── reduces bucket 0, 1, … ────┤
 *     wait                                                           └ last bucket, numbers, rest
 *
 * The last bucket and the numbers that ranks tell each other are reduced by the waiting thread
 * itself: there is nothing left to hide them behind. Both are part of every step on every rank, so
 * all ranks decide alike on what the numbers say. */
#include "base/clock.h"
#include "base/log.h"
#include "ddp/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOOK_SMALL 16384u /* elements */

/* bad_item: a parameter, or a sum below -1 */
#define BAD_NONE   (-1)
#define BAD_SUM(k) (-2 - (k))

int gyre_ddp_fail(struct gyre_ddp *ddp, int status)
{
    if (status < 0 && !ddp->failed)
        ddp->failed = status;
    return status;
}

/* -- begin ------------------------------------------------------------------------------------- */

static int compare_values(struct gyre_ddp *ddp)
{
    struct gyre_trouble told = {0};
    int every = ddp->options.compare_every;
    if (ddp->n == 1 || every < 0 || !ddp->steps || ddp->steps % (uint64_t)every)
        return 0;
    int status = gyre_ddp_compare(ddp, &told);
    if (told.status)
        *gyre_thread_trouble() = told;
    return status;
}

static void clear_part(struct gyre_ddp *ddp)
{
    memset(ddp->ready, 0, ddp->items * sizeof *ddp->ready);
    for (uint32_t b = 0; b < ddp->cut.buckets; b++)
        ddp->missing[b] = ddp->cut.bucket[b].items;
    ddp->launched = 0;
    ddp->seens = 0;
}

int gyre_ddp_begin(struct gyre_ddp *ddp, uint64_t samples)
{
    if (!ddp)
        return gyre_refuse("gyre_ddp_begin: the engine is NULL");
    if (ddp->failed)
        return ddp->failed;
    if (ddp->open)
        return gyre_refuse("gyre_ddp_begin: the step before was not ended by gyre_ddp_wait()");
    int status = ddp->adds ? 0 : compare_values(ddp);
    if (status)
        return gyre_ddp_fail(ddp, status);
    if (!ddp->adds) {
        memset(ddp->slot, 0, sizeof ddp->slot);
        memset(ddp->written, 0, ddp->items * sizeof *ddp->written);
        ddp->samples = 0;
        ddp->result.reduced_bytes = 0;
        ddp->bad_item = BAD_NONE;
        ddp->unused_item = -1;
    }
    clear_part(ddp);
    ddp->clips = false;
    ddp->samples += samples;
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

/* -- launch ------------------------------------------------------------------------------------ */

/* The bucket as it will travel. */
struct parcel {
    void *data;
    uint64_t elements;
    enum gyre_type type;
};

static bool in_halves(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket)
{
    return ddp->wire.scale != 0 && bucket->type == GYRE_F32;
}

static uint16_t *halves_of(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket)
{
    return ddp->wire.half + bucket->at / sizeof(float);
}

static struct parcel pack(struct gyre_ddp *ddp, const struct gyre_bucket *bucket)
{
    uint8_t *data = ddp->gradients + bucket->at;
    struct parcel parcel = {data, bucket->elements, bucket->type};
    if (ddp->options.mean == GYRE_DDP_MEAN_OF_RANKS && ddp->samples)
        gyre_ddp_scale(data, bucket->elements, bucket->type, 1.0 / (double)ddp->samples);
    if (!in_halves(ddp, bucket))
        return parcel;
    float *feedback = ddp->wire.feedback ? ddp->wire.feedback + bucket->at / sizeof(float) : NULL;
    gyre_ddp_encode((float *)data, feedback, halves_of(ddp, bucket), bucket->elements,
                    ddp->options.wire, ddp->wire.scale);
    parcel.data = halves_of(ddp, bucket);
    parcel.type = ddp->options.wire == GYRE_DDP_WIRE_BF16 ? GYRE_BF16 : GYRE_F16;
    return parcel;
}

/* A rank's own block of a sharded bucket lies in place. */
static void *own_block(const struct gyre_ddp *ddp, const struct parcel *parcel)
{
    uint64_t block = parcel->elements / (uint64_t)ddp->n;
    return (uint8_t *)parcel->data + block * (uint64_t)ddp->rank * gyre_type_size(parcel->type);
}

int gyre_ddp_spread_blocks(struct gyre_ddp *ddp, uint8_t *memory)
{
    int status = 0;
    for (uint32_t b = 0; !status && ddp->n > 1 && b < ddp->cut.buckets; b++) {
        const struct gyre_bucket *bucket = &ddp->cut.bucket[b];
        struct parcel p = {memory + bucket->at, bucket->elements, bucket->type};
        status = gyre_all_gather(ddp->comm, own_block(ddp, &p), p.data,
                                 p.elements / (uint64_t)ddp->n, p.type);
    }
    return status;
}

/* `work` NULL: to the end. */
static int launch(struct gyre_ddp *ddp, uint32_t b, struct gyre_work **work)
{
    struct parcel p = pack(ddp, &ddp->cut.bucket[b]);
    ddp->result.reduced_bytes += p.elements * gyre_type_size(p.type);
    if (!ddp->options.sharded)
        return work ? gyre_all_reduce_start(ddp->comm, p.data, p.data, p.elements, p.type, GYRE_SUM,
                                            work)
                    : gyre_all_reduce(ddp->comm, p.data, p.data, p.elements, p.type, GYRE_SUM);
    uint64_t block = p.elements / (uint64_t)ddp->n;
    return work ? gyre_reduce_scatter_start(ddp->comm, p.data, own_block(ddp, &p), block, p.type,
                                            GYRE_SUM, work)
                : gyre_reduce_scatter(ddp->comm, p.data, own_block(ddp, &p), block, p.type,
                                      GYRE_SUM);
}

static int launch_complete(struct gyre_ddp *ddp)
{
    int status = 0;
    while (!status && ddp->n > 1 && ddp->launched + 1 < ddp->cut.buckets &&
           !ddp->missing[ddp->launched]) {
        status = launch(ddp, ddp->launched, &ddp->work[ddp->launched]);
        ddp->launched++;
    }
    return gyre_ddp_fail(ddp, status);
}

/* -- ready ------------------------------------------------------------------------------------- */

static bool wants_look(const struct gyre_ddp *ddp, uint32_t i)
{
    return ddp->options.look == GYRE_DDP_LOOK_ALL ||
           (ddp->options.look == GYRE_DDP_LOOK_SMALL && ddp->item[i].elements <= LOOK_SMALL);
}

static void look(struct gyre_ddp *ddp, uint32_t i)
{
    const struct gyre_ddp_item *item = &ddp->item[i];
    if (ddp->bad_item == BAD_NONE &&
        !gyre_ddp_finite(ddp->gradients + ddp->cut.at[i], item->elements, item->type))
        ddp->bad_item = (int)i;
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
    if (!status)
        look(ddp, (uint32_t)parameter);
    return status;
}

int gyre_ddp_ready(struct gyre_ddp *ddp, int parameter)
{
    int status = check_call(ddp, "gyre_ddp_ready", parameter);
    if (status)
        return status;
    if (ddp->ready[parameter])
        return gyre_refuse("gyre_ddp_ready: '%s' was said to be ready in this step already",
                           ddp->item[parameter].name);
    if (wants_look(ddp, (uint32_t)parameter))
        look(ddp, (uint32_t)parameter);
    note_ready(ddp, (uint32_t)parameter);
    ddp->seen[ddp->seens++] = (uint32_t)parameter;
    return ddp->no_sync ? 0 : launch_complete(ddp);
}

/* Once for each parameter. */
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
    if (ddp->unused_item < 0)
        ddp->unused_item = (int)i;
    ddp->slot[GYRE_SLOT_UNUSED]++;
    warn_unused(ddp, i);
}

/* Zeros for what no part of the step has written. */
static void fill_unused(struct gyre_ddp *ddp)
{
    for (uint32_t i = 0; i < ddp->items; i++) {
        if (ddp->ready[i])
            continue;
        if (!ddp->written[i]) {
            const struct gyre_ddp_item *item = &ddp->item[i];
            memset(ddp->gradients + ddp->cut.at[i], 0, item->elements * gyre_type_size(item->type));
            if (ddp->samples)
                note_unused(ddp, i);
        }
        note_ready(ddp, i);
    }
}

/* -- numbers ----------------------------------------------------------------------------------- */

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
    ddp->slot[GYRE_SLOT_SUM + which] += value;
    return 0;
}

int gyre_ddp_ask_stop(struct gyre_ddp *ddp)
{
    if (!open_step(ddp, "gyre_ddp_ask_stop"))
        return GYRE_INVALID;
    ddp->slot[GYRE_SLOT_STOP] = 1;
    return 0;
}

int gyre_ddp_ask_skip(struct gyre_ddp *ddp)
{
    if (!open_step(ddp, "gyre_ddp_ask_skip"))
        return GYRE_INVALID;
    ddp->slot[GYRE_SLOT_SKIP] = 1;
    return 0;
}

static void gather_own(struct gyre_ddp *ddp)
{
    for (int k = 0; k < GYRE_DDP_SUMS; k++)
        if (!isfinite(ddp->slot[GYRE_SLOT_SUM + k]) && ddp->bad_item == BAD_NONE)
            ddp->bad_item = BAD_SUM(k);
    ddp->slot[GYRE_SLOT_SAMPLES] = (double)ddp->samples;
    ddp->slot[GYRE_SLOT_ACTIVE] = ddp->samples != 0;
    ddp->slot[GYRE_SLOT_NONFINITE] = ddp->bad_item != BAD_NONE;
    ddp->slot[GYRE_SLOT_SEEN] = ddp->rank ? 0 : ddp->seens;
}

static void publish(struct gyre_ddp *ddp)
{
    struct gyre_ddp_result *r = &ddp->result;
    bool of_ranks = ddp->options.mean == GYRE_DDP_MEAN_OF_RANKS && ddp->n > 1;
    double divisor = ddp->slot[of_ranks ? GYRE_SLOT_ACTIVE : GYRE_SLOT_SAMPLES];
    r->number = ddp->steps;
    r->samples = (uint64_t)ddp->slot[GYRE_SLOT_SAMPLES];
    r->done = r->samples == 0;
    memcpy(r->sum, &ddp->slot[GYRE_SLOT_SUM], sizeof r->sum);
    r->factor = divisor ? 1 / divisor : 1;
    r->stop = (int)ddp->slot[GYRE_SLOT_STOP];
    r->skip = (int)ddp->slot[GYRE_SLOT_SKIP];
    r->nonfinite = (int)ddp->slot[GYRE_SLOT_NONFINITE];
    r->culprit = -1;
    r->culprit_name = NULL;
    r->norm = 0;
    r->buckets = (int)ddp->cut.buckets;
}

/* -- what the numbers may say ------------------------------------------------------------------ */

static const char *name_bad(const struct gyre_ddp *ddp, int bad)
{
    static const char *const sums[GYRE_DDP_SUMS] = {"sum 0", "sum 1", "sum 2", "sum 3",
                                                    "sum 4", "sum 5", "sum 6", "sum 7"};
    return bad >= 0 ? ddp->item[bad].name : sums[-2 - bad];
}

static int name_culprit(struct gyre_ddp *ddp)
{
    int rank = -1, bad = -1;
    int status = gyre_ddp_find(ddp, ddp->bad_item, &rank, &bad);
    if (status || rank < 0)
        return status;
    ddp->result.culprit = rank;
    ddp->result.culprit_name = name_bad(ddp, bad);
    return 0;
}

static int refuse_unused(struct gyre_ddp *ddp)
{
    int rank = -1, item = -1;
    int status = gyre_ddp_find(ddp, ddp->unused_item, &rank, &item);
    if (status)
        return status;
    return gyre_refuse("step %llu: '%s' got no gradient on rank %d, and the engine is strict",
                       (unsigned long long)ddp->steps, rank < 0 ? "?" : ddp->item[item].name, rank);
}

/* -- wait -------------------------------------------------------------------------------------- */

static void unpack(struct gyre_ddp *ddp, uint32_t b)
{
    const struct gyre_bucket *bucket = &ddp->cut.bucket[b];
    uint64_t first = gyre_ddp_own_first(ddp, bucket);
    if (in_halves(ddp, bucket))
        gyre_ddp_decode(halves_of(ddp, bucket) + first,
                        (float *)(ddp->gradients + bucket->at) + first,
                        gyre_ddp_own_count(ddp, bucket), ddp->options.wire, ddp->wire.scale);
}

/* Starts what is left, in order; the last bucket and the numbers at once. */
static int reduce_rest(struct gyre_ddp *ddp)
{
    int status = launch_complete(ddp);
    if (!status && ddp->cut.buckets)
        status = launch(ddp, ddp->cut.buckets - 1, NULL);
    if (!status)
        status = gyre_all_reduce(ddp->comm, ddp->slot, ddp->slot, GYRE_SLOTS, GYRE_F64, GYRE_SUM);
    for (uint32_t b = 0; b < ddp->cut.buckets; b++) {
        int ended = ddp->work[b] ? gyre_work_wait(ddp->work[b], -1) : 0;
        ddp->work[b] = NULL;
        status = status ? status : ended;
    }
    for (uint32_t b = 0; !status && b < ddp->cut.buckets; b++)
        unpack(ddp, b);
    return status;
}

/* Makes the sum the mean, and the norm of the mean. */
static int finish_gradients(struct gyre_ddp *ddp)
{
    double factor = ddp->result.factor, squares = 0;
    for (uint32_t b = 0; b < ddp->cut.buckets; b++) {
        const struct gyre_bucket *bucket = &ddp->cut.bucket[b];
        uint64_t count = gyre_ddp_own_count(ddp, bucket);
        void *data = gyre_ddp_own_gradient(ddp, bucket);
        if (ddp->options.norm)
            squares += gyre_ddp_squares(data, count, bucket->type);
        if (!ddp->options.unscaled && factor != 1)
            gyre_ddp_scale(data, count, bucket->type, factor);
    }
    int status = 0;
    if (ddp->options.norm && ddp->options.sharded && ddp->n > 1)
        status = gyre_all_reduce(ddp->comm, &squares, &squares, 1, GYRE_F64, GYRE_SUM);
    ddp->result.norm = sqrt(squares) * factor;
    if (!ddp->options.unscaled)
        ddp->result.factor = 1;
    if (ddp->options.norm && !isfinite(squares) && !ddp->result.nonfinite)
        ddp->result.nonfinite = ddp->n; /* only together are they too large */
    return status;
}

/* Halves travel as multiples of the mean's size, from the second step on: the number of samples of
 * the step before is known to all. */
static void rescale_wire(struct gyre_ddp *ddp, double factor)
{
    if (ddp->wire.half)
        ddp->wire.scale = (float)exp2(floor(log2(factor)));
}

static int end_step(struct gyre_ddp *ddp)
{
    int status = ddp->n > 1 ? reduce_rest(ddp) : 0;
    ddp->steps++;
    if (!status)
        publish(ddp);
    if (!status && ddp->result.nonfinite)
        status = name_culprit(ddp);
    if (!status && ddp->options.strict && ddp->slot[GYRE_SLOT_UNUSED] > 0)
        return refuse_unused(ddp);
    double factor = ddp->result.factor;
    if (!status && ddp->result.samples)
        status = finish_gradients(ddp);
    if (!status && !ddp->settled && ddp->slot[GYRE_SLOT_SEEN] > 0 && ddp->n > 1)
        status = gyre_ddp_settle(ddp);
    if (!status && ddp->result.samples)
        rescale_wire(ddp, factor);
    return status;
}

int gyre_ddp_wait(struct gyre_ddp *ddp)
{
    if (!open_step(ddp, "gyre_ddp_wait"))
        return GYRE_INVALID;
    if (ddp->failed)
        return ddp->failed;
    uint64_t start = gyre_now_ns();
    ddp->open = false;
    fill_unused(ddp);
    if (ddp->no_sync) {
        ddp->adds = true;
        return 0;
    }
    gather_own(ddp);
    ddp->adds = false;
    int status = end_step(ddp);
    ddp->clips = !status;
    ddp->result.waited_ns = gyre_now_ns() - start;
    return gyre_ddp_fail(ddp, status);
}
