/* The buffers of an operation's ranks, which outgrow caches together. */
#ifndef GYRE_COLLECTIVES_CHOOSE_BUFFERS_H
#define GYRE_COLLECTIVES_CHOOSE_BUFFERS_H

#include "collectives/schedule/schedule.h"

struct gyre_buffers {
    uint64_t longest_input; /* bytes */
    uint64_t all;           /* bytes of every INPUT and OUTPUT */
};

/* Adds up the buffers of the first `ranks` ranks. The slice may be a part of the operation: its
 * stride says how long the whole is. Beyond 64 ranks the others count like these. */
struct gyre_buffers gyre_buffers_of(const struct gyre_slice *slice, uint32_t ranks);

#endif
