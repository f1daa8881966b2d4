/* Where a shadow's bytes are, and which of them a slice needs.
 *
 *     parcels       0     1     2     3     4     5
 *     asked                           ▲               copies in are posted up to here, a few ahead
 *     ready               ▲                           and have come up to here: they may be read
 *     given         in any order, as lanes end; the operation ends when the last copy has
 *
 * A parcel is a slice. Those of a PUSH are short, for its stage, so several make one, of about a MiB;
 * an EXCHANGE is one in all. */
#include "collectives/staging/host_mirror.h"

#include "base/size.h"
#include "collectives/staging/pinned.h"

#include <errno.h>
#include <stdlib.h>

#define AHEAD        16u /* parcels asked for beyond those that have come */
#define PARCEL_BYTES (UINT64_C(1) << 20)
#define PAGE         4096u

struct gyre_shadow {
    struct gyre_shadow *next;
    struct gyre_carrier *carrier;
    struct gyre_pinned pinned;
    bool used;

    const struct gyre_plan *plan;
    uint32_t n, rank;
    const uint8_t *input; /* the caller's, on the device; NULL: the host's, or nothing */
    uint8_t *output;
    uint8_t *host_input, *host_output; /* theirs here */
    uint64_t parcels, each;            /* of so many slices */
    uint64_t asked, ready, given;
    uint64_t ticket[AHEAD]; /* of parcels asked for */
    uint64_t last;          /* of what was given back */
};

/* -- storage ----------------------------------------------------------------------------------- */

static void free_shadow(struct gyre_shadow *shadow)
{
    gyre_pinned_drop(shadow->carrier, &shadow->pinned);
    free(shadow);
}

static struct gyre_shadow *new_shadow(struct gyre_carrier *carrier, uint64_t bytes)
{
    struct gyre_shadow *shadow = calloc(1, sizeof(*shadow));
    if (!shadow)
        return NULL;
    shadow->carrier = carrier;
    if (gyre_pinned_make(carrier, bytes, &shadow->pinned)) {
        free(shadow);
        return NULL;
    }
    return shadow;
}

/* The first idle one that is large enough; one that is too small makes room for a larger. */
static struct gyre_shadow *find_shadow(struct gyre_engine *engine, uint64_t bytes)
{
    for (struct gyre_shadow *it = engine->shadows; it; it = it->next)
        if (!it->used && it->pinned.bytes >= bytes) {
            gyre_pinned_lock(engine->carrier, &it->pinned);
            return it;
        }
    for (struct gyre_shadow **at = &engine->shadows; *at; at = &(*at)->next)
        if (!(*at)->used) {
            struct gyre_shadow *small = *at;
            *at = small->next;
            free_shadow(small);
            break;
        }
    struct gyre_shadow *fresh = new_shadow(engine->carrier, bytes);
    if (fresh) {
        fresh->next = engine->shadows;
        engine->shadows = fresh;
    }
    return fresh;
}

void gyre_shadow_release(struct gyre_shadow *shadow)
{
    if (shadow)
        shadow->used = false;
}

void gyre_shadow_deinit(struct gyre_engine *engine)
{
    while (engine->shadows) {
        struct gyre_shadow *first = engine->shadows;
        engine->shadows = first->next;
        free_shadow(first);
    }
}

/* -- layout ------------------------------------------------------------------------------------ */

/* INPUT and OUTPUT stand to each other as the caller's do. */
static void lay_out(struct gyre_shadow *shadow, bool in_place, uint64_t in_bytes)
{
    uint64_t apart = gyre_shape_displacement(&shadow->plan->shape, shadow->rank);
    uint8_t *memory = shadow->pinned.memory;
    shadow->host_input = memory;
    shadow->host_output = memory + gyre_round_up(in_bytes, PAGE);
    if (!in_place)
        return;
    bool gathers = gyre_verb_gathers(shadow->plan->shape.verb);
    shadow->host_input = memory + (gathers ? apart : 0);
    shadow->host_output = memory + (gathers ? 0 : apart);
}

/* Slices of a parcel. */
static uint64_t each_of(const struct gyre_plan *plan, uint64_t longest)
{
    if (plan->form != GYRE_FORM_PUSH)
        return plan->form == GYRE_FORM_STEPS ? 1 : plan->slices;
    uint64_t bytes = longest / plan->slices;
    return bytes && bytes < PARCEL_BYTES ? PARCEL_BYTES / bytes : 1;
}

static void begin(struct gyre_shadow *shadow, const struct gyre_engine *engine,
                  const struct gyre_plan *plan)
{
    shadow->used = true;
    shadow->plan = plan;
    shadow->n = engine->n;
    shadow->rank = engine->rank;
    shadow->each = each_of(plan, plan->input_bytes > plan->output_bytes ? plan->input_bytes
                                                                        : plan->output_bytes);
    shadow->parcels = (plan->slices + shadow->each - 1) / shadow->each;
    shadow->asked = shadow->ready = shadow->given = shadow->last = 0;
}

int gyre_shadow_make(struct gyre_engine *engine, const struct gyre_plan *plan, const void *input,
                     void *output, struct gyre_shadow **out, struct gyre_trouble *trouble)
{
    const struct gyre_shape *shape = &plan->shape;
    struct gyre_carrier *carrier = engine->carrier;
    *out = NULL;
    if (!carrier)
        return 0;
    uint64_t in_bytes = gyre_shape_input_bytes(shape, engine->n, engine->rank);
    uint64_t out_bytes = gyre_shape_output_bytes(shape, engine->n, engine->rank);
    bool in = in_bytes && gyre_carrier_owns(carrier, input);
    bool back = out_bytes && gyre_carrier_owns(carrier, output);
    if (!in && !back)
        return 0;
    int status = gyre_carrier_open(carrier, trouble);
    if (status)
        return status;
    uint64_t bytes = gyre_round_up(in_bytes, PAGE) + out_bytes;
    struct gyre_shadow *shadow = find_shadow(engine, bytes);
    if (!shadow)
        return gyre_trouble_set(trouble, -ENOMEM,
                                "no memory for %llu bytes of host memory beside %s memory",
                                (unsigned long long)bytes, carrier->device->name);
    begin(shadow, engine, plan);
    shadow->input = in ? input : NULL;
    shadow->output = back ? output : NULL;
    if (!in) /* it is where the operation reads it */
        shadow->asked = shadow->ready = shadow->parcels;
    lay_out(shadow, gyre_shape_in_place(shape, engine->rank, input, output), in_bytes);
    *out = shadow;
    return 0;
}

void gyre_shadow_cast(struct gyre_operation *op, struct gyre_shadow *shadow)
{
    op->shadow = shadow;
    if (!shadow)
        return;
    if (shadow->input)
        op->input = shadow->host_input;
    if (shadow->output)
        op->output = shadow->host_output;
}

/* -- copies ------------------------------------------------------------------------------------ */

/* All slices of a parcel as one. */
static struct gyre_slice slice_of(const struct gyre_shadow *shadow, uint64_t index)
{
    const struct gyre_plan *plan = shadow->plan;
    struct gyre_slice slice = gyre_plan_slice(plan, shadow->n, shadow->rank, index * shadow->each);
    uint64_t left = plan->shape.count - slice.first;
    uint64_t most = shadow->each * plan->slice_count;
    slice.count = index + 1 == shadow->parcels || left < most ? left : most;
    return slice;
}

/* Blocks of all of an operation stand close together, unless their places were given. */
static uint32_t pieces_of(const struct gyre_shadow *shadow, const struct gyre_slice *slice,
                          enum gyre_buffer buffer)
{
    bool apart = buffer == GYRE_OUTPUT && shadow->plan->blocks.count;
    uint32_t blocks = gyre_slice_blocks(slice, buffer);
    return blocks && shadow->parcels == 1 && !apart ? 1 : blocks;
}

static struct gyre_span piece_of(const struct gyre_shadow *shadow, const struct gyre_slice *slice,
                                 enum gyre_buffer buffer, uint32_t i)
{
    struct gyre_span span = gyre_slice_block(slice, buffer, i);
    if (pieces_of(shadow, slice, buffer) < gyre_slice_blocks(slice, buffer))
        span.bytes *= gyre_slice_blocks(slice, buffer);
    return span;
}

/* Posts the parcel's copies of one buffer and returns the last one's ticket. More blocks than a
 * queue has room for are short: they are waited for. */
static uint64_t post(const struct gyre_shadow *shadow, uint64_t index, enum gyre_buffer buffer)
{
    const struct gyre_slice slice = slice_of(shadow, index);
    uint64_t base = slice.first * slice.element, ticket = 0;
    uint32_t pieces = pieces_of(shadow, &slice, buffer);
    struct gyre_carrier *carrier = shadow->carrier;
    for (uint32_t i = 0; i < pieces; i++) {
        struct gyre_span span = piece_of(shadow, &slice, buffer, i);
        uint64_t at = base + span.at;
        ticket = buffer == GYRE_INPUT ? gyre_carrier_copy(carrier, shadow->host_input + at,
                                                          shadow->input + at, span.bytes)
                                      : gyre_carrier_copy(carrier, shadow->output + at,
                                                          shadow->host_output + at, span.bytes);
    }
    return ticket;
}

static bool has_room(const struct gyre_shadow *shadow)
{
    uint32_t wanted = shadow->n < GYRE_DEVICE_POSTS ? shadow->n : GYRE_DEVICE_POSTS;
    return gyre_carrier_room(shadow->carrier) >= wanted;
}

bool gyre_shadow_run(struct gyre_shadow *shadow)
{
    uint64_t asked = shadow->asked, ready = shadow->ready;
    while (shadow->asked < shadow->parcels && shadow->asked - shadow->ready < AHEAD &&
           has_room(shadow)) {
        shadow->ticket[shadow->asked % AHEAD] = post(shadow, shadow->asked, GYRE_INPUT);
        shadow->asked++;
    }
    while (shadow->ready < shadow->asked &&
           gyre_carrier_done(shadow->carrier, shadow->ticket[shadow->ready % AHEAD]))
        shadow->ready++;
    return shadow->asked != asked || shadow->ready != ready;
}

bool gyre_shadow_ready(const struct gyre_shadow *shadow, uint64_t slice)
{
    return slice / shadow->each < shadow->ready;
}

static bool give(struct gyre_shadow *shadow, uint64_t parcel)
{
    if (shadow->output && !has_room(shadow))
        return false;
    if (shadow->output)
        shadow->last = post(shadow, parcel, GYRE_OUTPUT);
    shadow->given++;
    return true;
}

bool gyre_shadow_give(struct gyre_shadow *shadow, uint64_t slice)
{
    return give(shadow, slice);
}

bool gyre_shadow_give_before(struct gyre_shadow *shadow, uint64_t slices)
{
    uint64_t given = shadow->given;
    uint64_t whole = slices == shadow->plan->slices ? shadow->parcels : slices / shadow->each;
    while (shadow->given < whole && give(shadow, shadow->given))
        continue;
    return shadow->given != given;
}

bool gyre_shadow_given(const struct gyre_shadow *shadow)
{
    return shadow->given == shadow->parcels;
}

bool gyre_shadow_over(const struct gyre_shadow *shadow)
{
    return gyre_shadow_given(shadow) && gyre_carrier_done(shadow->carrier, shadow->last);
}
