/* Trials of kernel/reduce: their inputs, their arenas, and how results are compared.
 *
 * A trial runs on two arenas that start with equal bytes, by the reference on one and by the
 * variant on the other; afterwards the arenas must be equal in every byte, so results, sources and
 * the guard bytes around them are checked by one comparison. Only a NaN may have another payload.
 *
 *     arena  |guard| source 0 |guard| source 1 | … |guard| destination 0 |guard| … |guard|
 *                    ↑ shifted by 0 … 15 bytes */
#include "kernel/reduce_trial.h"

#include "base/fp8.h"
#include "rig/test.h"

#include <stdlib.h>
#include <string.h>

#define GUARD     64
#define ALIGNMENT 64 /* of an arena and of its spans, so that equal shifts lie equally */

const char *const reduce_type_names[] = {"f32", "f64", "f16", "bf16", "i32", "i64",    "u8",
                                         "i8",  "u32", "u64", "i16",  "u16", "f8e4m3", "f8e5m2"};
const char *const reduce_op_names[] = {"sum", "avg", "min", "max", "prod", "and", "or", "xor"};

char *arena_of_reference, *arena_of_variant;
static size_t span_room;

size_t reduce_arena_bytes(void)
{
    return SPANS * span_room;
}

bool reduce_arenas_create(size_t span_bytes)
{
    span_room = (span_bytes + 16 + 2 * GUARD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    arena_of_reference = aligned_alloc(ALIGNMENT, reduce_arena_bytes());
    arena_of_variant = aligned_alloc(ALIGNMENT, reduce_arena_bytes());
    return arena_of_reference && arena_of_variant;
}

void reduce_arenas_destroy(void)
{
    free(arena_of_reference);
    free(arena_of_variant);
}

struct gyre_reduce_table table_up_to(int v)
{
    struct gyre_reduce_table table = {0};
    for (int i = 0; i <= v; i++)
        if (gyre_reduce_variants[i].supported())
            gyre_reduce_variants[i].init(&table);
    return table;
}

/* -- inputs ------------------------------------------------------------------------------------ */

#define ARRAY(lane, ...)                                                                           \
    {                                                                                              \
        (const lane[]){__VA_ARGS__}, sizeof((const lane[]){__VA_ARGS__}) / sizeof(lane)            \
    }

/* Zeros, units, infinities, NaNs of both signs and kinds, largest, smallest and subnormal. */
static const struct {
    const void *patterns;
    size_t count;
} extremes[GYRE_TYPE_COUNT] = {
    [GYRE_F32] = ARRAY(uint32_t, 0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                       0x7fc00000, 0xffc00001, 0x7f800001, 0xff800001, 0x7f7fffff, 0xff7fffff,
                       0x00800000, 0x80800000, 0x007fffff, 0x00000001, 0x80000001, 0x7fffffff),
    [GYRE_F64] =
        ARRAY(uint64_t, 0, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
              0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000001,
              0x7ff0000000000001, 0xfff0000000000001, 0x7fefffffffffffff, 0xffefffffffffffff,
              0x0010000000000000, 0x000fffffffffffff, 1, 0x8000000000000001),
    [GYRE_F16] = ARRAY(uint16_t, 0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01,
                       0xfc01, 0x7bff, 0xfbff, 0x0400, 0x8400, 0x03ff, 0x0001, 0x8001, 0x7fff),
    [GYRE_BF16] = ARRAY(uint16_t, 0, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81,
                        0xff81, 0x7f7f, 0xff7f, 0x0080, 0x8080, 0x007f, 0x0001, 0x8001, 0x7fff),
    [GYRE_I32] =
        ARRAY(int32_t, 0, 1, -1, 7, -7, INT32_MAX, INT32_MIN, INT32_MAX - 1, INT32_MIN + 1),
    [GYRE_I64] = ARRAY(int64_t, 0, 1, -1, 7, -7, INT64_MAX, INT64_MIN, INT32_MIN, INT64_MIN + 1),
    [GYRE_U8] = ARRAY(uint8_t, 0, 1, 2, 127, 128, 254, 255),
    [GYRE_I8] = ARRAY(uint8_t, 0, 1, 7, 127, 128, 129, 249, 255),
    [GYRE_U32] = ARRAY(uint32_t, 0, 1, 7, INT32_MAX, 0x80000000, 0x80000001, UINT32_MAX),
    [GYRE_U64] = ARRAY(uint64_t, 0, 1, 7, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX, UINT32_MAX),
    [GYRE_I16] = ARRAY(uint16_t, 0, 1, 7, 0x7fff, 0x8000, 0x8001, 0xfff9, 0xffff),
    [GYRE_U16] = ARRAY(uint16_t, 0, 1, 7, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff),
    [GYRE_F8E4M3] = ARRAY(uint8_t, 0, 0x80, 0x38, 0xb8, 0x7f, 0xff, 0x7e, 0xfe, 0x08, 7, 1, 0x81),
    [GYRE_F8E5M2] = ARRAY(uint8_t, 0, 0x80, 0x3c, 0xbc, 0x7c, 0xfc, 0x7d, 0xfe, 0xff, 0x7b, 0xfb, 4,
                          3, 1, 0x81),
};

/* A number of ordinary size: sums of these round, carry and cancel. */
static uint64_t ordinary(int type, uint64_t random)
{
    float small = (float)((int64_t)(random >> 40) - (1 << 23)) / (float)(1U << (random & 31));
    double wide = small + (double)(random & 0xffff) * 0x1p-50;
    uint64_t bits = random >> 8;
    switch (type) {
    case GYRE_F32:
        return gyre_bits_of_f32(small);
    case GYRE_F64:
        memcpy(&bits, &wide, sizeof bits);
        return bits;
    case GYRE_F16:
        return gyre_f16_of_f32(small / 128);
    case GYRE_BF16:
        return gyre_bf16_of_f32(small);
    case GYRE_F8E4M3:
        return gyre_f8e4m3_of_f32(small / 65536);
    case GYRE_F8E5M2:
        return gyre_f8e5m2_of_f32(small / 4096);
    default:
        return bits;
    }
}

/* One in 16 is extreme, three are any pattern at all, the others ordinary. */
static void draw_elements(struct gyre_rng *rng, int type, char *at, uint64_t count)
{
    size_t size = gyre_type_size((enum gyre_type)type);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t random = gyre_rng_next(rng), bits = random >> 4;
        const void *from = &bits;
        if (random % 16 == 0)
            from = (const char *)extremes[type].patterns + bits % extremes[type].count * size;
        else if (random % 16 > 3)
            bits = ordinary(type, random);
        memcpy(at + i * size, from, size);
    }
}

#define POOL (1 << 15) /* elements of each type: drawing takes longer than any fold */

static const char *pool_of(int type)
{
    static char pool[GYRE_TYPE_COUNT][POOL * sizeof(uint64_t)];
    static bool drawn[GYRE_TYPE_COUNT];
    struct gyre_rng rng;
    if (!drawn[type]) {
        gyre_rng_seed(&rng, (uint64_t)type);
        draw_elements(&rng, type, pool[type], POOL);
        drawn[type] = true;
    }
    return pool[type];
}

/* Pieces of what was drawn once, each of up to half of it and from any place. */
static void fill_elements(struct gyre_rng *rng, int type, char *at, uint64_t count)
{
    size_t size = gyre_type_size((enum gyre_type)type);
    for (uint64_t piece; count > 0; at += piece * size, count -= piece) {
        piece = count < POOL / 2 ? count : POOL / 2;
        memcpy(at, pool_of(type) + gyre_rng_below(rng, POOL / 2) * size, piece * size);
    }
}

void draw_numbers(struct trial *trial)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, trial->seed);
    draw_elements(&rng, trial->type, (char *)trial->number, trial->sources);
}

/* -- one trial --------------------------------------------------------------------------------- */

static int type_of(const struct trial *trial, uint32_t span)
{
    return trial->casts && span >= SOURCES_MOST ? trial->into : trial->type;
}

/* A span's bytes with its guards, whatever its shift. */
static size_t span_used(const struct trial *trial, uint32_t span)
{
    size_t size = gyre_type_size((enum gyre_type)type_of(trial, span));
    return (size_t)trial->count * size + 16 + 2 * GUARD;
}

static char *span_at(char *arena, const struct trial *trial, uint32_t span)
{
    return arena + span * span_room + GUARD + trial->shift[span];
}

void run_trial_by(run_fold run, char *arena, const struct trial *trial, gyre_fold fold)
{
    const void *source[SOURCES_MOST];
    void *destination[DESTINATIONS_MOST];
    for (uint32_t s = 0; s < trial->sources; s++)
        source[s] = span_at(arena, trial, s);
    for (uint32_t d = 0; d < trial->destinations; d++)
        destination[d] = span_at(arena, trial, SOURCES_MOST + d);
    if (trial->in_place >= 0)
        destination[0] = span_at(arena, trial, (uint32_t)trial->in_place);
    struct gyre_fold_task task = {
        .destination = destination,
        .source = source,
        .destinations = trial->destinations,
        .sources = trial->sources,
        .count = trial->count,
        .divisor = trial->divisor,
        .stream = trial->stream,
        .context = trial->number,
    };
    run(&task, fold);
}

static void call_fold(const struct gyre_fold_task *task, gyre_fold fold)
{
    fold(task, NULL);
}

void run_trial(char *arena, const struct trial *trial, gyre_fold fold)
{
    run_trial_by(call_fold, arena, trial, fold);
}

/* Calls for the spans that the trial has. */
#define FOR_SPANS(span, trial)                                                                     \
    for (uint32_t span = 0; span < SPANS; span++)                                                  \
        if (span < SOURCES_MOST ? span < (trial)->sources                                          \
                                : span - SOURCES_MOST < (trial)->destinations)

void for_each_span(const struct trial *trial, void (*call)(size_t at, size_t bytes))
{
    FOR_SPANS(span, trial)
    call(span * span_room, span_used(trial, span));
}

void fill_arena(const struct trial *trial)
{
    struct gyre_rng rng;
    gyre_rng_seed(&rng, trial->seed);
    FOR_SPANS(span, trial)
    {
        size_t used = span_used(trial, span);
        char *at = arena_of_reference + span * span_room;
        memset(at, 0xa5, used);
        if (span < SOURCES_MOST)
            fill_elements(&rng, trial->type, span_at(arena_of_reference, trial, span),
                          trial->count);
        memcpy(arena_of_variant + span * span_room, at, used);
    }
}

bool is_nan_pattern(int type, uint64_t bits)
{
    switch (type) {
    case GYRE_F32:
        return (bits & 0x7fffffff) > 0x7f800000;
    case GYRE_F64:
        return (bits & INT64_MAX) > UINT64_C(0x7ff0000000000000);
    case GYRE_F16:
        return (bits & 0x7fff) > 0x7c00;
    case GYRE_BF16:
        return (bits & 0x7fff) > 0x7f80;
    case GYRE_F8E4M3:
        return (bits & 0x7f) > 0x7e;
    case GYRE_F8E5M2:
        return (bits & 0x7f) > 0x7c;
    default:
        return false;
    }
}

static uint64_t bits_at(const char *at, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, at, size);
    return bits;
}

static void fail_trial(const struct trial *trial, const char *variant, uint32_t span, uint64_t i,
                       uint64_t wanted, uint64_t found)
{
    fail_msg("%s %s %s%s%s: element %lld of span %u is %#llx, the reference has %#llx "
             "(count %llu, %u sources, %u destinations, divisor %u, in place %d, stream %d, "
             "shifts %u %u | %u %u, seed %llu)",
             variant, reduce_type_names[trial->type], reduce_op_names[trial->op],
             trial->casts ? " into " : "", trial->casts ? reduce_type_names[trial->into] : "",
             (long long)i, span, (unsigned long long)found, (unsigned long long)wanted,
             (unsigned long long)trial->count, trial->sources, trial->destinations, trial->divisor,
             trial->in_place, trial->stream, trial->shift[0], trial->shift[1],
             trial->shift[SOURCES_MOST], trial->shift[SOURCES_MOST + 1],
             (unsigned long long)trial->seed);
}

/* Equal outside the elements byte by byte, inside but for payloads of NaNs. */
static void compare_span(const struct trial *trial, const char *variant, uint32_t span)
{
    int type = type_of(trial, span);
    size_t used = span_used(trial, span);
    const char *a = arena_of_reference + span * span_room;
    const char *b = arena_of_variant + span * span_room;
    if (memcmp(a, b, used) == 0)
        return;
    size_t size = gyre_type_size((enum gyre_type)type), at = GUARD + trial->shift[span];
    for (uint64_t i = 0; i < trial->count; i++, at += size) {
        uint64_t wanted = bits_at(a + at, size), found = bits_at(b + at, size);
        if (wanted != found && !(is_nan_pattern(type, wanted) && is_nan_pattern(type, found)))
            fail_trial(trial, variant, span, i, wanted, found);
    }
    size_t front = GUARD + trial->shift[span];
    if (memcmp(a, b, front) != 0 || memcmp(a + at, b + at, used - at) != 0)
        fail_trial(trial, variant, span, UINT64_MAX, 0xa5, 0);
}

void compare_arenas(const struct trial *trial, const char *variant)
{
    FOR_SPANS(span, trial)
    compare_span(trial, variant, span);
}

struct trial random_trial(struct gyre_rng *rng, int type, int op, uint64_t count)
{
    static const uint32_t divisors[] = {0, 1, 2, 3, 7, 128, 255, 300, 100000, UINT32_MAX};
    struct trial trial = {.type = type, .op = op, .count = count, .in_place = -1};
    uint64_t crowd = gyre_rng_below(rng, 16) ? 9 : SOURCES_MOST;
    trial.sources = 1 + (uint32_t)gyre_rng_below(rng, crowd);
    trial.destinations = 1 + (uint32_t)gyre_rng_below(rng, DESTINATIONS_MOST);
    if (gyre_rng_below(rng, 2))
        trial.sources = 2, trial.destinations = 1 + (trial.destinations & 1);
    if (op == GYRE_AVG)
        trial.divisor = divisors[gyre_rng_below(rng, sizeof divisors / sizeof divisors[0])];
    if (gyre_rng_below(rng, 3) == 0)
        trial.in_place = (int)gyre_rng_below(rng, trial.sources);
    trial.stream = gyre_rng_below(rng, 3) == 0;
    unsigned whole = (unsigned)gyre_type_size((enum gyre_type)type);
    uint64_t manner = gyre_rng_below(rng, 4); /* all aligned, by elements, equally odd, any */
    unsigned equal = (unsigned)gyre_rng_below(rng, 16);
    for (int s = 0; s < SPANS; s++) {
        unsigned any = (unsigned)gyre_rng_below(rng, 16);
        trial.shift[s] = manner == 0   ? 0
                         : manner == 1 ? any / whole * whole
                         : manner == 2 ? equal
                                       : any;
    }
    trial.seed = gyre_rng_next(rng);
    return trial;
}
