/* The types of the format: name and bits of one element. Tested by
 * tests/unit/data/safetensors/safetensors_test.c. */
#include "data/safetensors/type.h"

#include "base/size.h"
#include "base/status.h"

#include <string.h>

static const struct {
    const char *name;
    unsigned bits;
} types[] = {
    [GYRE_STORED_BOOL] = {"BOOL", 8},
    [GYRE_STORED_F4] = {"F4", 4},
    [GYRE_STORED_F6_E2M3] = {"F6_E2M3", 6},
    [GYRE_STORED_F6_E3M2] = {"F6_E3M2", 6},
    [GYRE_STORED_U8] = {"U8", 8},
    [GYRE_STORED_I8] = {"I8", 8},
    [GYRE_STORED_F8_E5M2] = {"F8_E5M2", 8},
    [GYRE_STORED_F8_E4M3] = {"F8_E4M3", 8},
    [GYRE_STORED_F8_E8M0] = {"F8_E8M0", 8},
    [GYRE_STORED_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
    [GYRE_STORED_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
    [GYRE_STORED_I16] = {"I16", 16},
    [GYRE_STORED_U16] = {"U16", 16},
    [GYRE_STORED_F16] = {"F16", 16},
    [GYRE_STORED_BF16] = {"BF16", 16},
    [GYRE_STORED_I32] = {"I32", 32},
    [GYRE_STORED_U32] = {"U32", 32},
    [GYRE_STORED_F32] = {"F32", 32},
    [GYRE_STORED_C64] = {"C64", 64},
    [GYRE_STORED_F64] = {"F64", 64},
    [GYRE_STORED_I64] = {"I64", 64},
    [GYRE_STORED_U64] = {"U64", 64},
};

const char *gyre_stored_type_name(enum gyre_stored_type type)
{
    return (unsigned)type < GYRE_STORED_TYPES ? types[type].name : "unknown";
}

enum gyre_stored_type gyre_stored_type_named(const char *name)
{
    unsigned i = 0;
    while (i < GYRE_STORED_TYPES && strcmp(types[i].name, name) != 0)
        i++;
    return (enum gyre_stored_type)i;
}

int gyre_stored_size(enum gyre_stored_type type, const uint64_t *shape, uint32_t dims,
                     uint64_t *elements, uint64_t *bytes)
{
    uint64_t count = 1, bits;
    if ((unsigned)type >= GYRE_STORED_TYPES)
        return GYRE_INVALID;
    for (uint32_t i = 0; i < dims; i++)
        if (!gyre_mul_u64(count, shape[i], &count))
            return GYRE_INVALID;
    if (!gyre_mul_u64(count, types[type].bits, &bits) || bits % 8)
        return GYRE_INVALID;
    if (elements)
        *elements = count;
    *bytes = bits / 8;
    return 0;
}
