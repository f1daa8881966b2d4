/* The table of the verbs. Tested by tests/unit/collectives/algorithms/table_test.c, where every
 * proof of a schedule relies on these facts. */
#include "collectives/schedule/verbs.h"

/* clang-format off */
#define BLOCK     {.blocks = false, .root_only = false}
#define BLOCKS    {.blocks = true,  .root_only = false}
#define AT_ROOT   {.blocks = false, .root_only = true}
#define N_AT_ROOT {.blocks = true,  .root_only = true}
/* clang-format on */

#define FACTS(ID, word, input, output, reduces, ending) {{input, output}, reduces, ending},
const struct gyre_verb_facts gyre_verb_facts[GYRE_VERBS] = {GYRE_VERB_ROWS(FACTS)};

#define WORD(ID, word, ...) #word,
const char *const gyre_verb_word[GYRE_VERBS] = {GYRE_VERB_ROWS(WORD)};
