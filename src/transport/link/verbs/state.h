/* What the verbs driver knows of its devices, its peers, and what is on the way.
 *
 * A pipe has a queue pair, or several, over one device or several, in the same order at both ends.
 * The first one carries the records; of a long message each carries its share (remote_write.c).
 *
 * Of a direction, the sender has an *outbox* and the receiver an *inbox* of the same size:
 *
 *        outbox  ── RDMA WRITE with immediate ──▶  inbox         a *record*: one request,
 *        outbox  ◀─ "k records are consumed" ────  inbox         in order, never across the end
 *
 * The immediate says what a request was: a record and its length, or nothing but news, and in each
 * case how many records its sender has consumed meanwhile. So one completion queue tells what came,
 * from whomever, in order, and only when it is really there, also where a network delivers out of
 * order. Short records are written to slots instead, where they may be seen sooner. A request with
 * an immediate uses up one posted receive of the other side; the window sees to it that there
 * always is one. */
#ifndef GYRE_TRANSPORT_LINK_VERBS_STATE_H
#define GYRE_TRANSPORT_LINK_VERBS_STATE_H

#include "transport/link/driver.h"
#include "transport/stream/stream.h"

#include <sys/queue.h>

#define GYRE_VERBS_POSTS      256           /* sends, and as many receives, on a pipe */
#define GYRE_VERBS_RING       (256u * 1024) /* bytes of an inbox, and of an outbox */
#define GYRE_VERBS_RING_LEAST (16u * 1024)
#define GYRE_VERBS_RECORD     (32u * 1024) /* bytes of a record at most */
#define GYRE_VERBS_WINDOW     64           /* records that the peer has not consumed */
#define GYRE_VERBS_PLACES     32           /* where the peer may write a long message */
#define GYRE_VERBS_REGIONS    64           /* of memory that are registered */
#define GYRE_VERBS_NEWS                                                                            \
    8                         /* requests that only say what is consumed: a quarter of
                                              the window or of the ring each, so 4 of either */
#define GYRE_VERBS_SENDS  128 /* requests in a send queue */
#define GYRE_VERBS_RENEW  8   /* receives posted at once, beyond those that a peer may use */
#define GYRE_VERBS_BATCH  16  /* given to the device at once */
#define GYRE_VERBS_SIGNAL 16  /* every so many of them tell that they are done */
#define GYRE_VERBS_INLINE 256 /* bytes that travel in the request itself, if possible */
#define GYRE_VERBS_SLOT   256 /* bytes of a slot; as many slots as the window has records */

/* 4 µs × 2^16 = 0.27 s for each answer, so a peer is given up after 2 to 8 s; rxe takes 7 tries for
 * "for ever". A peer without a posted receive is a defect, not a delay. */
#define GYRE_VERBS_TIMEOUT_CODE 16
#define GYRE_VERBS_TRIES        6

#define GYRE_VERBS_NAME_MAX 48
#define GYRE_VERBS_STORY    1024
#define GYRE_VERBS_PORTS    16                     /* that a node's ranks are spread over at most */
#define GYRE_VERBS_QUEUES   GYRE_REMOTE_WRITE_KEYS /* queue pairs to a peer, and devices, at most */
#define GYRE_VERBS_HELD     128  /* more immediates than a peer may have under way */
#define GYRE_VERBS_TEST     8192 /* bytes of a test write */
#define GYRE_VERBS_OFFER    128  /* bytes */

struct ibv_context;
struct ibv_pd;
struct ibv_comp_channel;
struct ibv_cq;
struct ibv_mr;
struct ibv_qp;
struct ibv_wc;

struct gyre_verbs_port {
    char device[64];
    uint8_t number;
    int gid_index;
    uint8_t gid[16];
    uint8_t network; /* of the GID: enum ibv_gid_type */
    uint16_t lid;    /* InfiniBand's own address, 0 elsewhere */
    int mtu;         /* enum ibv_mtu */
};

struct gyre_verbs_rail { /* a port that could serve */
    char device[64];
    uint8_t number;
    int worth; /* of its best GID */
    uint32_t rate;
    uint8_t gid[16];
};

/* What one end of a queue pair tells the other. */
struct gyre_verbs_end {
    bool willing;
    uint8_t gid[16];
    uint16_t lid;
    uint8_t mtu;
    uint32_t number; /* of its queue pair */
    uint32_t first;  /* packet sequence number */
    uint64_t inbox;  /* address; of another than the first, where its test write goes */
    uint32_t key;    /* of it */
    uint32_t ring;   /* bytes of it */
    uint64_t slots;  /* their address; the key is the inbox's */
    uint32_t window; /* records it takes before it says that some are consumed */
    uint8_t network; /* InfiniBand, RoCE v1 or v2: enum ibv_gid_type */
    uint8_t version; /* of all this */
    bool detours;    /* it goes on over TCP when the queue pair breaks */
    uint8_t queues;  /* how many queue pairs it would have */
    char reason[64]; /* why not */
};

enum gyre_verbs_kind { /* the two top bits of an immediate */
                       GYRE_VERBS_RECORD_CAME = 0,
                       GYRE_VERBS_ONLY_NEWS = 1,
                       GYRE_VERBS_PROBE = 2,
                       GYRE_VERBS_ARRIVED = 3 /* a long message, by its number */
};

/* Beside a record's length. */
#define GYRE_VERBS_IN_SLOT       (1u << 21)
#define GYRE_VERBS_WHOLE         (1u << 20) /* it is one frame: the next may refer to its header */
#define GYRE_VERBS_ADVANCE       15u        /* by so much at most; 4 bits; 0: its header is there */
#define GYRE_VERBS_ADVANCE_SHIFT 16
#define GYRE_VERBS_HEAD          32 /* bytes of a header */

struct gyre_verbs_request {
    const void *from;
    uint32_t key, length; /* of `from` */
    bool on_device;       /* the CPU cannot read it */
    uint64_t to;
    uint32_t to_key;
    bool tells; /* with an immediate: of this kind, with this word */
    enum gyre_verbs_kind kind;
    uint32_t word;
    struct gyre_send *ends; /* this message, when it is done; NULL: none */
    bool signalled;         /* put() decides */
};

struct gyre_verbs_memory { /* a region that is registered, or cannot be */
    uint32_t id;
    void *base;
    uint64_t length;
    bool on_device;                                 /* a device's, which the CPU cannot touch */
    struct ibv_mr *registration[GYRE_VERBS_QUEUES]; /* by card: all, or none */
};

struct gyre_verbs_card {         /* a device that is open, and a port of it */
    struct ibv_context *context; /* NULL: it is left out */
    struct ibv_pd *domain;
    struct ibv_comp_channel *channel;
    struct ibv_cq *completions;
    struct ibv_mr *test; /* where test writes come from and go, but for the first queue pair's */
    struct gyre_verbs_port port;
    char name[GYRE_VERBS_NAME_MAX];
    struct gyre_trouble why; /* it is left out */
    bool told_why;
    uint32_t refusals; /* peers that a test write did not reach, while it reached none */
    bool proven;
    bool doubtful;   /* the port has gone down, by the device's word */
    uint32_t doubts; /* looks at which it was */
    uint32_t events; /* of the channel, to be acknowledged */
};

enum gyre_verbs_fallback_state {
    GYRE_VERBS_DIRECT,
    GYRE_VERBS_BREAKING,
    GYRE_VERBS_TELLING,
    GYRE_VERBS_ON_FALLBACK
};

#define GYRE_VERBS_FALLBACK_HEAD 16

struct gyre_verbs_tcp_fallback { /* tcp_fallback.c has the picture */
    enum gyre_verbs_fallback_state state;
    int status; /* what it fails with if it cannot go on */
    uint64_t deadline;

    /* Out: the frame under way, then what has to go again. */
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
    uint8_t *to;
};

struct gyre_verbs_wire;
struct gyre_verbs_pipe;

struct gyre_verbs_queue { /* a queue pair, and what is under way on it */
    struct gyre_verbs_pipe *pipe;
    struct gyre_verbs_card *card;
    struct ibv_qp *pair; /* NULL: none yet, or not any more */
    uint32_t inline_most;
    struct gyre_verbs_end mine, theirs;
    bool proven; /* by test writes; before, what goes wrong with it concerns nobody else */
    bool test_came;
    char refused[64]; /* what went wrong */

    /* Out. Counted for ever. */
    uint32_t sends, sends_done;               /* requests */
    uint32_t told;                            /* of them, that the device has done */
    uint32_t asked;                           /* of them, up to the last that tells */
    bool owes;                                /* a message ends after that */
    struct gyre_send *ends[GYRE_VERBS_SENDS]; /* of which message a request is the last here */
    uint32_t signalled[GYRE_VERBS_SENDS];     /* up to which request a completion tells */
    uint32_t signals, signals_done;
    uint32_t answers, unanswered; /* signals_done at patience's last look; looks without another */
    struct gyre_verbs_request batch[GYRE_VERBS_BATCH]; /* not given to the device yet */
    uint32_t batched;

    uint32_t receives; /* posted, and not ended */
    uint32_t used;     /* not posted again yet */

    /* But for the first: messages whose share has left here, or come, and not on the first yet. */
    uint32_t shares_left, shares_come;
};

struct gyre_verbs_pipe {
    struct gyre_verbs_wire *wire;
    uint32_t peer, index, serial;
    int fd[8], fds; /* sockets; the first brought the two together, and its end is the peer's */
    struct gyre_stream *stream;
    struct gyre_verbs_queue queue[GYRE_VERBS_QUEUES];
    struct gyre_verbs_queue *way[GYRE_VERBS_QUEUES]; /* those that are proven; the first is first */
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
    uint32_t taken, taken_told;                           /* records */
    uint32_t ahead;                                       /* seen in memory, and not told of yet */
    uint32_t arrived;                                     /* long messages */
    uint8_t head_in[GYRE_VERBS_HEAD];                     /* as head_out */
    uint32_t held[GYRE_VERBS_HELD], held_next, held_done; /* immediates, until a share has come */

    uint32_t posts; /* accepted and not yet fetched */
    bool parting;   /* bye() was called */
    bool hangup;    /* the socket has ended, and what that means is not settled yet */
    bool ended;     /* now it is */
    bool broken;    /* the queue pairs are of no use any more */
    bool busy;      /* on wire->busy */
    bool detours;   /* both ends do, if a queue pair breaks */
    struct gyre_verbs_tcp_fallback fallback;
    uint64_t hangup_at;
    int status;
    struct gyre_trouble trouble;
    TAILQ_ENTRY(gyre_verbs_pipe) in_busy;
    LIST_ENTRY(gyre_verbs_pipe) in_departed;
};

struct gyre_verbs_wire {
    struct gyre_verbs_card card[GYRE_VERBS_QUEUES];
    uint32_t cards, queues; /* queue pair i of a pipe is on card i % cards */
    struct ibv_mr *inboxes, *outboxes;
    uint8_t *staging; /* `most` inboxes, their slots, then as many outboxes */
    uint8_t *test;    /* behind them, where there are several queues: for their test writes */
    const struct gyre_memory_lookup *lookup;
    struct gyre_remote_write remote_write; /* for the streams */
    struct gyre_verbs_memory memory[GYRE_VERBS_REGIONS];
    struct gyre_verbs_memory *recent;       /* of them: asked for last */
    uint32_t gone;                          /* as sight counted when that was looked at */
    bool refused_memory, refused_on_device; /* a line has said so */
    struct gyre_copy_queue *copy_queue;     /* NULL: the CPU can touch all memory */
    bool failover;                          /* asked for */
    uint32_t detours;                       /* pipes */
    char name[GYRE_VERBS_NAME_MAX * GYRE_VERBS_QUEUES];
    uint32_t ring, window;
    uint32_t rank;
    uint16_t epoch;
    int epoll; /* completion channel, sockets, the device's events */
    uint32_t most, serials;
    bool glimpsed;    /* the last poll() saw something in memory, and looked no further */
    uint64_t seen;    /* records, in memory */
    bool full;        /* the last poll() had more to tell than it was given room for */
    uint64_t looked;  /* at the sockets */
    uint64_t dead_ns; /* 0: patience has no end */
    uint64_t judged;  /* patience's last look */
    uint32_t hangups; /* pipes with one */
    uint64_t moved;
    struct gyre_verbs_pipe **pipe; /* `most`; NULL: free */
    TAILQ_HEAD(gyre_verbs_busy, gyre_verbs_pipe) busy;
    LIST_HEAD(, gyre_verbs_pipe) departed;
};

#endif
