/* How an algorithm writes a round: append a step, or open a REDUCE and give it its sources.
 *
 *     round.step    [ SEND ][ RECV ][ REDUCE first=0 sources=2 ][ COPY first=2 sources=1 ]
 *     round.source                  [  a  ][  b  ]               [  c  ]
 *
 * The arrays belong to the caller and have the size that the algorithm's extent promised. A step or
 * source that does not fit is not written; `overflow` is set, and from then on the round is
 * worthless: the checker reports it as a defect of the algorithm and the binder refuses to run it.
 * Nothing is ever written past an array. */
#include "collectives/schedule.h"

#include <string.h>

const char *const gyre_verb_word[] = {"all_reduce",     "broadcast",  "reduce", "all_gather",
                                      "reduce_scatter", "all_to_all", "gather", "scatter"};
const char *const gyre_buffer_name[] = {"INPUT", "OUTPUT", "SCRATCH"};
const char *const gyre_step_kind_name[] = {"SEND", "RECV", "REDUCE", "COPY"};

static struct gyre_span block(const struct gyre_slice *s, const struct gyre_blocks *blocks,
                              uint32_t rank)
{
    if (!blocks->count)
        return (struct gyre_span){rank * s->stride * s->element, s->count * s->element};
    uint64_t whole = blocks->count[rank], left = whole > s->first ? whole - s->first : 0;
    return (struct gyre_span){blocks->at[rank] * s->element,
                              (left < s->count ? left : s->count) * s->element};
}

struct gyre_span gyre_slice_in_block(const struct gyre_slice *slice, uint32_t rank)
{
    return block(slice, &slice->in, rank);
}

struct gyre_span gyre_slice_out_block(const struct gyre_slice *slice, uint32_t rank)
{
    return block(slice, &slice->out, rank);
}

static void append(struct gyre_round *round, struct gyre_step step)
{
    if (round->steps == round->step_max) {
        round->overflow = true;
        return;
    }
    step.first = round->sources;
    round->step[round->steps++] = step;
}

void gyre_round_clear(struct gyre_round *round)
{
    round->steps = 0;
    round->sources = 0;
    round->overflow = false;
}

void gyre_round_send(struct gyre_round *round, uint32_t peer, struct gyre_place from,
                     uint64_t length)
{
    append(round,
           (struct gyre_step){.kind = GYRE_SEND, .peer = peer, .at = from, .length = length});
}

void gyre_round_recv(struct gyre_round *round, uint32_t peer, struct gyre_place to, uint64_t length)
{
    append(round, (struct gyre_step){.kind = GYRE_RECV, .peer = peer, .at = to, .length = length});
}

void gyre_round_copy(struct gyre_round *round, struct gyre_place to, struct gyre_place from,
                     uint64_t length)
{
    append(round, (struct gyre_step){.kind = GYRE_COPY, .at = to, .length = length});
    gyre_round_source(round, from);
}

void gyre_round_reduce(struct gyre_round *round, struct gyre_place to, uint64_t length,
                       uint32_t flags)
{
    append(round,
           (struct gyre_step){.kind = GYRE_REDUCE, .flags = flags, .at = to, .length = length});
}

void gyre_round_source(struct gyre_round *round, struct gyre_place from)
{
    if (round->overflow || round->steps == 0 || round->sources == round->source_max) {
        round->overflow = true;
        return;
    }
    round->source[round->sources++] = from;
    round->step[round->steps - 1].sources++;
}

const struct gyre_algorithm *gyre_algorithm_find(const char *name)
{
    for (const struct gyre_algorithm *const *it = gyre_algorithms; *it != NULL; it++)
        if (strcmp((*it)->name, name) == 0)
            return *it;
    return NULL;
}

bool gyre_algorithm_builds(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice)
{
    return (unsigned)slice->verb < GYRE_VERBS && (algorithm->verbs >> slice->verb & 1) != 0 &&
           (!algorithm->suits || algorithm->suits(slice));
}
