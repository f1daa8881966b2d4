/* One end of the verbs driver, on the stand-in for the library: a wire, and pipes whose other end
 * is the test itself. */
#ifndef GYRE_TESTS_UNIT_TRANSPORT_LINK_VERBS_VERBS_HALF_H
#define GYRE_TESTS_UNIT_TRANSPORT_LINK_VERBS_VERBS_HALF_H

#include "stand_in/fake_verbs.h"

#include "transport/link/table.h"
#include "transport/link/verbs/peer.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

extern struct gyre_trouble half_trouble; /* of the last open */

int half_open(uint32_t peers, struct gyre_verbs_wire **wire);
void half_close(struct gyre_verbs_wire *wire); /* nothing of the library is left */

/* Rank 3's to rank 7 + index, with one queue pair that is proven but does not exist. */
struct gyre_verbs_pipe *half_pipe(struct gyre_verbs_wire *wire, uint32_t index, int fd);

void half_says(const char *text, const char *words); /* fails if it does not */

#endif
