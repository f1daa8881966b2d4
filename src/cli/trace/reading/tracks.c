/* Lays bars into tracks. A lane sends, receives and folds at a time, and calls overlap, so each has
 * as many rows as it needs: a bar takes the first row that is free.
 *
 * Tested by tests/unit/cli/trace/trace_test.c. */
#include "cli/trace/reading/tracks.h"

#include "data/files/json_out.h"
#include "transport/stream/signature.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS_MOST 64u /* of one lane; further bars share the last */

static bool is_call(const struct gyre_bar *bar)
{
    return bar->kind == GYRE_EVENT_CALL;
}

/* Calls come first, those of messages behind them, then lanes by communicator. */
static uint64_t group_of(const struct gyre_bar *bar)
{
    if (is_call(bar))
        return bar->comm == GYRE_RECORD_MESSAGES;
    return 2 + ((uint64_t)bar->comm << 8 | bar->lane);
}

#define COMPARE(x, y)                                                                              \
    if ((x) != (y))                                                                                \
    return (x) < (y) ? -1 : 1

static int compare_starts(const void *a, const void *b)
{
    const struct gyre_bar *x = a, *y = b;
    COMPARE(group_of(x), group_of(y));
    COMPARE(x->begin, y->begin);
    COMPARE(x->number, y->number);
    return 0;
}

static int compare_tracks(const void *a, const void *b)
{
    const struct gyre_bar *x = a, *y = b;
    COMPARE(x->track, y->track);
    COMPARE(x->begin, y->begin);
    COMPARE(x->number, y->number);
    return 0;
}

static int add_track(struct gyre_timeline_rank *rank, const struct gyre_bar *bar, uint32_t row)
{
    struct gyre_track *more = realloc(rank->track, (rank->tracks + 1) * sizeof *more);
    if (!more)
        return -ENOMEM;
    rank->track = more;
    rank->track[rank->tracks++] = (struct gyre_track){
        .comm = bar->comm, .lane = bar->lane, .row = (uint16_t)row, .calls = is_call(bar)};
    return 0;
}

/* The first row that is free; of ROWS_MOST rows the last never counts as taken. */
static uint32_t free_row(const int64_t *taken, uint32_t rows, const struct gyre_bar *bar)
{
    uint32_t row = 0;
    while (row < rows && row + 1 < ROWS_MOST && taken[row] > bar->begin)
        row++;
    return row;
}

static int lay_group(struct gyre_timeline_rank *rank, uint32_t from, uint32_t to)
{
    int64_t taken[ROWS_MOST];
    uint32_t rows = 0, first = rank->tracks;
    for (uint32_t i = from; i < to; i++) {
        struct gyre_bar *bar = &rank->bar[i];
        uint32_t row = free_row(taken, rows, bar);
        if (row == rows && add_track(rank, bar, rows++))
            return -ENOMEM;
        taken[row] = bar->end;
        bar->track = first + row;
    }
    return 0;
}

static int lay_rank(struct gyre_timeline_rank *rank)
{
    int status = 0;
    qsort(rank->bar, rank->bars, sizeof *rank->bar, compare_starts);
    for (uint32_t from = 0, to; !status && from < rank->bars; from = to) {
        to = from;
        while (to < rank->bars && group_of(&rank->bar[to]) == group_of(&rank->bar[from]))
            to++;
        status = lay_group(rank, from, to);
    }
    qsort(rank->bar, rank->bars, sizeof *rank->bar, compare_tracks);
    return status;
}

int gyre_tracks_lay(struct gyre_timeline *timeline, struct gyre_trouble *trouble)
{
    for (uint32_t r = 0; r < timeline->count; r++)
        if (lay_rank(&timeline->of[r]))
            return gyre_trouble_set(trouble, -ENOMEM, "no memory for the lanes of rank %u",
                                    timeline->of[r].head.rank);
    return 0;
}

/* -- words ------------------------------------------------------------------------------------- */

void gyre_track_name(char *out, size_t room, const struct gyre_track *track)
{
    char comm[32] = "";
    if (track->calls) {
        snprintf(out, room, "%s", track->comm == GYRE_RECORD_MESSAGES ? "messages" : "calls");
        return;
    }
    if (track->comm)
        snprintf(comm, sizeof comm, "communicator %u, ", track->comm);
    if (track->lane == GYRE_EVENT_MAPPED)
        snprintf(out, room, "%sshared memory", comm);
    else
        snprintf(out, room, "%slane %u", comm, track->lane);
}

void gyre_bar_text(char *out, size_t room, const struct gyre_bar *bar)
{
    switch (bar->kind) {
    case GYRE_EVENT_CALL:
        gyre_signature_text(out, room, bar->signature, bar->size);
        break;
    case GYRE_EVENT_SEND:
        snprintf(out, room, "send to %u", bar->peer);
        break;
    case GYRE_EVENT_RECV:
        snprintf(out, room, "receive from %u", bar->peer);
        break;
    default:
        snprintf(out, room, "%s", bar->kind == GYRE_EVENT_FOLD ? "fold" : "copy");
    }
}

void gyre_timeline_put_text(FILE *out, const char *text)
{
    struct gyre_json_out json = {.stream = out};
    gyre_json_put_string(&json, text);
}
