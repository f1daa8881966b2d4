/* The memory that drivers may use in place, and let peers use. One table per domain.
 *
 *     shared     regions of this process: gyre_alloc(), gyre_alloc_device(), and scratch
 *     lent       the program's own memory, between gyre_register() and its withdrawal
 *     views      regions of peers, as they are mapped here
 *
 * Each entry has a kind: host memory, or memory of a device, which the CPU cannot touch and a copy
 * queue copies. Who keeps something about memory (a registration with a card) knows the memory by
 * its id, which never comes back, and compares ids when the count of what has gone has changed.
 *
 * Any thread, unless a function says otherwise; nothing blocks. */
#ifndef GYRE_TRANSPORT_MEMORY_LOOKUP_H
#define GYRE_TRANSPORT_MEMORY_LOOKUP_H

#include "device/device.h"
#include "transport/memory/views.h"

#include <pthread.h>
#include <stdatomic.h>

#define GYRE_SHARED_REGIONS_MAX 4096

struct gyre_copy_queue;

/* Some bytes of a peer's region. */
struct gyre_spot {
    uint32_t peer, region;
    uint64_t offset, bytes;
};

/* A region of this process. Ids are given out in order; places are reused. */
struct gyre_shared {
    struct gyre_region region;
    uint32_t id; /* 0: free */
    bool mapped; /* peers have it */
    bool copied; /* some peers only copy from it: none of their kernels reaches it */
    bool given;  /* the program holds it */
};

/* Memory of the program that stays where it is until it is withdrawn. */
struct gyre_lent {
    void *base;
    uint64_t length;
    enum gyre_memory_kind kind;
    uint32_t id; /* of the same count as regions' */
};

struct gyre_memory_lookup {
    pthread_mutex_t lock; /* of shared and lent */
    struct gyre_shared *shared;
    uint32_t shared_used;
    struct gyre_lent *lent; /* in the order in which it came */
    uint32_t lent_used, lent_room;
    uint32_t next_id;
    _Atomic uint32_t gone; /* regions and lent memory that have gone, ever */

    /* Set by the owner before drivers look. */
    const struct gyre_views *views;     /* NULL: no peer's memory is mapped */
    struct gyre_copy_queue *copy_queue; /* NULL: there is no device */
    const struct gyre_device *device;   /* the kind of that device, and its index */
    int device_index;
};

/* -- what the owner of memory says ------------------------------------------------------------- */

/* Ids begin with `first_id`. */
int gyre_lookup_init(struct gyre_memory_lookup *lookup, uint32_t first_id);

/* Frees the tables. Regions that are left in them are the caller's. */
void gyre_lookup_deinit(struct gyre_memory_lookup *lookup);

/* Adds a region, which peers do not have yet. Returns its id; 0: the table is full. */
uint32_t gyre_lookup_add(struct gyre_memory_lookup *lookup, const struct gyre_region *region);

/* Says that peers have the region; copied: some of them only copy from it. */
void gyre_lookup_mark_mapped(struct gyre_memory_lookup *lookup, uint32_t id, bool copied);

/* Says that the program holds the region that begins at `base`; finds one that it holds. NULL: it
 * holds none. */
void gyre_lookup_give(struct gyre_memory_lookup *lookup, const void *base);
void *gyre_lookup_first_given(struct gyre_memory_lookup *lookup);

/* Takes the descriptor of the region that begins at `base`, which no further peer can be given
 * then; -1: there is none. */
int gyre_lookup_take_descriptor(struct gyre_memory_lookup *lookup, const void *base);

/* Takes out the region that begins at `base`. False: there is none. */
bool gyre_lookup_remove(struct gyre_memory_lookup *lookup, const void *base,
                        struct gyre_shared *removed);

/* Replaces the region's memory by a copy of its own, as gyre_device.detach() does, where peers have
 * it. */
int gyre_lookup_detach(struct gyre_memory_lookup *lookup, uint32_t id,
                       struct gyre_trouble *trouble);

/* Adds memory of the program. 0 or -ENOMEM. */
int gyre_lookup_lend(struct gyre_memory_lookup *lookup, void *memory, uint64_t length);

/* Takes out one entry of exactly that memory, if there is one; several may be equal. */
void gyre_lookup_withdraw(struct gyre_memory_lookup *lookup, const void *memory, uint64_t length);

/* -- what drivers ask -------------------------------------------------------------------------- */

/* The id of the region that peers have and that holds the span, and the span's offset in it; 0:
 * none does. `copied` counts regions that some peers only copy from. */
uint32_t gyre_lookup_locate(struct gyre_memory_lookup *lookup, enum gyre_memory_kind kind,
                            const void *memory, uint64_t length, bool copied, uint64_t *offset);

/* The id of the region, or of the lent memory, that holds the span, and all of it; 0: none does. */
uint32_t gyre_lookup_hold(struct gyre_memory_lookup *lookup, enum gyre_memory_kind kind,
                          const void *memory, uint64_t length, void **base, uint64_t *span);

/* Whether memory of that id is still there. */
bool gyre_lookup_lives(struct gyre_memory_lookup *lookup, uint32_t id);

/* A count that changes when memory has gone. */
uint32_t gyre_lookup_gone(const struct gyre_memory_lookup *lookup);

/* The address here of [offset, offset + length) in a peer's region; NULL: no such view of that
 * kind, or not yet. */
void *gyre_lookup_view(const struct gyre_memory_lookup *lookup, uint32_t peer, uint32_t region,
                       enum gyre_memory_kind kind, uint64_t offset, uint64_t length);

/* The same of the copy queue's device, as gyre_device.dma_buf() and flush() (device/device.h). */
int gyre_lookup_dma_buf(const struct gyre_memory_lookup *lookup, const void *base, uint64_t length,
                        struct gyre_trouble *trouble);
int gyre_lookup_flush(const struct gyre_memory_lookup *lookup, struct gyre_trouble *trouble);

#endif
