/* Sanitizers and coverage are ten times slower: there a sample of many cases will do. */
#ifndef GYRE_TESTS_RIG_HASTE_H
#define GYRE_TESTS_RIG_HASTE_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool in_haste(void)
{
    return getenv("GYRE_TEST_SLOW") != NULL;
}

#endif
