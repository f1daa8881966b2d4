/* Connections of links to other nodes that broke and are made anew, or are made at their first use,
 * over the peer's listener.
 *
 *     rank 2, the higher                                rank 1, which listens
 *        │ ── handshake, purpose RENEW, stripe = index ─▶ │
 *        │ ── RENEW    number, bytes received ──────────▶ │
 *        │ ◀────────── bytes received             RENEWED │   or GONE: its links have ended
 *        ╰── from here on the socket carries the stream ──╯
 *
 *     rank 1 ── RENEW number ─▶ rank 2 ── WELCOME ─▶ closed; rank 2 knows now, and dials
 *
 * As with the watch's own connections, both ends dial, and only the higher rank's connection is
 * used. The higher rank numbers its attempts, so of two the newer counts.
 *
 * A connection that is made at its first use goes the same way. The higher rank does not hang up on
 * one while it waits for RENEWED, as it may on another: the peer goes on over what it has granted,
 * and what is sent there may not be kept. */
#ifndef GYRE_TRANSPORT_WATCH_RENEW_H
#define GYRE_TRANSPORT_WATCH_RENEW_H

#include "transport/net/talk.h"

struct gyre_watch;

/* Records behind the proof of a connection that is made anew, the watch's own among them. WELCOME,
 * RENEWED and GONE are answers. */
enum { GYRE_WATCH_WELCOME = 1, GYRE_WATCH_RENEW = 2, GYRE_WATCH_RENEWED = 3, GYRE_WATCH_GONE = 4 };

/* Reads the payload of RENEW (both words) or RENEWED (`received`). False: it is malformed. */
bool gyre_renewal_read(const struct gyre_record *record, uint32_t *number, uint64_t *received);

/* A data connection of this rank that broke, or is yet to be made. */
struct gyre_renewal_wish {
    uint32_t rank;      /* of the peer */
    uint32_t index;     /* among the connections to it */
    uint32_t number;    /* of the broken connection; 0 is the join's */
    uint32_t fruitless; /* breaks before it that no byte followed */
    uint64_t received;  /* bytes of the stream that have come here */
    bool first;         /* there has been no connection yet */
};

enum gyre_renewal_kind {
    GYRE_RENEWAL_MADE,  /* a new connection: `talk` has its socket, `received` is the peer's */
    GYRE_RENEWAL_ASKED, /* the peer has made one, and waits in `talk` for grant() */
    GYRE_RENEWAL_TOLD,  /* the peer says that the connection of this number has broken */
    GYRE_RENEWAL_GONE,  /* the peer's process has ended, or, as it has `told`, its links have */
    GYRE_RENEWAL_FAILED /* a first connection could not be made for twice the dead time */
};

struct gyre_renewal { /* news of a data connection */
    enum gyre_renewal_kind kind;
    uint32_t rank, index, number;
    uint64_t received;
    bool told;             /* GONE */
    int error;             /* FAILED: of the last attempt; 0: no answer came */
    struct gyre_talk talk; /* MADE, ASKED: the taker's */
};

/* Has a connection made anew, until that is so or drop() is called. 0 or -ENOMEM. */
int gyre_watch_renew(struct gyre_watch *watch, const struct gyre_renewal_wish *wish);
void gyre_watch_renew_drop(struct gyre_watch *watch, uint32_t rank, uint32_t index);

/* take: the next news; false: there are none. has: whether there are any. Any thread. */
bool gyre_watch_take_renewal(struct gyre_watch *watch, struct gyre_renewal *news);
bool gyre_watch_has_renewal(struct gyre_watch *watch);

/* Answers every later peer that this rank's links have ended. */
void gyre_watch_end_renewals(struct gyre_watch *watch);

/* Tells the peer that has ASKED how many bytes have come here, and takes the socket out of the
 * talk. Negative: the peer has hung up. */
int gyre_renewal_grant(struct gyre_renewal *news, uint64_t received);

#endif
