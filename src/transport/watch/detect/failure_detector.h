/* The failure detector: a state machine without I/O, clock or thread. Thousands of them run against
 * each other in one test, in virtual time.
 *
 *    tick(now, state) ─┐                      ┌─▶ next_message(channel): what to send
 *    receive(message) ─┤      ┌───────┐       ├─▶ failure(): the job's first failure, once decided
 *    broken, resumed  ─┤      │detect │ ──────┼─▶ take_warning(): a line for the log
 *    eof, ended       ─┼────▶ └───────┘       ├─▶ all_left(): everybody has said goodbye
 *    report, leave    ─┘                      └─▶ wake(): when to tick next
 *
 * A *channel* leads to one peer. Every rank has one to each rank of its node and one to rank 0. In
 * a job of many nodes, or with a large one, the lowest ranks of nodes are a tree, as the ranks of a
 * large node are, and a rank has channels along the tree only (tree.c). Channels are numbered by
 * peer, ascending.
 * Nothing is allocated after create(). One thread at a time. */
#ifndef GYRE_TRANSPORT_WATCH_DETECT_FAILURE_DETECTOR_H
#define GYRE_TRANSPORT_WATCH_DETECT_FAILURE_DETECTOR_H

#include "transport/join/joined.h"
#include "transport/watch/detect/message.h"

#define GYRE_NOBODY UINT32_MAX /* the rank of a failure that is no rank's in particular */

struct gyre_failure_detector;

struct gyre_detector_options {
    uint32_t rank, n;
    uint16_t epoch;
    uint32_t fan_out; /* of the tree; 0: rank 0 has a channel to each, and no node is large */
    const struct gyre_member *member; /* n, borrowed */
    uint64_t dead_ns;                 /* 0: silence never counts as death */
    uint64_t timeout_ns;              /* limit of one operation, 0: none */
    /* A rank that waits longer is warned, with the ranks for which it waits. */
    uint64_t patience_ns;
};

struct gyre_detector_record {
    int status;    /* negative */
    uint32_t rank; /* the rank that failed, or GYRE_NOBODY */
    char text[GYRE_WATCH_TEXT_MAX];
};

int gyre_detector_create(const struct gyre_detector_options *options, uint64_t now,
                         struct gyre_failure_detector **detector);
void gyre_detector_destroy(struct gyre_failure_detector *detector); /* NULL allowed */

uint32_t gyre_detector_channels(const struct gyre_failure_detector *detector);
uint32_t gyre_detector_peer(const struct gyre_failure_detector *detector, uint32_t channel);
int gyre_detector_channel(const struct gyre_failure_detector *detector,
                          uint32_t peer); /* -1: there is none */
bool gyre_detector_has_left(const struct gyre_failure_detector *detector,
                            uint32_t channel); /* said goodbye */

/* Whether the channel's peer is of this node, and this rank has met it, so that it sees its end. */
bool gyre_detector_near(const struct gyre_failure_detector *detector, uint32_t channel);

/* Whether the channel has no connection from the start. One is made as where it broke, if the rank
 * above the higher of the two is lost. */
bool gyre_detector_closed(const struct gyre_failure_detector *detector, uint32_t channel);

/* -- what happens ---------------------------------------------------------------------------------
 * `now` never runs backwards; it may jump, which the failure detector takes for its own
 * lateness. */

void gyre_detector_tick(struct gyre_failure_detector *detector, uint64_t now,
                        const struct gyre_watch_state *mine);

/* Takes a message. BEAT, FAILURE, WARNING, BYE and ALL_BYE have effects; other kinds only prove
 * that the peer lives. */
void gyre_detector_receive(struct gyre_failure_detector *detector, uint64_t now, uint32_t channel,
                           const struct gyre_watch_message *message);

/* Takes the news that a channel brings bytes that the peer did not send. The channel's end
 * follows. */
void gyre_detector_corrupt(struct gyre_failure_detector *detector, uint64_t now, uint32_t channel);

/* Takes the break of a channel to another node, whose peer may live: `status` is the negative errno
 * of its socket. True: the channel is not given up. The caller makes it anew and calls resumed(),
 * or learns that the peer's process has ended and calls eof(). Until then the channel's messages
 * stay owed, and the dead time limits the wait. False: the caller calls eof(). */
bool gyre_detector_broken(struct gyre_failure_detector *detector, uint64_t now, uint32_t channel,
                          int status);

/* Takes a new connection of a channel, whose old one may have lost messages on the way. Whatever
 * the peer must know is owed once more, which is harmless where the peer knows it already. Also for
 * a peer that counts as lost: it learns of the failure. */
void gyre_detector_resumed(struct gyre_failure_detector *detector, uint64_t now, uint32_t channel);

/* Takes the call of a rank above to which the channel is closed. The caller makes a connection, and
 * calls resumed(). */
void gyre_detector_called(struct gyre_failure_detector *detector, uint64_t now, uint32_t channel);

/* Whether the channel is broken and not given up. */
bool gyre_detector_awaits(const struct gyre_failure_detector *detector, uint32_t channel);

/* Takes the end of a channel. The caller reads the channel to its end first. `why` may be NULL. */
void gyre_detector_eof(struct gyre_failure_detector *detector, uint64_t now, uint32_t channel,
                       const char *why);

/* Takes the end of the peer's process (pidfd). The caller reads its channel to the end first. */
void gyre_detector_ended(struct gyre_failure_detector *detector, uint64_t now, uint32_t channel);

void gyre_detector_launcher_gone(struct gyre_failure_detector *detector, uint64_t now);

/* Takes a report of gyre_watch_report(): decides at once, or holds the failure back while it may be
 * an echo. */
void gyre_detector_report(struct gyre_failure_detector *detector, uint64_t now,
                          const struct gyre_detector_record *record, bool echo);

/* Says goodbye: this rank has finished; `mine` is how far it got. */
void gyre_detector_leave(struct gyre_failure_detector *detector, uint64_t now,
                         const struct gyre_watch_state *mine);

/* -- what follows ------------------------------------------------------------------------------ */

/* Writes the next message for the channel (at most GYRE_WATCH_MESSAGE_MAX bytes) and forgets that
 * it was owed; 0: none. The messages owed are a set, not a queue: a channel that takes nothing for
 * a while costs nothing. */
size_t gyre_detector_next_message(struct gyre_failure_detector *detector, uint32_t channel,
                                  uint8_t *out);

/* The failure once it is decided, NULL before. It never changes again. */
const struct gyre_detector_record *gyre_detector_failure(
    const struct gyre_failure_detector *detector);

/* A line for the log, once; NULL: none. Valid until the next call of any kind. */
const char *gyre_detector_take_warning(struct gyre_failure_detector *detector);
bool gyre_detector_all_left(const struct gyre_failure_detector *detector);

/* Whether rank 0 has left before this rank. Nobody tells this rank of failures on other nodes any
 * more. */
bool gyre_detector_rootless(const struct gyre_failure_detector *detector);

/* Whether all have left and those of other nodes to which this rank has said so know it: each has
 * closed its channel. If this rank ended before, and a channel broke, its peer would take it for
 * dead. */
bool gyre_detector_may_end(const struct gyre_failure_detector *detector);
uint64_t gyre_detector_wake(const struct gyre_failure_detector *detector);

/* A time from now by the detector's clock, which stands still while this process does not run; and
 * how long it is until such a time: 0: it has come. */
uint64_t gyre_detector_in(const struct gyre_failure_detector *detector, uint64_t ns);
uint64_t gyre_detector_left(const struct gyre_failure_detector *detector, uint64_t time);

#endif
