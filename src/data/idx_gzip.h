/* Unpacks gzip (RFC 1952) from memory. Two files implement this header: idx_gzip.c, and
 * idx_gzip_absent.c where Gyre was built without zlib, which refuses. */
#ifndef GYRE_DATA_IDX_GZIP_H
#define GYRE_DATA_IDX_GZIP_H

#include "base/status.h"

#include <stdint.h>

struct gyre_gzip;

/* Begins with `length` compressed bytes, which must outlive the unpacker. Texts of trouble call
 * them `name`. GYRE_UNSUPPORTED: no zlib. destroy takes NULL. */
int gyre_gzip_create(struct gyre_gzip **gzip, const char *name, const void *bytes, uint64_t length,
                     struct gyre_trouble *trouble);
void gyre_gzip_destroy(struct gyre_gzip *gzip);

/* Unpacks the next `length` bytes; GYRE_INVALID where there are fewer, or they are damaged. */
int gyre_gzip_read(struct gyre_gzip *gzip, void *to, uint64_t length, struct gyre_trouble *trouble);
/* Checks the end: the sums are right, and nothing follows. */
int gyre_gzip_end(struct gyre_gzip *gzip, struct gyre_trouble *trouble);

#endif
