/* The agreement of members on who goes on: a state machine without I/O, clock or thread.
 *
 *     looks, hears, refused   ─┐                  ┌─▶ target(): the member to call
 *     called, hung_up          ┼──▶ agreement ────┼─▶ looks_for(): members to dial
 *     answered, tick          ─┘                  └─▶ outcome(): what became of it
 *
 * The lowest living member coordinates. All others call it. It dials those that have not called,
 * so it learns which have ended (their hosts refuse connections), which are silent, and which live
 * and are still on their way. When each member of the view completed last has called, has ended,
 * has left or is silent, the coordinator writes the next view, with an epoch that is higher than
 * all that any caller has seen. The view becomes real only when all its members have joined
 * (transport/join). Where one of them dies meanwhile, all agree again.
 *
 *     One view of an epoch. A member takes part in one view of an epoch at most, and in a higher
 *     epoch each time. A view works only where all its members have joined.
 *     One half. Members that have ended or left do not count. Of all others that the job has ever
 *     had, those that called must be more than those that are silent, now or in the agreement
 *     that left them out; of two equal halves the one with the lowest seat goes on.
 *
 * So two views never work at one time. They have no member in common, because a member is in one
 * view. Each left out the other's members, which lived, so it counted them as silent: and neither
 * can be the larger half.
 *
 * Newcomers. A view may take processes in that are no members yet: they stand from its completion
 * on. A member that has taken part in such a view and has not seen it completed looks for its
 * newcomers, too (GYRE_STANDING_COMING), because others may have completed the view: so newcomers
 * that are silent count like members that are. A member that has not taken part need not look for
 * them, because the view cannot have been completed without it.
 *
 * The silent of earlier agreements count, because a view's member may not know that the view was
 * completed. If it did not count them it could go on with those that were left out, and so could
 * the rest of the view without it. */
#ifndef GYRE_TRANSPORT_MEMBERS_MEMBERSHIP_H
#define GYRE_TRANSPORT_MEMBERS_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

struct gyre_membership;

struct gyre_membership_options {
    uint32_t n, seat;
    uint32_t epoch, seen;    /* as in struct gyre_members */
    const uint8_t *standing; /* n */
    const bool *suspected;   /* n: those said to be lost, who get less time to answer */
    bool leaving;            /* this member says goodbye */
    /* So many wait at this member to be taken in. They get the next vacant seats of a view that
     * this member writes, if all members of the epoch have called. */
    uint32_t newcomers;
    uint64_t dead_ns;    /* silence that counts; 0: none does */
    uint64_t suspect_ns; /* the same, of those suspected */
    uint64_t limit_ns;   /* the whole agreement; 0: none */
};

/* What members tell each other. */
struct gyre_statement {
    uint32_t epoch, seen;
    /* The seat that the member has heard to coordinate; its own: none; UINT32_MAX: the member takes
     * part in no agreement. */
    uint32_t coordinator;
    bool leaving;
    const uint8_t *standing; /* n, of `epoch` */
};

enum gyre_membership_outcome {
    GYRE_MEMBERSHIP_OPEN,
    GYRE_MEMBERSHIP_DECIDED, /* this member coordinates and has written the view */
    GYRE_MEMBERSHIP_TOLD,    /* the coordinator has sent the view */
    GYRE_MEMBERSHIP_FENCED,  /* the others have gone on without this member */
    GYRE_MEMBERSHIP_CUT_OFF, /* too many members are silent */
    GYRE_MEMBERSHIP_LATE,    /* the time is over, and members that live have not called */
    GYRE_MEMBERSHIP_DESERTED /* this member leaves, and nobody is left to tell */
};

int gyre_membership_create(const struct gyre_membership_options *options, uint64_t now,
                           struct gyre_membership **agreement);
void gyre_membership_destroy(struct gyre_membership *agreement); /* NULL allowed */

/* -- what happens; `now` never runs backwards -------------------------------------------------- */

/* This member dials that seat. From the first of these on its silence counts. */
void gyre_membership_looks(struct gyre_membership *agreement, uint64_t now, uint32_t seat);

/* The seat has given a sign of life. */
void gyre_membership_hears(struct gyre_membership *agreement, uint64_t now, uint32_t seat);

/* The seat's host refuses connections to its listener: the process has ended. */
void gyre_membership_refused(struct gyre_membership *agreement, uint64_t now, uint32_t seat);

/* The seat has called this member, and has hung up. */
void gyre_membership_called(struct gyre_membership *agreement, uint64_t now, uint32_t seat,
                            const struct gyre_statement *call);
void gyre_membership_hung_up(struct gyre_membership *agreement, uint64_t now, uint32_t seat);

/* The seat has answered this member's dial with how it stands, or with the next view. */
void gyre_membership_answered(struct gyre_membership *agreement, uint64_t now, uint32_t seat,
                              const struct gyre_statement *answer);
void gyre_membership_view_came(struct gyre_membership *agreement, uint64_t now, uint32_t seat,
                               const struct gyre_statement *view);

/* The coordinator has said that too many members are silent. */
void gyre_membership_cut_off(struct gyre_membership *agreement, uint32_t seat);

/* Lets time pass, and decides. Call it after each event, and at least every 20 ms. */
void gyre_membership_tick(struct gyre_membership *agreement, uint64_t now);

/* -- what follows ------------------------------------------------------------------------------ */

/* The seat that this member has to call; its own: it coordinates; n: nobody. */
uint32_t gyre_membership_target(const struct gyre_membership *agreement);

/* Whether this member has to dial the seat. */
bool gyre_membership_looks_for(const struct gyre_membership *agreement, uint32_t seat);

/* Whether this member waits for the seat, which lives. */
bool gyre_membership_awaits(const struct gyre_membership *agreement, uint32_t seat);

enum gyre_membership_outcome gyre_membership_outcome(const struct gyre_membership *agreement);

/* How this member stands; after an outcome DECIDED or TOLD, the new view. */
struct gyre_statement gyre_membership_statement(const struct gyre_membership *agreement);

#endif
