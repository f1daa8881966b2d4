/* Connections of the watch that broke, and that this rank makes anew.
 *
 *      broken ─▶ connect to the peer's listener ─▶ handshake ─▶ WELCOME ─▶ higher rank: the link
 *        ▲              │ refused: the process       │ closed,              goes on over it
 *        │              │ has ended ─▶ eof()         │ late         lower rank: the peer knows now,
 *        └── 1, 2 … 100 ms later ──── any other ─────┘              and dials
 *
 * Both ends of a broken link dial, for two reasons. An end that has not noticed must be told. And a
 * process that was killed refuses connections at once, so its death is known long before the dead
 * time. But only the higher rank's connection becomes the link: of two that are made at once, both
 * ends choose the same. The higher rank numbers its attempts. The lower rank says which connection
 * broke, so the higher rank does not end a newer one.
 *
 * A listener of a process that is just ending may take a connection and reset it. The next attempt
 * is refused. A peer that is stopped takes a connection and says nothing; the failure detector ends
 * the wait at the dead time.
 *
 * Tested by tests/program/watch/reset.c. */
#include "transport/watch/inside.h"

#include <errno.h>
#include <stdlib.h>

#define TOLD_PAUSE GYRE_SECOND /* for the higher rank, which knows now, to dial */

static void end_dial(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];

    if (link->dial == NULL)
        return;
    gyre_dial_drop(watch, link->dial);
    free(link->dial);
    link->dial = NULL;
}

/* Gives the link up: no process listens at the peer's address any more. */
static void conclude_death(struct gyre_watch *watch, uint32_t index)
{
    end_dial(watch, index);
    gyre_detector_eof(watch->detector, gyre_now_ns(), index, NULL);
    pthread_cond_broadcast(&watch->changed);
}

static void dial_failed(struct gyre_watch *watch, uint32_t index, int status)
{
    if (status == -ECONNREFUSED)
        conclude_death(watch, index);
    else
        gyre_dial_pause(watch, watch->link[index].dial);
}

static struct gyre_dial_goal goal_of(const struct gyre_watch *watch, uint32_t index)
{
    const struct gyre_watch_link *link = &watch->link[index];
    uint32_t rank = gyre_detector_peer(watch->detector, index);

    return (struct gyre_dial_goal){.rank = rank,
                                   .purpose = GYRE_PURPOSE_WATCH,
                                   .stripe =
                                       rank < watch->is.joined->rank ? link->attempts : link->wire,
                                   .source = GYRE_WATCH_FROM_DIAL,
                                   .index = index};
}

static void dial_once(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];

    if (gyre_detector_peer(watch->detector, index) < watch->is.joined->rank)
        link->attempts++;
    const struct gyre_dial_goal goal = goal_of(watch, index);
    int status = gyre_dial_begin(watch, link->dial, &goal);
    if (status != 0)
        dial_failed(watch, index, status);
}

/* The peer has proven itself and welcomes this rank. */
static void hear_welcome(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_dial *dial = watch->link[index].dial;
    struct gyre_traffic_keys keys;

    if (gyre_detector_peer(watch->detector, index) > watch->is.joined->rank) {
        gyre_dial_drop(watch, dial);
        dial->next_at = gyre_now_ns() + TOLD_PAUSE;
        return;
    }
    if (gyre_talk_keys(&dial->talk, "gyre watch", &keys) != 0) {
        dial_failed(watch, index, -EIO);
        return;
    }
    int fd = gyre_dial_take(watch, dial);
    end_dial(watch, index);
    gyre_watch_reopen_link(watch, index, fd, watch->link[index].attempts, &keys);
    gyre_wipe(&keys, sizeof keys);
}

void gyre_watch_redial_ready(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_dial *dial = watch->link[index].dial;
    const struct gyre_dial_goal goal = goal_of(watch, index);
    struct gyre_record record;
    int status;

    if (dial == NULL || dial->talk.fd < 0)
        return;
    while ((status = gyre_dial_proceed(watch, dial, &goal, &record)) == 0 && record.kind == 0)
        continue;
    if (status == 0 && record.kind == GYRE_WATCH_WELCOME)
        hear_welcome(watch, index);
    else if (status != GYRE_AGAIN)
        dial_failed(watch, index, status);
}

/* Starts to dial. Without memory it is tried again at the next turn. */
static void begin_dial(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_dial *dial = calloc(1, sizeof *dial);

    if (dial == NULL)
        return;
    gyre_dial_init(dial);
    watch->link[index].dial = dial;
    dial_once(watch, index);
}

void gyre_watch_redial_turn(struct gyre_watch *watch, uint64_t now)
{
    for (uint32_t i = 0; i < watch->links; i++) {
        struct gyre_dial *dial = watch->link[i].dial;
        if (!watch->link[i].broken || !gyre_detector_awaits(watch->detector, i))
            end_dial(watch, i);
        else if (dial == NULL)
            begin_dial(watch, i);
        else if (dial->talk.fd >= 0 && now >= dial->next_at)
            dial_failed(watch, i, -ETIMEDOUT);
        else if (dial->talk.fd < 0 && now >= dial->next_at)
            dial_once(watch, i);
    }
}

uint64_t gyre_watch_redial_wake(const struct gyre_watch *watch)
{
    uint64_t wake = UINT64_MAX;

    for (uint32_t i = 0; i < watch->links; i++)
        if (watch->link[i].dial != NULL && watch->link[i].dial->next_at < wake)
            wake = watch->link[i].dial->next_at;
    return wake;
}

void gyre_watch_drop_dials(struct gyre_watch *watch)
{
    for (uint32_t i = 0; watch->link != NULL && i < watch->links; i++)
        end_dial(watch, i);
}
