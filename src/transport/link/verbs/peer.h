/* Inside the verbs driver: what it keeps of each peer, and what its files do with that. wire.h has
 * what a process has once.
 *
 * A pipe has a queue pair, or several, over one device or several, in the same order at both ends.
 * The first queue pair carries the records; of a long message each carries its share
 * (remote_write.c).
 *
 * Of a direction, the sender has an *outbox* and the receiver an *inbox* of the same size:
 *
 *        outbox  ── RDMA WRITE with immediate ──▶  inbox         a *record*: one request,
 *        outbox  ◀── "k records are consumed" ───  inbox         in order, never across the end
 *
 * The immediate says what the request carries: a record and its length, a part of a long message,
 * or nothing. Each immediate acknowledges records of the other direction, too. So one completion
 * queue tells in order what came from every peer, and only when the bytes are there, also where a
 * network delivers out of order. Short records are written to slots instead, where the receiver may
 * see them sooner. A request with an immediate uses up one posted receive of the other side; the
 * window bounds such requests to the receives that are posted.
 *
 *     immediate   │ kind 2 │ consumed records 8 │ slot 1 │ whole 1 │ advance 4 │ length 16 │
 *                                               │ number of a long message 22            │
 *
 * The files, a user above what it uses:
 *
 *     verbs.c           the driver's entries; whose turn it is
 *     meet.c            two ends find out over their socket whether they reach each other
 *     events.c          what sockets and devices say beside completions
 *     completions.c     what devices say of requests and receives, and which pipe hears it
 *     pipe.c            one pipe: its stream's bytes through two rings
 *     tcp_fallback.c    how a broken pipe goes on over its socket, where that was asked for
 *     remote_write.c    long messages, from where they lie to where they belong
 *     timeouts.c        what neither answers nor fails
 *     slot.c            short messages, seen in memory
 *     head.c            headers that need not travel
 *     fault.c           how a pipe breaks, and what its failure says
 *     offer.c           what two ends tell each other before they are connected
 *     queue.c           queue pairs and requests
 *     device.c          the wire's devices, staging
 *     memory.c          memory that is registered; dmabuf.c for a GPU's
 *     card.c            one device, its limits
 *     port.c            which device, port and GID
 *     rail.c            which of several ports that are as good
 *     verbs_absent.c    the driver of a build without libibverbs */
#ifndef GYRE_TRANSPORT_LINK_VERBS_PEER_H
#define GYRE_TRANSPORT_LINK_VERBS_PEER_H

#include "transport/link/verbs/wire.h"

#define GYRE_VERBS_RECORD (32u * 1024) /* bytes of a record at most */
#define GYRE_VERBS_BATCH  16           /* requests given to the device at once */
#define GYRE_VERBS_SIGNAL 16           /* one request in so many has a completion */
#define GYRE_VERBS_INLINE 256          /* bytes that travel in the request itself, if possible */
#define GYRE_VERBS_HELD   128          /* more immediates than a peer may have under way */
#define GYRE_VERBS_OFFER  128          /* bytes */
#define GYRE_VERBS_STORY  1024

/* 4 µs × 2^16 = 0.27 s for each answer, so a peer is given up after 2 to 8 s; rxe takes 7 tries for
 * "for ever". A peer without a posted receive is a defect, not a delay. */
#define GYRE_VERBS_TIMEOUT_CODE 16
#define GYRE_VERBS_TRIES        6

struct ibv_qp;
struct ibv_wc;

/* What one end of a queue pair tells the other. */
struct gyre_verbs_end {
    bool willing;
    uint8_t gid[16];
    uint16_t lid;
    uint8_t mtu;
    uint32_t number; /* of its queue pair */
    uint32_t first;  /* packet sequence number */
    uint64_t inbox;  /* address; of another than the first, where its test write goes */
    uint32_t key;    /* of the inbox and the slots */
    uint32_t ring;   /* bytes of the inbox */
    uint64_t slots;  /* address */
    uint32_t window; /* records that may stand unconsumed */
    uint8_t network; /* InfiniBand, RoCE v1 or v2: enum ibv_gid_type */
    uint8_t version; /* of the verbs link */
    bool falls_back; /* goes on over TCP when a queue pair breaks */
    uint8_t queues;  /* how many queue pairs it would have */
    char reason[64]; /* why it is not willing */
};

/* The two top bits of an immediate. */
enum gyre_verbs_kind {
    GYRE_VERBS_RECORD_CAME = 0,
    GYRE_VERBS_ONLY_ACK = 1,
    GYRE_VERBS_PROBE = 2,
    GYRE_VERBS_ARRIVED = 3 /* a long message, by its number */
};

#define GYRE_VERBS_KIND_SHIFT     30
#define GYRE_VERBS_CONSUMED_SHIFT 22
#define GYRE_VERBS_CONSUMED_MOST  255u

/* Beside a record's length. */
#define GYRE_VERBS_IN_SLOT       (1u << 21)
#define GYRE_VERBS_WHOLE         (1u << 20) /* one frame: the next may refer to its header */
#define GYRE_VERBS_ADVANCE       15u        /* head.c; 0: the header is there */
#define GYRE_VERBS_ADVANCE_SHIFT 16
#define GYRE_VERBS_HEAD          32 /* bytes of a header */

#define GYRE_VERBS_SEND_BIT UINT64_C(1) /* of a completion's name: a request's, not a receive's */

/* An RDMA write. */
struct gyre_verbs_request {
    const void *from;
    uint32_t key, length; /* of `from` */
    bool on_device;       /* the CPU cannot read `from` */
    uint64_t to;
    uint32_t to_key;
    bool tells; /* has an immediate: of this kind, with this word */
    enum gyre_verbs_kind kind;
    uint32_t word;
    struct gyre_send *ends; /* the message whose last request on this queue pair it is, or NULL */
    bool signalled;         /* put() decides */
};

/* A queue pair, and what is under way on it. */
struct gyre_verbs_queue {
    struct gyre_verbs_pipe *pipe;
    struct gyre_verbs_card *card;
    struct ibv_qp *pair; /* NULL: none yet, or not any more */
    uint32_t inline_most;
    struct gyre_verbs_end mine, theirs;
    bool proven;      /* by test writes; a failure before that concerns nobody else */
    bool test_came;   /* the peer's test write */
    char refused[64]; /* what went wrong before it was proven */

    /* Out. Counted for ever. */
    uint32_t sends, sends_done;               /* requests */
    uint32_t told;                            /* requests that the device has said are done */
    uint32_t asked;                           /* requests up to the last one with a completion */
    bool owes;                                /* a message ends after `asked` */
    int refusal;                              /* errno with which the device refused requests */
    struct gyre_send *ends[GYRE_VERBS_SENDS]; /* by request: as in struct gyre_verbs_request */
    uint32_t signalled[GYRE_VERBS_SENDS];     /* up to which request a completion tells */
    uint32_t signals, signals_done;
    uint32_t answers;    /* signals_done when timeouts were last checked */
    uint32_t unanswered; /* checks in a row without another answer */
    struct gyre_verbs_request batch[GYRE_VERBS_BATCH]; /* not given to the device yet */
    uint32_t batched;

    uint32_t receives; /* posted, and not ended */
    uint32_t used;     /* not posted again yet */

    /* Of each queue pair but the first: messages whose share has left here, or come, and whose
     * completion on the first queue pair has not. */
    uint32_t shares_left, shares_come;
};

enum gyre_verbs_fallback_state {
    GYRE_VERBS_DIRECT,
    GYRE_VERBS_BREAKING,
    GYRE_VERBS_TELLING,
    GYRE_VERBS_ON_FALLBACK
};

#define GYRE_VERBS_FALLBACK_HEAD 16

/* A pipe on its way to TCP, or there. */
struct gyre_verbs_tcp_fallback {
    enum gyre_verbs_fallback_state state;
    int status; /* the pipe fails with it if TCP cannot go on */
    uint64_t deadline;

    /* Out: the frame under way, then what has to be sent again. */
    uint8_t out_head[GYRE_VERBS_FALLBACK_HEAD];
    uint32_t head_left;
    const uint8_t *body;
    uint64_t body_left;
    struct gyre_send *ends; /* with this frame; NULL: none */
    uint64_t repeat_at;     /* of `written` */

    /* In: the frame under way. */
    uint8_t in_head[GYRE_VERBS_FALLBACK_HEAD];
    uint32_t in_have, kind, number;
    uint64_t in_left;
};

struct gyre_verbs_pipe {
    struct gyre_pipe end;
    struct gyre_verbs_wire *wire;
    uint32_t index, serial;
    int fd[8],
        fds; /* sockets; the two ends met over the first, which ends with the peer's process */
    struct gyre_verbs_queue queue[GYRE_VERBS_QUEUES];
    struct gyre_verbs_queue *way[GYRE_VERBS_QUEUES]; /* the proven ones; queue[0] is first */
    uint32_t ways;
    uint8_t *inbox, *slots, *outbox;

    /* Out. Bytes and records are counted for ever. */
    uint64_t written, freed;
    uint32_t records, consumed; /* put out; consumed by the peer */
    uint64_t end_of[GYRE_VERBS_WINDOW];
    uint32_t announced;                /* long messages, for ever */
    uint8_t head_out[GYRE_VERBS_HEAD]; /* of the last record that was one frame */

    /* Out, past the rings: the message that is being written. */
    struct gyre_stream_write write;
    uint64_t write_at;
    uint32_t write_key[GYRE_VERBS_QUEUES];
    bool writing, write_on_device;

    /* In. */
    uint64_t read, read_told;
    uint32_t taken, taken_told;       /* records */
    uint32_t ahead;                   /* records seen in a slot, and not completed yet */
    uint32_t arrived;                 /* long messages */
    uint8_t head_in[GYRE_VERBS_HEAD]; /* of the last record that was one frame */
    uint32_t held[GYRE_VERBS_HELD];   /* immediates behind a long message that lacks a share */
    uint32_t held_next, held_done;

    uint32_t posts;  /* accepted and not yet fetched */
    bool parting;    /* bye() was called */
    bool hangup;     /* the socket has ended, and the meaning of that is not settled yet */
    bool ended;      /* now it is */
    bool broken;     /* the queue pairs are of no use any more */
    bool busy;       /* on wire->busy */
    bool falls_back; /* both ends do, if a queue pair breaks */
    struct gyre_verbs_tcp_fallback fallback;
    uint64_t hangup_at;
    TAILQ_ENTRY(gyre_verbs_pipe) in_busy;
};

static inline bool gyre_verbs_is_first(const struct gyre_verbs_queue *queue)
{
    return queue == queue->pipe->queue;
}

/* The pipe has something to do. */
static inline void gyre_verbs_mark(struct gyre_verbs_pipe *pipe)
{
    if (pipe->busy)
        return;
    pipe->busy = true;
    TAILQ_INSERT_TAIL(&pipe->wire->busy, pipe, in_busy);
}

/* -- queue.c ----------------------------------------------------------------------------------- */

int gyre_verbs_queue_create(struct gyre_verbs_queue *queue, struct gyre_trouble *trouble);
void gyre_verbs_queue_destroy(struct gyre_verbs_queue *queue); /* nothing is touched any more */
void gyre_verbs_queue_destroy_all(struct gyre_verbs_pipe *pipe);
void gyre_verbs_queue_stop_all(struct gyre_verbs_pipe *pipe); /* they go to their error state */

/* Connects to the peer that `theirs` describes, and posts receives. */
int gyre_verbs_queue_connect(struct gyre_verbs_queue *queue, struct gyre_trouble *trouble);

/* put() needs room(). flush() gives the device what was put; until then nobody may change the bytes
 * that are to be written. flush(): 0, or the errno with which the device refuses. */
uint32_t gyre_verbs_queue_room(const struct gyre_verbs_queue *queue);
void gyre_verbs_queue_put(struct gyre_verbs_queue *queue, const struct gyre_verbs_request *request);
int gyre_verbs_queue_flush(struct gyre_verbs_queue *queue);

/* One receive was used up. 0, or the errno with which the device refuses another. */
int gyre_verbs_queue_renew(struct gyre_verbs_queue *queue);

/* The queue pair of a completion; NULL: the pipe is gone. */
struct gyre_verbs_queue *gyre_verbs_queue_named(const struct gyre_verbs_wire *wire, uint64_t name);

/* -- offer.c ----------------------------------------------------------------------------------- */

/* Describes this end. *why, if something has failed, says why this end is not willing. */
int gyre_verbs_offer_write(struct gyre_verbs_queue *queue, const struct gyre_trouble *why,
                           uint8_t out[GYRE_VERBS_OFFER]);

/* GYRE_UNSUPPORTED: this end or the peer's is not willing, or the two do not fit. */
int gyre_verbs_offer_read(struct gyre_verbs_queue *queue, const struct gyre_trouble *why,
                          const uint8_t in[GYRE_VERBS_OFFER], struct gyre_trouble *trouble);

/* -- fault.c ----------------------------------------------------------------------------------- */

/* The queue pair is of no use any more: the pipe goes on over TCP, or fails. break_all(): every
 * pipe on that card. flush(): as queue_flush(); a refusal breaks the pipe. */
void gyre_verbs_break(struct gyre_verbs_queue *queue, int status, const char *what);
void gyre_verbs_break_all(struct gyre_verbs_wire *wire, const struct gyre_verbs_card *card,
                          int status, const char *what);
void gyre_verbs_flush(struct gyre_verbs_queue *queue);

/* The pipe fails. fail_stream(): by what the stream says. */
void gyre_verbs_fail(struct gyre_verbs_queue *queue, int status, const char *what);
void gyre_verbs_fail_stream(struct gyre_verbs_pipe *pipe, int status);

/* A queue pair that is not proven has failed. */
void gyre_verbs_refuse(struct gyre_verbs_queue *queue, const char *what);

/* -- head.c ------------------------------------------------------------------------------------ */

/* By how much this record's header is ahead of the last one; 0: the header has to travel. */
uint32_t gyre_verbs_head_advance(const struct gyre_verbs_pipe *pipe, const uint8_t *record,
                                 uint32_t length);

/* Writes the header that is so much ahead of `last`; false: `last` is none. */
bool gyre_verbs_head_write(const uint8_t last[GYRE_VERBS_HEAD], uint32_t advance, uint8_t *record);

/* -- slot.c ------------------------------------------------------------------------------------ */

/* A record of this length may go to a slot. */
bool gyre_verbs_slot_fits(const struct gyre_verbs_pipe *pipe, uint32_t length);

/* Sends the record of this number; the slot's trailer is written behind the frame. */
void gyre_verbs_slot_put(struct gyre_verbs_pipe *pipe, uint32_t number, uint8_t *frame,
                         uint32_t length);

/* Copies the record of this number; returns its length, or 0: the record is not there yet. */
uint32_t gyre_verbs_slot_read(const struct gyre_verbs_pipe *pipe, uint32_t number,
                              uint8_t frame[GYRE_VERBS_SLOT]);

/* -- timeouts.c -------------------------------------------------------------------------------- */

void gyre_verbs_check_timeouts(struct gyre_verbs_wire *wire, uint64_t now);

/* -- tcp_fallback.c ---------------------------------------------------------------------------- */

/* Serves all pipes of the wire that go by TCP, or are about to. True: something moved, or the wire
 * must not sleep. `now` 0: not known. */
bool gyre_verbs_fallback_serve(struct gyre_verbs_wire *wire, uint64_t now);
bool gyre_verbs_fallback_push(struct gyre_verbs_pipe *pipe);       /* true: something moved */
bool gyre_verbs_fallback_done(const struct gyre_verbs_pipe *pipe); /* the socket has all there is */

/* -- remote_write.c ---------------------------------------------------------------------------- */

/* Post to the pipe's stream. A long message's memory is registered, if it can be. */
int gyre_verbs_remote_write_send(struct gyre_verbs_pipe *pipe, const struct gyre_match *match,
                                 const void *data, uint64_t length, uint64_t token);
int gyre_verbs_remote_write_recv(struct gyre_verbs_pipe *pipe, const struct gyre_match *match,
                                 void *data, uint64_t length, uint64_t token);

bool gyre_verbs_remote_write_push(struct gyre_verbs_pipe *pipe); /* true: something moved */

/* The peer says that it has written the message of this number. 0, or what fails the stream. */
int gyre_verbs_remote_write_arrived(struct gyre_verbs_pipe *pipe, uint32_t number);

/* All shares of a message have left, or come, whose completion on the first queue pair has; they
 * are counted off then. */
bool gyre_verbs_remote_write_is_whole(struct gyre_verbs_pipe *pipe, uint64_t length, bool out);

/* -- pipe.c ------------------------------------------------------------------------------------ */

bool gyre_verbs_pipe_push(struct gyre_verbs_pipe *pipe); /* true: something moved */

/* False: the message has to go through the stream. */
bool gyre_verbs_pipe_send_now(struct gyre_verbs_pipe *pipe, const struct gyre_match *match,
                              const void *data, uint64_t length, uint64_t token);

/* An immediate has come. */
void gyre_verbs_pipe_came(struct gyre_verbs_queue *queue, uint32_t immediate);

/* Takes the records that are due and stand in their slots; false: none does. */
bool gyre_verbs_pipe_look(struct gyre_verbs_pipe *pipe);

/* -- completions.c ----------------------------------------------------------------------------- */

/* Takes all completions; false: there was none. */
bool gyre_verbs_drain(struct gyre_verbs_wire *wire);
void gyre_verbs_fail_request(struct gyre_verbs_queue *queue, const struct ibv_wc *done);

/* -- events.c ---------------------------------------------------------------------------------- */

/* Hears sockets and the devices' events. */
void gyre_verbs_hear_events(struct gyre_verbs_wire *wire);

/* Decides what the end of a socket means, when all completions have been read. */
void gyre_verbs_end_hangups(struct gyre_verbs_wire *wire, uint64_t now);

/* -- meet.c ------------------------------------------------------------------------------------ */

/* Makes the queue pairs and agrees with the peer, over the first socket, over which of them the two
 * write to each other; the peer does the same, and is waited for. 0: proven by a write each way.
 * GYRE_UNSUPPORTED: both ends know that no queue pair serves, and the socket is as it was. */
int gyre_verbs_meet(struct gyre_verbs_pipe *pipe, struct gyre_trouble *trouble);

/* How long a peer is waited for. */
uint64_t gyre_verbs_meet_ms(uint32_t meetings);

#endif
