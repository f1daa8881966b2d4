/* Sizes and names from the rows of types.h, and whether a reduction suits a type. */
#include "base/types.h"

#define IN_PLACE(ID, ...)                                                                          \
    _Static_assert((int)GYRE_TYPE_PLACE_##ID == (int)GYRE_##ID, "rows are in the order of ids");
GYRE_TYPES(IN_PLACE)
#undef IN_PLACE

#define IN_PLACE(ID, ...)                                                                          \
    _Static_assert((int)GYRE_OP_PLACE_##ID == (int)GYRE_##ID, "rows are in the order of ids");
GYRE_REDUCTIONS(IN_PLACE)

_Static_assert((int)GYRE_OP_COUNT <= (int)GYRE_OP_FIRST_HANDLE, "no row has a handle's number");

#define FLOAT       .small_float = false
#define SMALL_FLOAT .small_float = true
#define SIGNED      .small_float = false
#define UNSIGNED    .small_float = false

const struct gyre_type_row gyre_type_rows[GYRE_TYPE_COUNT] = {
#define ROW(ID, name, kind, element, bits, fraction, last) {#name, kind, bits, fraction, last},
    GYRE_TYPES(ROW)
#undef ROW
};

#define SUM     .computes = true
#define AVERAGE .computes = true
#define PRODUCT .computes = true
#define ORDER   .computes = false
#define BITS    .combines_bits = true

const struct gyre_op_row gyre_op_rows[GYRE_OP_COUNT] = {
#define ROW(ID, name, family, ...) {#name, family},
    GYRE_REDUCTIONS(ROW)};

size_t gyre_type_size(enum gyre_type type)
{
#define SIZE(ID, name, kind, element, ...) sizeof(element),
    static const unsigned char size[] = {GYRE_TYPES(SIZE)};
    return (unsigned)type < sizeof size ? size[type] : 0;
}

const char *gyre_type_name(uint32_t type)
{
    return type < GYRE_TYPE_COUNT ? gyre_type_rows[type].name : "?";
}

const char *gyre_op_name(uint32_t op)
{
    return op < GYRE_OP_COUNT ? gyre_op_rows[op].name : "?";
}

bool gyre_op_suits(enum gyre_type type, enum gyre_op op)
{
    if ((unsigned)type >= GYRE_TYPE_COUNT || (unsigned)op >= GYRE_OP_COUNT)
        return false;
    return !gyre_op_rows[op].combines_bits || !gyre_type_is_float(type);
}
