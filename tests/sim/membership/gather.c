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

static void say_dialed(struct world *world, uint32_t process, uint32_t seat, enum event_kind kind)
{
    const struct end *dial = &world->member[process].dial[seat];
    struct gyre_statement said = stand(&world->member[process]);
    send_event(world, kind, process, dial->peer, true, dial->serial, &said);
}

static void say_guest(struct world *world, uint32_t process, uint32_t to, enum event_kind kind)
{
    struct gyre_statement said = stand(&world->member[process]);
    send_event(world, kind, process, to, false, world->member[process].guest[to].serial, &said);
}

/* -- dials ------------------------------------------------------------------------------------- */

static void dial_later(struct world *world, uint32_t process, uint32_t seat)
{
    struct end *dial = &world->member[process].dial[seat];
    hang_up_dial(world, process, dial);
    dial->next_at = world->now + dial->pause;
    dial->pause = 2 * dial->pause < TICK ? 2 * dial->pause : TICK;
}

static void turn_dials(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        struct end *dial = &member->dial[seat];
        bool wanted = gyre_membership_looks_for(member->agreement, seat);
        if (dial->serial && (!wanted || world->now >= dial->next_at)) {
            dial_later(world, process, seat);
        } else if (!dial->serial && wanted && world->now >= dial->next_at) {
            gyre_membership_looks(member->agreement, world->now, seat);
            dial->next_at = world->now + ATTEMPT;
            send_syn(world, process, dial, member->address[seat]);
        }
    }
}

uint64_t next_dial_at(const struct world *world, uint32_t process)
{
    const struct member *member = &world->member[process];
    uint64_t until = world->now + TICK;
    for (uint32_t seat = 0; seat < SEATS; seat++)
        if (!member->dial[seat].serial && member->dial[seat].next_at < until &&
            gyre_membership_looks_for(member->agreement, seat))
            until = member->dial[seat].next_at;
    return until > world->now ? until : world->now + FIRST_PAUSE;
}

static void hear_answer(struct world *world, const struct event *event, uint32_t seat)
{
    struct member *member = &world->member[event->to];
    struct end *dial = &member->dial[seat];
    gyre_membership_answered(member->agreement, world->now, seat, &event->said);
    dial->next_at = world->now + ATTEMPT;
    if (!dial->calls || event->said.coordinator == NOBODY)
        dial_later(world, event->to, seat);
}

static void greet(struct world *world, uint32_t process, uint32_t seat)
{
    struct member *member = &world->member[process];
    member->dial[seat].calls = gyre_membership_target(member->agreement) == seat;
    say_dialed(world, process, seat, member->dial[seat].calls ? CALL : PROBE);
}

static uint32_t find_dial(const struct member *member, uint64_t serial)
{
    uint32_t seat = 0;
    while (seat < SEATS && (!serial || member->dial[seat].serial != serial))
        seat++;
    return seat;
}

/* Who sits on the seats behind those that this member knows. */
static void learn_seats(struct member *member, const struct event *event)
{
    uint32_t seat = gyre_members_next_seat(member->standing, SEATS);
    for (; seat < SEATS; seat++)
        member->address[seat] = event->address[seat];
}

/* What comes over a connection that this member has made. */
static void hear_dialed(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    const uint32_t seat = find_dial(member, event->serial);
    struct end *dial = &member->dial[seat];
    if (seat == SEATS)
        return;
    if (event->kind == ESTABLISHED) {
        greet(world, event->to, seat);
    } else if (event->kind == REFUSED) {
        gyre_membership_refused(member->agreement, world->now, seat);
        dial->serial = 0;
        dial_later(world, event->to, seat);
    } else if (event->kind == HUNG_UP) {
        gyre_membership_hears(member->agreement, world->now, seat);
        dial->serial = 0;
        dial_later(world, event->to, seat);
    } else if (event->kind == ANSWER) {
        hear_answer(world, event, seat);
    } else if (event->kind == CUT_OFF) {
        gyre_membership_cut_off(member->agreement, seat);
    } else if (event->kind == VIEW && dial->calls) {
        learn_seats(member, event);
        gyre_membership_view_came(member->agreement, world->now, seat, &event->said);
    }
}

/* -- guests ------------------------------------------------------------------------------------ */

static void hear_call(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    struct end *guest = &member->guest[event->from];
    if (guest->calls && guest->serial != event->serial)
        gyre_membership_hung_up(member->agreement, world->now, event->seat);
    gyre_membership_called(member->agreement, world->now, event->seat, &event->said);
    guest->serial = event->serial;
    guest->calls = true;
    say_guest(world, event->to, event->from, ANSWER);
}

/* Whether a member knows nothing of the seat that its guest has: it hangs up. */
static bool is_unknown(struct world *world, const struct event *event)
{
    const struct member *member = &world->member[event->to];
    bool unknown = (event->kind == CALL || event->kind == PROBE) &&
                   (event->seat >= gyre_members_next_seat(member->standing, SEATS) ||
                    event->seat == member->is.seat);
    if (unknown)
        send_event(world, HUNG_UP, event->to, event->from, false, event->serial, NULL);
    return unknown;
}

static void hear_guest(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    struct end *guest = &member->guest[event->from];
    if (is_unknown(world, event))
        return;
    if (event->kind == SYN) {
        if (!guest->calls)
            guest->serial = event->serial;
        send_event(world, ESTABLISHED, event->to, event->from, false, event->serial, NULL);
    } else if (event->kind == HUNG_UP && event->serial == guest->serial) {
        if (guest->calls)
            gyre_membership_hung_up(member->agreement, world->now, event->seat);
        *guest = (struct end){0};
    } else if (event->kind == PROBE) {
        struct gyre_statement said = stand(member);
        gyre_membership_hears(member->agreement, world->now, event->seat);
        send_event(world, ANSWER, event->to, event->from, false, event->serial, &said);
    } else if (event->kind == CALL) {
        gyre_membership_hears(member->agreement, world->now, event->seat);
        hear_call(world, event);
    }
}

static void turn_guests(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    if (world->now < member->beat_at)
        return;
    member->beat_at = world->now + DEAD / 8;
    for (uint32_t from = 0; from < world->is->processes; from++)
        if (member->guest[from].calls)
            say_guest(world, process, from, ANSWER);
}

/* -- how it ends ------------------------------------------------------------------------------- */

/* Whether the fuse has burnt down: the process ends before it says more. */
static bool burns(struct world *world, uint32_t process)
{
    if (world->fuse < 0 || world->fuse-- > 0)
        return false;
    world->played[FUSE]++;
    end_member(world, process);
    return true;
}

static void tell_callers(struct world *world, uint32_t process, enum event_kind kind)
{
    struct member *member = &world->member[process];
    for (uint32_t from = 0; from < world->is->processes && member->life != ENDS; from++)
        if (member->guest[from].calls && (kind != VIEW || !burns(world, process)))
            say_guest(world, process, from, kind);
}

/* Writes down who sits on the seats from `first` on. */
static void seat_invited(struct member *member, uint32_t first, uint32_t count, struct world *world)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t process = member->invited[i].process;
        member->address[first + i] = address_of(process, world->member[process].listener);
    }
}

/* Tells the newcomers of the view, over the connections on which they wait. */
static void take_invited_in(struct world *world, uint32_t process, uint32_t first, uint32_t count)
{
    struct member *member = &world->member[process];
    struct gyre_statement said = stand(member);
    for (uint32_t i = 0; i < count && member->life != ENDS; i++) {
        const struct waiting *newcomer = &member->invited[i];
        if (burns(world, process))
            return;
        send_taken(world, process, newcomer, first + i, &said);
        member->guest[newcomer->process].serial = newcomer->serial;
    }
    if (member->life != ENDS && count)
        member->invites = 0;
}

static void be_over(struct world *world, uint32_t process, enum gyre_membership_outcome fate)
{
    struct member *member = &world->member[process];
    member->life = OVER;
    member->fate = fate;
    log_line(world, "process %u is over: outcome %d", process, (int)fate);
    end_gathering(world, process);
    end_room(world, process);
    check_fate(world, process);
    post_event(world, world->now + world->is->linger[process],
               &(struct event){.kind = FINALIZE, .to = process});
}

/* Goes on from an epoch that is not completed: the program calls gyre_shrink(). */
static void gather_again(struct world *world, uint32_t process)
{
    end_gathering(world, process);
    begin_gathering(world, process);
}

/* Whether a view lacks somebody whom gyre_grow() has counted: then nobody joins it. */
static bool falls_short(const struct member *member)
{
    return member->grows && member->grows != (uint32_t)__builtin_popcount(seats_of(member->next));
}

static void take_view(struct world *world, uint32_t process, bool decided)
{
    struct member *member = &world->member[process];
    struct gyre_statement view = stand(member);
    const uint32_t first = gyre_members_next_seat(member->standing, SEATS);
    gyre_members_expect(&member->is, view.standing, view.epoch);
    const uint32_t coming = gyre_members_next_seat(member->standing, SEATS) - first;
    log_line(world, "process %u %s view %u of %#x", process, decided ? "decides on" : "is told",
             view.epoch, seats_of(member->next));
    if (decided) {
        check_decision(world, process);
        seat_invited(member, first, coming, world);
        take_invited_in(world, process, first, coming);
        if (member->life != ENDS)
            tell_callers(world, process, VIEW);
    }
    if (member->life == ENDS)
        return;
    disinvite(world, process);
    const bool joins = !falls_short(member);
    member->grows = 0;
    if (joins)
        begin_join(world, process);
    else
        gather_again(world, process);
}

static void conclude(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    enum gyre_membership_outcome outcome = gyre_membership_outcome(member->agreement);
    if (outcome == GYRE_MEMBERSHIP_CUT_OFF)
        tell_callers(world, process, CUT_OFF);
    if (outcome == GYRE_MEMBERSHIP_DECIDED)
        take_view(world, process, true);
    else if (outcome == GYRE_MEMBERSHIP_TOLD && !member->leaving)
        take_view(world, process, false);
    else
        be_over(world, process, outcome);
}

void turn_gathering(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    gyre_membership_tick(member->agreement, world->now);
    if (!still_open(member)) {
        conclude(world, process);
        return;
    }
    turn_dials(world, process);
    turn_guests(world, process);
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

void begin_gathering(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    const struct gyre_membership_options options = {.n = SEATS,
                                                    .seat = member->is.seat,
                                                    .epoch = member->is.epoch,
                                                    .seen = member->is.seen,
                                                    .standing = member->standing,
                                                    .suspected = member->suspected,
                                                    .leaving = member->leaving,
                                                    .newcomers = member->invites,
                                                    .dead_ns = DEAD,
                                                    .suspect_ns = SUSPECT,
                                                    .limit_ns = 4 * BOUND};
    if (gyre_membership_create(&options, world->now, &member->agreement)) {
        set_wrong(world, "no memory");
        return;
    }
    member->life = GATHERS;
    member->beat_at = world->now + DEAD / 8;
    for (uint32_t seat = 0; seat < SEATS; seat++)
        member->dial[seat] = (struct end){.pause = FIRST_PAUSE};
    for (uint32_t other = 0; other < PROCESSES; other++)
        member->guest[other] = (struct end){0};
    log_line(world, "process %u gathers as seat %u, epoch %u, seen %u%s", process, member->is.seat,
             member->is.epoch, member->is.seen, member->leaving ? ", leaving" : "");
    turn_gathering(world, process);
}

/* Closes all connections; those of a join have been taken before. */
void end_gathering(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    hang_up_all(world, process);
    gyre_membership_destroy(member->agreement);
    member->agreement = NULL;
}
