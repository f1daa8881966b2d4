/* The user's preferences, beside slices and lanes: GYRE_ALGO, GYRE_REPRODUCIBLE, GYRE_TUNE_FILE.
 * The handshake makes sure that all ranks have equal preferences.
 *
 * GYRE_ALGO is one name for every operation, `auto`, or rules. The first rule that fits is taken;
 * where none fits the model chooses:
 *
 *     all_reduce:ring:1M-;direct:-64K
 *     ~~~~~~~~~~ ~~~~ ~~~             operation (optional), algorithm, and sizes from 1M on; then
 *                                     direct below 64K, for every operation that it builds
 *
 * The size is that of one block: the count of the call times the size of an element. A range
 * includes its lower end and excludes its upper one. */
#ifndef GYRE_COLLECTIVES_CHOOSE_PREFERENCE_H
#define GYRE_COLLECTIVES_CHOOSE_PREFERENCE_H

#include "collectives/schedule/schedule.h"
#include "collectives/choose/tuning.h"

#define GYRE_RULES_MAX       32
#define GYRE_RULES_TEXT      256
#define GYRE_PREFERENCE_TEXT 384

struct gyre_rule {
    const struct gyre_algorithm *algorithm; /* NULL: auto, the model chooses */
    uint32_t verbs;                         /* bits 1 << verb */
    bool unequal;                           /* only all_gather_v, not all_gather */
    uint64_t from, to;                      /* bytes, from <= size < to */
};

struct gyre_rules {
    /* One algorithm for every operation, also for those that it does not build; NULL: the rules. */
    const struct gyre_algorithm *only;
    struct gyre_rule rule[GYRE_RULES_MAX];
    uint32_t rules;
};

/* Reads the rules. `name` is what messages call the text. GYRE_INVALID names the wrong word and the
 * nearest right one. */
int gyre_rules_parse(const char *name, const char *text, struct gyre_rules *rules,
                     struct gyre_trouble *trouble);

/* Finds the algorithm for an operation, given as one slice. NULL: the model chooses. A rule is
 * passed over where its algorithm does not build the operation (because of verb, type, layout or a
 * wanted order of ranks). One name alone is returned in any case. */
const struct gyre_algorithm *gyre_rules_find(const struct gyre_rules *rules,
                                             const struct gyre_slice *whole, bool in_order);

struct gyre_preference {
    struct gyre_rules rules;
    bool reproducible;
    struct gyre_tuning tuning;
    char text[GYRE_PREFERENCE_TEXT]; /* NAME=VALUE words for the handshake */
};

/* Reads the environment. Where reproducible results are wanted, a rule that gives a sum to an
 * algorithm without rank order is refused. */
int gyre_preference_read(struct gyre_preference *preference, struct gyre_trouble *trouble);

#endif
