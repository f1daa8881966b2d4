/* The inside of the tcp driver, which its files share.
 *
 *            tcp.c                   the driver's entries; the order of service
 *              │
 *           renew.c                  connections that broke and are made anew
 *              │
 *            pipe.c                  the connections of a pipe: how they close, how it fails
 *              │
 *     epoll.c ─┴─ uring.c            pollers; uring_absent.c where liburing was missing
 *              │
 *           socket.c                 one connection: its stream's bytes, out of and into its socket
 *              │
 *            kept.c                  the bytes that the peer's kernel may not have
 *
 * A poller answers one question, "which connections can move?", and may move bytes itself. A
 * connection that can move is *due*: it has a due bit and stands on the wire's list. poll() serves
 * that list and nothing else, so its cost follows the traffic and not the number of peers. */
#ifndef GYRE_TRANSPORT_LINK_TCP_INSIDE_H
#define GYRE_TRANSPORT_LINK_TCP_INSIDE_H

#include "transport/link/end.h"
#include "transport/link/tcp/kept.h"

#include <netinet/in.h>
#include <sys/queue.h>

/* Connections in use, at most, that are read by plain calls. */
#define GYRE_TCP_PLAIN_MAX 8
/* Polls between two looks at the other connections meanwhile. */
#define GYRE_TCP_LOOK_EVERY 32
/* Beyond this length a GRANT costs no time that matters. */
#define GYRE_TCP_EAGER        (64u * 1024)
#define GYRE_TCP_BUDGET_BYTES (1024 * 1024) /* of one connection, each way, in one poll() */
#define GYRE_TCP_VECTORS      8             /* per call that writes */
#define GYRE_TCP_NAME_MAX     (INET6_ADDRSTRLEN + 8)

enum gyre_tcp_due {
    GYRE_TCP_READ = 1,   /* the kernel may hold bytes for it */
    GYRE_TCP_WRITE = 2,  /* its stream may hold bytes for the kernel */
    GYRE_TCP_HARVEST = 4 /* its stream may hold completions */
};

struct gyre_tcp_wire;
struct gyre_tcp_pipe;

struct gyre_tcp_socket {
    struct gyre_tcp_pipe *pipe;
    struct gyre_stream *stream; /* the pipe's, one for each connection */
    void *flight;               /* the poller's own */
    int fd;                     /* -1: gone */
    uint32_t posts; /* accepted and not yet completed; above 0 the connection is "in use" */
    unsigned due;   /* enum gyre_tcp_due; nonzero exactly while the socket stands on wire->due */
    bool blocked;   /* the kernel's buffer is full; the poller notices room */
    bool hangup;    /* the peer has closed or the connection broke: read on to the end */
    bool finished;  /* read to its orderly end */
    bool shut;      /* this side's BYE is out, and this side is closed */
    bool unread;    /* the peer said goodbye and has gone: what is written goes nowhere */
    /* The poller's operation moves bytes in this direction, and nothing else may. */
    bool flying_out;
    bool flying_in;
    /* 0, or the status with which the connection broke; the pipe fails at its next turn. */
    int status;
    int broke;             /* the errno of the break, 0: none */
    struct gyre_kept kept; /* a renewable connection's: what may have to be sent once more */
    uint64_t sent;       /* the stream's bytes that this connection's kernel has; at most kept.to */
    uint64_t received;   /* the stream's bytes that have come, over all connections */
    size_t ask_at;       /* with so much kept the kernel is asked what has been acknowledged */
    uint32_t number;     /* of the connection; 0 is the join's */
    bool away;           /* the connection broke, and waits to be made anew */
    bool unmade;         /* away, and there has been none yet */
    bool told;           /* broken() has told of it */
    uint32_t fruitless;  /* breaks in a row without a byte between them */
    uint64_t away_since; /* the first poll since this break; 0: there was none */
    uint64_t vain_since; /* the first poll since the first of the fruitless breaks */
    uint64_t lost_at[2]; /* received and kept.from, at the last break */
    uint64_t acknowledged; /* when the peer last acknowledged anything, as of the last inspection */
    uint64_t stuck_since;  /* the first inspection that found bytes under way since; 0: none */
    TAILQ_ENTRY(gyre_tcp_socket) in_due;
    LIST_ENTRY(gyre_tcp_socket) in_use;
    char name[2][GYRE_TCP_NAME_MAX]; /* addresses of this end and of the other, kept for messages */
};

struct gyre_tcp_pipe {
    struct gyre_pipe end;
    struct gyre_tcp_wire *wire;
    LIST_ENTRY(gyre_tcp_pipe) in_wire;
    int kept[GYRE_CHANNEL_SOCKETS]; /* second descriptors of closed sockets, until detach() */
    int keeps;
    int sockets;
    struct gyre_tcp_socket socket[];
};

struct gyre_tcp_poller;

struct gyre_tcp_wire {
    const struct gyre_tcp_poller *poller;
    void *state; /* the poller's own */
    uint32_t rank;
    uint16_t epoch;
    bool bare_payload; /* sums are of headers only */
    uint32_t polls;    /* counts calls, for GYRE_TCP_LOOK_EVERY */
    uint32_t used;     /* connections on `use` */
    uint32_t stuck;    /* connections that are blocked */
    uint32_t away;     /* connections that wait to be made anew */
    uint32_t replays;  /* connections made anew whose kept bytes have not all left */
    uint64_t moved;    /* bytes, both ways */
    uint64_t dead_ns;  /* twice this time without an acknowledgement breaks a connection; 0: none */
    uint64_t inspect_at;
    TAILQ_HEAD(gyre_tcp_due_list, gyre_tcp_socket) due;
    LIST_HEAD(, gyre_tcp_socket) use;
    LIST_HEAD(, gyre_tcp_pipe) pipes;
    struct gyre_pipe *departed;
};

/* A poller. All calls come from the wire's one thread; none blocks unless its comment says so. */
struct gyre_tcp_poller {
    const char *name;

    /* Opens the poller; `connections` is an estimate. -errno with the likely cause. */
    int (*open)(struct gyre_tcp_wire *wire, uint32_t connections, struct gyre_trouble *trouble);
    void (*close)(struct gyre_tcp_wire *wire); /* no connection is left */

    int (*add)(struct gyre_tcp_socket *socket, struct gyre_trouble *trouble);

    /* settle(): the kernel then works on nothing of this connection: flying_in and flying_out are
     * false, and the stream knows of all bytes that moved. May wait for a cancelled operation to
     * end. remove(): settles and forgets. */
    void (*settle)(struct gyre_tcp_socket *socket);
    void (*remove)(struct gyre_tcp_socket *socket);

    /* Asks the kernel which connections can move, and marks them due. */
    void (*look)(struct gyre_tcp_wire *wire);

    /* Moves bytes itself where that pays: called for a due connection whose output is blocked, and
     * for every one in use while more than GYRE_TCP_PLAIN_MAX are. May set flying_out and
     * flying_in. NULL: this poller only looks. */
    void (*carry)(struct gyre_tcp_socket *socket);

    /* Gives the kernel the operations that carry() prepared. NULL: this poller only looks. */
    void (*launch)(struct gyre_tcp_wire *wire);

    /* Prepares to sleep: from here on any event makes `*fd` readable. Earlier events are marked
     * due. */
    int (*arm)(struct gyre_tcp_wire *wire, int *fd);
};

static inline bool gyre_tcp_is_crowded(const struct gyre_tcp_wire *wire)
{
    return wire->used > GYRE_TCP_PLAIN_MAX;
}

extern const struct gyre_tcp_poller gyre_tcp_epoll;

/* The io_uring poller, NULL where it is not built in. */
extern const struct gyre_tcp_poller *const gyre_tcp_uring;

/* -- socket.c ---------------------------------------------------------------------------------- */

/* The functions of a connection. None fails a pipe or calls a poller: a connection that breaks
 * notes its `status` and stays due. */

/* Opens a connection; `fd` -1: one that is yet to be made, by renew(). On failure `fd` stays the
 * caller's. A renewable one may have broken by now. */
int gyre_tcp_socket_open(struct gyre_tcp_socket *socket, struct gyre_tcp_pipe *pipe,
                         struct gyre_stream *stream, int fd, bool renewable,
                         struct gyre_trouble *trouble);
void gyre_tcp_socket_close(struct gyre_tcp_socket *socket); /* the stream stays */

/* Leaves a renewable connection, of which the poller knows nothing any more: takes what has come,
 * and closes. False: the stream has refused what came, and status says how. */
bool gyre_tcp_socket_part(struct gyre_tcp_socket *socket);

/* Goes on over `fd`; the peer has received the bytes up to `received`, which are in reach. */
void gyre_tcp_socket_renew(struct gyre_tcp_socket *socket, int fd, uint32_t number,
                           uint64_t received);

/* Ends a wait for a new connection that is not needed: the peer has said goodbye, and has gone. */
void gyre_tcp_socket_rest(struct gyre_tcp_socket *socket);

/* Whether kept bytes have to be sent before the stream's. */
static inline bool gyre_tcp_socket_replays(const struct gyre_tcp_socket *socket)
{
    return socket->sent < socket->kept.to;
}

/* Whether the peer's kernel has everything; true of a connection that is not renewable. A
 * connection that turns out to have broken notes that. */
bool gyre_tcp_socket_delivered(struct gyre_tcp_socket *socket);

/* The next bytes to write, kept ones or the stream's, in at most `max` vectors. */
int gyre_tcp_socket_gather(struct gyre_tcp_socket *socket, struct iovec *iov, int max);
void gyre_tcp_socket_mark(struct gyre_tcp_socket *socket, unsigned due);
void gyre_tcp_socket_unmark(struct gyre_tcp_socket *socket);
void gyre_tcp_socket_block(struct gyre_tcp_socket *socket, bool blocked);
void gyre_tcp_socket_use(struct gyre_tcp_socket *socket);   /* one more post */
void gyre_tcp_socket_push(struct gyre_tcp_socket *socket);  /* plain calls, up to the budget */
void gyre_tcp_socket_nudge(struct gyre_tcp_socket *socket); /* the first frame only, no bulk */
void gyre_tcp_socket_pull(struct gyre_tcp_socket *socket);
int gyre_tcp_socket_harvest(struct gyre_tcp_socket *socket, struct gyre_completion *out, int max);

/* Breaks a connection that has had bytes under way for longer than limit_ns, while the peer
 * acknowledged nothing. Until then such bytes count as moving: a slow link may hold them for longer
 * than the dead time, and all ranks wait meanwhile. Called every now and then. */
void gyre_tcp_socket_inspect(struct gyre_tcp_socket *socket, uint64_t now, uint64_t limit_ns);
bool gyre_tcp_socket_send_now(struct gyre_tcp_socket *socket, const struct gyre_match *match,
                              const void *data, uint64_t length);
int gyre_tcp_socket_recv_now(struct gyre_tcp_socket *socket, const struct gyre_match *match,
                             void *data, uint64_t length);

/* Whether an errno says that the connection broke, and not this machine's means to use it. */
bool gyre_tcp_is_break(int error);

/* Take the result of a transfer, plain or in flight: bytes or -errno. `iov` is what gather() gave.
 * False: nothing more moves in that direction now. */
bool gyre_tcp_socket_wrote(struct gyre_tcp_socket *socket, const struct iovec *iov, int count,
                           ssize_t result);
bool gyre_tcp_socket_came(struct gyre_tcp_socket *socket, ssize_t result);

/* -- pipe.c ------------------------------------------------------------------------------------ */

void gyre_tcp_pipe_close(struct gyre_tcp_pipe *pipe); /* every connection */

/* Fails a pipe, once, with the story of the connection that broke. */
void gyre_tcp_pipe_fail(struct gyre_tcp_pipe *pipe, const struct gyre_tcp_socket *socket);

/* -- renew.c ----------------------------------------------------------------------------------- */

/* Leaves a connection that broke. The pipe fails where it cannot be made anew. */
void gyre_tcp_part_or_fail(struct gyre_tcp_socket *socket);

/* Fails pipes that have waited too long for a new connection. */
void gyre_tcp_give_up_overdue(struct gyre_tcp_wire *wire, uint64_t now);

/* The entries of the driver that are about breaks (transport/link/driver.h). */
bool gyre_tcp_broken(struct gyre_wire *handle, struct gyre_break *lost);
int gyre_tcp_part(struct gyre_pipe *end, int index, uint32_t newer, uint64_t *received);
int gyre_tcp_renew(struct gyre_pipe *end, int index, int fd, uint32_t number, uint64_t received);
bool gyre_tcp_gone(struct gyre_pipe *end, int index, bool told);
bool gyre_tcp_mend(struct gyre_wire *handle);

#endif
