/* What a program has said: how often words stand in its output, and that they do once. */
#ifndef GYRE_TESTS_RIG_TOLD_LINES_H
#define GYRE_TESTS_RIG_TOLD_LINES_H

#include "rig/test.h"

#include <string.h>

static inline int lines_with(const char *output, const char *words)
{
    int count = 0;
    for (const char *at = output; (at = strstr(at, words)); at++)
        count++;
    return count;
}

static inline void expect_line(const char *output, const char *words)
{
    if (lines_with(output, words) != 1)
        fail_msg("%d times \"%s\" in: %s", lines_with(output, words), words, output);
}

#endif
