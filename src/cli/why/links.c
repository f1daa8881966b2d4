/* Finds the rank whose link is slow: bytes stand on its connections while those of all other ranks
 * are empty.
 *
 *     rank 0 ─▶ 1   ▁▁█▁▁▁▁▁▁█▁▁▁       under way for a moment
 *     rank 1 ─▶ 2   ▁▁▁▁█▁▁▁▁▁▁█▁
 *     rank 2 ─▶ 0   ▁▁▁▁▁██████████     under way most of the time: the link of rank 2
 *
 * A job that fills all of its links has none that stands out.
 *
 * Tested by tests/program/cli/why.c. */
#include "cli/why/links.h"

#include "cli/why/sockets.h"

#include <stdlib.h>
#include <time.h>

#define WATCHED_MS 1000
#define BUSY_LEAST 0.3   /* of the time watched, summed over a rank's connections */
#define WIRE_LEAST 4096  /* bytes of a connection: of one that only beats, time tells nothing */
#define SENT_LEAST 16384 /* bytes: a job that stands still only beats */
#define OUTSTANDS  3     /* times the busy time of the rank in the middle */

struct link_load {
    double out, in;     /* microseconds with bytes under way */
    uint64_t sent, got; /* bytes */
    uint32_t to, from;  /* the other end of the busiest connection */
    double most_to, most_from;
};

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Adds what one connection did between two lists. */
static void add_connection(const struct gyre_connection_end *before,
                           const struct gyre_connection_end *after, struct link_load *load)
{
    double busy = (double)(int64_t)(after->busy_us - before->busy_us);
    if (after->bytes - before->bytes < WIRE_LEAST)
        return;
    struct link_load *from = &load[after->from];
    from->out += busy;
    from->sent += after->bytes - before->bytes;
    if (busy > from->most_to) {
        from->most_to = busy;
        from->to = after->to;
    }
    if (after->to == GYRE_TRAIL_NONE)
        return;
    struct link_load *to = &load[after->to];
    to->in += busy;
    to->got += after->bytes - before->bytes;
    if (busy > to->most_from) {
        to->most_from = busy;
        to->from = after->from;
    }
}

static void compare_lists(const struct gyre_connections *before,
                          const struct gyre_connections *after, struct link_load *load)
{
    for (uint32_t i = 0, j = 0; i < before->count && j < after->count;)
        if (before->of[i].inode != after->of[j].inode) {
            if (before->of[i].inode < after->of[j].inode)
                i++;
            else
                j++;
        } else {
            add_connection(&before->of[i++], &after->of[j++], load);
        }
}

static int by_rate(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double busy_of(const struct link_load *load, bool in)
{
    return in ? load->in : load->out;
}

static uint64_t moved_by(const struct link_load *load, bool in)
{
    return in ? load->got : load->sent;
}

/* Bytes a second while bytes were under way. */
static double rate_of(const struct link_load *load, bool in)
{
    const double busy = busy_of(load, in);
    return (double)moved_by(load, in) / (busy > 1 ? busy : 1) * 1e6;
}

/* The slowest of the ranks whose connections are full for long. */
static uint32_t find_slowest(const struct link_load *load, uint32_t count, bool in, double watched)
{
    uint32_t slowest = GYRE_TRAIL_NONE;
    for (uint32_t i = 0; i < count; i++)
        if (busy_of(&load[i], in) >= BUSY_LEAST * watched && moved_by(&load[i], in) >= SENT_LEAST &&
            (slowest == GYRE_TRAIL_NONE || rate_of(&load[i], in) < rate_of(&load[slowest], in)))
            slowest = i;
    return slowest;
}

/* The rank whose connections stand out in one direction; GYRE_TRAIL_NONE: none does. Ranks that
 * sent next to nothing say nothing of their links. */
static uint32_t find_outstanding(const struct link_load *load, uint32_t count, bool in,
                                 double watched)
{
    const uint32_t slowest = find_slowest(load, count, in, watched);
    double others[GYRE_TRAILS_MAX];
    uint32_t compared = 0;
    for (uint32_t i = 0; slowest != GYRE_TRAIL_NONE && i < count; i++)
        if (i != slowest && moved_by(&load[i], in) >= moved_by(&load[slowest], in) / 4)
            others[compared++] = rate_of(&load[i], in);
    if (!compared)
        return GYRE_TRAIL_NONE;
    qsort(others, compared, sizeof *others, by_rate);
    const bool outstanding = OUTSTANDS * rate_of(&load[slowest], in) <= others[compared / 2];
    return outstanding ? slowest : GYRE_TRAIL_NONE;
}

static void fill_link(const struct gyre_trails *trails, const struct link_load *load, bool in,
                      double watched, struct gyre_slow_link *found)
{
    const double busy = busy_of(load, in);
    const uint32_t peer = in ? load->from : load->to;
    found->receives = in;
    found->peer = peer == GYRE_TRAIL_NONE ? peer : trails->of[peer].head.rank;
    found->busy = busy < watched ? busy / watched : 1;
    found->rate = rate_of(load, in);
}

/* Where one connection is slow, its both ends stand out; the one that sends is named. */
static bool judge_loads(const struct gyre_trails *trails, const struct link_load *load,
                        double watched, struct gyre_slow_link *found)
{
    const uint32_t out = find_outstanding(load, trails->count, false, watched);
    const uint32_t in = find_outstanding(load, trails->count, true, watched);
    const bool receives =
        out == GYRE_TRAIL_NONE || (in != GYRE_TRAIL_NONE && load[in].from != out &&
                                   2 * rate_of(&load[in], true) < rate_of(&load[out], false));
    const uint32_t slow = receives ? in : out;
    if (slow == GYRE_TRAIL_NONE)
        return false;
    found->rank = trails->of[slow].head.rank;
    fill_link(trails, &load[slow], receives, watched, found);
    return true;
}

bool gyre_find_slow_link(const struct gyre_trails *trails, struct gyre_slow_link *found)
{
    const struct timespec watch = {WATCHED_MS / 1000, WATCHED_MS % 1000 * 1000000};
    struct gyre_connections before = {0}, after = {0};
    struct link_load *load = calloc(trails->count, sizeof *load);
    const double began = now_us();
    bool ok = load && trails->count > 1 && gyre_connections_list(trails, &before);
    if (ok) {
        nanosleep(&watch, NULL);
        ok = gyre_connections_list(trails, &after);
        compare_lists(&before, &after, load);
        ok = ok && judge_loads(trails, load, now_us() - began, found);
        gyre_connections_free(&after);
    }
    gyre_connections_free(&before);
    free(load);
    return ok;
}
