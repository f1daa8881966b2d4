/* The listed schedule as an algorithm: a round is copied from the list. What the text does not
 * promise is counted. Tested by tests/program/cli/check.c. */
#include "cli/check/listed.h"

#include <errno.h>
#include <stdlib.h>

static const struct gyre_listed *shown;
static struct gyre_algorithm algorithm;

/* -- memory ------------------------------------------------------------------------------------ */

int gyre_listed_grow(void **array, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return 0;
    size_t more = *room == 0 ? 64 : 2 * *room;
    void *larger = reallocarray(*array, more, size);
    if (larger == NULL)
        return -ENOMEM;
    *array = larger;
    *room = more;
    return 0;
}

void gyre_listed_deinit(struct gyre_listed *listed)
{
    free(listed->at);
    free(listed->count);
    free(listed->rank);
    free(listed->round_start);
    free(listed->step);
    free(listed->source);
    *listed = (struct gyre_listed){0};
}

/* -- the list ---------------------------------------------------------------------------------- */

static uint64_t standing_for(uint64_t bytes)
{
    return shown->scale == 0 ? bytes : bytes * shown->scale;
}

static struct gyre_place scaled_place(struct gyre_place place)
{
    return gyre_at(place.buffer, standing_for(place.offset));
}

static const struct gyre_listed_rank *listed_rank(const struct gyre_slice *slice)
{
    return &shown->rank[slice->rank];
}

/* The steps of a round: from *begin to the returned one. */
static size_t steps_of(const struct gyre_listed_rank *rank, uint64_t round, size_t *begin)
{
    size_t index = rank->first_round + round;
    *begin = shown->round_start[index];
    return index + 1 < shown->rounds ? shown->round_start[index + 1] : shown->steps;
}

static void reach(uint64_t *end, struct gyre_place place, uint64_t length)
{
    if (place.buffer == GYRE_SCRATCH && place.offset + length > *end)
        *end = place.offset + length;
}

static uint64_t scratch_of(const struct gyre_step *step)
{
    uint64_t end = 0;
    reach(&end, step->at, step->length);
    for (uint32_t i = 0; i < step->sources; i++)
        reach(&end, shown->source[step->first + i], step->length);
    return end;
}

static void count_listed_round(const struct gyre_listed_rank *rank, uint64_t round,
                               struct gyre_extent *extent, uint64_t *scratch)
{
    size_t begin, end = steps_of(rank, round, &begin);
    uint32_t sources = 0;
    for (size_t i = begin; i < end; i++) {
        uint64_t used = scratch_of(&shown->step[i]);
        sources += shown->step[i].sources;
        *scratch = used > *scratch ? used : *scratch;
    }
    extent->step_max = end - begin > extent->step_max ? (uint32_t)(end - begin) : extent->step_max;
    extent->source_max = sources > extent->source_max ? sources : extent->source_max;
}

static struct gyre_extent listed_extent(const struct gyre_slice *slice)
{
    const struct gyre_listed_rank *rank = listed_rank(slice);
    struct gyre_extent extent = {.rounds = rank->rounds};
    uint64_t scratch = 0;
    for (uint64_t round = 0; round < rank->rounds; round++)
        count_listed_round(rank, round, &extent, &scratch);
    extent.scratch_bytes = standing_for(rank->promises_scratch ? rank->scratch_bytes : scratch);
    return extent;
}

static void copy_step(struct gyre_round *round, const struct gyre_step *step)
{
    const struct gyre_place *source = &shown->source[step->first], at = scaled_place(step->at);
    const uint64_t length = standing_for(step->length);
    if (step->kind == GYRE_SEND)
        gyre_round_send(round, step->peer, at, length);
    else if (step->kind == GYRE_RECV)
        gyre_round_recv(round, step->peer, at, length);
    else if (step->kind == GYRE_COPY)
        gyre_round_copy(round, at, scaled_place(*source), length);
    else
        gyre_round_reduce(round, at, length, step->flags);
    for (uint32_t i = 0; step->kind == GYRE_REDUCE && i < step->sources; i++)
        gyre_round_source(round, scaled_place(source[i]));
}

static void listed_round(const struct gyre_slice *slice, uint64_t index, struct gyre_round *round)
{
    size_t begin, end = steps_of(listed_rank(slice), index, &begin);
    for (size_t i = begin; i < end; i++)
        copy_step(round, &shown->step[i]);
}

static uint64_t listed_sent_bytes(const struct gyre_slice *slice)
{
    const struct gyre_listed_rank *rank = listed_rank(slice);
    uint64_t sent = 0;
    for (uint64_t round = 0; round < rank->rounds && !rank->promises_sent; round++) {
        size_t begin, end = steps_of(rank, round, &begin);
        for (size_t i = begin; i < end; i++)
            sent += shown->step[i].kind == GYRE_SEND ? shown->step[i].length : 0;
    }
    return standing_for(rank->promises_sent ? rank->sent_bytes : sent);
}

const struct gyre_algorithm *gyre_listed_algorithm(const struct gyre_listed *listed)
{
    shown = listed;
    algorithm = (struct gyre_algorithm){.name = listed->name,
                                        .summary = "a schedule from a file",
                                        .verbs = 1u << listed->slice.verb,
                                        .extent = listed_extent,
                                        .round = listed_round,
                                        .sent_bytes = listed_sent_bytes};
    return &algorithm;
}
