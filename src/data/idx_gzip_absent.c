/* A build without zlib: compressed files are refused. */
#include "data/idx_gzip.h"

#include <stddef.h>

int gyre_gzip_create(struct gyre_gzip **gzip, const char *name, const void *bytes, uint64_t length,
                     struct gyre_trouble *trouble)
{
    *gzip = NULL;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                            "%s: is compressed, and Gyre was built without zlib: unpack it with "
                            "gunzip",
                            name);
}

void gyre_gzip_destroy(struct gyre_gzip *gzip)
{
}

int gyre_gzip_read(struct gyre_gzip *gzip, void *to, uint64_t length, struct gyre_trouble *trouble)
{
    return GYRE_UNSUPPORTED;
}

int gyre_gzip_end(struct gyre_gzip *gzip, struct gyre_trouble *trouble)
{
    return GYRE_UNSUPPORTED;
}
