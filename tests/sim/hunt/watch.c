/* The watch of simulated ranks: the real failure detectors, whose messages travel in the same
 * virtual time as data, and ring nobody but their own rank.
 *
 * It stands for transport/watch's thread: after every event the detector ticks, what it has decided
 * becomes the rank's health, and what it owes is sent. */
#include "sim/hunt/inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define EPOCH 7

static struct gyre_domain *rank_of(struct gyre_watch *watch)
{
    return (struct gyre_domain *)((char *)watch - offsetof(struct gyre_domain, watch));
}

static bool hears(const struct gyre_domain *rank)
{
    return rank->life == HUNT_LIVES && !rank->watch.deaf;
}

/* -- out --------------------------------------------------------------------------------------- */

/* When what is sent now arrives: never before what was sent earlier, nor while nothing passes. */
static uint64_t arrival(struct gyre_domain *from, uint32_t channel, uint32_t to)
{
    uint64_t at = gyre_now_ns() + hunt.is->latency_ns + hunt.slower_ns[from->rank][to] +
                  (hunt.is->jitter_ns ? gyre_rng_below(&hunt.rng, hunt.is->jitter_ns) : 0);
    uint64_t open = hunt.clogged_until[from->rank][to];
    at = at > open ? at : open;
    at = at > from->watch.clear[channel] ? at : from->watch.clear[channel] + 1;
    from->watch.clear[channel] = at;
    return at;
}

/* The kernel at the other end does not know the connection: it answers with a reset. */
static void bounce(struct gyre_domain *from, uint32_t channel)
{
    hunt_schedule((struct hunt_event){.at = gyre_now_ns() + 2 * hunt.is->latency_ns,
                                      .kind = HUNT_END_OF_CHANNEL,
                                      .rank = from->rank,
                                      .channel = channel,
                                      .wire = from->watch.wire[channel]});
}

static void transmit(struct gyre_domain *from, uint32_t channel, struct hunt_event event)
{
    uint32_t to = gyre_detector_peer(from->watch.detector, channel);
    if (!hunt.rank[to].watch.detector)
        return;
    event.at = arrival(from, channel, to);
    event.rank = to;
    event.channel = (uint32_t)gyre_detector_channel(hunt.rank[to].watch.detector, from->rank);
    event.wire = from->watch.wire[channel];
    if (event.kind == HUNT_MESSAGE && hunt.rank[to].watch.wire[event.channel] != event.wire) {
        bounce(from, channel);
        return;
    }
    hunt_schedule(event);
}

static void send_owed(struct gyre_domain *rank)
{
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];
    size_t length;
    for (uint32_t i = 0; i < gyre_detector_channels(rank->watch.detector); i++)
        while (rank->watch.wire[i] &&
               (length = gyre_detector_next_message(rank->watch.detector, i, bytes))) {
            struct hunt_event event = {.kind = HUNT_MESSAGE, .length = (uint32_t)length};
            event.bytes = hunt_allocate(length);
            memcpy(event.bytes, bytes, length);
            rank->watch.said[i] = hunt_allocate(sizeof event);
            *rank->watch.said[i] = event;
            transmit(rank, i, event);
        }
}

static void publish(struct gyre_domain *rank, const struct gyre_detector_record *record)
{
    struct gyre_health *health = &rank->health;
    health->failure.status = record->status;
    snprintf(health->failure.text, sizeof health->failure.text, "%s", record->text);
    health->failed_rank = record->rank;
    rank->blames_ended = record->rank < hunt.is->n && hunt.rank[record->rank].life != HUNT_LIVES;
    atomic_store(&health->status, record->status);
    hunt_note("is told of a failure", rank->rank, (uint64_t)(int64_t)record->status, record->rank);
    if (hunt.log)
        fprintf(hunt.log, "    \"%s\"\n", record->text);
    gyre_sim_world_wake(hunt.world, rank->rank, 0);
}

static void schedule_tick(struct gyre_domain *rank)
{
    struct gyre_watch *watch = &rank->watch;
    uint64_t asked = gyre_detector_wake(watch->detector), now = gyre_now_ns();
    if (watch->wakes_at > now && watch->asked <= asked)
        return;
    watch->asked = asked;
    watch->wakes_at = asked > now ? asked : now + 1;
    hunt_schedule(
        (struct hunt_event){.at = watch->wakes_at, .kind = HUNT_TICK, .rank = rank->rank});
}

static void dial_later(struct gyre_domain *rank, uint32_t channel, uint64_t pause)
{
    rank->watch.dials[channel] = true;
    hunt_schedule((struct hunt_event){.at = gyre_now_ns() + hunt.is->latency_ns + pause,
                                      .kind = HUNT_DIAL,
                                      .rank = rank->rank,
                                      .channel = channel});
}

/* Dials where the failure detector wants a connection that was never made. */
static void dial_above(struct gyre_domain *rank)
{
    const struct gyre_failure_detector *detector = rank->watch.detector;
    for (uint32_t i = 0; i < gyre_detector_channels(detector); i++)
        if (gyre_detector_closed(detector, i) && gyre_detector_awaits(detector, i) &&
            !rank->watch.dials[i])
            dial_later(rank, i, 0);
}

static void settle(struct gyre_domain *rank)
{
    const struct gyre_detector_record *record = gyre_detector_failure(rank->watch.detector);
    const char *warning = gyre_detector_take_warning(rank->watch.detector);
    if (gyre_detector_rootless(rank->watch.detector) &&
        !atomic_exchange(&rank->health.rootless, true))
        gyre_sim_world_wake(hunt.world, rank->rank, 0);
    if (record && !atomic_load(&rank->health.status))
        publish(rank, record);
    if (warning)
        hunt_note("is warned", rank->rank, 0, 0);
    dial_above(rank);
    send_owed(rank);
    if (gyre_detector_all_left(rank->watch.detector))
        gyre_sim_world_wake(hunt.world, rank->rank, 0);
    schedule_tick(rank);
}

static void turn(struct gyre_domain *rank)
{
    struct gyre_watch *watch = &rank->watch;
    struct gyre_watch_state fresh = {.rank = rank->rank};
    if (gyre_activity_read(&rank->activity, &fresh))
        watch->mine = fresh;
    watch->mine.rank = rank->rank;
    watch->mine.parting = watch->parting;
    gyre_detector_tick(watch->detector, gyre_now_ns(), &watch->mine);
    settle(rank);
}

/* -- in ---------------------------------------------------------------------------------------- */

static void receive(struct gyre_domain *rank, const struct hunt_event *event)
{
    struct gyre_watch_message message;
    if (gyre_watch_decode(event->bytes, event->length, &message))
        hunt_wrong("rank %u: a message of the watch cannot be read", rank->rank);
    else
        gyre_detector_receive(rank->watch.detector, gyre_now_ns(), event->channel, &message);
}

/* -- connections made anew --------------------------------------------------------------------- */

/* The connection has ended at this rank. */
static void lose_wire(struct gyre_domain *rank, uint32_t channel)
{
    rank->watch.wire[channel] = 0;
    if (gyre_detector_broken(rank->watch.detector, gyre_now_ns(), channel, -ECONNRESET))
        dial_later(rank, channel, 0);
    else
        gyre_detector_eof(rank->watch.detector, gyre_now_ns(), channel, NULL);
}

static bool passes(uint32_t a, uint32_t b)
{
    uint64_t now = gyre_now_ns();
    return hunt.clogged_until[a][b] <= now && hunt.clogged_until[b][a] <= now &&
           hunt.rank[b].watch.silent_until <= now;
}

/* Dials: an ended process refuses, and a peer that can be reached answers. */
static void dial(struct gyre_domain *rank, uint32_t channel)
{
    uint32_t to = gyre_detector_peer(rank->watch.detector, channel);
    struct gyre_domain *peer = &hunt.rank[to];
    uint64_t now = gyre_now_ns();
    rank->watch.dials[channel] = false;
    if (!gyre_detector_awaits(rank->watch.detector, channel))
        return;
    if (!passes(rank->rank, to)) {
        dial_later(rank, channel, HUNT_DEAD / 40);
    } else if (!hears(peer) || !peer->watch.detector) {
        gyre_detector_eof(rank->watch.detector, now, channel, NULL);
    } else {
        uint32_t back = (uint32_t)gyre_detector_channel(peer->watch.detector, rank->rank);
        rank->watch.wire[channel] = peer->watch.wire[back] = ++hunt.wires;
        gyre_detector_resumed(rank->watch.detector, now, channel);
        gyre_detector_resumed(peer->watch.detector, now, back);
        turn(peer);
    }
}

static void reset_end(struct gyre_domain *rank, uint32_t channel)
{
    lose_wire(rank, channel);
    turn(rank);
}

/* The rank of another node to which that rank's watch has a connection; HUNT_NOBODY: none. */
static uint32_t far_above(const struct gyre_domain *rank)
{
    const struct gyre_failure_detector *detector = rank->watch.detector;
    for (uint32_t i = 0; i < gyre_detector_channels(detector); i++) {
        uint32_t peer = gyre_detector_peer(detector, i);
        if (peer < rank->rank && !gyre_detector_closed(detector, i) &&
            hunt.member[peer].node != hunt.member[rank->rank].node)
            return peer;
    }
    return HUNT_NOBODY;
}

void hunt_watch_reset(uint32_t far, bool root_notices)
{
    uint32_t above = hears(&hunt.rank[far]) ? far_above(&hunt.rank[far]) : HUNT_NOBODY;
    struct gyre_domain *end[2] = {&hunt.rank[above % HUNT_RANKS], &hunt.rank[far]};
    struct gyre_domain *here = hunt.here;
    if (above == HUNT_NOBODY || !hears(end[0]))
        return;
    hunt.here = NULL;
    hunt.reset_ends |= UINT32_C(1) << above | UINT32_C(1) << far;
    uint32_t down = (uint32_t)gyre_detector_channel(end[0]->watch.detector, far);
    end[0]->watch.wire[down] = ++hunt.wires; /* the ends have no connection in common */
    if (root_notices)
        reset_end(end[0], down);
    reset_end(end[1], (uint32_t)gyre_detector_channel(end[1]->watch.detector, above));
    hunt.here = here;
}

void hunt_watch_handle(const struct hunt_event *event)
{
    struct gyre_domain *rank = &hunt.rank[event->rank];
    if (!hears(rank))
        return;
    if (rank->watch.silent_until > gyre_now_ns()) {
        hunt_postpone(event, rank->watch.silent_until);
        return;
    }
    /* What was under way when the connection was lost does not arrive. */
    if (event->kind == HUNT_MESSAGE && event->wire == rank->watch.wire[event->channel])
        receive(rank, event);
    else if (event->kind == HUNT_END_OF_CHANNEL && event->wire == rank->watch.wire[event->channel])
        lose_wire(rank, event->channel);
    else if (event->kind == HUNT_DIAL)
        dial(rank, event->channel);
    else if (event->kind == HUNT_END_OF_PROCESS)
        gyre_detector_ended(rank->watch.detector, gyre_now_ns(), event->channel);
    turn(rank);
}

/* -- life -------------------------------------------------------------------------------------- */

int hunt_watch_open(struct gyre_domain *rank)
{
    struct gyre_detector_options options = {.rank = rank->rank,
                                            .n = hunt.is->n,
                                            .epoch = EPOCH,
                                            .member = hunt.member,
                                            .fan_out = hunt.is->fan_out,
                                            .dead_ns = HUNT_DEAD,
                                            .timeout_ns = HUNT_LIMIT,
                                            .patience_ns = HUNT_LIMIT};
    int status = gyre_detector_create(&options, gyre_now_ns(), &rank->watch.detector);
    if (status)
        return status;
    for (uint32_t i = 0; i < gyre_detector_channels(rank->watch.detector); i++)
        rank->watch.wire[i] = !gyre_detector_closed(rank->watch.detector, i);
    hunt.wires = 1;
    schedule_tick(rank);
    return 0;
}

void hunt_watch_close(struct gyre_domain *rank)
{
    gyre_detector_destroy(rank->watch.detector);
    rank->watch.detector = NULL;
}

void hunt_watch_leave(struct gyre_domain *rank)
{
    struct gyre_domain *here = hunt.here;
    hunt.here = NULL;
    turn(rank);
    gyre_detector_leave(rank->watch.detector, gyre_now_ns(), &rank->watch.mine);
    settle(rank);
    hunt.here = here;
}

void hunt_watch_end(struct gyre_domain *rank)
{
    rank->watch.deaf = true;
    for (uint32_t i = 0; i < gyre_detector_channels(rank->watch.detector); i++) {
        if (gyre_detector_near(rank->watch.detector, i))
            transmit(rank, i, (struct hunt_event){.kind = HUNT_END_OF_PROCESS});
        if (!gyre_detector_closed(rank->watch.detector, i))
            transmit(rank, i, (struct hunt_event){.kind = HUNT_END_OF_CHANNEL});
    }
}

bool hunt_watch_haunt(uint32_t to, uint32_t from)
{
    static const enum gyre_watch_kind kinds[] = {GYRE_WATCH_FAILURE, GYRE_WATCH_ALL_BYE,
                                                 GYRE_WATCH_BEAT};
    struct gyre_failure_detector *detector = hunt.rank[from].watch.detector;
    int channel = gyre_detector_channel(detector, to);
    if (channel < 0 || gyre_detector_closed(detector, (uint32_t)channel))
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        struct gyre_watch_message message = {.kind = kinds[i],
                                             .flags = i ? 0 : GYRE_WATCH_DECIDED,
                                             .epoch = EPOCH - 1,
                                             .rank = from,
                                             .status = i ? 0 : GYRE_ABORTED,
                                             .payload = (const uint8_t *)"an earlier life",
                                             .payload_bytes = i ? 0 : 15};
        struct hunt_event event = {.kind = HUNT_MESSAGE};
        event.bytes = hunt_allocate(GYRE_WATCH_MESSAGE_MAX);
        event.length = (uint32_t)gyre_watch_encode(&message, event.bytes);
        transmit(&hunt.rank[from], (uint32_t)channel, event);
    }
    return true;
}

bool hunt_watch_repeat(uint32_t to, uint32_t from)
{
    struct gyre_watch *watch = &hunt.rank[from].watch;
    int channel = gyre_detector_channel(watch->detector, to);
    if (channel < 0 || !watch->said[channel] || watch->deaf ||
        gyre_detector_closed(watch->detector, (uint32_t)channel))
        return false;
    transmit(&hunt.rank[from], (uint32_t)channel, *watch->said[channel]);
    return true;
}

/* -- what the collectives ask of a watch ------------------------------------------------------- */

void gyre_watch_report(struct gyre_watch *watch, int status, uint32_t rank, bool echo,
                       const char *text)
{
    struct gyre_detector_record record = {.status = status, .rank = rank};
    struct gyre_domain *mine = rank_of(watch), *here = hunt.here;
    snprintf(record.text, sizeof record.text, "%s", text);
    hunt_note(echo ? "reports an echo" : "reports", mine->rank, (uint64_t)(int64_t)status, rank);
    if (hunt.log)
        fprintf(hunt.log, "    \"%s\"\n", text);
    hunt.here = NULL;
    gyre_detector_report(watch->detector, gyre_now_ns(), &record, echo);
    settle(mine);
    hunt.here = here;
}

void gyre_watch_attend(struct gyre_watch *watch, struct gyre_activity *activity)
{
    struct gyre_activity *first = &rank_of(watch)->activity;
    activity->next = first->next;
    first->next = activity;
}

void gyre_watch_ignore(struct gyre_watch *watch, struct gyre_activity *activity)
{
    struct gyre_activity *first = &rank_of(watch)->activity, *mine = activity;
    for (struct gyre_activity *at = first; at->next; at = at->next)
        if (at->next == activity) {
            at->next = activity->next;
            break;
        }
    atomic_compare_exchange_strong(&first->focus, &mine, NULL);
}

void gyre_watch_refuse(struct gyre_watch *watch, struct gyre_activity *activity, uint64_t sequence,
                       const char *why)
{
    (void)watch;
    activity->refused.at = gyre_now_ns();
    activity->refused.sequence = sequence;
    if (why) {
        memset(activity->refused.why, 0, GYRE_WATCH_WHY_MAX);
        snprintf(activity->refused.why, GYRE_WATCH_WHY_MAX, "%s", why);
    }
}
