/* A trial of copies between two devices, made once, before their memories are used together.
 *
 *     owner                               each peer of its node, by its own device
 *     begin    pattern ─▶ region ── SHARE ──▶ answer   region ─▶ its memory ─▶ host: the pattern?
 *     end      marks?  ◀─ region ◀─ REPLY ──           region ◀─ its memory ◀─ host: its mark
 *
 * Some hosts say that devices reach each other, and what they copy then is wrong without any error
 * (an IOMMU that translates, a switch of a virtual machine). So bytes are compared, of either way.
 *
 * The region is made for this and holds nothing else. Copies go by the copy queue; each call waits
 * for its own, and for nobody else. Any thread. */
#ifndef GYRE_TRANSPORT_MEMORY_PROOF_H
#define GYRE_TRANSPORT_MEMORY_PROOF_H

#include "device/device.h"

struct gyre_copy_queue;

/* Length of a region that `ranks` ranks of a node, counted from 0, answer in. */
uint64_t gyre_proof_bytes(uint32_t ranks);

/* All return GYRE_CORRUPT where bytes were wrong, and what the device said where it failed. */

int gyre_proof_begin(struct gyre_copy_queue *copy_queue, const struct gyre_region *region,
                     struct gyre_trouble *trouble);

/* By the peer that is `place` among the ranks of the node, of the region as it has mapped it. */
int gyre_proof_answer(struct gyre_copy_queue *copy_queue, const struct gyre_region *region,
                      uint32_t place, struct gyre_trouble *trouble);

/* Of one peer's mark. */
int gyre_proof_end(struct gyre_copy_queue *copy_queue, const struct gyre_region *region,
                   uint32_t place, struct gyre_trouble *trouble);

#endif
