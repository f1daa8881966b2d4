/* Finds the two ends of each message. Between two ranks a round has at most one message in each
 * direction, so communicator, number, slice and round name it. A communicator's number may come
 * again when the communicator has ended: of messages with one name, the newest send belongs to the
 * newest receive.
 *
 * Tested by tests/unit/cli/trace/trace_test.c. */
#include "cli/trace/reading/pairs.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t sender_of(const struct gyre_timeline *timeline, const struct gyre_bar *bar)
{
    return bar->kind == GYRE_EVENT_SEND ? timeline->of[bar->rank].head.rank : bar->peer;
}

static uint32_t receiver_of(const struct gyre_timeline *timeline, const struct gyre_bar *bar)
{
    return bar->kind == GYRE_EVENT_SEND ? bar->peer : timeline->of[bar->rank].head.rank;
}

/* The end of a message, and its name. */
struct message_end {
    uint64_t sequence;
    uint32_t comm, sender, receiver;
    uint16_t slice, round;
    struct gyre_bar *bar;
};

#define COMPARE(field)                                                                             \
    if (x->field != y->field)                                                                      \
    return x->field < y->field ? -1 : 1

static int compare_message_names(const struct message_end *x, const struct message_end *y)
{
    COMPARE(sender);
    COMPARE(receiver);
    COMPARE(comm);
    COMPARE(sequence);
    COMPARE(slice);
    COMPARE(round);
    return 0;
}

/* By name; of one name the newest first. */
static int compare_message_ends(const void *a, const void *b)
{
    const struct message_end *x = a, *y = b;
    int names = compare_message_names(x, y);
    if (names)
        return names;
    return x->bar->number > y->bar->number ? -1 : x->bar->number < y->bar->number;
}

static uint64_t count_messages(const struct gyre_timeline *timeline, uint8_t kind)
{
    uint64_t count = 0;
    for (uint32_t r = 0; r < timeline->count; r++)
        for (uint32_t i = 0; i < timeline->of[r].bars; i++)
            count += timeline->of[r].bar[i].kind == kind;
    return count;
}

/* The ends of one kind, sorted; NULL: no memory. The caller frees them. */
static struct message_end *list_ends(const struct gyre_timeline *timeline, uint8_t kind,
                                     uint64_t count)
{
    struct message_end *end = calloc(count + 1, sizeof *end);
    uint64_t at = 0;
    for (uint32_t r = 0; end && r < timeline->count; r++)
        for (uint32_t i = 0; i < timeline->of[r].bars; i++) {
            struct gyre_bar *bar = &timeline->of[r].bar[i];
            if (bar->kind == kind)
                end[at++] = (struct message_end){bar->sequence,
                                                 bar->comm,
                                                 sender_of(timeline, bar),
                                                 receiver_of(timeline, bar),
                                                 bar->slice,
                                                 bar->round,
                                                 bar};
        }
    if (end)
        qsort(end, count, sizeof *end, compare_message_ends);
    return end;
}

static void join_ends(const struct message_end *send, uint64_t sends,
                      const struct message_end *recv, uint64_t recvs)
{
    for (uint64_t s = 0, r = 0; s < sends && r < recvs;) {
        int order = compare_message_names(&send[s], &recv[r]);
        if (order == 0) {
            send[s].bar->other = recv[r].bar;
            recv[r].bar->other = send[s].bar;
        }
        s += order <= 0;
        r += order >= 0;
    }
}

int gyre_pairs_find(struct gyre_timeline *timeline, struct gyre_trouble *trouble)
{
    for (uint32_t r = 0; r < timeline->count; r++)
        for (uint32_t i = 0; i < timeline->of[r].bars; i++) {
            timeline->of[r].bar[i].rank = r;
            timeline->of[r].bar[i].other = NULL;
        }
    uint64_t sends = count_messages(timeline, GYRE_EVENT_SEND);
    uint64_t recvs = count_messages(timeline, GYRE_EVENT_RECV);
    struct message_end *send = list_ends(timeline, GYRE_EVENT_SEND, sends);
    struct message_end *recv = list_ends(timeline, GYRE_EVENT_RECV, recvs);
    bool enough = send && recv;
    if (enough)
        join_ends(send, sends, recv, recvs);
    free(send);
    free(recv);
    return enough ? 0
                  : gyre_trouble_set(trouble, -ENOMEM, "no memory for %llu messages",
                                     (unsigned long long)(sends + recvs));
}

/* A receive waits until its send begins. A send that ended before its receive had begun was stored
 * by the link, and has waited for nobody. */
static int64_t moves_at(const struct gyre_bar *bar)
{
    int64_t both = bar->other && bar->other->begin > bar->begin ? bar->other->begin : bar->begin;
    if (both <= bar->end)
        return both;
    return bar->kind == GYRE_EVENT_SEND ? bar->begin : bar->end;
}

void gyre_pairs_tell_waits(struct gyre_timeline *timeline)
{
    for (uint32_t r = 0; r < timeline->count; r++)
        for (uint32_t i = 0; i < timeline->of[r].bars; i++) {
            struct gyre_bar *bar = &timeline->of[r].bar[i];
            bar->moves_at = gyre_bar_is_message(bar) ? moves_at(bar) : bar->begin;
        }
}
