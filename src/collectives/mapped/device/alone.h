/* Turns that a caller's stream runs by itself: what EXCHANGE and PUSH have in common.
 *
 * The stream tells and awaits words of inboxes (words.h), so no host has a part between its arrival
 * and its end. The host writes the line ahead, at the call, and keeps the books.
 *
 * All calls: owner. */
#ifndef GYRE_COLLECTIVES_MAPPED_DEVICE_ALONE_H
#define GYRE_COLLECTIVES_MAPPED_DEVICE_ALONE_H

#include "collectives/mapped/mesh.h"

/* The steps with which such a stream arrives. */
enum gyre_alone_step { GYRE_ALONE_ARRIVED = 1, GYRE_ALONE_FOLDED };

/* Whether a stream may run this turn by itself. The words of its slot are free from then on. */
bool gyre_alone_may(struct gyre_mesh *mesh, uint64_t turn);

/* Notes that the stream has the words by which it arrives in the operation's turn. */
void gyre_alone_begin(struct gyre_mesh *mesh, struct gyre_operation *op);

/* Records that a stream, or a graph, took the first part of an operation and not the rest. The
 * stream has told peers what will not come, and peers' graphs wait for one that lacks the
 * operation: that is the end of the job. */
void gyre_alone_record_half(const struct gyre_mesh *mesh, const struct gyre_trouble *trouble);

/* Learns how far the operation's stream has come. True: further than before. */
bool gyre_alone_look(struct gyre_operation *op);

#endif
