/* IDX files, the format of MNIST and similar sets, plain or compressed by gzip.
 *
 *     00 00 TYPE NDIM │ NDIM sizes, u32 │ elements, the last index fastest │    all big endian
 *
 * A plain file is mapped; a compressed one is unpacked into memory, where Gyre was built with zlib.
 * Sizes are checked before anything is allocated. A file is refused where its header claims more
 * than the file can hold, and also where it is one byte too long. */
#ifndef GYRE_DATA_IDX_H
#define GYRE_DATA_IDX_H

#include "base/status.h"
#include "data/files/file.h"

#include <stdint.h>

#define GYRE_IDX_DIMS_MAX 8

enum gyre_idx_type { /* as in the file */
                     GYRE_IDX_U8 = 0x08,
                     GYRE_IDX_I8 = 0x09,
                     GYRE_IDX_I16 = 0x0b,
                     GYRE_IDX_I32 = 0x0c,
                     GYRE_IDX_F32 = 0x0d,
                     GYRE_IDX_F64 = 0x0e
};

struct gyre_idx {
    enum gyre_idx_type type;
    uint32_t dims;
    uint32_t shape[GYRE_IDX_DIMS_MAX];
    uint64_t count;          /* elements */
    const uint8_t *data;     /* big endian, at any alignment; U8 can be used directly */
    struct gyre_file mapped; /* the file that holds `data` */
    uint8_t *unpacked;       /* or the memory that holds `data` */
};

/* Opens and checks a file; close takes a zeroed record too. */
int gyre_idx_open(struct gyre_idx *idx, const char *path, struct gyre_trouble *trouble);
/* Opens an IDX file in memory, which must outlive the record. Texts of trouble call it `name`. */
int gyre_idx_over(struct gyre_idx *idx, const char *name, const void *bytes, uint64_t length,
                  struct gyre_trouble *trouble);
void gyre_idx_close(struct gyre_idx *idx);

/* Writes elements first … first + count - 1, which must exist, as whole numbers, for labels;
 * GYRE_INVALID where the elements are none. */
int gyre_idx_wholes(const struct gyre_idx *idx, uint64_t first, uint64_t count, int64_t *to);

#endif
