/* What transport/members/gather.c does, with simulated connections. */
#include "sim/membership/inside.h"

#define TICK        (20 * GYRE_MS)
#define FIRST_PAUSE GYRE_MS
#define ATTEMPT     (2 * GYRE_SECOND)
#define SUSPECT     (250 * GYRE_MS)

static struct gyre_statement stand(const struct member *member)
{
    return gyre_membership_statement(member->agreement);
}

static bool still_open(const struct member *member)
{
    return gyre_membership_outcome(member->agreement) == GYRE_MEMBERSHIP_OPEN;
}

static void say(struct world *world, uint32_t seat, uint32_t to, enum event_kind kind, bool dialed)
{
    struct member *member = &world->member[seat];
    const struct end *end = dialed ? &member->dial[to] : &member->guest[to];
    struct gyre_statement said = stand(member);
    send_event(world, kind, seat, to, dialed, end->serial, &said);
}

/* -- dials ------------------------------------------------------------------------------------- */

static void dial_later(struct world *world, uint32_t seat, uint32_t to)
{
    struct end *dial = &world->member[seat].dial[to];
    hang_up(world, seat, to, true);
    dial->next_at = world->now + dial->pause;
    dial->pause = 2 * dial->pause < TICK ? 2 * dial->pause : TICK;
}

static void turn_dials(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    for (uint32_t to = 0; to < world->is->n; to++) {
        struct end *dial = &member->dial[to];
        bool wanted = gyre_membership_looks_for(member->agreement, to);
        if (dial->serial && (!wanted || world->now >= dial->next_at)) {
            dial_later(world, seat, to);
        } else if (!dial->serial && wanted && world->now >= dial->next_at) {
            gyre_membership_looks(member->agreement, world->now, to);
            dial->next_at = world->now + ATTEMPT;
            send_syn(world, seat, to);
        }
    }
}

uint64_t next_dial_at(const struct world *world, uint32_t seat)
{
    const struct member *member = &world->member[seat];
    uint64_t until = world->now + TICK;
    for (uint32_t to = 0; to < world->is->n; to++)
        if (!member->dial[to].serial && member->dial[to].next_at < until &&
            gyre_membership_looks_for(member->agreement, to))
            until = member->dial[to].next_at;
    return until > world->now ? until : world->now + FIRST_PAUSE;
}

static void hear_answer(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    struct end *dial = &member->dial[event->from];
    gyre_membership_answered(member->agreement, world->now, event->from, &event->said);
    dial->next_at = world->now + ATTEMPT;
    if (!dial->calls || event->said.coordinator == NOBODY)
        dial_later(world, event->to, event->from);
}

static void greet(struct world *world, uint32_t seat, uint32_t to)
{
    struct member *member = &world->member[seat];
    member->dial[to].calls = gyre_membership_target(member->agreement) == to;
    say(world, seat, to, member->dial[to].calls ? CALL : PROBE, true);
}

/* What comes over a connection that this member has made. */
static void hear_dialed(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    struct end *dial = &member->dial[event->from];
    if (event->serial != dial->serial)
        return;
    if (event->kind == ESTABLISHED) {
        greet(world, event->to, event->from);
    } else if (event->kind == REFUSED) {
        gyre_membership_refused(member->agreement, world->now, event->from);
        dial->serial = 0;
        dial_later(world, event->to, event->from);
    } else if (event->kind == HUNG_UP) {
        gyre_membership_hears(member->agreement, world->now, event->from);
        dial->serial = 0;
        dial_later(world, event->to, event->from);
    } else if (event->kind == ANSWER) {
        hear_answer(world, event);
    } else if (event->kind == CUT_OFF) {
        gyre_membership_cut_off(member->agreement, event->from);
    } else if (event->kind == VIEW && dial->calls) {
        gyre_membership_view_came(member->agreement, world->now, event->from, &event->said);
    }
}

/* -- guests ------------------------------------------------------------------------------------ */

static void hear_call(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    struct end *guest = &member->guest[event->from];
    if (guest->calls && guest->serial != event->serial)
        gyre_membership_hung_up(member->agreement, world->now, event->from);
    gyre_membership_called(member->agreement, world->now, event->from, &event->said);
    guest->serial = event->serial;
    guest->calls = true;
    say(world, event->to, event->from, ANSWER, false);
}

static void hear_guest(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    struct end *guest = &member->guest[event->from];
    if (event->kind == SYN) {
        if (!guest->calls)
            guest->serial = event->serial;
        send_event(world, ESTABLISHED, event->to, event->from, false, event->serial, NULL);
    } else if (event->kind == HUNG_UP && event->serial == guest->serial) {
        if (guest->calls)
            gyre_membership_hung_up(member->agreement, world->now, event->from);
        *guest = (struct end){0};
    } else if (event->kind == PROBE) {
        struct gyre_statement said = stand(member);
        gyre_membership_hears(member->agreement, world->now, event->from);
        send_event(world, ANSWER, event->to, event->from, false, event->serial, &said);
    } else if (event->kind == CALL) {
        gyre_membership_hears(member->agreement, world->now, event->from);
        hear_call(world, event);
    }
}

static void turn_guests(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    if (world->now < member->beat_at)
        return;
    member->beat_at = world->now + DEAD / 8;
    for (uint32_t from = 0; from < world->is->n; from++)
        if (member->guest[from].calls)
            say(world, seat, from, ANSWER, false);
}

/* -- how it ends ------------------------------------------------------------------------------- */

static void tell_callers(struct world *world, uint32_t seat, enum event_kind kind)
{
    struct member *member = &world->member[seat];
    for (uint32_t from = 0; from < world->is->n && member->life != ENDS; from++) {
        if (!member->guest[from].calls)
            continue;
        if (kind == VIEW && world->fuse >= 0 && world->fuse-- == 0) {
            world->played[FUSE]++;
            end_member(world, seat);
        } else {
            say(world, seat, from, kind, false);
        }
    }
}

static void be_over(struct world *world, uint32_t seat, enum gyre_membership_outcome fate)
{
    struct member *member = &world->member[seat];
    member->life = OVER;
    member->fate = fate;
    log_line(world, "seat %u is over: outcome %d", seat, (int)fate);
    end_gathering(world, seat);
    check_fate(world, seat);
    post_event(world, world->now + world->is->linger[seat],
               &(struct event){.kind = FINALIZE, .to = seat});
}

static void take_view(struct world *world, uint32_t seat, bool decided)
{
    struct member *member = &world->member[seat];
    struct gyre_statement view = stand(member);
    memcpy(member->next, view.standing, world->is->n);
    member->is.seen = view.epoch;
    log_line(world, "seat %u %s view %u of %#x", seat, decided ? "decides on" : "is told",
             view.epoch, seats_of(member->next, world->is->n));
    if (decided) {
        check_decision(world, seat);
        tell_callers(world, seat, VIEW);
    }
    if (member->life != ENDS)
        begin_join(world, seat);
}

static void conclude(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    enum gyre_membership_outcome outcome = gyre_membership_outcome(member->agreement);
    if (outcome == GYRE_MEMBERSHIP_CUT_OFF)
        tell_callers(world, seat, CUT_OFF);
    if (outcome == GYRE_MEMBERSHIP_DECIDED)
        take_view(world, seat, true);
    else if (outcome == GYRE_MEMBERSHIP_TOLD && !member->leaving)
        take_view(world, seat, false);
    else
        be_over(world, seat, outcome);
}

void turn_gathering(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    gyre_membership_tick(member->agreement, world->now);
    if (!still_open(member)) {
        conclude(world, seat);
        return;
    }
    turn_dials(world, seat);
    turn_guests(world, seat);
}

void hear_gathering(struct world *world, const struct event *event)
{
    if (event->dialed)
        hear_guest(world, event);
    else
        hear_dialed(world, event);
    turn_gathering(world, event->to);
}

/* -- beginning and end ------------------------------------------------------------------------- */

void begin_gathering(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    const struct gyre_membership_options options = {.n = world->is->n,
                                                    .seat = seat,
                                                    .epoch = member->is.epoch,
                                                    .seen = member->is.seen,
                                                    .standing = member->standing,
                                                    .suspected = member->suspected,
                                                    .leaving = member->leaving,
                                                    .dead_ns = DEAD,
                                                    .suspect_ns = SUSPECT,
                                                    .limit_ns = 4 * BOUND};
    if (gyre_membership_create(&options, world->now, &member->agreement)) {
        set_wrong(world, "no memory");
        return;
    }
    member->life = GATHERS;
    member->beat_at = world->now + DEAD / 8;
    for (uint32_t other = 0; other < world->is->n; other++) {
        member->dial[other] = (struct end){.pause = FIRST_PAUSE};
        member->guest[other] = (struct end){0};
    }
    log_line(world, "seat %u gathers, epoch %u, seen %u%s", seat, member->is.epoch, member->is.seen,
             member->leaving ? ", leaving" : "");
    turn_gathering(world, seat);
}

/* Closes all connections; those of a join have been taken before. */
void end_gathering(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    for (uint32_t other = 0; other < world->is->n; other++) {
        hang_up(world, seat, other, true);
        hang_up(world, seat, other, false);
    }
    gyre_membership_destroy(member->agreement);
    member->agreement = NULL;
}
