/* The blocks of a slice, and the functions by which an algorithm writes a round: append a step, or
 * open a REDUCE and append its sources.
 *
 *     round.step    [ SEND ][ RECV ][ REDUCE first=0 sources=2 ][ COPY first=2 sources=1 ]
 *     round.source                  [  a  ][  b  ]               [  c  ]
 *
 * The arrays have the size that the algorithm's extent promises. A step or source beyond that size
 * is dropped and sets `overflow`. The checker reports such a round as a defect of the algorithm,
 * and the binder refuses to run the schedule.
 *
 * Tested by tests/unit/collectives/algorithms/table_test.c. */
#include "collectives/schedule/schedule.h"

#include "base/size.h"

#include <errno.h>
#include <stdlib.h>

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

uint32_t gyre_slice_blocks(const struct gyre_slice *slice, enum gyre_buffer buffer)
{
    return gyre_verb_blocks(slice->verb, buffer, slice->n, slice->rank == slice->root);
}

/* Where a verb has n blocks in one buffer only, the other buffer holds one block: this rank's. */
struct gyre_span gyre_slice_block(const struct gyre_slice *slice, enum gyre_buffer buffer,
                                  uint32_t i)
{
    const struct gyre_verb_buffer *held = gyre_verb_facts[slice->verb].buffer;
    bool input = buffer == GYRE_INPUT;
    if (held[buffer].blocks)
        return block_span(slice, input ? &slice->in : &slice->out, i);
    if (held[!buffer].blocks)
        return (struct gyre_span){
            0, block_span(slice, input ? &slice->out : &slice->in, slice->rank).bytes};
    return gyre_slice_whole(slice);
}

int64_t gyre_slice_shift(const struct gyre_slice *slice)
{
    int nests = gyre_verb_nests(slice->verb);
    const struct gyre_blocks *outer = nests > 0 ? &slice->out : &slice->in;
    return nests ? nests * (int64_t)block_span(slice, outer, slice->rank).at : 0;
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

int gyre_round_init(struct gyre_round *round, const struct gyre_extent *extent)
{
    *round = (struct gyre_round){.step_max = extent->step_max, .source_max = extent->source_max};
    round->step = calloc((size_t)round->step_max + 1, sizeof *round->step);
    round->source = calloc((size_t)round->source_max + 1, sizeof *round->source);
    if (round->step && round->source)
        return 0;
    gyre_round_deinit(round); /* half a round would pass for one with room */
    return -ENOMEM;
}

void gyre_round_deinit(struct gyre_round *round)
{
    free(round->step);
    free(round->source);
    *round = (struct gyre_round){0};
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
