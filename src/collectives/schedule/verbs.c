/* The table of the verbs. Tested by tests/unit/collectives/algorithms/table_test.c, where every
 * schedule that is proved stands on these facts. */
#include "collectives/schedule/verbs.h"

#define BLOCK                                                                                      \
    {                                                                                              \
        false, false                                                                               \
    } /* on every rank */
#define BLOCKS                                                                                     \
    {                                                                                              \
        true, false                                                                                \
    }
#define AT_ROOT                                                                                    \
    {                                                                                              \
        false, true                                                                                \
    }
#define N_AT_ROOT                                                                                  \
    {                                                                                              \
        true, true                                                                                 \
    }

const struct gyre_verb_facts gyre_verb_facts[GYRE_VERBS] = {
    [GYRE_VERB_ALL_REDUCE] = {{BLOCK, BLOCK}, .reduces = true},
    [GYRE_VERB_BROADCAST] = {{AT_ROOT, BLOCK}, .reduces = false},
    [GYRE_VERB_REDUCE] = {{BLOCK, AT_ROOT}, .reduces = true},
    [GYRE_VERB_ALL_GATHER] = {{BLOCK, BLOCKS}, .reduces = false},
    [GYRE_VERB_REDUCE_SCATTER] = {{BLOCKS, BLOCK}, .reduces = true},
    [GYRE_VERB_ALL_TO_ALL] = {{BLOCKS, BLOCKS}, .reduces = false},
    [GYRE_VERB_GATHER] = {{BLOCK, N_AT_ROOT}, .reduces = false},
    [GYRE_VERB_SCATTER] = {{N_AT_ROOT, BLOCK}, .reduces = false},
};

const char *const gyre_verb_word[GYRE_VERBS] = {"all_reduce", "broadcast",      "reduce",
                                                "all_gather", "reduce_scatter", "all_to_all",
                                                "gather",     "scatter"};
