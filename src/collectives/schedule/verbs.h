/* The verbs and the facts about each, as base/verbs.h has them. */
#ifndef GYRE_COLLECTIVES_SCHEDULE_VERBS_H
#define GYRE_COLLECTIVES_SCHEDULE_VERBS_H

#include "base/verbs.h"

#include <stdbool.h>
#include <stdint.h>

/* The operations, in the order of the rows of base/verbs.h. */
#define GYRE_VERB_NUMBER(ID, ...) GYRE_VERB_##ID,
enum gyre_verb { GYRE_VERB_ROWS(GYRE_VERB_NUMBER) GYRE_VERBS };

enum gyre_buffer { GYRE_INPUT, GYRE_OUTPUT, GYRE_SCRATCH };

struct gyre_verb_buffer {
    bool blocks;    /* n blocks, not one */
    bool root_only; /* the other ranks have no such buffer */
};

struct gyre_verb_facts {
    struct gyre_verb_buffer buffer[2]; /* INPUT, OUTPUT */
    bool reduces;
    const char *ending; /* for people: what holds when the operation is over */
};

/* Indexed by enum gyre_verb. */
extern const struct gyre_verb_facts gyre_verb_facts[GYRE_VERBS];

/* For people: "all_reduce". Indexed by enum gyre_verb. */
extern const char *const gyre_verb_word[GYRE_VERBS];

/* Whether some rank has n blocks in OUTPUT. */
static inline bool gyre_verb_gathers(enum gyre_verb verb)
{
    return gyre_verb_facts[verb].buffer[GYRE_OUTPUT].blocks;
}

/* Whether some rank has n blocks in INPUT. */
static inline bool gyre_verb_scatters(enum gyre_verb verb)
{
    return gyre_verb_facts[verb].buffer[GYRE_INPUT].blocks;
}

static inline bool gyre_verb_has_blocks(enum gyre_verb verb)
{
    return gyre_verb_gathers(verb) || gyre_verb_scatters(verb);
}

static inline bool gyre_verb_reduces(enum gyre_verb verb)
{
    return gyre_verb_facts[verb].reduces;
}

static inline bool gyre_verb_has_root(enum gyre_verb verb)
{
    const struct gyre_verb_facts *facts = &gyre_verb_facts[verb];
    return facts->buffer[GYRE_INPUT].root_only || facts->buffer[GYRE_OUTPUT].root_only;
}

/* The number of blocks that a rank, the root or another, has of INPUT or OUTPUT: 0, 1 or n. */
static inline uint32_t gyre_verb_blocks(enum gyre_verb verb, enum gyre_buffer buffer, uint32_t n,
                                        bool is_root)
{
    struct gyre_verb_buffer held = gyre_verb_facts[verb].buffer[buffer];
    return held.root_only && !is_root ? 0 : held.blocks ? n : 1;
}

/* Says which buffer is a block of the other in place. 1: INPUT is block `rank` of OUTPUT; -1:
 * OUTPUT is block `rank` of INPUT; 0: both begin at one address. */
static inline int gyre_verb_nests(enum gyre_verb verb)
{
    return gyre_verb_gathers(verb) - gyre_verb_scatters(verb);
}

#endif
