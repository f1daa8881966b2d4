/* Where a slice's blocks are, and how an algorithm writes a round: append a step, or open a REDUCE
 * and give it its sources.
 *
 *     round.step    [ SEND ][ RECV ][ REDUCE first=0 sources=2 ][ COPY first=2 sources=1 ]
 *     round.source                  [  a  ][  b  ]               [  c  ]
 *
 * The arrays belong to the caller and have the size that the algorithm's extent promised. A step or
 * source that does not fit is not written; `overflow` is set, and from then on the round is
 * worthless: the checker reports it as a defect of the algorithm and the binder refuses to run it.
 * Nothing is ever written past an array. */
#include "collectives/schedule/schedule.h"

#include "base/size.h"

#include <string.h>

const char *const gyre_verb_word[] = {"all_reduce",     "broadcast",  "reduce", "all_gather",
                                      "reduce_scatter", "all_to_all", "gather", "scatter"};
const char *const gyre_buffer_name[] = {"INPUT", "OUTPUT", "SCRATCH"};
const char *const gyre_step_kind_name[] = {"SEND", "RECV", "REDUCE", "COPY"};

/* -- blocks ------------------------------------------------------------------------------------ */

static struct gyre_span block_span(const struct gyre_slice *s, const struct gyre_blocks *blocks,
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
    return block_span(slice, &slice->in, rank);
}

struct gyre_span gyre_slice_out_block(const struct gyre_slice *slice, uint32_t rank)
{
    return block_span(slice, &slice->out, rank);
}

static uint64_t run_bytes(const struct gyre_slice *s, const struct gyre_blocks *all, uint64_t first,
                          uint32_t blocks)
{
    uint64_t bytes = 0;
    if (!all->count)
        return blocks * s->count * s->element;
    for (uint32_t i = 0; i < blocks; i++)
        bytes += block_span(s, all, (uint32_t)((first + i) % s->n)).bytes;
    return bytes;
}

uint64_t gyre_slice_in_run(const struct gyre_slice *slice, uint64_t first, uint32_t blocks)
{
    return run_bytes(slice, &slice->in, first, blocks);
}

uint64_t gyre_slice_out_run(const struct gyre_slice *slice, uint64_t first, uint32_t blocks)
{
    return run_bytes(slice, &slice->out, first, blocks);
}

struct gyre_span gyre_slice_cut(const struct gyre_slice *slice, struct gyre_span whole,
                                uint64_t parts, uint64_t index)
{
    uint64_t count = whole.bytes / slice->element;
    return (struct gyre_span){whole.at + gyre_block_start(count, parts, index) * slice->element,
                              gyre_block_count(count, parts, index) * slice->element};
}

struct gyre_span gyre_slice_whole(const struct gyre_slice *slice)
{
    return (struct gyre_span){0, slice->count * slice->element};
}

struct gyre_span gyre_slice_share(const struct gyre_slice *slice, uint32_t rank)
{
    if (gyre_verb_scatters(slice->verb))
        return gyre_slice_in_block(slice, rank);
    if (gyre_verb_gathers(slice->verb))
        return gyre_slice_out_block(slice, rank);
    return gyre_slice_cut(slice, gyre_slice_whole(slice), slice->n, rank);
}

uint64_t gyre_slice_all_bytes(const struct gyre_slice *slice)
{
    if (gyre_verb_scatters(slice->verb))
        return gyre_slice_in_run(slice, 0, slice->n);
    if (gyre_verb_gathers(slice->verb))
        return gyre_slice_out_run(slice, 0, slice->n);
    return slice->count * slice->element;
}

static bool only_root_has(enum gyre_verb verb, enum gyre_buffer buffer)
{
    return buffer == GYRE_INPUT ? verb == GYRE_VERB_BROADCAST || verb == GYRE_VERB_SCATTER
                                : verb == GYRE_VERB_REDUCE || verb == GYRE_VERB_GATHER;
}

static bool has_n_blocks(enum gyre_verb verb, enum gyre_buffer buffer)
{
    return buffer == GYRE_INPUT ? gyre_verb_scatters(verb) : gyre_verb_gathers(verb);
}

uint32_t gyre_slice_blocks(const struct gyre_slice *slice, enum gyre_buffer buffer)
{
    if (only_root_has(slice->verb, buffer) && slice->rank != slice->root)
        return 0;
    return has_n_blocks(slice->verb, buffer) ? slice->n : 1;
}

/* A single INPUT is this rank's block of the OUTPUT that is gathered from all, and the other way
 * round. */
struct gyre_span gyre_slice_block(const struct gyre_slice *slice, enum gyre_buffer buffer,
                                  uint32_t i)
{
    bool input = buffer == GYRE_INPUT;
    if (has_n_blocks(slice->verb, buffer))
        return block_span(slice, input ? &slice->in : &slice->out, i);
    if (has_n_blocks(slice->verb, input ? GYRE_OUTPUT : GYRE_INPUT))
        return (struct gyre_span){
            0, block_span(slice, input ? &slice->out : &slice->in, slice->rank).bytes};
    return (struct gyre_span){0, slice->count * slice->element};
}

int64_t gyre_slice_shift(const struct gyre_slice *slice)
{
    if (slice->verb == GYRE_VERB_ALL_GATHER || slice->verb == GYRE_VERB_GATHER)
        return (int64_t)block_span(slice, &slice->out, slice->rank).at;
    if (slice->verb == GYRE_VERB_REDUCE_SCATTER || slice->verb == GYRE_VERB_SCATTER)
        return -(int64_t)block_span(slice, &slice->in, slice->rank).at;
    return 0;
}

/* -- rounds ------------------------------------------------------------------------------------ */

static void append_step(struct gyre_round *round, struct gyre_step step)
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
    append_step(round,
                (struct gyre_step){.kind = GYRE_SEND, .peer = peer, .at = from, .length = length});
}

void gyre_round_recv(struct gyre_round *round, uint32_t peer, struct gyre_place to, uint64_t length)
{
    append_step(round,
                (struct gyre_step){.kind = GYRE_RECV, .peer = peer, .at = to, .length = length});
}

void gyre_round_copy(struct gyre_round *round, struct gyre_place to, struct gyre_place from,
                     uint64_t length)
{
    append_step(round, (struct gyre_step){.kind = GYRE_COPY, .at = to, .length = length});
    gyre_round_source(round, from);
}

void gyre_round_reduce(struct gyre_round *round, struct gyre_place to, uint64_t length,
                       uint32_t flags)
{
    append_step(
        round, (struct gyre_step){.kind = GYRE_REDUCE, .flags = flags, .at = to, .length = length});
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

/* -- algorithms -------------------------------------------------------------------------------- */

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
