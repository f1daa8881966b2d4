/* Buffers of the hunt's calls: what goes in, what has to come out. For program.c. */
#ifndef GYRE_TESTS_SIM_HUNT_BUFFERS_H
#define GYRE_TESTS_SIM_HUNT_BUFFERS_H

#include "sim/hunt/inside.h"

/* A call as one rank sees it. */
struct hunt_place {
    const struct hunt_op *op;
    uint32_t number;             /* of the call */
    uint32_t me, n;              /* in its communicator */
    uint32_t member[HUNT_RANKS]; /* ranks of the world */
    uint32_t root;
};

void hunt_place(struct hunt_place *place, uint32_t number, uint32_t rank);

/* Makes the buffers of a call, filled and with guards around. */
void hunt_make_buffers(const struct hunt_place *place, struct hunt_result *result);

/* Elements that one rank sends another: all_to_all_v's. */
uint64_t hunt_sent(const struct hunt_place *place, uint32_t from, uint32_t to);

/* Is the output right, and everything else as it was? */
void hunt_check_right(const struct hunt_place *place, const struct hunt_result *result,
                      uint32_t rank);
uint64_t hunt_hash_buffers(const struct hunt_result *result);

#endif
