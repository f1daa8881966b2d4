/* Brings the clocks of all hosts together.
 *
 * Ranks of a host share its clock, so ticks become nanoseconds by the clocks that each rank has
 * read. Between two hosts messages tell: none can arrive before it was sent. So each message from A
 * to B says at least, and each from B to A at most, how far B's clock is from A's:
 *
 *     A   send ────────────────┐        ┌──▶ receive
 *     B                        └▶ receive, send
 *
 * The middle is taken, half the distance is the error, and hosts are joined in the order of their
 * errors. Hosts with messages in one direction only, or none, keep their own clock.
 *
 * Tested by tests/unit/cli/trace/trace_test.c. */
#include "cli/trace/reading/clocks.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_MOST 1024u /* that are aligned: the table has a square of them */
#define NO_WORD    INT64_MIN

/* -- one host ---------------------------------------------------------------------------------- */

static uint64_t clocks_span(const struct gyre_record_head *head)
{
    bool sane =
        head->now.ticks > head->opened.ticks && head->now.monotonic > head->opened.monotonic;
    return sane ? head->now.monotonic - head->opened.monotonic : 0;
}

static double ns_per_tick(const struct gyre_record_head *head)
{
    uint64_t span = clocks_span(head);
    return span ? (double)span / (double)(head->now.ticks - head->opened.ticks) : 1;
}

/* Finds the hosts. Returns their number. */
static uint32_t find_hosts(struct gyre_timeline *timeline)
{
    uint32_t hosts = 0;
    for (uint32_t r = 0; r < timeline->count; r++) {
        uint32_t first = 0;
        while (strcmp(timeline->of[first].head.host, timeline->of[r].head.host))
            first++;
        timeline->of[r].host = first;
        hosts += first == r;
    }
    return hosts;
}

/* The rank of a host whose clocks span the longest time: its rate is the best one. A rank that was
 * killed early may have none. */
static const struct gyre_record_head *best_clock(const struct gyre_timeline *timeline,
                                                 uint32_t host)
{
    const struct gyre_record_head *best = &timeline->of[host].head;
    for (uint32_t r = host; r < timeline->count; r++)
        if (timeline->of[r].host == host && clocks_span(&timeline->of[r].head) > clocks_span(best))
            best = &timeline->of[r].head;
    return best;
}

static int64_t to_wall(const struct gyre_record_head *clock, double rate, int64_t ticks)
{
    double since = (double)(ticks - (int64_t)clock->now.ticks) * rate;
    return (int64_t)clock->now.wall + (int64_t)since;
}

/* Turns one rank's ticks into its host's time. What has not ended ends at the last word. */
static void set_rank(struct gyre_timeline_rank *rank, const struct gyre_record_head *clock)
{
    double rate = ns_per_tick(clock);
    int64_t last = (int64_t)rank->head.now.ticks;
    for (uint32_t i = 0; i < rank->bars; i++) {
        const struct gyre_bar *bar = &rank->bar[i];
        int64_t known = bar->open ? bar->begin : bar->end;
        last = known > last ? known : last;
    }
    for (uint32_t i = 0; i < rank->bars; i++) {
        struct gyre_bar *bar = &rank->bar[i];
        bar->end = to_wall(clock, rate, bar->open ? last : bar->end);
        bar->begin = to_wall(clock, rate, bar->begin);
    }
}

/* -- several hosts ----------------------------------------------------------------------------- */

struct hosts {
    uint32_t count;
    uint32_t *number; /* of a rank's host, by rank */
    int64_t *least;   /* [a * count + b]: B's time has to go forward against A's at least so much */
    int64_t *shift, *error;
    bool *joined;
};

static void hosts_free(struct hosts *hosts)
{
    free(hosts->number);
    free(hosts->least);
    free(hosts->shift);
    free(hosts->error);
    free(hosts->joined);
}

static bool hosts_make(struct hosts *hosts, const struct gyre_timeline *timeline)
{
    uint32_t next = 0, count = timeline->hosts;
    *hosts = (struct hosts){.count = count,
                            .number = calloc(timeline->count, sizeof *hosts->number),
                            .least = calloc((size_t)count * count, sizeof *hosts->least),
                            .shift = calloc(count, sizeof *hosts->shift),
                            .error = calloc(count, sizeof *hosts->error),
                            .joined = calloc(count, sizeof *hosts->joined)};
    if (!hosts->number || !hosts->least || !hosts->shift || !hosts->error || !hosts->joined)
        return false;
    for (uint32_t r = 0; r < timeline->count; r++) {
        uint32_t first = timeline->of[r].host;
        hosts->number[r] = first == r ? next++ : hosts->number[first];
    }
    for (size_t i = 0; i < (size_t)count * count; i++)
        hosts->least[i] = NO_WORD;
    return true;
}

static void hear_messages(struct hosts *hosts, const struct gyre_timeline *timeline)
{
    for (uint32_t r = 0; r < timeline->count; r++)
        for (uint32_t i = 0; i < timeline->of[r].bars; i++) {
            const struct gyre_bar *send = &timeline->of[r].bar[i], *recv = send->other;
            if (send->kind != GYRE_EVENT_SEND || !recv || recv->open)
                continue;
            uint32_t a = hosts->number[r], b = hosts->number[recv->rank];
            int64_t *least = &hosts->least[(size_t)a * hosts->count + b];
            int64_t word = send->begin - recv->end;
            *least = word > *least ? word : *least;
        }
}

/* The distance of two bounds of B's shift against A's; negative: a direction has no message. */
static int64_t bounds_apart(const struct hosts *hosts, uint32_t a, uint32_t b, int64_t *middle)
{
    int64_t least = hosts->least[(size_t)a * hosts->count + b];
    int64_t back = hosts->least[(size_t)b * hosts->count + a];
    if (least == NO_WORD || back == NO_WORD)
        return -1;
    *middle = (least - back) / 2;
    return llabs(-back - least);
}

/* Joins the host whose clock is known best from one that is joined. False: there is none. */
static bool join_next(struct hosts *hosts)
{
    int64_t best = INT64_MAX, middle = 0, shift = 0;
    uint32_t next = hosts->count;
    for (uint32_t a = 0; a < hosts->count; a++)
        for (uint32_t b = 0; hosts->joined[a] && b < hosts->count; b++) {
            int64_t apart = hosts->joined[b] ? -1 : bounds_apart(hosts, a, b, &middle);
            if (apart < 0 || hosts->error[a] + apart / 2 >= best)
                continue;
            best = hosts->error[a] + apart / 2;
            shift = hosts->shift[a] + middle;
            next = b;
        }
    if (next == hosts->count)
        return false;
    hosts->joined[next] = true;
    hosts->shift[next] = shift;
    hosts->error[next] = best;
    return true;
}

static void shift_bars(struct gyre_timeline *timeline, const struct hosts *hosts)
{
    for (uint32_t r = 0; r < timeline->count; r++)
        for (uint32_t i = 0; i < timeline->of[r].bars; i++) {
            timeline->of[r].bar[i].begin += hosts->shift[hosts->number[r]];
            timeline->of[r].bar[i].end += hosts->shift[hosts->number[r]];
        }
}

static int align_hosts(struct gyre_timeline *timeline, struct gyre_trouble *trouble)
{
    struct hosts hosts;
    uint32_t joined = 1;
    bool made = hosts_make(&hosts, timeline);
    if (made) {
        hear_messages(&hosts, timeline);
        hosts.joined[0] = true;
        while (join_next(&hosts))
            joined++;
        shift_bars(timeline, &hosts);
        for (uint32_t h = 0; h < hosts.count; h++)
            if (hosts.error[h] > timeline->error)
                timeline->error = hosts.error[h];
    }
    hosts_free(&hosts);
    timeline->unaligned = timeline->hosts - joined;
    return made ? 0
                : gyre_trouble_set(trouble, -ENOMEM, "no memory for the clocks of %u hosts",
                                   timeline->hosts);
}

/* -- the whole --------------------------------------------------------------------------------- */

void gyre_clocks_find_span(struct gyre_timeline *timeline)
{
    timeline->begin = INT64_MAX;
    timeline->end = INT64_MIN;
    for (uint32_t r = 0; r < timeline->count; r++)
        for (uint32_t i = 0; i < timeline->of[r].bars; i++) {
            const struct gyre_bar *bar = &timeline->of[r].bar[i];
            timeline->begin = bar->begin < timeline->begin ? bar->begin : timeline->begin;
            timeline->end = bar->end > timeline->end ? bar->end : timeline->end;
        }
    if (timeline->begin > timeline->end)
        timeline->begin = timeline->end = 0;
}

int gyre_clocks_set(struct gyre_timeline *timeline, struct gyre_trouble *trouble)
{
    timeline->hosts = find_hosts(timeline);
    for (uint32_t r = 0; r < timeline->count; r++)
        set_rank(&timeline->of[r], best_clock(timeline, timeline->of[r].host));
    timeline->unaligned = timeline->hosts - 1;
    int status =
        timeline->hosts > 1 && timeline->hosts <= HOSTS_MOST ? align_hosts(timeline, trouble) : 0;
    gyre_clocks_find_span(timeline);
    return status;
}

void gyre_clocks_text(const struct gyre_timeline *timeline, char *out, size_t room)
{
    if (timeline->hosts == 1)
        snprintf(out, room, "one host, one clock");
    else if (timeline->unaligned)
        snprintf(out, room,
                 "%u of %u hosts have no messages in both directions, and keep their own clocks; "
                 "the others agree to %.1f us",
                 timeline->unaligned, timeline->hosts, (double)timeline->error / 1e3);
    else
        snprintf(out, room, "the clocks of %u hosts, aligned by their messages, agree to %.1f us",
                 timeline->hosts, (double)timeline->error / 1e3);
}
