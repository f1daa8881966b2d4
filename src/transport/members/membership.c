/* The agreement of members on who goes on.
 *
 * Each seat has a state here, beside its standing in the view completed last, the *base*:
 *
 *     AWAITED ── called ──▶ CALLED ── hung up ──▶ AWAITED
 *        │ └──── refused ─────────────────────▶ ENDED
 *        ├────── said so ─────────────────────▶ LEFT
 *        └────── silent too long ─────────────▶ SILENT ── a sign of life ──▶ AWAITED
 *
 * A member that learns of a newer view than its base goes on from that, or is fenced: the newer
 * view says so.
 *
 * Tested by tests/unit/transport/members/membership_test.c, and by tests/sim/membership.c in
 * thousands of simulated jobs. */
#include "transport/members/membership.h"
#include "transport/members/members.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LATENESS (500 * GYRE_MS) /* of a tick, beyond which this member did not run */

enum seat_state { AWAITED, CALLED, ENDED, SILENT, LEFT };

struct seat {
    uint8_t state;
    bool looking, suspected;
    uint64_t heard_at; /* or when this member began to look, or was told that the seat lives */
    uint64_t lived_at; /* its own last sign of life; 0: none */
};

struct gyre_membership {
    struct gyre_membership_options is;
    uint64_t started, clock;
    enum gyre_membership_outcome outcome;
    uint8_t *standing; /* n: of the base, later of the new view */
    struct seat *at;   /* n */
};

int gyre_membership_create(const struct gyre_membership_options *options, uint64_t now,
                           struct gyre_membership **agreement)
{
    struct gyre_membership *made = calloc(1, sizeof *made);
    if (!made)
        return -ENOMEM;
    made->is = *options;
    made->started = made->clock = now;
    made->standing = calloc(options->n, sizeof *made->standing);
    made->at = calloc(options->n, sizeof *made->at);
    if (!made->standing || !made->at) {
        gyre_membership_destroy(made);
        return -ENOMEM;
    }
    memcpy(made->standing, options->standing, options->n);
    for (uint32_t seat = 0; seat < options->n; seat++)
        made->at[seat].suspected = options->suspected && options->suspected[seat];
    *agreement = made;
    return 0;
}

void gyre_membership_destroy(struct gyre_membership *agreement)
{
    if (!agreement)
        return;
    free(agreement->standing);
    free(agreement->at);
    free(agreement);
}

/* -- seats ------------------------------------------------------------------------------------- */

/* Members of the base, and those who may be of a later view. */
static bool is_other_member(const struct gyre_membership *agreement, uint32_t seat)
{
    return seat < agreement->is.n && seat != agreement->is.seat &&
           (agreement->standing[seat] == GYRE_STANDS ||
            agreement->standing[seat] == GYRE_STANDING_COMING);
}

/* Time in which this member did not run is granted to all for whom it waits, and to itself. */
static void set_agreement_clock(struct gyre_membership *agreement, uint64_t now)
{
    uint64_t gap = now - agreement->clock;
    agreement->clock = now;
    if (gap <= LATENESS)
        return;
    agreement->started += gap;
    for (uint32_t seat = 0; seat < agreement->is.n; seat++)
        agreement->at[seat].heard_at += gap;
}

/* The coordinator looks for all that have not called, another member for its coordinator. */
static bool must_look(const struct gyre_membership *agreement, uint32_t target, uint32_t seat)
{
    if (agreement->outcome != GYRE_MEMBERSHIP_OPEN || !is_other_member(agreement, seat))
        return false;
    return target == agreement->is.seat ? agreement->at[seat].state == AWAITED : seat == target;
}

/* Gives a seat time anew. */
static void await_again(struct gyre_membership *agreement, uint32_t seat)
{
    struct seat *at = &agreement->at[seat];
    at->heard_at = agreement->clock;
    if (at->state == SILENT)
        at->state = AWAITED;
}

static void note_life(struct gyre_membership *agreement, uint32_t seat)
{
    agreement->at[seat].suspected = false;
    agreement->at[seat].lived_at = agreement->clock;
    await_again(agreement, seat);
}

/* Whether this member has had a sign of life from the seat, and has no reason to doubt it. */
static bool knows_alive(const struct gyre_membership *agreement, uint32_t seat)
{
    const struct seat *at = &agreement->at[seat];
    return at->lived_at &&
           (!agreement->is.dead_ns || agreement->clock - at->lived_at <= agreement->is.dead_ns);
}

static bool is_silent(const struct gyre_membership *agreement, const struct seat *at)
{
    uint64_t limit = at->suspected ? agreement->is.suspect_ns : agreement->is.dead_ns;
    return at->looking && limit && agreement->clock - at->heard_at > limit;
}

/* -- views ------------------------------------------------------------------------------------- */

static void end_agreement(struct gyre_membership *agreement, enum gyre_membership_outcome outcome)
{
    if (agreement->outcome == GYRE_MEMBERSHIP_OPEN)
        agreement->outcome = outcome;
}

/* Takes what a member says of epochs. A newer view becomes the base, or fences this member; one
 * that leaves has nothing more to wait for. */
static void learn_epoch(struct gyre_membership *agreement, const struct gyre_statement *statement)
{
    struct gyre_membership_options *is = &agreement->is;
    if (agreement->outcome != GYRE_MEMBERSHIP_OPEN)
        return;
    if (statement->seen > is->seen)
        is->seen = statement->seen;
    if (statement->epoch <= is->epoch)
        return;
    is->epoch = statement->epoch;
    memcpy(agreement->standing, statement->standing, is->n);
    if (agreement->standing[is->seat] != GYRE_STANDS)
        end_agreement(agreement, is->leaving ? GYRE_MEMBERSHIP_TOLD : GYRE_MEMBERSHIP_FENCED);
}

/* Whether a seat may live and go on without this member: it is silent now, or was in an earlier
 * agreement. */
static bool may_go_on_alone(const struct gyre_membership *agreement, uint32_t seat)
{
    return agreement->standing[seat] == GYRE_STANDING_SILENT ||
           (is_other_member(agreement, seat) && agreement->at[seat].state == SILENT);
}

/* Whether those that called may go on without those that are silent. */
static bool has_quorum(const struct gyre_membership *agreement)
{
    uint32_t called = 1, silent = 0, lowest_called = agreement->is.seat, lowest_silent = UINT32_MAX;
    for (uint32_t seat = 0; seat < agreement->is.n; seat++) {
        if (may_go_on_alone(agreement, seat)) {
            silent++;
            lowest_silent = seat < lowest_silent ? seat : lowest_silent;
        } else if (is_other_member(agreement, seat) && agreement->at[seat].state == CALLED) {
            called++;
            lowest_called = seat < lowest_called ? seat : lowest_called;
        }
    }
    return called > silent || (called == silent && lowest_called < lowest_silent);
}

static bool all_have_called(const struct gyre_membership *agreement)
{
    for (uint32_t seat = 0; seat < agreement->is.n; seat++)
        if (is_other_member(agreement, seat) && agreement->at[seat].state != CALLED)
            return false;
    return true;
}

/* Gives the newcomers the seats behind all that anybody has had. */
static void seat_newcomers(struct gyre_membership *agreement)
{
    uint32_t left = agreement->is.newcomers;
    uint32_t seat = gyre_members_next_seat(agreement->standing, agreement->is.n);
    for (; left && seat < agreement->is.n; seat++, left--)
        agreement->standing[seat] = GYRE_STANDS;
}

static void write_view(struct gyre_membership *agreement)
{
    static const uint8_t standing[] = {[CALLED] = GYRE_STANDS,
                                       [ENDED] = GYRE_STANDING_ENDED,
                                       [SILENT] = GYRE_STANDING_SILENT,
                                       [LEFT] = GYRE_STANDING_LEFT};
    const bool complete = all_have_called(agreement);
    for (uint32_t seat = 0; seat < agreement->is.n; seat++)
        if (is_other_member(agreement, seat))
            agreement->standing[seat] = standing[agreement->at[seat].state];
    if (complete)
        seat_newcomers(agreement);
    agreement->is.epoch = ++agreement->is.seen;
}

static void decide_view(struct gyre_membership *agreement)
{
    for (uint32_t seat = 0; seat < agreement->is.n; seat++)
        if (is_other_member(agreement, seat) && agreement->at[seat].state == AWAITED)
            return;
    if (!has_quorum(agreement)) {
        end_agreement(agreement, GYRE_MEMBERSHIP_CUT_OFF);
        return;
    }
    write_view(agreement);
    end_agreement(agreement, GYRE_MEMBERSHIP_DECIDED);
}

/* -- what happens ------------------------------------------------------------------------------ */

void gyre_membership_looks(struct gyre_membership *agreement, uint64_t now, uint32_t seat)
{
    set_agreement_clock(agreement, now);
    if (agreement->at[seat].looking)
        return;
    agreement->at[seat].looking = true;
    agreement->at[seat].heard_at = now;
}

void gyre_membership_hears(struct gyre_membership *agreement, uint64_t now, uint32_t seat)
{
    set_agreement_clock(agreement, now);
    note_life(agreement, seat);
}

void gyre_membership_refused(struct gyre_membership *agreement, uint64_t now, uint32_t seat)
{
    set_agreement_clock(agreement, now);
    if (agreement->at[seat].state != LEFT)
        agreement->at[seat].state = ENDED;
}

void gyre_membership_called(struct gyre_membership *agreement, uint64_t now, uint32_t seat,
                            const struct gyre_statement *call)
{
    set_agreement_clock(agreement, now);
    note_life(agreement, seat);
    learn_epoch(agreement, call);
    agreement->at[seat].state = call->leaving ? LEFT : CALLED;
}

void gyre_membership_hung_up(struct gyre_membership *agreement, uint64_t now, uint32_t seat)
{
    set_agreement_clock(agreement, now);
    if (agreement->at[seat].state == CALLED)
        agreement->at[seat].state = AWAITED;
}

/* A member that says who coordinates has heard from the coordinator itself, not from others who say
 * so: or members would keep each other waiting for one that is silent. */
void gyre_membership_answered(struct gyre_membership *agreement, uint64_t now, uint32_t seat,
                              const struct gyre_statement *answer)
{
    set_agreement_clock(agreement, now);
    note_life(agreement, seat);
    learn_epoch(agreement, answer);
    if (answer->leaving)
        agreement->at[seat].state = LEFT;
    if (answer->coordinator < seat && agreement->at[answer->coordinator].state == SILENT)
        await_again(agreement, answer->coordinator);
}

void gyre_membership_view_came(struct gyre_membership *agreement, uint64_t now, uint32_t seat,
                               const struct gyre_statement *view)
{
    set_agreement_clock(agreement, now);
    note_life(agreement, seat);
    if (agreement->outcome != GYRE_MEMBERSHIP_OPEN || view->epoch <= agreement->is.seen)
        return;
    agreement->is.epoch = agreement->is.seen = view->epoch;
    memcpy(agreement->standing, view->standing, agreement->is.n);
    bool included = agreement->is.leaving || view->standing[agreement->is.seat] == GYRE_STANDS;
    end_agreement(agreement, included ? GYRE_MEMBERSHIP_TOLD : GYRE_MEMBERSHIP_FENCED);
}

void gyre_membership_cut_off(struct gyre_membership *agreement, uint32_t seat)
{
    if (seat == gyre_membership_target(agreement))
        end_agreement(agreement, GYRE_MEMBERSHIP_CUT_OFF);
}

/* Finds seats that are silent while this member looks for them. One of these may have called
 * before: a member that leaves looks for the lowest other seat. */
static void find_silent(struct gyre_membership *agreement)
{
    for (uint32_t seat = 0; seat < agreement->is.n; seat++) {
        struct seat *at = &agreement->at[seat];
        if ((at->state == AWAITED || at->state == CALLED) && is_silent(agreement, at))
            at->state = SILENT;
    }
}

/* The silence of a seat for which this member has ceased to look does not count. It begins anew
 * with the next look. */
static void forget_looks(struct gyre_membership *agreement, uint32_t target)
{
    for (uint32_t seat = 0; seat < agreement->is.n; seat++)
        agreement->at[seat].looking &= must_look(agreement, target, seat);
}

void gyre_membership_tick(struct gyre_membership *agreement, uint64_t now)
{
    const struct gyre_membership_options *is = &agreement->is;
    set_agreement_clock(agreement, now);
    find_silent(agreement);
    uint32_t target = gyre_membership_target(agreement);
    forget_looks(agreement, target);
    if (agreement->outcome != GYRE_MEMBERSHIP_OPEN)
        return;
    if (target == is->n)
        end_agreement(agreement, GYRE_MEMBERSHIP_DESERTED);
    else if (target == is->seat)
        decide_view(agreement);
    if (is->limit_ns && now - agreement->started > is->limit_ns)
        end_agreement(agreement, GYRE_MEMBERSHIP_LATE);
}

/* -- what follows ------------------------------------------------------------------------------ */

uint32_t gyre_membership_target(const struct gyre_membership *agreement)
{
    const struct gyre_membership_options *is = &agreement->is;
    for (uint32_t seat = 0; seat < is->n; seat++) {
        bool lives = agreement->at[seat].state == AWAITED || agreement->at[seat].state == CALLED;
        if (seat == is->seat ? !is->leaving : is_other_member(agreement, seat) && lives)
            return seat;
    }
    return is->n;
}

bool gyre_membership_looks_for(const struct gyre_membership *agreement, uint32_t seat)
{
    return must_look(agreement, gyre_membership_target(agreement), seat);
}

bool gyre_membership_awaits(const struct gyre_membership *agreement, uint32_t seat)
{
    return is_other_member(agreement, seat) && agreement->at[seat].state == AWAITED;
}

enum gyre_membership_outcome gyre_membership_outcome(const struct gyre_membership *agreement)
{
    return agreement->outcome;
}

struct gyre_statement gyre_membership_statement(const struct gyre_membership *agreement)
{
    uint32_t target = gyre_membership_target(agreement);
    bool known = target < agreement->is.n && knows_alive(agreement, target);
    return (struct gyre_statement){.epoch = agreement->is.epoch,
                                   .seen = agreement->is.seen,
                                   .coordinator = known ? target : agreement->is.seat,
                                   .leaving = agreement->is.leaving,
                                   .standing = agreement->standing};
}
