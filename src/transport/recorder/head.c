/* The parts of a head that its readers look at alike, whatever the file is.
 *
 * Tested by tests/program/cli/why.c and tests/unit/cli/trace/trace_test.c. */
#include "transport/recorder/head.h"

#include "base/printable.h"

#include <stddef.h>

static void clean_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    gyre_printable_line(text);
}

void gyre_record_clean_texts(struct gyre_record_head *head)
{
    clean_text(head->host, sizeof head->host);
    clean_text(head->program, sizeof head->program);
    clean_text(head->name, sizeof head->name);
    head->story[sizeof head->story - 1] = '\0';
    gyre_printable_lines(head->story);
    for (uint32_t i = 0; i < GYRE_RECORD_WAYS; i++)
        clean_text(head->way[i], sizeof head->way[i]);
}

const char *gyre_record_rank_fault(const struct gyre_record_head *head)
{
    if (head->n == 0 || head->n > 1u << 24 || head->rank >= head->n)
        return "has a rank that cannot be";
    return NULL;
}
