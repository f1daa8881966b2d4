/* The contract of a driver. Only link.c, the drivers, their tests, and the domain, which opens
 * wires, include this file.
 *
 * A driver moves bytes between this process and its peers over one kind of wire. A *wire* is the
 * driver's state in one process, a *pipe* its connection to one peer. Join gives the driver
 * channels that are connected and authenticated; the layers above decide what moves.
 *
 *   message drivers (tcp, verbs, sim)   send and recv
 *   mapped drivers (shm)                memory that the peer shares can be used in place; send and
 *                                       recv work all the same
 *
 * The contract, for every entry:
 *   - Nothing blocks, except open(), attach() and close(), which wait at most 100 ms. Only attach()
 *     of a driver that has to agree with its peer (verbs) waits for that peer.
 *   - All calls on one wire come from one thread at a time, the domain's owner. A driver has no
 *     lock.
 *   - An accepted post completes exactly once, also when the peer dies, on cancel() and on
 *     detach(). Its token comes back untouched. Its buffer is borrowed until the completion (with
 *     zero-copy sends: until the late notification).
 *   - A driver never calls upwards, except for the look-ups of transport/memory/lookup.h. poll()
 *     tells what happened.
 *   - A driver has no clock and no random numbers but those passed in.
 *   - A peer's death or misbehaviour fails its pipe, never the wire. Every byte from a peer is
 *     untrusted: copied once, bounded, then used.
 *   - Nothing is allocated after attach(), but by renew(). A link that is made at its first use is
 *     attached then.
 *
 * A new driver is one .c file, its line in link/meson.build, its name in table.h, and its test in
 * tests/link/meson.build (the conformance suite tests/link/suite.c). Its name then is a word of
 * every flag, variable and message (words.h). */
#ifndef GYRE_TRANSPORT_LINK_DRIVER_H
#define GYRE_TRANSPORT_LINK_DRIVER_H

#include "base/status.h"
#include "device/device.h"
#include "transport/stream/match.h"
#include "transport/memory/lookup.h"
#include "transport/memory/node_memory.h"
#include "transport/seal/seal.h"

struct gyre_wire; /* each driver defines its own struct and casts */
struct gyre_pipe; /* the common part of all drivers' pipes: end.h */
struct sockaddr_storage;

#define GYRE_PIPE_POSTS      256u /* sends, and as many receives, on a pipe before GYRE_AGAIN */
#define GYRE_CHANNEL_SOCKETS 8    /* of a channel, at most */

struct gyre_wire_options {
    uint32_t rank, n;
    int local_rank, local_size; /* among the ranks of this machine */
    uint16_t epoch;
    uint32_t peers;      /* pipes that will be attached at most */
    bool failover;       /* verbs: a pipe that breaks goes on over its socket */
    bool bare_payload;   /* tcp: sums are of frames' headers only, at both ends */
    int dead_time_ms;    /* verbs: a silence of the device this long is a failure; tcp: twice this
                            time without an acknowledgement is one; 0: never */
    const char *variant; /* the driver's own choice ("io_uring", "epoll"); NULL: best available */
    void *world;         /* sim: the simulated world; otherwise NULL */

    /* The address where peers reach this process, for drivers that choose a device; NULL: any. */
    const struct sockaddr_storage *address;

    /* Memory that peers can use in place. Outlives the wire; NULL: none. */
    struct gyre_memory_lookup *lookup;

    /* Mapped drivers: the memory of a large node, where the queues of a channel without any lie.
     * Outlives the wire; NULL: the node is not large. */
    const struct gyre_node_memory *node;
};

/* A connected, authenticated way to one peer. The driver owns the descriptors after a successful
 * attach(). */
struct gyre_channel {
    uint32_t peer;
    int fd[GYRE_CHANNEL_SOCKETS]; /* stream sockets, in the same order on both sides */
    int fds;

    /* tcp: a connection that breaks can be made anew (struct gyre_driver, broken()). Descriptors of
     * -1 are connections that are yet to be made: broken() asks for them. */
    bool renewable;

    /* tcp, sim: what protects the frames, alike at both ends, and the keys of each socket. */
    enum gyre_seal_mode security;
    const struct gyre_traffic_keys *keys;

    /* Mapped drivers: memory for the pipe's own queues, borrowed. This rank writes `mine` and the
     * peer only reads it; the peer writes `theirs`. Both NULL: those in the node's memory. */
    const struct gyre_region *mine;
    const struct gyre_region *theirs;
};

/* A descriptor that is readable when poll() has work; -1: none, peers ring the domain's
 * doorbell. */
struct gyre_alarm {
    int fd;
};

/* A connection that broke, and has to be made anew, or made at all. Connections are counted: number
 * 0 is the join's. */
struct gyre_break {
    uint32_t peer;
    int index;          /* of the channel's descriptor */
    uint32_t number;    /* of the broken connection */
    uint32_t fruitless; /* breaks before it that no byte followed */
    uint64_t received;  /* bytes, over all connections of this index */
    bool first;         /* there has been no connection yet */
};

struct gyre_driver {
    const char *name;

    /* Peers' shared regions can be used in place (device/device.h, transport/watch/watch.h). */
    bool mapped;

    /* Opens a wire. On failure *wire is untouched and *trouble says why. -ENOTSUP,
     * GYRE_UNSUPPORTED: absent here; GYRE_INVALID: the user's choice cannot be served; others:
     * present, but of no use. */
    int (*open)(const struct gyre_wire_options *options, struct gyre_wire **wire,
                struct gyre_trouble *trouble);

    /* Detaches all pipes and frees the wire. At most 100 ms. NULL allowed. */
    void (*close)(struct gyre_wire *wire);

    /* Names the links of this wire, for headers and logs: "tcp/io_uring", "shm/ring". */
    void (*describe)(const struct gyre_wire *wire, char *text, size_t size);

    /* Attaches a peer. On failure the channel's descriptors stay the caller's. After
     * GYRE_UNSUPPORTED both ends know of the refusal, and another driver can have the
     * descriptors. */
    int (*attach)(struct gyre_wire *wire, const struct gyre_channel *channel,
                  struct gyre_pipe **pipe, struct gyre_trouble *trouble);

    /* The next peer that has attached this rank while this rank has not attached the peer; each is
     * told once, false: none. Only where links are made at their first use. NULL: never. */
    bool (*called)(struct gyre_wire *wire, uint32_t *peer);

    /* Ends a pipe. Outstanding posts complete with -ECANCELED at the wire's next poll(). No buffer
     * is touched any more when this returns. Bytes accepted but unsent are dropped: a clean end
     * begins with bye(). */
    void (*detach)(struct gyre_pipe *pipe);

    /* Says goodbye behind all accepted posts. GYRE_AGAIN until goodbyes have gone both ways, then
     * 0; negative: the pipe has failed. Call again between polls. */
    int (*bye)(struct gyre_pipe *pipe);

    /* Post a send or a receive; match->on_device says whether the CPU cannot touch the memory. 0:
     * accepted; GYRE_AGAIN: no room now, nothing taken; negative: the pipe has failed, nothing
     * taken. */
    int (*send)(struct gyre_pipe *pipe, const struct gyre_match *match, const void *data,
                uint64_t length, uint64_t token);
    int (*recv)(struct gyre_pipe *pipe, const struct gyre_match *match, void *data, uint64_t length,
                uint64_t token);

    /* A short message without a post. send_now(): true, the message has left; false, send() the
     * message, of which a part may have left. recv_now(): 0, the message has come; GYRE_AGAIN,
     * nothing has come; -ENOENT, another message comes first, recv() this one. Both NULL: no such
     * way. */
    bool (*send_now)(struct gyre_pipe *pipe, const struct gyre_match *match, const void *data,
                     uint64_t length);
    int (*recv_now)(struct gyre_pipe *pipe, const struct gyre_match *match, void *data,
                    uint64_t length);

    /* Withdraws a post, which completes with -ECANCELED. -ENOENT: the post had completed, or
     * completes by itself because the peer reads the message in place. */
    int (*cancel)(struct gyre_pipe *pipe, uint64_t token);

    /* Whether a post of this memory, which the CPU cannot touch, is served in place. If not, only
     * host memory may be posted. NULL: never. */
    bool (*carries)(struct gyre_pipe *pipe, const void *memory, uint64_t length, bool send);

    /* Moves everything that can move, and writes at most `max` completions. Returns their number.
     * state() tells which pipe has failed. `now` is monotonic nanoseconds. */
    int (*poll)(struct gyre_wire *wire, uint64_t now, struct gyre_completion *out, int max);

    /* Returns 0, or the status with which the pipe has failed, and the story in *trouble (may be
     * NULL). */
    int (*state)(const struct gyre_pipe *pipe, struct gyre_trouble *trouble);

    /* Prepares to sleep. 0: wait for the alarm. GYRE_AGAIN: something has come, and poll() must
     * run. */
    int (*arm)(struct gyre_wire *wire, struct gyre_alarm *alarm);

    /* Connections that break and are made anew, of channels that are renewable. The bytes that a
     * broken connection has swallowed are sent once more. A channel's connection that is yet to be
     * made counts as broken before its first byte. All NULL: no such channel is attached.
     *
     *     broken()  the next connection that broke; each is told once. False: none
     *     part()    a connection older than number `newer` has broken, as the peer knows: takes
     *               what has come over it. 0: *received is all that has come. -EALREADY: this
     *               connection is as new. Else negative: the pipe has failed, or has no such index
     *     renew()   goes on over a new connection, after broken() or part(); the peer has received
     *               so many bytes. Negative: the pipe has failed, `fd` stays the caller's
     *     gone()    the peer has no use for a new connection: it has ended. True: the pipe's end of
     *               it has ended well, because the peer had said goodbye, or ends now, where there
     *               never was a connection: the peer has told that it left (`told`), or refuses one
     *     mend()    moves swallowed bytes while nobody polls. True: some are left */
    bool (*broken)(struct gyre_wire *wire, struct gyre_break *lost);
    int (*part)(struct gyre_pipe *pipe, int index, uint32_t newer, uint64_t *received);
    int (*renew)(struct gyre_pipe *pipe, int index, int fd, uint32_t number, uint64_t received);
    bool (*gone)(struct gyre_pipe *pipe, int index, bool told);
    bool (*mend)(struct gyre_wire *wire);

    /* A count that changes whenever a byte moves in poll(). It shows that a slow transfer is no
     * standstill, and wakes peers of this node that wait for the byte. NULL: completions show
     * enough. */
    uint64_t (*moved)(const struct gyre_wire *wire);
};

#endif
