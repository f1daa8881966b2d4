/* The parts of a head that its readers look at alike, whatever the file is.
 *
 * Tested by tests/program/cli/why.c and tests/unit/cli/trace/trace_test.c. */
#include "transport/recorder/head.h"

#include <stddef.h>

void gyre_record_end_texts(struct gyre_record_head *head)
{
    head->host[sizeof head->host - 1] = head->program[sizeof head->program - 1] = '\0';
    head->name[sizeof head->name - 1] = head->story[sizeof head->story - 1] = '\0';
    for (uint32_t i = 0; i < GYRE_RECORD_WAYS; i++)
        head->way[i][sizeof head->way[i] - 1] = '\0';
}

const char *gyre_record_rank_fault(const struct gyre_record_head *head)
{
    if (head->n == 0 || head->n > 1u << 24 || head->rank >= head->n)
        return "has a rank that cannot be";
    return NULL;
}
