/* The common part of a join: its state, the descriptors it watches, and its control connections.
 *
 * The loop calls no other part. gyre_join_wait() returns the slot whose descriptor is ready, and
 * the caller (join.c) hands the slot to the part that its `owner` names. A part that sees a
 * connection break records the loss here, and rank 0's two sides leave each other records in the
 * inbox. join.c reads both after every event. */
#ifndef GYRE_TRANSPORT_JOIN_LOOP_H
#define GYRE_TRANSPORT_JOIN_LOOP_H

#include "base/clock.h"
#include "transport/join/identity.h"
#include "transport/join/joined.h"
#include "transport/join/options.h"
#include "transport/join/records.h"

enum gyre_join_phase {
    GYRE_PHASE_GATHER, /* until the roster */
    GYRE_PHASE_PAIR,   /* until this rank's report */
    GYRE_PHASE_PLAN,   /* until the plan */
    GYRE_PHASE_MESH,   /* until this rank's done */
    GYRE_PHASE_GO,     /* until go */
    GYRE_PHASE_JOINED
};

#define GYRE_JOIN_TICK_MS    20                /* of up to 64 ranks; see gyre_join_tick_ms() */
#define GYRE_JOIN_SILENCE    (5 * GYRE_SECOND) /* a stranger proves itself within this time */
#define GYRE_JOIN_CONFIG_MAX 4096              /* bytes of a configuration that are compared */
#define GYRE_JOIN_WHO_MAX    160               /* "rank 3 on host (pid 7)" */

enum gyre_slot_owner {
    GYRE_SLOT_ROOT,    /* root.c: the lobby of ranks */
    GYRE_SLOT_CONTROL, /* join.c: a control connection */
    GYRE_SLOT_PAIR,    /* pair.c: a Unix socket */
    GYRE_SLOT_LOBBY,   /* mesh.c: the lobby of data connections */
    GYRE_SLOT_DIAL     /* mesh.c: a data connection of this rank's own */
};

struct gyre_io_slot { /* one descriptor that the loop watches */
    int fd;           /* -1: empty */
    uint32_t events;
    uint32_t peer;
    enum gyre_slot_owner owner;
};

struct gyre_control { /* a logged-in rendezvous connection */
    struct gyre_io_slot io_slot;
    struct gyre_talk talk;
};

struct gyre_root;
struct gyre_pairing;
struct gyre_join_mesh;

struct gyre_joining {
    struct gyre_job *job;
    const struct gyre_join_options *options;
    struct gyre_trouble *trouble;
    struct gyre_joined *joined;
    struct gyre_rank_identity *identity; /* n */
    enum gyre_join_phase phase;
    int epoll;
    /* Deadline: that of the rendezvous, then of each later phase. Granted: time in which this
     * process did not run, which `now` leaves out. */
    uint64_t now, granted, started, deadline;
    struct gyre_control *control; /* rank 0: one per rank; others: [0] is rank 0 */
    uint32_t controls;
    struct gyre_record inbox; /* between rank 0's two sides, payload allocated; kind 0: none */
    uint8_t nonce[GYRE_NONCE_BYTES];  /* rank 0's, of the session */
    char waiting[GYRE_JOIN_TEXT_MAX]; /* the ranks for which rank 0 said that it waits */
    bool told;                        /* rank 0 knows of the failure, or is gone */
    struct gyre_trouble loss; /* the first connection that broke; held back until loss_until */
    uint64_t loss_until;
    struct gyre_root *root;
    struct gyre_pairing *pairing;
    struct gyre_join_mesh *mesh;
};

/* -- descriptors ------------------------------------------------------------------------------- */

int gyre_join_add_slot(struct gyre_joining *join, struct gyre_io_slot *io_slot, int fd,
                       bool writable);
int gyre_join_rearm(struct gyre_joining *join, struct gyre_io_slot *io_slot, bool writable);

/* Does not close the descriptor. */
void gyre_join_remove_slot(struct gyre_joining *join, struct gyre_io_slot *io_slot);

/* How often a rank that waits looks at the clock. A thousand ranks of one machine would do nothing
 * else if each looked 50 times a second. */
int gyre_join_tick_ms(const struct gyre_joining *join);

/* Waits for a slot and sets join->now. NULL: nothing was ready within a tick. */
struct gyre_io_slot *gyre_join_wait(struct gyre_joining *join);

/* -- control connections ----------------------------------------------------------------------- */

/* Takes *talk as the control connection at `index`. */
int gyre_join_control(struct gyre_joining *join, uint32_t index, struct gyre_talk *talk);

/* Leaves a copy of a record in the inbox. Rank 0 only; at most one record is under way. */
int gyre_join_leave_record(struct gyre_joining *join, uint16_t kind, const void *payload,
                           size_t length);

/* -- failures ---------------------------------------------------------------------------------- */

/* Sets the trouble of a process without a free descriptor; returns `status`, which says so. */
int gyre_join_no_descriptor(struct gyre_joining *join, int status);

/* Records that a connection to a peer broke; only the first loss counts. join.c tells rank 0, which
 * finds out whether the loss is the cause of a failure or the echo of one. */
void gyre_join_lose(struct gyre_joining *join, uint32_t peer, const char *what);

/* Sets the trouble for the end of the control connection to `rank`. */
int gyre_join_rank_gone(struct gyre_joining *join, uint32_t rank);

/* -- words ------------------------------------------------------------------------------------- */

struct gyre_claim gyre_join_claim(const struct gyre_joining *join, enum gyre_purpose purpose,
                                  uint32_t stripe);
const char *gyre_join_who(const struct gyre_joining *join, uint32_t rank,
                          char text[GYRE_JOIN_WHO_MAX]);

/* Copies a rank's facts about itself to the joined ranks' table. */
void gyre_join_note_member(struct gyre_joining *join, uint32_t rank);

/* The time limit of a phase after the roster, in nanoseconds. */
uint64_t gyre_join_phase_timeout(const struct gyre_joining *join);

#endif
