/* Ways to spoil a schedule, for the test of the checker. */
#ifndef GYRE_TESTS_UNIT_COLLECTIVES_PROVE_CHECK_SPOIL_H
#define GYRE_TESTS_UNIT_COLLECTIVES_PROVE_CHECK_SPOIL_H

#include "collectives/schedule/schedule.h"

#include <stddef.h>

#define SPOIL_ROOM 128 /* steps and sources of a round under test */

/* One way to spoil a schedule. */
struct spoil_way {
    const char *name;
    /* Changes round->step[at]; false where this spoils nothing. With move or swap, only says so. */
    bool (*change)(const struct gyre_slice *, uint64_t index, struct gyre_round *, uint32_t at);
    bool both; /* the same change to the RECV that matches a SEND */
    int move;  /* instead: the step goes to the next round (1) or to the one before (-1) */
    bool swap; /* instead: the rank runs this round and the next in the other order */
};

extern const struct spoil_way spoil_ways[];
extern const size_t spoil_ways_count;

/* The algorithm that is spoiled: a change may ask what its other rounds do. */
extern const struct gyre_algorithm *spoil_real;

/* Two of the changes, by themselves: a step left out; two of its sources swapped. */
bool spoil_drop(const struct gyre_slice *slice, uint64_t index, struct gyre_round *round,
                uint32_t at);
bool spoil_swap_sources(const struct gyre_slice *slice, uint64_t index, struct gyre_round *round,
                        uint32_t at);

#endif
