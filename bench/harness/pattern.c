/* Small whole numbers, so that most sums are exact in every type and every order.
 *
 *     value(rank, index, iteration) = scatter(rank, index) + 3 * ((index + iteration) mod 3 - 1)
 *                                     └─ -1, 0 or 1 ─────┘   └─ -3, 0 or 3 ────────────────────┘
 *
 * Neighbouring ranks and indices differ at random; neighbouring iterations differ everywhere, so
 * data left over from the last call are always noticed. A product of such numbers would be 0 or
 * overflow: there each rank gives 1 or -1 and one rank twice that. Where each rank multiplies
 * first, odd ranks double, as in nccl-tests.
 *
 * The check is exact where the arithmetic must be: integers, and floats as long as every partial
 * sum fits the significand. An average may be off by the rounding of its division, and a sum of
 * many ranks in 16 or 8 bits by one rounding per addition; both bounds are stated below. */
#include "harness/pattern.h"
#include "harness/options.h"

#include <math.h>
#include <string.h>

#define LARGEST 4 /* of |value| */
#define DOUBLED 2 /* by odd ranks, with BENCH_MULSUM */

static uint64_t scatter(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x7fb5d329728ea185);
    x ^= x >> 27;
    x *= UINT64_C(0x81dadef4bc2dd44d);
    return x ^ x >> 33;
}

static int factor_of(const struct bench_pattern *pattern, int rank, uint64_t index)
{
    uint64_t draw = scatter((uint64_t)rank << 48 ^ index) + (rank == 0) * pattern->iteration;
    int sign = draw & 1 ? -1 : 1;
    uint64_t doubled = (index + pattern->iteration) % (uint64_t)pattern->n;
    return (uint64_t)rank == doubled ? 2 * sign : sign;
}

static int value_of(const struct bench_pattern *pattern, int rank, uint64_t index)
{
    if (pattern->reduce && pattern->op == GYRE_PROD) {
        return factor_of(pattern, rank, index);
    }
    int phase = (int)((index + pattern->iteration) % 3) - 1;
    return (int)(scatter((uint64_t)rank << 48 ^ index) % 3) - 1 + 3 * phase;
}

/* -- floats of 16 and 8 bits ------------------------------------------------------------------- */

static double widen(enum gyre_type type, unsigned bits)
{
    const struct gyre_type_row *row = &gyre_type_rows[type];
    int exponents = row->bits - 1 - row->fraction;
    unsigned fractions = 1U << row->fraction, last = (1U << exponents) - 1;
    unsigned exponent = bits >> row->fraction & last, fraction = bits & (fractions - 1);
    int unit = 2 - (1 << (exponents - 1)) - row->fraction; /* of subnormals, as a power of 2 */
    double magnitude =
        exponent ? ldexp(fractions + fraction, (int)exponent - 1 + unit) : ldexp(fraction, unit);
    bool infinite = row->last == last << row->fraction; /* there is an infinity */
    unsigned size = bits & ((fractions << exponents) - 1);
    if (size >= row->last + !infinite) {
        magnitude = size == row->last ? INFINITY : NAN;
    }
    return bits >> (row->bits - 1) ? -magnitude : magnitude;
}

/* Whole numbers; what does not fit the fraction is cut off. */
static unsigned narrow(enum gyre_type type, int value)
{
    const struct gyre_type_row *row = &gyre_type_rows[type];
    int magnitude = value < 0 ? -value : value, exponent = 0;
    if (magnitude == 0) {
        return 0;
    }
    while (magnitude >> (exponent + 1)) {
        exponent++;
    }
    unsigned biased = (unsigned)exponent + (1U << (row->bits - 2 - row->fraction)) - 1;
    unsigned fraction = ((unsigned)magnitude << row->fraction >> exponent) - (1U << row->fraction);
    return (unsigned)(value < 0) << (row->bits - 1) | biased << row->fraction | fraction;
}

/* -- elements ---------------------------------------------------------------------------------- */

#define STORED_FLOAT(ID, element)       (element) value
#define STORED_SMALL_FLOAT(ID, element) (element) narrow(GYRE_##ID, value)
#define STORED_SIGNED(ID, element)      (element) value
#define STORED_UNSIGNED(ID, element)    (element) value

static void store(enum gyre_type type, void *data, uint64_t index, int value)
{
    switch (type) {
#define STORE(ID, name, kind, element, ...)                                                        \
    case GYRE_##ID:                                                                                \
        ((element *)data)[index] = STORED_##kind(ID, element);                                     \
        break;
        GYRE_TYPES(STORE)
    }
}

#define LOADED_FLOAT(ID, x)       (double)x
#define LOADED_SMALL_FLOAT(ID, x) widen(GYRE_##ID, x)
#define LOADED_SIGNED(ID, x)      (double)x
#define LOADED_UNSIGNED(ID, x)    (double)x

static double load(enum gyre_type type, const void *data, uint64_t index)
{
    switch (type) {
#define LOAD(ID, name, kind, element, ...)                                                         \
    case GYRE_##ID:                                                                                \
        return LOADED_##kind(ID, ((const element *)data)[index]);
        GYRE_TYPES(LOAD)
    }
    return NAN;
}

void bench_pattern_fill(const struct bench_pattern *pattern, int rank, void *data, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        store(pattern->type, data, i, value_of(pattern, rank, i));
    }
}

static int scalar_of(int rank)
{
    return rank % 2 ? DOUBLED : 1;
}

void bench_pattern_scalar(enum gyre_type type, int rank, void *scalar)
{
    store(type, scalar, 0, scalar_of(rank));
}

/* -- the right result -------------------------------------------------------------------------- */

/* What an element of the type holds after the value went in: unsigned and narrow ones wrap. The 64
 * bits of a u64 stay as they are. */
static int64_t seen(enum gyre_type type, int64_t value)
{
    switch (type) {
#define SEEN_FLOAT(ID, element)
#define SEEN_SMALL_FLOAT(ID, element)
#define SEEN_UNSIGNED SEEN_SIGNED
#define SEEN_SIGNED(ID, element)                                                                   \
    case GYRE_##ID:                                                                                \
        return (int64_t)(element)value;
#define SEEN(ID, name, kind, element, ...) SEEN_##kind(ID, element)
        GYRE_TYPES(SEEN)
    default:
        return value;
    }
}

static double number(enum gyre_type type, int64_t value)
{
    return type == GYRE_U64 ? (double)(uint64_t)value : (double)value;
}

/* What a rank adds to the result. */
static int64_t given_by(const struct bench_pattern *pattern, int rank, uint64_t index)
{
    int value = value_of(pattern, rank, index);
    return seen(pattern->type, pattern->op == BENCH_MULSUM ? value * scalar_of(rank) : value);
}

#define RESULT(ID, name, family, neutral, result, ...)                                             \
    case GYRE_##ID:                                                                                \
        return result;

static int64_t combine_signed(enum gyre_op op, int64_t a, int64_t b)
{
    switch (op) {
        GYRE_REDUCTIONS(RESULT)
    default: /* BENCH_MULSUM */
        return a + b;
    }
}

static uint64_t combine_unsigned(enum gyre_op op, uint64_t a, uint64_t b)
{
    switch (op) {
        GYRE_REDUCTIONS(RESULT)
    default: /* BENCH_MULSUM */
        return a + b;
    }
}

static int64_t combine(const struct bench_pattern *pattern, int64_t a, int64_t b)
{
    if (pattern->type == GYRE_U64) {
        return (int64_t)combine_unsigned(pattern->op, (uint64_t)a, (uint64_t)b);
    }
    return seen(pattern->type, combine_signed(pattern->op, a, b));
}

static double average(enum gyre_type type, int64_t sum, int n)
{
    if (gyre_type_is_float(type)) {
        return (double)sum / n;
    }
    return type == GYRE_U64 ? (double)((uint64_t)sum / (uint64_t)n) : (double)(sum / n);
}

static double expected_at(const struct bench_pattern *pattern, uint64_t place)
{
    enum gyre_type type = pattern->type;
    uint64_t index = pattern->first + place;
    if (!pattern->reduce) {
        return number(type, seen(type, value_of(pattern, pattern->source, index)));
    }
    int64_t result = given_by(pattern, 0, index);
    for (int rank = 1; rank < pattern->n; rank++) {
        result = combine(pattern, result, given_by(pattern, rank, index));
    }
    return pattern->op == GYRE_AVG ? average(type, result, pattern->n) : number(type, result);
}

static int significand_bits(enum gyre_type type)
{
    if (!gyre_type_is_float(type)) {
        return 0;
    }
    return 1 + gyre_type_rows[type].fraction;
}

/* Absolute. Each of n additions may round by half a unit at the largest partial sum, once that
 * leaves the significand; a quotient rounds twice more. */
static double tolerance(const struct bench_pattern *pattern)
{
    int bits = significand_bits(pattern->type);
    bool scaled = pattern->op == BENCH_MULSUM;
    bool sums = pattern->op == GYRE_SUM || pattern->op == GYRE_AVG || scaled;
    if (!bits || !pattern->reduce || !sums) {
        return 0;
    }
    double unit = ldexp(1, 1 - bits);
    double largest = (double)(scaled ? DOUBLED * LARGEST : LARGEST) * pattern->n;
    double sum = largest <= ldexp(1, bits) ? 0 : pattern->n * largest * unit;
    return pattern->op == GYRE_AVG ? sum / pattern->n + 2 * LARGEST * unit : sum;
}

uint64_t bench_pattern_count_wrong(const struct bench_pattern *pattern, const void *data,
                                   uint64_t count)
{
    double allowed = tolerance(pattern);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        double off = fabs(load(pattern->type, data, i) - expected_at(pattern, i));
        wrong += !(off <= allowed); /* NaN is wrong too */
    }
    return wrong;
}

void bench_pattern_spoil(const struct bench_pattern *pattern, void *data, uint64_t index)
{
    double right = expected_at(pattern, index);
    store(pattern->type, data, index, 0);
    if (fabs(load(pattern->type, data, index) - right) <= tolerance(pattern)) {
        store(pattern->type, data, index, 3 * DOUBLED * LARGEST * pattern->n);
    }
}
