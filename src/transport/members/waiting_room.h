/* Where processes wait that want to become members of a job that runs.
 *
 *     newcomer                                          rank 0's waiting room
 *        │ ── handshake under the job's key, purpose NEWCOMER ──▶ │
 *        │ ◀──────────────────────────────────────────── PLACE ── │  where rank 0 is reached
 *        │ ── ASK ──────────────────────────────────────────────▶ │  who, where, how configured
 *        │ ◀───────────────── WAIT, each second; REFUSED; OVER ── │
 *        │                                                        │  gyre_grow()
 *        │ ◀─────────────── TAKEN; then SEATS, VIEW (record.h) ── │
 *        ╰── the same connection serves the join of the epoch ────╯
 *
 * The room is at the place where the job met: rank 0 listens there again. A thread of its own
 * serves it, so newcomers come and go while the ranks compute. */
#ifndef GYRE_TRANSPORT_MEMBERS_WAITING_ROOM_H
#define GYRE_TRANSPORT_MEMBERS_WAITING_ROOM_H

#include "transport/members/members.h"
#include "transport/net/talk.h"

enum gyre_newcomer_record {
    GYRE_NEWCOMER_PLACE = 48, /* | address of rank 0's listener | */
    GYRE_NEWCOMER_ASK,        /* | seat, as in record.h | configuration: length 2, text | */
    GYRE_NEWCOMER_WAIT,       /* | ranks of the job 4 | processes that wait 4 | */
    GYRE_NEWCOMER_REFUSED,    /* | why: length 2, text | */
    GYRE_NEWCOMER_OVER,       /* the job has ended */
    GYRE_NEWCOMER_TAKEN       /* | nonce 32 | hidden key 32 | id 16 | key id 8 | founders 4 |
                                seat 4 | */
};
#define GYRE_NEWCOMER_TEXT 4096 /* bytes of a configuration */

struct gyre_newcomer { /* a process that was let in */
    struct gyre_talk talk;
    struct gyre_seat seat;
};

struct gyre_waiting_room_options {
    const struct gyre_job *job;      /* as it was met; copied */
    const char *interface;           /* GYRE_INTERFACE; NULL: none; borrowed until open() returns */
    uint16_t port_low, port_high;    /* for a listener whose port is free to choose */
    const char *configuration;       /* that newcomers must have too; copied */
    struct sockaddr_storage address; /* of this rank's listener */
};

struct gyre_waiting_room;

/* Opens the room. May block for a second while another process holds the place. */
int gyre_waiting_room_open(const struct gyre_waiting_room_options *options,
                           struct gyre_waiting_room **room, struct gyre_trouble *trouble);

/* How many wait. `ranks`: of the job, for those who ask. NULL: nobody. Any thread. */
uint32_t gyre_waiting_room_count(struct gyre_waiting_room *room, uint32_t ranks);

/* Takes those who have waited longest, `most` at most, in the order in which they asked. */
uint32_t gyre_waiting_room_take(struct gyre_waiting_room *room, uint32_t most,
                                struct gyre_newcomer *taken);

/* Ends the room. `over`: those who wait are told that the job has ended. Otherwise they hear their
 * connections end, and look where the room is now. NULL allowed. */
void gyre_waiting_room_close(struct gyre_waiting_room *room, bool over);

/* Tells a newcomer that it is a member, and where it sits; 0 or as gyre_talk_say(), -EIO. The
 * members' key travels hidden by the key of the place, which the newcomer has proven. */
int gyre_newcomer_say_taken(struct gyre_talk *talk, const struct gyre_members *members,
                            uint32_t seat);
enum { GYRE_TAKEN_BYTES = GYRE_NONCE_BYTES + GYRE_KEY_BYTES + 16 + 8 + 8 };

/* Hides a key by another, or brings it back: adds what follows from `by` and a nonce that is used
 * once. 0 or -EIO. */
int gyre_key_hide(const uint8_t by[GYRE_KEY_BYTES], const uint8_t nonce[GYRE_NONCE_BYTES],
                  uint8_t key[GYRE_KEY_BYTES]);

#endif
