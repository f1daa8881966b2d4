/* Memory of this process that drivers may use in place, or let peers use. Host memory, unless an
 * entry says that it is on a device, which the CPU cannot touch and a copy queue copies. Whoever
 * opens a wire passes these look-ups in; they neither block nor call back. */
#ifndef GYRE_TRANSPORT_MEMORY_LOOKUP_H
#define GYRE_TRANSPORT_MEMORY_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

struct gyre_copy_queue;
struct gyre_trouble;

/* Some bytes of a peer's region. */
struct gyre_spot {
    uint32_t peer, region;
    uint64_t offset, bytes;
};

struct gyre_memory_lookup {
    void *context;

    /* The region of this process that all peers of the node have mapped and that holds the span,
     * and where in it; 0: there is none. */
    uint32_t (*locate)(void *context, const void *memory, uint64_t length, uint64_t *offset);

    /* The region of this process that holds the span, or what the program has registered, whoever
     * else sees it: all of it, and an id that nothing else has or will have; 0: there is none.
     * NULL: nobody can tell. */
    uint32_t (*hold)(void *context, const void *memory, uint64_t length, void **base,
                     uint64_t *span);

    /* Whether what has this id is still there; a count that changes when something has gone. Both
     * NULL: nothing goes. */
    bool (*lives)(void *context, uint32_t id);
    uint32_t (*gone)(void *context);

    /* A span of a peer's region, as it is mapped here; NULL: it is not, or not yet. */
    void *(*view)(void *context, uint32_t peer, uint32_t region, uint64_t offset, uint64_t length);

    /* NULL: there is no device, and the rest is not looked at. Else locate() and view() of memory
     * that is on a device. */
    struct gyre_copy_queue *copy_queue;
    uint32_t (*locate_on_device)(void *context, const void *memory, uint64_t length,
                                 uint64_t *offset);
    void *(*view_on_device)(void *context, uint32_t peer, uint32_t region, uint64_t offset,
                            uint64_t length);

    /* hold() of memory that is on a device, and what another device needs to use it
     * (device/device.h): dma_buf() gives a descriptor to close, or a negative status; flush() 0, or
     * one. NULL: no other device uses it. */
    uint32_t (*hold_on_device)(void *context, const void *memory, uint64_t length, void **base,
                               uint64_t *span);
    int (*dma_buf)(void *context, const void *base, uint64_t length, struct gyre_trouble *trouble);
    int (*flush)(void *context, struct gyre_trouble *trouble);
};

#endif
