/* Reads IDX. The header comes from the file, or from its unpacked beginning; the elements must be
 * exactly the rest. The unpacked length of a compressed file is not known, but deflate makes at
 * most 1,032 bytes of one. So a small file cannot cause a large allocation by its header alone. */
#include "data/idx.h"

#include "data/idx_gzip.h"

#include "base/size.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFLATE_MOST 1032

/* -- the header -------------------------------------------------------------------------------- */

static uint64_t width(enum gyre_idx_type type)
{
    switch (type) {
    case GYRE_IDX_U8:
    case GYRE_IDX_I8:
        return 1;
    case GYRE_IDX_I16:
        return 2;
    case GYRE_IDX_I32:
    case GYRE_IDX_F32:
        return 4;
    case GYRE_IDX_F64:
        return 8;
    }
    return 0;
}

static uint64_t big_endian(const uint8_t *from, uint64_t bytes)
{
    uint64_t value = 0;
    for (uint64_t i = 0; i < bytes; i++)
        value = value << 8 | from[i];
    return value;
}

static int check_magic(struct gyre_idx *idx, const char *name, const uint8_t *magic,
                       struct gyre_trouble *trouble)
{
    idx->type = (enum gyre_idx_type)magic[2];
    idx->dims = magic[3];
    if (magic[0] || magic[1])
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: begins with %02x %02x, not with 00 00: is it an IDX file?",
                                name, magic[0], magic[1]);
    if (!width(idx->type))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: the type 0x%02x is unknown, there are 08, 09, 0b, 0c, 0d, 0e",
                                name, magic[2]);
    if (!idx->dims || idx->dims > GYRE_IDX_DIMS_MAX)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: %" PRIu32 " dimensions, expected 1 to %d", name, idx->dims,
                                GYRE_IDX_DIMS_MAX);
    return 0;
}

static int take_shape(struct gyre_idx *idx, const char *name, const uint8_t *sizes, uint64_t *bytes,
                      struct gyre_trouble *trouble)
{
    idx->count = 1;
    for (uint32_t i = 0; i < idx->dims; i++) {
        idx->shape[i] = (uint32_t)big_endian(sizes + 4 * i, 4);
        if (!gyre_mul_u64(idx->count, idx->shape[i], &idx->count))
            return gyre_trouble_set(trouble, GYRE_INVALID,
                                    "%s: size %" PRIu32 " of dimension %" PRIu32
                                    " makes more elements than 64 bits can count",
                                    name, idx->shape[i], i);
    }
    if (!gyre_mul_u64(idx->count, width(idx->type), bytes))
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: %" PRIu64 " elements are more bytes than 64 bits can count",
                                name, idx->count);
    return 0;
}

/* -- plain ------------------------------------------------------------------------------------- */

static int too_short(const char *name, uint64_t length, struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, GYRE_INVALID,
                            "%s: %" PRIu64 " bytes are too short for the header of an IDX file",
                            name, length);
}

static int read_plain(struct gyre_idx *idx, const char *name, const uint8_t *bytes, uint64_t length,
                      struct gyre_trouble *trouble)
{
    uint64_t elements = 0;
    int status =
        length < 4 ? too_short(name, length, trouble) : check_magic(idx, name, bytes, trouble);
    if (!status && length < 4 + 4 * (uint64_t)idx->dims)
        status = too_short(name, length, trouble);
    if (!status)
        status = take_shape(idx, name, bytes + 4, &elements, trouble);
    if (status)
        return status;
    uint64_t header = 4 + 4 * (uint64_t)idx->dims;
    if (elements != length - header)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: %" PRIu64 " bytes behind the header, where its sizes make "
                                "%" PRIu64 ": the file is %s",
                                name, length - header, elements,
                                elements > length - header ? "cut short" : "too long");
    idx->data = bytes + header;
    return 0;
}

/* -- compressed -------------------------------------------------------------------------------- */

static int unpack_header(struct gyre_idx *idx, struct gyre_gzip *gzip, const char *name,
                         uint64_t *bytes, struct gyre_trouble *trouble)
{
    uint8_t magic[4], sizes[4 * GYRE_IDX_DIMS_MAX];
    int status = gyre_gzip_read(gzip, magic, sizeof magic, trouble);
    if (!status)
        status = check_magic(idx, name, magic, trouble);
    if (!status)
        status = gyre_gzip_read(gzip, sizes, 4 * (uint64_t)idx->dims, trouble);
    return status ? status : take_shape(idx, name, sizes, bytes, trouble);
}

static int unpack_idx(struct gyre_idx *idx, struct gyre_gzip *gzip, const char *name,
                      uint64_t length, struct gyre_trouble *trouble)
{
    uint64_t bytes = 0;
    int status = unpack_header(idx, gzip, name, &bytes, trouble);
    if (status)
        return status;
    if (bytes / DEFLATE_MOST > length)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "%s: %" PRIu64 " bytes by its sizes, more than %" PRIu64
                                " compressed bytes can hold",
                                name, bytes, length);
    idx->unpacked = malloc(bytes ? bytes : 1);
    if (!idx->unpacked)
        return gyre_trouble_set(trouble, -ENOMEM, "%s: no memory for %" PRIu64 " unpacked bytes",
                                name, bytes);
    idx->data = idx->unpacked;
    status = gyre_gzip_read(gzip, idx->unpacked, bytes, trouble);
    return status ? status : gyre_gzip_end(gzip, trouble);
}

static int read_gzip(struct gyre_idx *idx, const char *name, const uint8_t *bytes, uint64_t length,
                     struct gyre_trouble *trouble)
{
    struct gyre_gzip *gzip;
    int status = gyre_gzip_create(&gzip, name, bytes, length, trouble);
    if (!status)
        status = unpack_idx(idx, gzip, name, length, trouble);
    gyre_gzip_destroy(gzip);
    return status;
}

/* -- opening ----------------------------------------------------------------------------------- */

int gyre_idx_over(struct gyre_idx *idx, const char *name, const void *bytes, uint64_t length,
                  struct gyre_trouble *trouble)
{
    static const uint8_t gzip[] = {0x1f, 0x8b};
    *idx = (struct gyre_idx){0};
    int status = length >= 2 && memcmp(bytes, gzip, 2) == 0
                     ? read_gzip(idx, name, bytes, length, trouble)
                     : read_plain(idx, name, bytes, length, trouble);
    if (status)
        gyre_idx_close(idx);
    return status;
}

int gyre_idx_open(struct gyre_idx *idx, const char *path, struct gyre_trouble *trouble)
{
    struct gyre_file mapped;
    *idx = (struct gyre_idx){0};
    int status = gyre_file_map(path, &mapped, trouble);
    if (!status)
        status = gyre_idx_over(idx, path, mapped.data, mapped.length, trouble);
    if (status || idx->unpacked)
        gyre_file_unmap(&mapped);
    else
        idx->mapped = mapped;
    return status;
}

void gyre_idx_close(struct gyre_idx *idx)
{
    gyre_file_unmap(&idx->mapped);
    free(idx->unpacked);
    *idx = (struct gyre_idx){0};
}

/* -- elements ---------------------------------------------------------------------------------- */

static int64_t number_at(const struct gyre_idx *idx, uint64_t i)
{
    uint64_t bytes = width(idx->type), value = big_endian(idx->data + i * bytes, bytes);
    switch (idx->type) {
    case GYRE_IDX_I8:
        return (int8_t)value;
    case GYRE_IDX_I16:
        return (int16_t)value;
    case GYRE_IDX_I32:
        return (int32_t)value;
    default:
        return (int64_t)value;
    }
}

int gyre_idx_wholes(const struct gyre_idx *idx, uint64_t first, uint64_t count, int64_t *to)
{
    if (idx->type == GYRE_IDX_F32 || idx->type == GYRE_IDX_F64)
        return GYRE_INVALID;
    for (uint64_t i = 0; i < count; i++)
        to[i] = number_at(idx, first + i);
    return 0;
}
