/* A sweep of very many cases takes the sample that its first comment names, unless all cases are
 * asked for (./do test --all, as CI does). Under sanitizers, which are ten times slower, it always
 * takes the sample. */
#ifndef GYRE_TESTS_RIG_HASTE_H
#define GYRE_TESTS_RIG_HASTE_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool all_is_slow(void)
{
    return getenv("GYRE_TEST_SLOW") != NULL;
}

static inline bool in_haste(void)
{
    return getenv("GYRE_TEST_ALL") == NULL || all_is_slow();
}

#endif
