/* The inside of the failure detector, for its files only: failure_detector.c (events), tree.c
 * (channels), orphan.c (ranks whose rank above is lost), failure.c (one failure), inquiry.c (the
 * calls of two ranks that differ), early_leave.c (ranks that left too early), resume.c (channels
 * that broke) and outbox.c (messages). */
#ifndef GYRE_TRANSPORT_WATCH_DETECT_INSIDE_H
#define GYRE_TRANSPORT_WATCH_DETECT_INSIDE_H

#include "transport/watch/detect/failure_detector.h"
#include "transport/watch/detect/audit.h"

/* The messages that a channel is owed. The lowest bit is the most urgent. */
enum gyre_detector_owed {
    GYRE_OWED_FAILURE = 1,
    GYRE_OWED_ASK = 2,
    GYRE_OWED_TELL = 4,
    GYRE_OWED_BYE = 8,
    GYRE_OWED_ALL_BYE = 16,
    GYRE_OWED_WARNING = 32,
    GYRE_OWED_BEAT = 64,
    GYRE_OWED_RELAY = 128 /* goodbyes of ranks below, upwards */
};

/* The place of a channel's peer in the deep tree of a job of many nodes, or with a large one. */
enum gyre_detector_kin {
    GYRE_KIN_NONE,  /* of this node, and neither above nor below; in a flat job all peers */
    GYRE_KIN_ABOVE, /* on the way from this rank to rank 0 */
    GYRE_KIN_BELOW  /* this rank is on the way from it to rank 0 */
};

enum gyre_detector_ask { GYRE_ASK_NONE, GYRE_ASK_DUE, GYRE_ASK_SENT };

enum gyre_detector_stage {
    GYRE_DETECTOR_CALM,
    GYRE_DETECTOR_HELD,
    GYRE_DETECTOR_PROPOSED,
    GYRE_DETECTOR_DECIDED
};

struct gyre_detector_channel {
    uint32_t peer;
    uint8_t owed;
    enum gyre_detector_kin kin;
    enum gyre_detector_ask ask; /* the peer's state is asked for, over this channel or another */
    bool tree_edge;             /* an edge of the tree: beats both ways, silence counts */
    bool near;                  /* the peer is of this node, and this rank sees its process end */
    bool closed;                /* no connection has been made: see orphan.c */
    bool heard, left, gone;
    bool broken;   /* its connection is lost, and a new one is being made */
    int broken_by; /* the negative errno */
    uint64_t heard_at, broken_at;
    struct gyre_watch_state last; /* its state at its goodbye */
};

struct gyre_detector_post { /* a rank's state that rank 0 has not been told yet */
    struct gyre_watch_state state;
    bool fresh, known; /* known: there is a state */
    bool tell, told;   /* rank 0 has asked for it: an answer is owed; one was sent */
    bool bye;          /* the rank below has left, and the rank above has not been told */
};

struct gyre_detector_side { /* of a mismatch: a rank that rank 0 has asked */
    uint32_t rank;
    bool told;
};

struct gyre_failure_detector {
    struct gyre_detector_options is;
    uint64_t now, granted, clock; /* clock = now − granted */
    uint64_t interval, lateness_max, next_beat, held_at, deadline;
    uint64_t climb_at;              /* while a failure waits, in a deep tree: see orphan.c */
    uint64_t stood_ns, stood_until; /* the last time that it did not run for the dead time */
    enum gyre_detector_stage stage;
    bool is_final; /* the record is decided for the whole job, or counts as decided */
    bool leaving, all_left, warned;
    bool told_rootless; /* the rank above has said so: see gyre_detector_rootless() */
    bool asked;         /* rank 0 wants this rank's state */
    struct gyre_detector_side side[2]; /* rank 0 only, while a mismatch is HELD */
    struct gyre_watch_state mine;      /* as of the last beat, or of the goodbye */
    struct gyre_detector_record record;
    char warning[GYRE_WATCH_TEXT_MAX];
    uint32_t warning_comm; /* the operation of the warning */
    uint64_t warning_sequence;
    uint32_t holder; /* while HELD: the rank that found it */
    /* All ranks node after node; each one's place in its node; where a node begins in `order`. */
    uint32_t *order, *place, *first;
    uint32_t depth; /* of the deep tree; 0: the job is flat */
    /* The channel to the rank above, to which beats go; -1: none, or nobody is left there. */
    int up;
    uint32_t channels, left;
    struct gyre_detector_channel *channel; /* by peer, ascending */
    struct gyre_detector_post *post;       /* [0] this rank, [1 + i] channel i; unused on rank 0 */
    struct gyre_call_audit *audit;         /* rank 0 only */
};

/* Whether a failure is known that is not decided. */
static inline bool gyre_detector_waits(const struct gyre_failure_detector *detector)
{
    return detector->stage == GYRE_DETECTOR_HELD || detector->stage == GYRE_DETECTOR_PROPOSED;
}

/* Sets the clock, which leaves out time in which the failure detector did not run. */
static inline void gyre_detector_advance(struct gyre_failure_detector *detector, uint64_t now)
{
    uint64_t gap = now - detector->now;

    if (gap > detector->lateness_max)
        detector->granted += gap - detector->interval;
    detector->now = now;
    detector->clock = now - detector->granted;
    if (detector->is.dead_ns > 0 && gap > detector->is.dead_ns) {
        detector->stood_ns = gap;
        detector->stood_until = detector->clock;
    }
}

/* tree.c */
int gyre_detector_make_channels(
    struct gyre_failure_detector *detector); /* draws channels, makes tables; 0, -ENOMEM */

/* The rank above in the tree; of rank 0 itself. */
uint32_t gyre_detector_parent(const struct gyre_failure_detector *detector, uint32_t rank);

/* The channel over which this rank reaches rank 0, at first hand or not. NULL: there is none. */
struct gyre_detector_channel *gyre_detector_root_channel(
    const struct gyre_failure_detector *detector);

/* Whether rank 0 can neither be told nor answer. */
bool gyre_detector_without_root(const struct gyre_failure_detector *detector);

/* Whether rank 0's words come over the channel. */
bool gyre_detector_is_above(const struct gyre_failure_detector *detector,
                            const struct gyre_detector_channel *channel);

/* The channel over which a rank is reached that is a peer, or below one; NULL: there is none. */
struct gyre_detector_channel *gyre_detector_way(struct gyre_failure_detector *detector,
                                                uint32_t rank);

/* The rank of which a last word tells that came over the channel: whatever it says, the channel's
 * peer or one below that. Another way to that rank may be open since it set out. */
uint32_t gyre_detector_sender(const struct gyre_failure_detector *detector,
                              const struct gyre_detector_channel *source, uint32_t rank);

/* orphan.c. climb: turns to the next rank above, if the rank at this channel was it; false: none is
 * left, and nobody answers what waits for rank 0. climb_past: goes round the rank above, if there
 * is another. call_orphans: has connections made to the ranks just below one that is lost. */
bool gyre_detector_climb(struct gyre_failure_detector *detector,
                         const struct gyre_detector_channel *lost);
void gyre_detector_climb_past(struct gyre_failure_detector *detector);
void gyre_detector_call_orphans(struct gyre_failure_detector *detector, uint32_t lost);

/* failure.c. A failure whose cause is known; one that may be the echo of another; one that a peer
 * tells; one that counts at once; and the end of the time to wait. */
void gyre_detector_found(struct gyre_failure_detector *detector,
                         const struct gyre_detector_record *record);
void gyre_detector_hold(struct gyre_failure_detector *detector, uint32_t holder,
                        const struct gyre_detector_record *record);
void gyre_detector_hear_failure(struct gyre_failure_detector *detector,
                                const struct gyre_detector_channel *source,
                                const struct gyre_watch_message *message);
void gyre_detector_adopt(struct gyre_failure_detector *detector,
                         const struct gyre_detector_record *record);
void gyre_detector_stop_waiting(struct gyre_failure_detector *detector);
void gyre_detector_root_gone(
    struct gyre_failure_detector *detector); /* nobody answers what waits for rank 0 */
void gyre_detector_all_told(
    struct gyre_failure_detector *detector); /* waits for no rank longer than for an echo */

/* Writes "rank 3 (host, pid 123) " and the rest as the format says. */
void gyre_detector_compose(const struct gyre_failure_detector *detector,
                           struct gyre_detector_record *record, int status, uint32_t rank,
                           const char *format, ...) __attribute__((format(printf, 5, 6)));

/* inquiry.c, on rank 0. Takes the answer of a rank that was asked. With both answers it tells what
 * the two ranks that differ called. */
void gyre_detector_hear_tell(struct gyre_failure_detector *detector,
                             const struct gyre_detector_channel *source,
                             const struct gyre_watch_message *message);
void gyre_detector_settle_inquiry(struct gyre_failure_detector *detector);

/* early_leave.c. Compares this rank's operations with those of a peer that has left. */
void gyre_detector_compare(struct gyre_failure_detector *detector,
                           const struct gyre_detector_channel *channel);

/* resume.c. overdue: the time of a broken channel is over. find_unresumed: finds one that had been
 * made; true: *record tells it. */
bool gyre_detector_overdue(const struct gyre_failure_detector *detector,
                           const struct gyre_detector_channel *channel);
bool gyre_detector_find_unresumed(struct gyre_failure_detector *detector,
                                  struct gyre_detector_record *record);

/* outbox.c */
void gyre_detector_owe(struct gyre_failure_detector *detector, enum gyre_detector_owed what,
                       const struct gyre_detector_channel *except);

/* Sends a question for that rank on its way. */
void gyre_detector_ask(struct gyre_failure_detector *detector, uint32_t rank);

/* Asks the ranks whose present states the call audit needs. Rank 0 only. */
void gyre_detector_ask_doubted(struct gyre_failure_detector *detector);

/* Asks the two ranks that differ about their calls. Rank 0 only. */
void gyre_detector_inquire(struct gyre_failure_detector *detector, uint32_t holder, uint32_t other);

#endif
