/* The checker's messages about a defect: which schedule, which rank, round and step. Tested by
 * tests/unit/collectives/prove/check_rules_test.c. */
#include "collectives/prove/check_inside.h"

#include <stdarg.h>
#include <stdio.h>

static int fail_at(const struct gyre_checker *c, const char *where, const char *format,
                   va_list list)
{
    const struct gyre_slice *s = &c->actor[0].slice;
    char what[400];
    vsnprintf(what, sizeof what, format, list);
    return gyre_trouble_set(c->trouble, GYRE_INVALID,
                            "%s %s, n = %u, count = %llu, element = %u, root = %u: %s%s",
                            c->algorithm->name, gyre_verb_word[s->verb], s->n,
                            (unsigned long long)s->count, s->element, s->root, where, what);
}

int gyre_check_fail_rank(const struct gyre_checker *c, uint32_t rank, const char *format, ...)
{
    char where[40];
    va_list list;
    snprintf(where, sizeof where, "rank %u: ", rank);
    va_start(list, format);
    int status = fail_at(c, where, format, list);
    va_end(list);
    return status;
}

int gyre_check_fail_step(const struct gyre_checker *c, const struct gyre_actor *a,
                         const struct gyre_step *step, const char *format, ...)
{
    char where[120];
    va_list list;
    snprintf(where, sizeof where,
             "rank %u, round %llu, step %u (%s %llu bytes, %s + %llu): ", a->slice.rank,
             (unsigned long long)c->index, (unsigned)(step - a->round.step),
             gyre_step_kind_name[step->kind], (unsigned long long)step->length,
             gyre_buffer_name[step->at.buffer], (unsigned long long)step->at.offset);
    va_start(list, format);
    int status = fail_at(c, where, format, list);
    va_end(list);
    return status;
}
