/* The types of elements in safetensors files. */
#ifndef GYRE_DATA_SAFETENSORS_TYPE_H
#define GYRE_DATA_SAFETENSORS_TYPE_H

#include <stdint.h>

/* In the order of the format: a writer puts tensors of the last type first. */
enum gyre_stored_type {
    GYRE_STORED_BOOL,
    GYRE_STORED_F4,
    GYRE_STORED_F6_E2M3,
    GYRE_STORED_F6_E3M2,
    GYRE_STORED_U8,
    GYRE_STORED_I8,
    GYRE_STORED_F8_E5M2,
    GYRE_STORED_F8_E4M3,
    GYRE_STORED_F8_E8M0,
    GYRE_STORED_F8_E4M3FNUZ,
    GYRE_STORED_F8_E5M2FNUZ,
    GYRE_STORED_I16,
    GYRE_STORED_U16,
    GYRE_STORED_F16,
    GYRE_STORED_BF16,
    GYRE_STORED_I32,
    GYRE_STORED_U32,
    GYRE_STORED_F32,
    GYRE_STORED_C64,
    GYRE_STORED_F64,
    GYRE_STORED_I64,
    GYRE_STORED_U64,
    GYRE_STORED_TYPES
};

const char *gyre_stored_type_name(enum gyre_stored_type type); /* "F32" */

/* The type of a name; GYRE_STORED_TYPES: there is none. */
enum gyre_stored_type gyre_stored_type_named(const char *name);

/* Computes elements and bytes of a tensor of this shape. GYRE_INVALID where either is beyond 64
 * bits, or elements of 4 or 6 bits do not fill their last byte. `elements` may be NULL. */
int gyre_stored_size(enum gyre_stored_type type, const uint64_t *shape, uint32_t dims,
                     uint64_t *elements, uint64_t *bytes);

#endif
