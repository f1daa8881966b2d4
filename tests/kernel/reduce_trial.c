/* Trials of kernel/reduce: their inputs, their arenas, and how results are compared.
 *
 * A trial runs on two arenas that start with equal bytes, by the reference on one and by the
 * variant on the other; afterwards the arenas must be equal in every byte, so results, sources and
 * the guard bytes around them are checked by one comparison. Only a NaN may have another payload.
 *
 *     arena  |guard| source 0 |guard| source 1 | … |guard| destination 0 |guard| … |guard|
 *                    ↑ shifted by 0 … 15 bytes */
#include "kernel/reduce_trial.h"

#include "base/small_floats.h"
#include "rig/test.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#define GUARD     64
#define ALIGNMENT 64 /* of an arena and of its spans, so that equal shifts lie equally */

char *arena_of_reference, *arena_of_variant;
static size_t span_room;

size_t reduce_arena_bytes(void)
{
    return SPANS * span_room;
}

/* Makes an arena of fresh pages, which cost nothing until a trial touches them. Meson has malloc()
 * fill its own. */
static char *create_arena(void)
{
    void *arena = mmap(NULL, reduce_arena_bytes(), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return arena == MAP_FAILED ? NULL : arena;
}

static void destroy_arena(char *arena)
{
    if (arena)
        munmap(arena, reduce_arena_bytes());
}

bool reduce_arenas_create(size_t span_bytes)
{
    span_room = (span_bytes + 16 + 2 * GUARD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    arena_of_reference = create_arena();
    arena_of_variant = create_arena();
    return arena_of_reference && arena_of_variant;
}

void reduce_arenas_destroy(void)
{
    destroy_arena(arena_of_reference);
    destroy_arena(arena_of_variant);
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

#define EXTREMES_MOST 32

/* Of a float, with both signs: zero, smallest and largest subnormal, smallest normal, unit, the
 * largest finite, infinity, NaNs of all kinds. f8e4m3 has no infinity: the numbers next to its NaN.
 * */
static size_t extremes_of_float(const struct gyre_type_row *row, uint64_t *pattern)
{
    uint64_t one = UINT64_C(1), unit = one << row->fraction, sign = one << (row->bits - 1);
    uint64_t bias = (one << (row->bits - 2 - row->fraction)) - 1, quiet = row->last | unit >> 1;
    const uint64_t sizes[] = {0,
                              1,
                              unit - 1,
                              unit,
                              bias << row->fraction,
                              row->last,
                              row->last - 1,
                              row->last + 1,
                              quiet,
                              quiet + 1,
                              sign - 1};
    size_t count = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pattern[count++] = sizes[i];
        pattern[count++] = sizes[i] | sign;
    }
    return count;
}

/* Of an integer: zero, units, small ones, and the ends of the signed and of the unsigned range. */
static size_t extremes_of_integer(const struct gyre_type_row *row, uint64_t *pattern)
{
    uint64_t sign = UINT64_C(1) << (row->bits - 1);
    const uint64_t sizes[] = {0,        1,    2,        7,         sign - 2,
                              sign - 1, sign, sign + 1, INT32_MAX, UINT32_MAX};
    size_t count = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pattern[count++] = sizes[i];
        pattern[count++] = -sizes[i];
    }
    return count;
}

/* A number of ordinary size: sums of these round, carry and cancel. */
static uint64_t ordinary(int type, uint64_t random)
{
    const struct gyre_type_row *row = &gyre_type_rows[type];
    float small = (float)((int64_t)(random >> 40) - (1 << 23)) / (float)(1U << (random & 31));
    double wide = small + (double)(random & 0xffff) * 0x1p-50;
    uint64_t bits = random >> 8;
    int exponents = 1 << (row->bits - 2 - row->fraction) % 32; /* above that of 1 */
    if (row->small_float && exponents < 24)
        small = ldexpf(small, exponents - 24);
    switch (type) {
    case GYRE_F32:
        return gyre_bits_of_f32(small);
    case GYRE_F64:
        memcpy(&bits, &wide, sizeof bits);
        return bits;
#define ORDINARY_FLOAT(ID, type)
#define ORDINARY_SIGNED(ID, type)
#define ORDINARY_UNSIGNED(ID, type)
#define ORDINARY_SMALL_FLOAT(ID, type)                                                             \
    case GYRE_##ID:                                                                                \
        return gyre_##type##_of_f32(small);
#define ORDINARY(ID, type, kind, ...) ORDINARY_##kind(ID, type)
        GYRE_TYPES(ORDINARY)
    default:
        return bits;
    }
}

/* One in 16 is extreme, three are any pattern at all, the others ordinary. */
static void draw_elements(struct gyre_rng *rng, int type, char *at, uint64_t count)
{
    const struct gyre_type_row *row = &gyre_type_rows[type];
    uint64_t extreme[EXTREMES_MOST];
    size_t size = gyre_type_size((enum gyre_type)type);
    size_t extremes = (row->fraction ? extremes_of_float : extremes_of_integer)(row, extreme);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t random = gyre_rng_next(rng), bits = random >> 4;
        if (random % 16 == 0)
            bits = extreme[bits % extremes];
        else if (random % 16 > 3)
            bits = ordinary(type, random);
        memcpy(at + i * size, &bits, size);
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
    const struct gyre_type_row *row = &gyre_type_rows[type];
    return row->fraction && (bits & ((UINT64_C(1) << (row->bits - 1)) - 1)) > row->last;
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
             variant, gyre_type_name((uint32_t)trial->type), gyre_op_name((uint32_t)trial->op),
             trial->casts ? " into " : "",
             trial->casts ? gyre_type_name((uint32_t)trial->into) : "", (long long)i, span,
             (unsigned long long)found, (unsigned long long)wanted,
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
