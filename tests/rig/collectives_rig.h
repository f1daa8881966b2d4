/* Asking one collective and looking at every byte that it may have touched. */
#ifndef GYRE_TESTS_RIG_COLLECTIVES_RIG_H
#define GYRE_TESTS_RIG_COLLECTIVES_RIG_H

#include "rig/comm_rig.h"

enum verb {
    REDUCE,
    ALL_GATHER,
    ALL_GATHER_V,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    ALL_REDUCE,
    BROADCAST,
    VERBS
};

/* Where a device's memory is asked for, `memory` is what the test looks at, and `away` what the
 * call is given; carry() copies between them. */
struct stage {
    uint8_t *memory[4];
    uint8_t *away[4]; /* NULL: the call is given `memory` */
    int (*carry)(void *to, const void *from, uint64_t bytes);
};

struct question {
    enum verb verb;
    enum gyre_type type;
    enum gyre_op op;
    int root;
    uint64_t count; /* all_gather_v: about so many, by rank */
    bool in_place;  /* this rank's wish */
    bool started;
    int input, output; /* which memory */
    unsigned skew;     /* elements before the buffers */
};

enum gyre_type type_of(enum verb verb, int turn); /* one that suits the verb */
enum gyre_op op_of(enum verb verb, int turn);

/* The same in two steps, so that a thread may ask several ranks before it waits: a call that
 * neither is started nor stands in a group blocks in the first. NULL: it failed, and was told. */
struct answer;
struct answer *ask_begin(struct gyre_comm *comm, const struct stage *stage,
                         const struct question *ask);
int ask_end(struct gyre_comm *comm, const struct stage *stage, const struct question *ask,
            struct answer *answer);

/* 0 if the call succeeded and everything is as it must be; tells on standard error what is not. */
int ask_and_check(struct gyre_comm *comm, const struct stage *stage, const struct question *ask);

/* The same of several, in one group: of each memory everyone has `room` bytes. */
int ask_in_group(struct gyre_comm *comm, const struct stage *stage, const struct question *ask,
                 int asks, uint64_t room);

#endif
