/* Members find each other, agree on the next view, and keep a connection to its rank 0.
 *
 * What stands behind gyre_shrink() and gyre_grow() between the end of one epoch and the join of the
 * next. */
#ifndef GYRE_TRANSPORT_MEMBERS_GATHER_H
#define GYRE_TRANSPORT_MEMBERS_GATHER_H

#include "transport/join/company.h"
#include "transport/members/membership.h"
#include "transport/members/members.h"
#include "transport/members/waiting_room.h"

struct gyre_gather_options {
    struct gyre_members *members; /* `next` and `seen` are written */
    const char *made_by;          /* the call that waits, "gyre_shrink()" */
    int listener;                 /* at this member's address; borrowed */
    const bool *suspected;        /* n, of seats: those that the last epoch lost */
    bool leaving;
    struct gyre_newcomer *newcomer; /* who waits at this member; those that come along are taken */
    uint32_t newcomers;
    int dead_time_ms; /* 0: silence never counts */
    int limit_ms;     /* for members that live to call */
};

/* Gathers. 0: *company has this member's connections for the join of the view members->next, of
 * epoch members->seen; one that leaves has none, and company->n is 0. Blocks until every member has
 * called, is gone or is silent. GYRE_PEER_LOST: the others have gone on without this member, or too
 * many are silent; GYRE_TIMED_OUT: members that live have not called; -ENOMEM, -errno. */
int gyre_members_gather(const struct gyre_gather_options *options, struct gyre_company *company,
                        struct gyre_trouble *trouble);

#endif
