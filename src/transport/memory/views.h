/* Which regions of peers this process has mapped, and where: found without a lock.
 *
 * Writers take turns; readers wait for nobody. Any thread. */
#ifndef GYRE_TRANSPORT_MEMORY_VIEWS_H
#define GYRE_TRANSPORT_MEMORY_VIEWS_H

#include "device/device.h"

#define GYRE_VIEWS_MAX 4096 /* regions of all peers together */

struct gyre_views;

int gyre_views_create(struct gyre_views **views);
void gyre_views_destroy(struct gyre_views *views); /* unimports what is left; NULL allowed */

/* Takes over an imported region. GYRE_INVALID: this name is there already; GYRE_UNSUPPORTED: the
 * table is full; the region is still the caller's then. */
int gyre_views_put(struct gyre_views *views, uint32_t peer, uint32_t id,
                   const struct gyre_region *region);

/* Takes a region out, by its name or by its kind: it is the caller's, who unimports it. False:
 * there is none. */
bool gyre_views_take(struct gyre_views *views, uint32_t peer, uint32_t id,
                     struct gyre_region *region);
bool gyre_views_take_any(struct gyre_views *views, enum gyre_memory_kind kind,
                         struct gyre_region *region);

/* The region's address here; NULL: no region of that name, kind and at least `length` bytes. */
void *gyre_views_find(const struct gyre_views *views, uint32_t peer, uint32_t id,
                      enum gyre_memory_kind kind, uint64_t length);

#endif
