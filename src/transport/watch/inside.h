/* The inside of the watch, for its files only.
 *
 *     watch.c     the entry: start, goodbye, and calls of other threads
 *     thread.c    the process's thread, which serves the watches of all its groups
 *     loop.c      one watch's turn: events in, the failure detector's conclusions out
 *     errands.c   what its peers share and take back, where a driver may delay it
 *     trial.c     trials of copies between devices
 *     share.c     regions that this process shares
 *     import.c    regions that its peers share
 *     redial.c    connections of its own that the watch makes anew
 *     visitors.c  whoever comes to the listener
 *     renew.c     data connections that are made anew
 *     dial.c      an attempt to reach a peer's listener
 *     links.c     opening a link to each peer, sending over it, its end
 *     channel.c   messages over sockets
 *     nudge.c     words from thread to thread
 *     activity.c  this rank's activity
 *
 * A file calls only files listed below it, and the failure detector (detect/), which calls none of
 * them.
 *
 * Locks. A watch's `lock` protects everything of it but atomics and the views, which are read
 * without the lock, and the fields of thread.c. thread.c has one lock for the list of watches; the
 * thread takes a watch's lock under it, and nobody takes it under a watch's lock. */
#ifndef GYRE_TRANSPORT_WATCH_INSIDE_H
#define GYRE_TRANSPORT_WATCH_INSIDE_H

#include "base/clock.h"
#include "transport/memory/views.h"
#include "transport/net/talk.h"
#include "transport/watch/detect/failure_detector.h"
#include "transport/watch/renew.h"
#include "transport/watch/watch.h"
#include "transport/watch/channel.h"

#include <pthread.h>

struct gyre_dial {         /* a connection that this rank is making */
    struct gyre_talk talk; /* fd −1: no attempt is under way */
    bool connecting;
    uint64_t next_at, pause; /* the next attempt, or the end of this one */
};

struct gyre_watch_link { /* to one peer; same index as the failure detector's channel */
    struct gyre_watch_channel channel;
    int pidfd; /* borrowed, -1: another node, or ended */
    bool node; /* the peer is of this node, so regions are shared with it */
    bool broken;
    int broken_by; /* the status; 0: the link has never broken */
    uint64_t broken_at;
    /* The number of its connection, equal at both ends: 0 is the join's, others are numbers of the
     * higher rank's attempts. */
    uint16_t wire, attempts;
    struct gyre_dial *dial; /* NULL: none */
    bool deaf;              /* the peer reads no more; its earlier messages are read to their end */
    bool wants_room;        /* epoll tells when the socket has room again */
    bool awaits_trial;      /* the peer is told when this rank has tried copies */
    uint64_t ended_at;      /* written before `ended` */
    _Atomic bool ended;
    _Atomic int bell; /* the peer's doorbell + 1, 0: not passed */
};

struct gyre_watch_thread;  /* the process's; thread.c */
struct gyre_watch_visitor; /* somebody at the listener */
struct gyre_watch_export;  /* a region that this process shares */
struct gyre_watch_errand;  /* something that a driver may delay */

struct gyre_watch_trial { /* of copies from and to memory of this rank's device */
    pthread_t thread;
    bool runs, under_way; /* the thread was started, and not joined; it has not finished */
    bool settled;         /* no other trial is due */
    struct gyre_trouble found;
};

struct gyre_watch {
    struct gyre_watch_options is;
    struct gyre_failure_detector *detector;
    uint32_t links;
    struct gyre_watch_link *link;
    struct gyre_views *views;
    struct gyre_watch_export *exports;
    uint32_t export_count;
    struct gyre_watch_errand *errands, *done; /* in order; done ones are to be answered */
    pthread_t runner;                         /* of errands */
    bool runs, runner_ended, runner_leaves;   /* it was started; has nothing to do; gets no more */
    struct gyre_watch_trial trial;
    pthread_mutex_t unmapping;  /* held while a region is taken out of the views and unmapped */
    _Atomic bool takes_no_cuda; /* any more */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a share was answered, the failure is known, or all ranks have left */
    struct gyre_watch_thread *thread;
    struct gyre_watch *next; /* of the thread's watches; the next three: under the thread's lock */
    bool ready;              /* its poller has events */
    uint64_t wake_at;        /* when it has to be served, even without an event */
    int nudge;               /* the thread's eventfd */
    _Atomic bool nudged;     /* another thread has changed what its turn acts on */
    int poller;              /* an epoll */
    int launcher;            /* its pipe, -1: none */
    struct gyre_watch_visitor *visitor; /* places for them; NULL: nobody may come */
    uint64_t rests_until;               /* the listener; 0: it does not */
    struct gyre_watch_wish *wish;       /* data connections that are to be made anew */
    uint32_t wishes;                    /* so many there have been */
    struct gyre_watch_news *news;       /* of data connections, in order, not yet taken */
    uint32_t news_count;
    bool links_ended; /* this rank's links, to which data connections belong */
    uint16_t epoch;
    bool locks, told;
    uint64_t parts_until; /* the end of the last wait for peers; 0: this rank is not parting */
    uint64_t parts_clock; /* the same by the detector's clock */
    struct gyre_watch_state mine; /* this rank's, as last seen */
    /* The activity's looks, and when they last grew or did not matter. */
    uint64_t looks, looked_at;
    uint64_t absences; /* spans of ABSENT without a look */
    pid_t pid;         /* of the process that started the watch; a forked child has no thread */
    uint8_t buffer[GYRE_WATCH_MESSAGE_MAX]; /* for incoming messages */
};

enum gyre_watch_source { /* the source of an event of the poller; the index is a link's */
                         GYRE_WATCH_FROM_LINK,
                         GYRE_WATCH_FROM_PIDFD,
                         GYRE_WATCH_FROM_LAUNCHER,
                         GYRE_WATCH_FROM_DIAL,    /* the index is a link's */
                         GYRE_WATCH_FROM_RENEWAL, /* the index is a wish's id */
                         GYRE_WATCH_FROM_LISTENER,
                         GYRE_WATCH_FROM_VISITOR /* the index is a visitor's */
};

enum { GYRE_WATCH_ADDRESS_BYTES = 8 }; /* of a region's address, as told inside a process */
enum { GYRE_WATCH_VISITORS = 64 };     /* at a time, at least */
/* The functions below are called with the lock held. */

/* Sleeps until something has changed or the time has come, which returns ETIMEDOUT. */
static inline int gyre_watch_sleep(struct gyre_watch *watch, uint64_t until_ns)
{
    struct timespec limit = {.tv_sec = (time_t)(until_ns / GYRE_SECOND),
                             .tv_nsec = (long)(until_ns % GYRE_SECOND)};
    return pthread_cond_timedwait(&watch->changed, &watch->lock, &limit);
}

/* -- links.c ----------------------------------------------------------------------------------- */

/* Opens a link over the descriptors that the join left. */
int gyre_watch_open_link(struct gyre_watch *watch, uint32_t link);

/* Goes on over a new connection of that number, which it takes. The old one ends. */
void gyre_watch_reopen_link(struct gyre_watch *watch, uint32_t link, int fd, uint16_t wire,
                            const struct gyre_traffic_keys *keys);

/* Begins a handshake of a connection that is made anew: the proof of the session's key, both
 * nonces, and the claim of this rank, epoch, purpose and stripe. */
int gyre_watch_start_proof(const struct gyre_watch *watch, struct gyre_handshake *shake,
                           enum gyre_handshake_side side, enum gyre_purpose purpose,
                           uint16_t stripe);

/* Changes what the poller tells about a descriptor. */
void gyre_watch_rearm(struct gyre_watch *watch, int fd, uint32_t events,
                      enum gyre_watch_source source, uint32_t index);
int gyre_watch_listen(struct gyre_watch *watch, int fd, uint32_t events,
                      enum gyre_watch_source source, uint32_t index);

/* Sends a message with a duplicate of the descriptor `pass`, -1: none. */
void gyre_watch_post(struct gyre_watch *watch, uint32_t link,
                     const struct gyre_watch_message *message, int pass);

/* Send what the failure detector owes to one peer, and messages that wait for room. */
void gyre_watch_send_owed(struct gyre_watch *watch, uint32_t link);
void gyre_watch_flush(struct gyre_watch *watch, uint32_t link);

/* Marks the link as broken and tells the failure detector, which decides whether the link may be
 * made anew. */
void gyre_watch_break(struct gyre_watch *watch, uint32_t link, int status);

/* Whether a peer of this node can still answer. */
bool gyre_watch_link_answers(const struct gyre_watch *watch, uint32_t link);

/* -- dial.c ------------------------------------------------------------------------------------ */

struct gyre_dial_goal { /* who is dialled, what for, and whose the poller's events are */
    uint32_t rank;
    enum gyre_purpose purpose;
    uint16_t stripe;
    enum gyre_watch_source source;
    uint32_t index;
};

void gyre_dial_init(struct gyre_dial *dial);
void gyre_dial_drop(struct gyre_watch *watch, struct gyre_dial *dial); /* ends the attempt */
int gyre_dial_take(struct gyre_watch *watch, struct gyre_dial *dial);  /* the talk's socket */

/* Ends the attempt, and says when the next may begin: each pause is twice the one before. */
void gyre_dial_pause(struct gyre_watch *watch, struct gyre_dial *dial);

/* begin: starts an attempt. proceed: acts on an event of its socket. 0: *record is the proof (kind
 * 0) or the peer's record, and there may be more; GYRE_AGAIN: later. Negative: the attempt has
 * failed; -ECONNREFUSED: no process listens there. */
int gyre_dial_begin(struct gyre_watch *watch, struct gyre_dial *dial,
                    const struct gyre_dial_goal *goal);
int gyre_dial_proceed(struct gyre_watch *watch, struct gyre_dial *dial,
                      const struct gyre_dial_goal *goal, struct gyre_record *record);

/* -- redial.c ---------------------------------------------------------------------------------- */

/* ready: acts on an event of a dial. turn: starts dials of links that have broken, and ends those
 * that have taken too long. wake: when to call turn next. */
void gyre_watch_redial_ready(struct gyre_watch *watch, uint32_t link);
void gyre_watch_redial_turn(struct gyre_watch *watch, uint64_t now);
uint64_t gyre_watch_redial_wake(const struct gyre_watch *watch);
void gyre_watch_drop_dials(struct gyre_watch *watch);

/* -- renew.c ----------------------------------------------------------------------------------- */

void gyre_watch_renewal_ready(struct gyre_watch *watch, uint32_t id);
void gyre_watch_renewals_turn(struct gyre_watch *watch, uint64_t now);
uint64_t gyre_watch_renewals_wake(const struct gyre_watch *watch);
void gyre_watch_drop_renewals(struct gyre_watch *watch);

/* Acts on the first record of a proven visitor of that purpose, and answers, or takes the talk's
 * socket. Negative: the visitor makes no sense, or has gone. */
int gyre_watch_hear_renew(struct gyre_watch *watch, struct gyre_talk *talk,
                          const struct gyre_record *record);

/* -- visitors.c -------------------------------------------------------------------------------- */

/* open: listens where the join left a listener. */
int gyre_watch_open_visitors(struct gyre_watch *watch);
void gyre_watch_admit_visitor(struct gyre_watch *watch); /* one is at the listener */
void gyre_watch_hear_visitor(struct gyre_watch *watch, uint32_t visitor);
void gyre_watch_visitors_turn(struct gyre_watch *watch, uint64_t now);
uint64_t gyre_watch_visitors_wake(const struct gyre_watch *watch);
void gyre_watch_drop_visitors(struct gyre_watch *watch);

/* -- share.c, import.c, errands.c -------------------------------------------------------------- */

void gyre_watch_hear_reply(struct gyre_watch *watch, uint32_t link,
                           const struct gyre_watch_message *message);
void gyre_watch_drop_exports(struct gyre_watch *watch);

/* Sleeps while *busy, at most as long as a peer's answer may take, or until the job has failed.
 * False: the time is over. */
bool gyre_watch_await(struct gyre_watch *watch, const bool *busy);

/* Has each peer of this node try a region of CUDA memory that gyre_proof_begin() has filled; no
 * peer keeps the region. agreed[rank], of all ranks, says whether the rank has copied rightly.
 * Without the lock. */
int gyre_watch_offer_trial(struct gyre_watch *watch, const struct gyre_region *region, bool *agreed,
                           struct gyre_trouble *trouble);

/* Has the peers of this node try copies of their own memory, and waits for the answers. */
void gyre_watch_ask_to_try(struct gyre_watch *watch);

struct gyre_watch_answer {       /* to an offer of a region */
    struct gyre_trouble trouble; /* why it is refused; status 0: it is not */
    bool copied;
};

/* Take a region that a peer shares, and give it up; drop_all_cuda: all CUDA memory of peers. With
 * or without the lock, any thread. */
void gyre_watch_take_offer(struct gyre_watch *watch, uint32_t peer,
                           const struct gyre_watch_message *message, int passed,
                           struct gyre_watch_answer *answer);
void gyre_watch_drop_offer(struct gyre_watch *watch, uint32_t peer, uint32_t id);
void gyre_watch_drop_all_cuda(struct gyre_watch *watch);

/* Acts on a SHARE or an UNSHARE, at once or by an errand. `passed` stays the caller's. */
void gyre_watch_hear_region(struct gyre_watch *watch, uint32_t link,
                            const struct gyre_watch_message *message, int passed);
void gyre_watch_answer_errands(struct gyre_watch *watch);

/* dismiss: no errand is begun any more; returns when the last one is done; without the lock. drop:
 * frees what is left, in a forked child errands that its parent does; nobody serves the watch. */
void gyre_watch_dismiss_runner(struct gyre_watch *watch);
void gyre_watch_drop_errands(struct gyre_watch *watch);

/* -- trial.c ----------------------------------------------------------------------------------- */

/* hear_try: a peer asks this rank to try. answer_tries: answers those that asked. end: no trial is
 * under way when it returns; without the lock, when none is begun any more. */
void gyre_watch_hear_try(struct gyre_watch *watch, uint32_t link);
void gyre_watch_answer_tries(struct gyre_watch *watch);
void gyre_watch_end_trial(struct gyre_watch *watch);

/* -- loop.c ------------------------------------------------------------------------------------ */

/* Acts on the events of the watch's poller, if it is `ready`, and takes a turn. Returns when to
 * serve the watch next. Takes the lock itself. */
uint64_t gyre_watch_serve(struct gyre_watch *watch, bool ready);

/* Lets the failure detector look at what this rank does, and acts on its conclusions. */
void gyre_watch_turn(struct gyre_watch *watch);

/* Acts on the failure detector's conclusions: publishes the failure, sends what is owed. */
void gyre_watch_settle(struct gyre_watch *watch);

/* -- thread.c: without the watch's lock -------------------------------------------------------- */

/* Has the process's thread serve the watch, and start for the first one. 0 or -errno. */
int gyre_watch_enlist(struct gyre_watch *watch);

/* Returns when the thread serves the watch no more. With its last watch the thread ends. */
void gyre_watch_dismiss(struct gyre_watch *watch);

/* -- nudge.c: any thread ----------------------------------------------------------------------- */

/* Has the thread serve the watch soon. */
void gyre_watch_nudge(struct gyre_watch *watch);

/* Wakes whoever sleeps on the bell. */
void gyre_watch_ring(const struct gyre_bell *bell);

#endif
