/* The members of a job over all its epochs.
 *
 * The ranks of a job's first epoch are its members. A member has a *seat*, its rank in that epoch,
 * for ever; its rank changes with each epoch. A *view* says which members an epoch has, and how the
 * others went. Ranks of an epoch follow each other as their seats do:
 *
 *     seat            0   1   2   3   4
 *     first epoch     0   1   2   3   4
 *     view of a later     0   1       2      seat 0 ended, seat 3 was silent
 *
 * A member keeps its listener and its address over all epochs, so members find each other whatever
 * epoch each is in. Whoever proves the members' key there is a member.
 *
 * Newcomers. The first epoch's members are the *founders*. A process that a later epoch takes in
 * gets the next seat that nobody has ever had, so its rank comes after all others. A job takes in
 * GYRE_NEWCOMERS_OF_A_JOB processes in its life. */
#ifndef GYRE_TRANSPORT_MEMBERS_MEMBERS_H
#define GYRE_TRANSPORT_MEMBERS_MEMBERS_H

#include "transport/job/job.h"
#include "transport/join/joined.h"

/* How a member stands in a view. */
enum gyre_standing {
    GYRE_STANDS,          /* it is a rank of the epoch */
    GYRE_STANDING_ENDED,  /* its process has ended, or refuses connections */
    GYRE_STANDING_SILENT, /* it does not answer; it may live */
    GYRE_STANDING_LEFT,   /* it left, and said so */
    GYRE_STANDING_VACANT, /* nobody has had the seat */
    /* A newcomer of a later view, in which this member has taken part, and whose end it does not
     * know: the newcomer may be a rank of an epoch that others have completed. */
    GYRE_STANDING_COMING
};
enum { GYRE_STANDINGS = GYRE_STANDING_COMING + 1 };
enum { GYRE_NEWCOMERS_OF_A_JOB = 1024, GYRE_NEWCOMERS_AT_ONCE = 64 };

struct gyre_seat {
    char host[64];
    int32_t pid;
    struct sockaddr_storage address; /* of its listener */
    uint64_t gone_at; /* when this member learned that it is gone, CLOCK_REALTIME; 0: it stands */
};

struct gyre_members {
    uint8_t key[GYRE_KEY_BYTES];  /* the session key of the first epoch */
    uint8_t id[16], key_id[8];    /* the job's, in its first epoch */
    struct gyre_job met;          /* where newcomers come, and the key that they prove there */
    struct gyre_options *options; /* of a job that began with one rank, to look for `met` */
    uint32_t founders;
    uint32_t n, seat;  /* seats, with those of newcomers; this member's */
    uint32_t epoch;    /* of the view that this member has completed last */
    uint32_t seen;     /* the highest epoch that any member has proposed to this one */
    uint8_t *standing; /* n: that view, of enum gyre_standing */
    uint8_t *next;     /* n: the view of epoch `seen`, as agreed and not yet completed */
    int users;
    struct gyre_seat *at; /* n */
};

/* Makes the members of a first epoch, with one user. NULL: no memory. */
struct gyre_members *gyre_members_create(const struct gyre_joined *joined,
                                         const struct gyre_job *job);

/* Makes members with that many founders, of whom nothing is known yet. NULL: no memory. */
struct gyre_members *gyre_members_make_seats(uint32_t founders);

/* The seat of the next newcomer in a view of n seats: the first that nobody has had; n: none. */
uint32_t gyre_members_next_seat(const uint8_t *standing, uint32_t n);

/* Takes the view of epoch `seen` as agreed. Seats that were vacant are newcomers'. */
void gyre_members_expect(struct gyre_members *members, const uint8_t *next, uint32_t seen);

/* Notes who sits on a seat of a newcomer, as the epoch's join has told. */
void gyre_members_note(struct gyre_members *members, const struct gyre_joined *joined);

/* Adds a user; takes one away, the last with all memory. NULL allowed. One thread. */
struct gyre_members *gyre_members_hold(struct gyre_members *members);
void gyre_members_release(struct gyre_members *members);

/* Takes the next view as completed. */
void gyre_members_complete(struct gyre_members *members);

/* The rank of a seat in a view; UINT32_MAX: it has none. */
uint32_t gyre_members_rank(const uint8_t *standing, uint32_t n, uint32_t seat);

/* How many members stand in a view. */
uint32_t gyre_members_count(const uint8_t *standing, uint32_t n);

/* Writes "rank 3 on host (pid 7)", with the rank that the seat has, or had, in the view completed
 * last. */
#define GYRE_MEMBER_WHO_MAX 128
const char *gyre_members_who(const struct gyre_members *members, uint32_t seat,
                             char text[GYRE_MEMBER_WHO_MAX]);

#endif
