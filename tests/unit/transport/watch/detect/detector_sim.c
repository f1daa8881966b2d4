/* The simulator of detector_sim.h: a heap of events over virtual nanoseconds, one thread, one
 * seed. */
#include "unit/transport/watch/detect/detector_sim.h"

#include "base/clock.h"
#include "rig/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum what { WAKE, MESSAGE, END_OF_CHANNEL, END_OF_PROCESS, DIAL };

struct sim_event {
    uint64_t at, order; /* equal times keep their order */
    enum what what;
    uint32_t rank, channel; /* to whom, and on which of its channels */
    uint64_t wire;          /* of a message: the connection that carries it */
    size_t length;
    uint8_t *bytes;
};

/* -- the heap ---------------------------------------------------------------------------------- */

static bool earlier(const struct sim_event *a, const struct sim_event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void swap(struct sim_event *a, struct sim_event *b)
{
    struct sim_event kept = *a;
    *a = *b;
    *b = kept;
}

static void push(struct sim *sim, struct sim_event event)
{
    if (sim->events == sim->room) {
        sim->room = sim->room > 0 ? 2 * sim->room : 1024;
        sim->heap = realloc(sim->heap, sim->room * sizeof *sim->heap);
        assert_non_null(sim->heap);
    }
    event.order = sim->order++;
    size_t at = sim->events++;
    sim->heap[at] = event;
    for (; at > 0 && earlier(&sim->heap[at], &sim->heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&sim->heap[at], &sim->heap[(at - 1) / 2]);
}

static struct sim_event pop(struct sim *sim)
{
    struct sim_event first = sim->heap[0];
    size_t at = 0;

    sim->heap[0] = sim->heap[--sim->events];
    for (;;) {
        size_t least = at, left = 2 * at + 1, right = left + 1;
        if (left < sim->events && earlier(&sim->heap[left], &sim->heap[least]))
            least = left;
        if (right < sim->events && earlier(&sim->heap[right], &sim->heap[least]))
            least = right;
        if (least == at)
            return first;
        swap(&sim->heap[at], &sim->heap[least]);
        at = least;
    }
}

/* -- channels ---------------------------------------------------------------------------------- */

static uint64_t latency(struct sim *sim)
{
    return 10000 + gyre_rng_below(&sim->rng, sim->latency_max);
}

/* When something that is sent now on this channel arrives: never before what was sent earlier. */
static uint64_t arrival(struct sim *sim, struct sim_rank *from, uint32_t channel)
{
    uint64_t at = sim->now + latency(sim);

    if (at <= from->clear[channel])
        at = from->clear[channel] + 1;
    from->clear[channel] = at;
    return at;
}

/* Sends to the peer of `from`'s channel. */
static void transmit(struct sim *sim, uint32_t from, uint32_t channel, struct sim_event event)
{
    uint32_t to = gyre_detector_peer(sim->rank[from].detector, channel);

    event.at = arrival(sim, &sim->rank[from], channel);
    event.rank = to;
    event.channel = (uint32_t)gyre_detector_channel(sim->rank[to].detector, from);
    event.wire = sim->rank[from].wire[channel];
    bool lost = sim->rank[to].side != sim->rank[from].side && event.what != END_OF_PROCESS;
    if (lost)
        free(event.bytes);
    else
        push(sim, event);
}

static void send_all(struct sim *sim, uint32_t rank)
{
    struct gyre_failure_detector *detector = sim->rank[rank].detector;
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];
    size_t length;

    for (uint32_t i = 0; i < gyre_detector_channels(detector); i++) {
        while (sim->rank[rank].wire[i] != 0 &&
               (length = gyre_detector_next_message(detector, i, bytes)) > 0) {
            struct sim_event event = {.what = MESSAGE, .length = length, .bytes = malloc(length)};
            assert_non_null(event.bytes);
            memcpy(event.bytes, bytes, length);
            sim->messages++;
            transmit(sim, rank, i, event);
        }
    }
}

/* Wakes the rank when it asked for it, or late. */
static void schedule_wake(struct sim *sim, uint32_t rank)
{
    struct sim_rank *me = &sim->rank[rank];
    uint64_t asked = gyre_detector_wake(me->detector);

    if (me->wakes_at > sim->now && me->asked <= asked)
        return;
    me->asked = asked;
    me->wakes_at = asked > sim->now ? asked : sim->now + 1;
    if (sim->lateness_max > 0)
        me->wakes_at += gyre_rng_below(&sim->rng, sim->lateness_max);
    push(sim, (struct sim_event){.at = me->wakes_at, .what = WAKE, .rank = rank});
}

static void dial_later(struct sim *sim, uint32_t rank, uint32_t channel, uint64_t pause)
{
    sim->rank[rank].dials[channel] = true;
    push(sim, (struct sim_event){.at = sim->now + pause + latency(sim),
                                 .what = DIAL,
                                 .rank = rank,
                                 .channel = channel});
}

/* Dials where the failure detector wants a connection that was never made. */
static void dial_above(struct sim *sim, uint32_t rank)
{
    const struct gyre_failure_detector *detector = sim->rank[rank].detector;

    for (uint32_t i = 0; sim->fan_out > 0 && i < gyre_detector_channels(detector); i++)
        if (gyre_detector_closed(detector, i) && gyre_detector_awaits(detector, i) &&
            !sim->rank[rank].dials[i])
            dial_later(sim, rank, i, 0);
}

/* What the watch does after every event: look at what the failure detector concluded. */
static void settle(struct sim *sim, uint32_t rank)
{
    struct sim_rank *me = &sim->rank[rank];
    const char *warning = gyre_detector_take_warning(me->detector);

    if (warning != NULL) {
        me->warnings++;
        snprintf(me->warning, sizeof me->warning, "%s", warning);
    }
    if (me->failed_at == 0 && gyre_detector_failure(me->detector) != NULL)
        me->failed_at = sim->now;
    dial_above(sim, rank);
    send_all(sim, rank);
    schedule_wake(sim, rank);
}

/* -- connections made anew --------------------------------------------------------------------- */

/* The connection has ended at this rank: it dials, unless its detector has given the peer up. */
static void lose_wire(struct sim *sim, uint32_t rank, uint32_t channel)
{
    struct sim_rank *me = &sim->rank[rank];

    me->wire[channel] = 0;
    if (gyre_detector_broken(me->detector, sim->now, channel, -ECONNRESET))
        dial_later(sim, rank, channel, 0);
    else
        gyre_detector_eof(me->detector, sim->now, channel, NULL);
}

/* Dials: an ended process refuses, and a peer that can be reached answers. */
static void dial(struct sim *sim, uint32_t rank, uint32_t channel)
{
    struct sim_rank *me = &sim->rank[rank];
    me->dials[channel] = false;
    uint32_t to = gyre_detector_peer(me->detector, channel);
    struct sim_rank *peer = &sim->rank[to];
    uint32_t back = (uint32_t)gyre_detector_channel(peer->detector, rank);

    if (!gyre_detector_awaits(me->detector, channel))
        return;
    if (peer->dead && !peer->lingers && me->side == peer->side) {
        gyre_detector_eof(me->detector, sim->now, channel, NULL);
    } else if (peer->dead || me->side != peer->side || peer->paused_until > sim->now) {
        dial_later(sim, rank, channel, 10 * GYRE_MS);
    } else {
        me->wire[channel] = peer->wire[back] = ++sim->wires;
        gyre_detector_resumed(me->detector, sim->now, channel);
        gyre_detector_resumed(peer->detector, sim->now, back);
        settle(sim, to);
    }
}

/* -- events ------------------------------------------------------------------------------------ */

static void deliver(struct sim *sim, const struct sim_event *event)
{
    struct sim_rank *me = &sim->rank[event->rank];
    struct gyre_watch_message message;

    switch (event->what) {
    case WAKE:
        break;
    case MESSAGE:
        if (event->wire != me->wire[event->channel])
            break; /* it was under way when the connection was lost */
        assert_int_equal(gyre_watch_decode(event->bytes, event->length, &message), 0);
        gyre_detector_receive(me->detector, sim->now, event->channel, &message);
        break;
    case END_OF_CHANNEL:
        lose_wire(sim, event->rank, event->channel);
        break;
    case DIAL:
        dial(sim, event->rank, event->channel);
        break;
    case END_OF_PROCESS:
        gyre_detector_ended(me->detector, sim->now, event->channel);
        break;
    }
    me->state.rank = event->rank;
    gyre_detector_tick(me->detector, sim->now, &me->state);
    settle(sim, event->rank);
}

static void handle(struct sim *sim, struct sim_event event)
{
    struct sim_rank *me = &sim->rank[event.rank];

    if (!me->dead && me->paused_until > sim->now && me->paused_until != SIM_FOREVER) {
        event.at = me->paused_until;
        push(sim, event);
        return;
    }
    if (!me->dead && me->paused_until <= sim->now)
        deliver(sim, &event);
    free(event.bytes);
}

void sim_run(struct sim *sim, uint64_t duration_ns)
{
    uint64_t end = sim->now + duration_ns;

    while (sim->events > 0 && sim->heap[0].at <= end) {
        struct sim_event event = pop(sim);
        sim->now = event.at;
        handle(sim, event);
    }
    sim->now = end;
}

/* -- fate -------------------------------------------------------------------------------------- */

static void end_channels(struct sim *sim, uint32_t rank, bool sockets)
{
    const struct gyre_failure_detector *detector = sim->rank[rank].detector;

    sim->rank[rank].dead = true;
    for (uint32_t i = 0; i < gyre_detector_channels(detector); i++) {
        if (gyre_detector_near(detector, i))
            transmit(sim, rank, i, (struct sim_event){.what = END_OF_PROCESS});
        if (sockets && !gyre_detector_closed(detector, i))
            transmit(sim, rank, i, (struct sim_event){.what = END_OF_CHANNEL});
    }
}

void sim_kill(struct sim *sim, uint32_t rank)
{
    end_channels(sim, rank, true);
}

void sim_kill_open(struct sim *sim, uint32_t rank)
{
    sim->rank[rank].lingers = true;
    end_channels(sim, rank, false);
}

static void reset_end(struct sim *sim, uint32_t at, uint32_t peer)
{
    int channel = gyre_detector_channel(sim->rank[at].detector, peer);

    assert_true(channel >= 0);
    lose_wire(sim, at, (uint32_t)channel);
    settle(sim, at);
}

void sim_reset(struct sim *sim, uint32_t a, uint32_t b, bool a_notices, bool b_notices)
{
    int channel = gyre_detector_channel(sim->rank[a].detector, b);

    assert_true(channel >= 0);
    sim->rank[a].wire[channel] = ++sim->wires; /* the ends have no connection in common */
    if (a_notices)
        reset_end(sim, a, b);
    if (b_notices)
        reset_end(sim, b, a);
}

void sim_pause(struct sim *sim, uint32_t rank, uint64_t duration_ns)
{
    sim->rank[rank].paused_until =
        duration_ns == SIM_FOREVER ? SIM_FOREVER : sim->now + duration_ns;
}

void sim_cut_node(struct sim *sim, uint32_t node)
{
    for (uint32_t rank = 0; rank < sim->n; rank++)
        if (sim->member[rank].node == node)
            sim->rank[rank].side = 1;
}

void sim_report(struct sim *sim, uint32_t rank, int status, uint32_t blamed, bool echo,
                const char *text)
{
    struct gyre_detector_record record = {.status = status, .rank = blamed};

    snprintf(record.text, sizeof record.text, "%s", text);
    gyre_detector_report(sim->rank[rank].detector, sim->now, &record, echo);
    settle(sim, rank);
}

void sim_leave(struct sim *sim, uint32_t rank)
{
    gyre_detector_leave(sim->rank[rank].detector, sim->now, &sim->rank[rank].state);
    settle(sim, rank);
}

void sim_eof(struct sim *sim, uint32_t at, uint32_t peer)
{
    int channel = gyre_detector_channel(sim->rank[at].detector, peer);

    assert_true(channel >= 0);
    gyre_detector_eof(sim->rank[at].detector, sim->now, (uint32_t)channel, NULL);
    settle(sim, at);
}

const struct gyre_detector_record *sim_failure(struct sim *sim, uint32_t rank)
{
    return gyre_detector_failure(sim->rank[rank].detector);
}

/* -- open and close ---------------------------------------------------------------------------- */

static void seat(struct sim *sim, uint32_t rank)
{
    struct sim_rank *me = &sim->rank[rank];
    struct gyre_detector_options options = {
        .rank = rank,
        .n = sim->n,
        .fan_out = sim->fan_out,
        .epoch = 7,
        .member = sim->member,
        .dead_ns = sim->dead_ns,
        .timeout_ns = sim->timeout_ns,
        .patience_ns = sim->patience_ns,
    };

    assert_int_equal(gyre_detector_create(&options, sim->now, &me->detector), 0);
    me->clear = calloc(gyre_detector_channels(me->detector) + 1, sizeof *me->clear);
    me->wire = calloc(gyre_detector_channels(me->detector) + 1, sizeof *me->wire);
    me->dials = calloc(gyre_detector_channels(me->detector) + 1, sizeof *me->dials);
    assert_true(me->clear != NULL && me->wire != NULL && me->dials != NULL);
    for (uint32_t i = 0; i < gyre_detector_channels(me->detector); i++)
        me->wire[i] = !gyre_detector_closed(me->detector, i);
}

void sim_open(struct sim *sim)
{
    gyre_rng_seed(&sim->rng, sim->seed);
    sim->now = 1000 * GYRE_SECOND;
    sim->wires = 1;
    if (sim->patience_ns == 0)
        sim->patience_ns = 10 * GYRE_SECOND;
    if (sim->latency_max == 0)
        sim->latency_max = GYRE_MS;
    sim->member = calloc(sim->n, sizeof *sim->member);
    sim->rank = calloc(sim->n, sizeof *sim->rank);
    assert_true(sim->member != NULL && sim->rank != NULL);
    for (uint32_t rank = 0; rank < sim->n; rank++) {
        struct gyre_member *member = &sim->member[rank];
        member->node = rank / sim->ranks_per_node;
        member->large = sim->large && sim->ranks_per_node > 1;
        member->pid = (int32_t)(1000 + rank);
        member->device[0] = sim->devices;
        snprintf(member->host, sizeof member->host, "host%u", member->node);
    }
    for (uint32_t rank = 0; rank < sim->n; rank++)
        seat(sim, rank);
    for (uint32_t rank = 0; rank < sim->n; rank++)
        settle(sim, rank);
}

void sim_close(struct sim *sim)
{
    while (sim->events > 0)
        free(pop(sim).bytes);
    for (uint32_t rank = 0; rank < sim->n; rank++) {
        gyre_detector_destroy(sim->rank[rank].detector);
        free(sim->rank[rank].clear);
        free(sim->rank[rank].wire);
        free(sim->rank[rank].dials);
    }
    free(sim->heap);
    free(sim->rank);
    free(sim->member);
}
