/* Jobs that are hurt: what one of them is, what is done to it, and what its survivors must say. */
#ifndef GYRE_TESTS_NEMESIS_HUNT_H
#define GYRE_TESTS_NEMESIS_HUNT_H

#include "nemesis/tally.h"

struct hunt {
    uint64_t seed;
    bool private;                  /* in a room of its own: nothing may be left */
    int jobs, kills, stops, bad;   /* kills: SIGKILLs sent; bad: jobs that broke a promise */
    int errors, stories;           /* of survivors of one victim; how many jobs told several */
    struct tally *killed, *silent; /* from the signal to each survivor's error */
};

/* Runs job `number` of the seed. */
void hunt_job(struct hunt *hunt, uint64_t number);

void hunt_print(const struct hunt *hunt);

#endif
