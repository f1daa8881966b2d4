/* Sends gradients of GYRE_F32 through a hook: as elements that the hook makes of them. bf16 and f16
 * are hooks like a caller's.
 *
 *     gradient + feedback ──encode──▶ elements ──reduced──▶ elements ──decode──▶ gradient
 *            │                           │
 *            └──────────── − ◀──decode───┘     the rest of this rank's own elements ─▶ feedback
 *
 * By then the gradient has been added to the feedback, so this rank's own elements are decoded over
 * the gradient. A hook that makes one element of each gradient is called piece by piece, so that
 * all five passes find a piece in the cache. The padding of a bucket is never encoded, and stays 0.
 * On a device one pass encodes a bucket, and one decodes it; hooks of the caller's are for host
 * memory. Tested by tests/program/ddp/together.c and tests/program/ddp/device.c. */
#include "base/small_floats.h"
#include "ddp/inside.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 4096u /* gradients */

/* -- halves ------------------------------------------------------------------------------------ */

/* The hooks of bf16 and f16. The scale is a power of two, so multiplying and dividing by it loses
 * nothing. A loop's constants are read from the parcel before the loop, or no compiler makes
 * vectors of it. */
#define HALVES(kind)                                                                               \
    static void encode_##kind(const struct gyre_ddp_parcel *parcel, const float *gradient,         \
                              void *wire, void *context)                                           \
    {                                                                                              \
        const float scale = (float)parcel->scale;                                                  \
        const uint64_t count = parcel->count;                                                      \
        uint16_t *half = wire;                                                                     \
        (void)context;                                                                             \
        for (uint64_t i = 0; i < count; i++)                                                       \
            half[i] = gyre_##kind##_of_f32(gradient[i] * scale);                                   \
    }                                                                                              \
                                                                                                   \
    static void decode_##kind(const struct gyre_ddp_parcel *parcel, const void *wire,              \
                              float *gradient, void *context)                                      \
    {                                                                                              \
        const float scale = (float)parcel->scale;                                                  \
        const uint64_t count = parcel->count;                                                      \
        const uint16_t *half = wire;                                                               \
        (void)context;                                                                             \
        for (uint64_t i = 0; i < count; i++)                                                       \
            gradient[i] = gyre_f32_of_##kind(half[i]) / scale;                                     \
    }

HALVES(bf16)
HALVES(f16)

const struct gyre_ddp_hook gyre_ddp_halves[] = {
    [GYRE_DDP_WIRE_BF16] = {"bf16", GYRE_BF16, GYRE_SUM, encode_bf16, decode_bf16, NULL, NULL},
    [GYRE_DDP_WIRE_F16] = {"f16", GYRE_F16, GYRE_SUM, encode_f16, decode_f16, NULL, NULL},
};

/* -- where ------------------------------------------------------------------------------------- */

bool gyre_ddp_is_encoded(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket)
{
    return ddp->wire.scale != 0 && bucket->type == GYRE_F32;
}

uint8_t *gyre_ddp_wire_of(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket)
{
    return ddp->wire.data + bucket->at / sizeof(float) * gyre_type_size(ddp->hook.type);
}

uint64_t gyre_ddp_wire_elements(const struct gyre_ddp *ddp, const struct gyre_bucket *bucket)
{
    return ddp->hook.length ? ddp->hook.length(bucket->used, ddp->hook.context) : bucket->elements;
}

static struct gyre_ddp_parcel parcel_of(const struct gyre_ddp *ddp,
                                        const struct gyre_bucket *bucket, uint64_t first,
                                        uint64_t end)
{
    return (struct gyre_ddp_parcel){.step = ddp->steps + 1,
                                    .bucket = (int)(bucket - ddp->cut.bucket),
                                    .first = first,
                                    .count = end - first,
                                    .scale = (double)ddp->wire.scale};
}

static uint64_t least_length(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* -- there and back ---------------------------------------------------------------------------- */

static void encode_parcel(const struct gyre_ddp_hook *hook, const struct gyre_ddp_parcel *parcel,
                          float *gradient, float *feedback, void *wire)
{
    const uint64_t count = parcel->count;
    if (!feedback) {
        hook->encode(parcel, gradient, wire, hook->context);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        feedback[i] += gradient[i];
    hook->encode(parcel, feedback, wire, hook->context);
    hook->decode(parcel, wire, gradient, hook->context);
    for (uint64_t i = 0; i < count; i++) {
        float lost = feedback[i] - gradient[i];
        feedback[i] = isfinite(lost) ? lost : 0;
    }
}

static enum gyre_precision precision_of(const struct gyre_ddp *ddp)
{
    return ddp->hook.type == GYRE_BF16 ? GYRE_PRECISION_BF16 : GYRE_PRECISION_F16;
}

void gyre_ddp_encode(struct gyre_ddp *ddp, const struct gyre_bucket *bucket)
{
    struct gyre_processor *on = ddp->place.on;
    float *gradient = (float *)(void *)(ddp->gradients + bucket->at);
    float *feedback = ddp->wire.feedback ? ddp->wire.feedback + bucket->at / sizeof(float) : NULL;
    uint8_t *wire = gyre_ddp_wire_of(ddp, bucket);
    ddp->place.passing = true;
    if (on) {
        on->table->encode(on, precision_of(ddp), (uint16_t *)(void *)wire, gradient, feedback,
                          bucket->used, ddp->wire.scale);
        return;
    }
    size_t size = gyre_type_size(ddp->hook.type);
    uint64_t most = ddp->hook.length ? bucket->used : PIECE;
    for (uint64_t at = 0; at < bucket->used; at += most) {
        struct gyre_ddp_parcel parcel =
            parcel_of(ddp, bucket, at, least_length(at + most, bucket->used));
        encode_parcel(&ddp->hook, &parcel, gradient + at, feedback ? feedback + at : NULL,
                      wire + at * size);
    }
}

void gyre_ddp_decode(struct gyre_ddp *ddp, const struct gyre_bucket *bucket)
{
    float *gradient = (float *)(void *)(ddp->gradients + bucket->at);
    uint64_t first = gyre_ddp_own_first(ddp, bucket);
    uint64_t end = least_length(first + gyre_ddp_own_count(ddp, bucket), bucket->used);
    if (first >= end)
        return;
    const void *wire = gyre_ddp_wire_of(ddp, bucket) + first * gyre_type_size(ddp->hook.type);
    struct gyre_processor *on = ddp->place.on;
    ddp->place.passing = true;
    if (on) {
        on->table->decode(on, precision_of(ddp), gradient + first, wire, end - first,
                          ddp->wire.scale);
        return;
    }
    struct gyre_ddp_parcel parcel = parcel_of(ddp, bucket, first, end);
    ddp->hook.decode(&parcel, wire, gradient + first, ddp->hook.context);
}

/* -- its room ---------------------------------------------------------------------------------- */

static int check_lengths(const struct gyre_ddp *ddp)
{
    for (uint32_t b = 0; b < ddp->cut.buckets; b++) {
        const struct gyre_bucket *bucket = &ddp->cut.bucket[b];
        uint64_t elements = bucket->type == GYRE_F32 ? gyre_ddp_wire_elements(ddp, bucket) : 0;
        if (ddp->hook.length && elements > bucket->used)
            return gyre_refuse("hook '%s' makes %llu elements of %llu gradients; at most as many "
                               "are possible",
                               ddp->hook.name, (unsigned long long)elements,
                               (unsigned long long)bucket->used);
    }
    return 0;
}

/* Of zeros. On a device it must be freed as gradients are, on the host no rank but this has it. */
static int allocate_feedback(struct gyre_ddp *ddp, uint64_t gradients)
{
    void *memory = NULL;
    int status = ddp->place.on ? gyre_ddp_alloc(ddp, gradients * sizeof(float), &memory) : 0;
    ddp->wire.feedback = ddp->place.on ? memory : calloc(gradients, sizeof(float));
    return status ? status : ddp->wire.feedback ? 0 : -ENOMEM;
}

int gyre_ddp_allocate_wire(struct gyre_ddp *ddp)
{
    uint64_t gradients = ddp->cut.bytes / sizeof(float), elements;
    void *data;
    if (!ddp->hook.encode || ddp->n == 1)
        return 0;
    int status = check_lengths(ddp);
    if (status)
        return status;
    elements = gradients + gyre_ddp_note_elements(ddp, ddp->hook.type);
    status = gyre_ddp_alloc(ddp, (elements ? elements : 1) * gyre_type_size(ddp->hook.type), &data);
    if (status)
        return status;
    ddp->wire.data = data;
    return ddp->options.no_feedback ? 0 : allocate_feedback(ddp, gradients ? gradients : 1);
}

void gyre_ddp_release_wire(struct gyre_ddp *ddp, struct gyre_ddp_wire_room *wire)
{
    gyre_ddp_free(ddp, wire->data);
    if (ddp->place.on)
        gyre_ddp_free(ddp, wire->feedback);
    else
        free(wire->feedback);
    *wire = (struct gyre_ddp_wire_room){0};
}

void gyre_ddp_move_wire(struct gyre_ddp *ddp, const uint64_t *old_at,
                        const struct gyre_ddp_wire_room *old)
{
    ddp->wire.scale = old->scale;
    for (uint32_t i = 0; ddp->wire.feedback && old->feedback && i < ddp->items; i++)
        gyre_ddp_copy(ddp, ddp->wire.feedback + ddp->cut.at[i] / sizeof(float),
                      old->feedback + old_at[i] / sizeof(float),
                      ddp->item[i].elements * sizeof(float));
}

/* -- what a run goes on with ------------------------------------------------------------------- */

float *gyre_ddp_feedback(struct gyre_ddp *ddp, int parameter)
{
    if (!ddp || !ddp->wire.feedback || parameter < 0 || (uint32_t)parameter >= ddp->items ||
        ddp->item[parameter].type != GYRE_F32)
        return NULL;
    return ddp->wire.feedback + ddp->cut.at[parameter] / sizeof(float);
}

double gyre_ddp_wire_scale(const struct gyre_ddp *ddp)
{
    return ddp ? (double)ddp->wire.scale : 0;
}

int gyre_ddp_set_wire_scale(struct gyre_ddp *ddp, double scale)
{
    int exponent;
    if (!ddp || !ddp->wire.data || ddp->open)
        return gyre_refuse("gyre_ddp_set_wire_scale: %s", !ddp ? "the engine is NULL"
                                                          : !ddp->open
                                                              ? "gradients travel as they are"
                                                              : "within a step");
    if (!(scale > 0) || !isfinite(scale) || frexp(scale, &exponent) != 0.5 || (float)scale == 0)
        return gyre_refuse("gyre_ddp_set_wire_scale: %g is no power of two", scale);
    ddp->wire.scale = (float)scale;
    return 0;
}
