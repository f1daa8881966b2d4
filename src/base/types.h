/* The types of elements and the reductions, one row each. Counts, sizes, names, checks, the tables
 * of kernels and most kernels are generated from these rows, in C and in CUDA.
 *
 * A row's place in its table is its number in enum gyre_type or enum gyre_op (types.c checks), and
 * the number travels on the wire: a new row goes to the end. */
#ifndef GYRE_BASE_TYPES_H
#define GYRE_BASE_TYPES_H

#include <gyre/gyre.h>

#include <stdbool.h>

/* ROW(ID, name, kind, element, bits, fraction, last) for every type:
 *   kind      FLOAT        computed as it is stored
 *             SMALL_FLOAT  computed in f32, rounded once to nearest even at the end
 *             SIGNED       integer, wraps
 *             UNSIGNED     integer, wraps; serves SIGNED where a sign makes no difference
 *   element   the C type that is stored
 *   fraction  explicit bits of a float's significand; 0: an integer
 *   last      a float's last positive pattern that is no NaN: infinity, or in f8e4m3 448 */
/* clang-format off */
#define GYRE_TYPES(ROW)                                                                            \
    ROW(F32,    f32,    FLOAT,       float,    32, 23, 0x7f800000)                                 \
    ROW(F64,    f64,    FLOAT,       double,   64, 52, 0x7ff0000000000000)                         \
    ROW(F16,    f16,    SMALL_FLOAT, uint16_t, 16, 10, 0x7c00)                                     \
    ROW(BF16,   bf16,   SMALL_FLOAT, uint16_t, 16, 7,  0x7f80)                                     \
    ROW(I32,    i32,    SIGNED,      int32_t,  32, 0,  0)                                          \
    ROW(I64,    i64,    SIGNED,      int64_t,  64, 0,  0)                                          \
    ROW(U8,     u8,     UNSIGNED,    uint8_t,  8,  0,  0)                                          \
    ROW(I8,     i8,     SIGNED,      int8_t,   8,  0,  0)                                          \
    ROW(U32,    u32,    UNSIGNED,    uint32_t, 32, 0,  0)                                          \
    ROW(U64,    u64,    UNSIGNED,    uint64_t, 64, 0,  0)                                          \
    ROW(I16,    i16,    SIGNED,      int16_t,  16, 0,  0)                                          \
    ROW(U16,    u16,    UNSIGNED,    uint16_t, 16, 0,  0)                                          \
    ROW(F8E4M3, f8e4m3, SMALL_FLOAT, uint8_t,  8,  3,  0x7e)                                       \
    ROW(F8E5M2, f8e5m2, SMALL_FLOAT, uint8_t,  8,  2,  0x7c)

/* ROW(ID, name, family, neutral, result, …) for every reduction; what follows ROW is passed on:
 *   family   SUM      divided by the divisor at the end, if there is one
 *            AVERAGE  served by the folds of SUM
 *            ORDER    one of the two; a NaN wins, -0 < +0
 *            PRODUCT  computed in the types that sums are computed in
 *            BITS     of patterns, whatever their width; integers only
 *   neutral  zero (-0 in floats), one, ones (all bits), lowest or highest: changes no operand
 *   result   of the operands a and b */
#define GYRE_REDUCTIONS(ROW, ...)                                                                  \
    ROW(SUM,  sum,  SUM,     zero,    a + b,         __VA_ARGS__)                                  \
    ROW(AVG,  avg,  AVERAGE, zero,    a + b,         __VA_ARGS__)                                  \
    ROW(MIN,  min,  ORDER,   highest, b < a ? b : a, __VA_ARGS__)                                  \
    ROW(MAX,  max,  ORDER,   lowest,  b > a ? b : a, __VA_ARGS__)                                  \
    ROW(PROD, prod, PRODUCT, one,     a * b,         __VA_ARGS__)                                  \
    ROW(AND,  and,  BITS,    ones,    a & b,         __VA_ARGS__)                                  \
    ROW(OR,   or,   BITS,    zero,    a | b,         __VA_ARGS__)                                  \
    ROW(XOR,  xor,  BITS,    zero,    a ^ b,         __VA_ARGS__)
/* clang-format on */

#define GYRE_TYPE_PLACE(ID, ...) GYRE_TYPE_PLACE_##ID,
#define GYRE_OP_PLACE(ID, ...)   GYRE_OP_PLACE_##ID,

enum { GYRE_TYPES(GYRE_TYPE_PLACE) GYRE_TYPE_COUNT };
enum { GYRE_REDUCTIONS(GYRE_OP_PLACE) GYRE_OP_COUNT };

/* A type's row where loops and tests look it up. */
struct gyre_type_row {
    const char *name;
    bool small_float; /* sums are computed in a wider type and rounded */
    unsigned char bits, fraction;
    uint64_t last;
};

extern const struct gyre_type_row gyre_type_rows[GYRE_TYPE_COUNT];

struct gyre_op_row {
    const char *name;
    bool computes;      /* in the types that sums are computed in; else the result is an operand */
    bool combines_bits; /* of integers only */
};

extern const struct gyre_op_row gyre_op_rows[GYRE_OP_COUNT];

static inline bool gyre_type_is_float(enum gyre_type type)
{
    return gyre_type_rows[type].fraction > 0;
}

/* "f32" and "sum"; "?" for an unknown number, which a peer may have sent. */
const char *gyre_type_name(uint32_t type);
const char *gyre_op_name(uint32_t op);

/* Whether both are known and the reduction is defined for the type. */
bool gyre_op_suits(enum gyre_type type, enum gyre_op op);

#endif
