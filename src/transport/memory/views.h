/* Which regions of peers this process has mapped, and where: found without a lock.
 *
 * One writer (the watch's thread), any number of readers. */
#ifndef GYRE_TRANSPORT_MEMORY_VIEWS_H
#define GYRE_TRANSPORT_MEMORY_VIEWS_H

#include "device/device.h"

#define GYRE_VIEWS_MAX 4096 /* regions of all peers together */

struct gyre_views;

int gyre_views_create(struct gyre_views **views);
void gyre_views_destroy(struct gyre_views *views); /* unimports what is left; NULL allowed */

/* Takes over an imported region. GYRE_INVALID: this name is there already; GYRE_UNSUPPORTED: the
 * table is full; the region is still the caller's then. Writer only. */
int gyre_views_put(struct gyre_views *views, uint32_t peer, uint32_t id,
                   const struct gyre_region *region);

/* Unimports the region; nothing if there is none. Writer only. */
void gyre_views_drop(struct gyre_views *views, uint32_t peer, uint32_t id);

/* Unimports all regions of that kind. Writer only. */
void gyre_views_drop_kind(struct gyre_views *views, enum gyre_memory_kind kind);

/* The region's address here; NULL: no region of that name, kind and at least `length` bytes. Any
 * thread. */
void *gyre_views_find(const struct gyre_views *views, uint32_t peer, uint32_t id,
                      enum gyre_memory_kind kind, uint64_t length);

#endif
