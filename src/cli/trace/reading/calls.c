/* Lists the operations of ranks. Tested by tests/unit/cli/trace/torch_test.c. */
#include "cli/trace/reading/calls.h"

#include "transport/stream/signature.h"

#include <errno.h>
#include <stdlib.h>

static int by_event_number(const void *a, const void *b)
{
    const struct gyre_bar *x = *(const struct gyre_bar *const *)a;
    const struct gyre_bar *y = *(const struct gyre_bar *const *)b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool list_calls(const struct gyre_timeline_rank *rank, struct gyre_rank_calls *calls)
{
    calls->call = calloc(rank->bars + 1, sizeof *calls->call);
    for (uint32_t i = 0; calls->call && i < rank->bars; i++)
        if (rank->bar[i].kind == GYRE_EVENT_CALL)
            calls->call[calls->calls++] = &rank->bar[i];
    if (calls->call)
        qsort(calls->call, calls->calls, sizeof *calls->call, by_event_number);
    return calls->call != NULL;
}

static int by_comm(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* A communicator that has ended may be gone from the head's table, but not from the calls. */
static bool list_comms(const struct gyre_timeline_rank *rank, struct gyre_rank_calls *calls)
{
    uint32_t *comm = calloc(1 + GYRE_RECORD_COMMS + calls->calls, sizeof *comm), listed = 1;
    calls->comm = comm;
    if (!comm)
        return false;
    for (uint32_t i = 0; i < GYRE_RECORD_COMMS; i++)
        if (rank->head.comm[i].n)
            comm[listed++] = rank->head.comm[i].name;
    for (uint32_t i = 0; i < calls->calls; i++)
        if (calls->call[i]->comm != GYRE_RECORD_MESSAGES)
            comm[listed++] = calls->call[i]->comm;
    qsort(comm, listed, sizeof *comm, by_comm);
    calls->comms = 1;
    for (uint32_t i = 1; i < listed; i++)
        if (comm[i] != comm[calls->comms - 1])
            comm[calls->comms++] = comm[i];
    return true;
}

int gyre_calls_read(struct gyre_calls *calls, const struct gyre_timeline *timeline,
                    struct gyre_trouble *trouble)
{
    calls->timeline = timeline;
    calls->of = calloc(timeline->count + 1, sizeof *calls->of);
    bool enough = calls->of != NULL;
    for (uint32_t r = 0; enough && r < timeline->count; r++)
        enough = list_calls(&timeline->of[r], &calls->of[r]) &&
                 list_comms(&timeline->of[r], &calls->of[r]);
    if (enough)
        return 0;
    gyre_calls_free(calls);
    return gyre_trouble_set(trouble, -ENOMEM, "no memory for the calls of %u ranks",
                            timeline->count);
}

void gyre_calls_free(struct gyre_calls *calls)
{
    for (uint32_t r = 0; calls->of && r < calls->timeline->count; r++) {
        free((void *)calls->of[r].call);
        free(calls->of[r].comm);
    }
    free(calls->of);
    calls->of = NULL;
}

bool gyre_calls_is_member(const struct gyre_rank_calls *rank, uint32_t comm)
{
    return bsearch(&comm, rank->comm, rank->comms, sizeof comm, by_comm) != NULL;
}

uint32_t gyre_calls_size(const struct gyre_calls *calls, uint32_t comm)
{
    const struct gyre_timeline *timeline = calls->timeline;
    uint32_t members = 0;
    for (uint32_t r = 0; r < timeline->count; r++)
        for (uint32_t i = 0; i < GYRE_RECORD_COMMS; i++)
            if (timeline->of[r].head.comm[i].n && timeline->of[r].head.comm[i].name == comm)
                return timeline->of[r].head.comm[i].n;
    for (uint32_t r = 0; r < timeline->count; r++)
        members += gyre_calls_is_member(&calls->of[r], comm);
    return comm ? members : timeline->n;
}

/* Blocks of a buffer, by its word in base/verbs.h. */
enum { BLOCK, AT_ROOT = BLOCK, BLOCKS, N_AT_ROOT = BLOCKS };

struct gyre_call_elements gyre_calls_elements(const struct gyre_bar *call, uint32_t n)
{
#define SIDES(ID, word, input, output, ...) {input, output},
    static const unsigned char side[][2] = {GYRE_VERB_ROWS(SIDES)};
    const uint32_t verb = call->signature & 255;
    struct gyre_call_elements elements = {call->size, call->size};
    if (verb < GYRE_SIGNATURE_VERBS) {
        elements.input *= side[verb][0] == BLOCKS ? n : 1;
        elements.output *= side[verb][1] == BLOCKS ? n : 1;
    } else if (verb == GYRE_SIGNATURE_ALL_GATHER_V) {
        elements.output *= n;
    }
    return elements;
}
