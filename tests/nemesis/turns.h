/* Drawn calls of every kind: collectives, blocking, started, in groups and on parts, messages and
 * barriers, each byte looked at. All ranks must draw from the same seed. */
#ifndef GYRE_TESTS_NEMESIS_TURNS_H
#define GYRE_TESTS_NEMESIS_TURNS_H

#include "nemesis/tally.h"
#include "rig/collectives_rig.h"

/* Allocates what the calls use: twice by gyre_alloc(), twice by calloc(). 0: done. */
int turns_stage(struct gyre_comm *comm, struct stage *stage);

/* Makes the next call. 0: it did all that it should; otherwise standard error says what not. */
int turns_take(struct gyre_comm *comm, const struct stage *stage, struct gyre_rng *rng);

#endif
