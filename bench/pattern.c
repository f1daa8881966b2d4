/* Small whole numbers, so that most sums are exact in every type and every order.
 *
 *     value(rank, index, iteration) = scatter(rank, index) + 3 * ((index + iteration) mod 3 - 1)
 *                                     └─ -1, 0 or 1 ─────┘   └─ -3, 0 or 3 ────────────────────┘
 *
 * Neighbouring ranks and indices differ at random; neighbouring iterations differ everywhere, so
 * data left over from the last call are always noticed. A product of such numbers would be 0 or
 * overflow: there each rank gives 1 or -1 and one rank twice that.
 *
 * The check is exact where the arithmetic must be: integers, and floats as long as every partial
 * sum fits the significand. An average may be off by the rounding of its division, and a sum of
 * many ranks in half or bfloat16 by one rounding per addition; both bounds are stated below. */
#include "pattern.h"

#include <math.h>
#include <string.h>

#define LARGEST 4 /* of |value| */

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

/* -- 16-bit floats ----------------------------------------------------------------------------- */

static float widen_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t narrow_bf16(float value) /* exact values only */
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static float widen_f16(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    float fraction = (float)(bits & 1023);
    float magnitude = exponent == 0    ? ldexpf(fraction, -24)
                      : exponent == 31 ? (fraction > 0 ? NAN : INFINITY)
                                       : ldexpf(1024 + fraction, exponent - 25);
    return bits >> 15 ? -magnitude : magnitude;
}

static uint16_t narrow_f16(int value) /* whole numbers below 2048 */
{
    int magnitude = value < 0 ? -value : value, exponent = 0;
    if (magnitude == 0) {
        return 0;
    }
    while (magnitude >> (exponent + 1)) {
        exponent++;
    }
    int fraction = (magnitude << (10 - exponent)) & 1023;
    return (uint16_t)((value < 0) << 15 | (exponent + 15) << 10 | fraction);
}

/* -- elements ---------------------------------------------------------------------------------- */

static void store(enum gyre_type type, void *data, uint64_t index, int value)
{
    switch (type) {
    case GYRE_F32:
        ((float *)data)[index] = (float)value;
        break;
    case GYRE_F64:
        ((double *)data)[index] = value;
        break;
    case GYRE_F16:
        ((uint16_t *)data)[index] = narrow_f16(value);
        break;
    case GYRE_BF16:
        ((uint16_t *)data)[index] = narrow_bf16((float)value);
        break;
    case GYRE_I32:
        ((int32_t *)data)[index] = value;
        break;
    case GYRE_I64:
        ((int64_t *)data)[index] = value;
        break;
    case GYRE_U8:
        ((uint8_t *)data)[index] = (uint8_t)value;
        break;
    }
}

static double load(enum gyre_type type, const void *data, uint64_t index)
{
    switch (type) {
    case GYRE_F32:
        return (double)((const float *)data)[index];
    case GYRE_F64:
        return ((const double *)data)[index];
    case GYRE_F16:
        return (double)widen_f16(((const uint16_t *)data)[index]);
    case GYRE_BF16:
        return (double)widen_bf16(((const uint16_t *)data)[index]);
    case GYRE_I32:
        return ((const int32_t *)data)[index];
    case GYRE_I64:
        return (double)((const int64_t *)data)[index];
    case GYRE_U8:
        return ((const uint8_t *)data)[index];
    }
    return NAN;
}

void bench_pattern_fill(const struct bench_pattern *pattern, int rank, void *data, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        store(pattern->type, data, i, value_of(pattern, rank, i));
    }
}

/* -- the right result -------------------------------------------------------------------------- */

/* What an element of the type holds after the value went in: bytes wrap. */
static int64_t seen(enum gyre_type type, int64_t value)
{
    return type == GYRE_U8 ? (uint8_t)value : value;
}

static int64_t combine(const struct bench_pattern *pattern, int64_t a, int64_t b)
{
    switch (pattern->op) {
    case GYRE_MIN:
        return a < b ? a : b;
    case GYRE_MAX:
        return a > b ? a : b;
    case GYRE_PROD:
        return seen(pattern->type, a * b);
    default:
        return seen(pattern->type, a + b);
    }
}

static double expected_at(const struct bench_pattern *pattern, uint64_t place)
{
    enum gyre_type type = pattern->type;
    uint64_t index = pattern->first + place;
    if (!pattern->reduce) {
        return (double)seen(type, value_of(pattern, pattern->source, index));
    }
    int64_t result = seen(type, value_of(pattern, 0, index));
    for (int rank = 1; rank < pattern->n; rank++) {
        result = combine(pattern, result, seen(type, value_of(pattern, rank, index)));
    }
    if (pattern->op != GYRE_AVG) {
        return (double)result;
    }
    bool whole = type == GYRE_I32 || type == GYRE_I64 || type == GYRE_U8;
    return whole ? (double)(result / pattern->n) : (double)result / pattern->n;
}

static int significand_bits(enum gyre_type type)
{
    static const int bits[] = {[GYRE_F32] = 24, [GYRE_F64] = 53, [GYRE_F16] = 11, [GYRE_BF16] = 8};
    return type <= GYRE_BF16 ? bits[type] : 0;
}

/* Absolute. Each of n additions may round by half a unit at the largest partial sum, once that
 * leaves the significand; a quotient rounds twice more. */
static double tolerance(const struct bench_pattern *pattern)
{
    int bits = significand_bits(pattern->type);
    bool sums = pattern->reduce && (pattern->op == GYRE_SUM || pattern->op == GYRE_AVG);
    if (!bits || !sums) {
        return 0;
    }
    double unit = ldexp(1, 1 - bits), largest = (double)LARGEST * pattern->n;
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
        store(pattern->type, data, index, 3 * LARGEST * pattern->n);
    }
}
