/* Running figures of batch norm, which lie where a pass computes. The host has a copy: files and
 * other ranks read it and write it, each between a call that says so and the next pass:
 *
 *     passes     the processor's  ──home──▶  the host's copy      files, broadcasts
 *                                 ◀──there──        │ written
 *                      │ keep, restore
 *                the figures behind the last good step
 *
 * Nothing travels where neither side has changed, and where the CPU computes the copy is the
 * processor's memory itself. */
#ifndef GYRE_MODEL_NETWORK_RUNNING_H
#define GYRE_MODEL_NETWORK_RUNNING_H

#include "model/nets/model.h"

/* Whose figures are the newest. */
enum gyre_running_newest { GYRE_RUNNING_ALIKE, GYRE_RUNNING_HOST, GYRE_RUNNING_THERE };

struct gyre_running {
    struct gyre_processor *on;
    uint8_t *host, *there;
    uint8_t *kept; /* the processor's; NULL: nothing was kept */
    size_t bytes;
    enum gyre_running_newest newest;
};

/* Zeros. -ENOMEM, or a device's failure told in `trouble`. Deinit takes every state. */
int gyre_running_init(struct gyre_running *running, struct gyre_processor *on, size_t bytes,
                      struct gyre_trouble *trouble);
void gyre_running_deinit(struct gyre_running *running);

/* Where the processor has what the host's copy has at this address. */
static inline void *gyre_running_place(const struct gyre_running *running, const void *host)
{
    return running->there + ((const uint8_t *)host - running->host);
}

/* Before a pass, and behind one that has changed the figures. */
int gyre_running_bring_there(struct gyre_running *running, struct gyre_trouble *trouble);
void gyre_running_changed(struct gyre_running *running);

/* Before the host's copy is read or written in parts, and when it was written. */
int gyre_running_bring_home(struct gyre_running *running, struct gyre_trouble *trouble);
void gyre_running_written(struct gyre_running *running);

/* Keeps the figures as they are; the first time memory is made for that. Restore brings back what
 * was kept last, if anything was. */
int gyre_running_keep(struct gyre_running *running, struct gyre_trouble *trouble);
void gyre_running_restore(struct gyre_running *running);

#endif
