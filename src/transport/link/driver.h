/* What a driver is. For implementers only: link.c, the drivers themselves and their tests include
 * this.
 *
 * A driver moves bytes between this process and its peers over one kind of wire. The house around
 * it does the rest: rendezvous and handshake hand it channels that are connected and authenticated
 * already; the collectives above decide what moves. A *wire* is the driver's state in one process,
 * a *pipe* its connection to one peer.
 *
 *   message drivers (tcp, verbs, sim)   send and recv
 *   mapped drivers (shm)                say that memory which the peer shares can be used in place;
 *                                       they still implement send and recv, so that everything is
 *                                       right before anything is fast
 *
 * The contract, for every entry:
 *   - nothing blocks, except open(), attach() and close(), which are bounded by 100 ms of waiting;
 *     but attach() of a driver that has to agree with its peer (verbs) waits for that;
 *   - all calls on one wire come from one thread at a time (the domain's owner); the driver needs
 *     no lock;
 *   - an accepted post completes exactly once, also when the peer dies, on cancel() and on
 *     detach(); its token comes back untouched; the buffer is borrowed from the post to the
 *     completion (for a zero-copy send: to the late notification);
 *   - a driver never calls up: what happened is learned by poll();
 *   - no clock and no randomness but what is passed in;
 *   - a peer's death or misbehaviour fails its pipe, never the wire; every byte from a peer is
 *     untrusted: copied once, bounded, then used;
 *   - nothing is allocated after attach(), except in share().
 *
 * Adding a driver: one .c file, one line in src/transport/meson.build, one in table.c, one in
 * tests/meson.build (the conformance suite tests/link/suite.c runs over it). */
#ifndef GYRE_TRANSPORT_LINK_DRIVER_H
#define GYRE_TRANSPORT_LINK_DRIVER_H

#include "base/status.h"
#include "device/device.h"
#include "transport/stream/match.h"
#include "transport/memory/lookup.h"

struct gyre_wire; /* each driver defines its own struct and casts */
struct gyre_pipe;
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
    int dead_time_ms;    /* verbs: after which silence of the device is a failure; 0: never */
    const char *variant; /* the driver's own choice ("io_uring", "epoll"); NULL: best available */
    void *world;         /* sim: the simulated world; otherwise NULL */

    /* Where the peers reach this process, for drivers that have to choose a device; NULL: anywhere. */
    const struct sockaddr_storage *address;

    /* Mapped drivers: what peers can read in place. Outlives the wire; NULL: nothing. */
    struct gyre_memory_lookup *lookup;
};

/* A connected, authenticated way to one peer. The driver owns the descriptors after a successful
 * attach(). */
struct gyre_channel {
    uint32_t peer;
    int fd[GYRE_CHANNEL_SOCKETS]; /* stream sockets, in the same order on both sides */
    int fds;

    /* Mapped drivers: memory for the pipe's own queues. `mine` is written here and read by the peer
     * (sealed), `theirs` the other way round. Borrowed. */
    const struct gyre_region *mine;
    const struct gyre_region *theirs;
};

/* What to sleep on: a descriptor that is readable when poll() has work; -1: this wire needs none
 * (peers ring the domain's doorbell). */
struct gyre_alarm {
    int fd;
};

struct gyre_driver {
    const char *name;

    /* Peers' shared regions can be used in place (device/device.h, transport/watch/watch.h). */
    bool mapped;

    /* Opens a wire. On failure *wire is untouched and *trouble says why; -ENOTSUP/GYRE_UNSUPPORTED:
     * absent here; GYRE_INVALID: the user asked for what cannot be; others: here, but of no use. */
    int (*open)(const struct gyre_wire_options *options, struct gyre_wire **wire,
                struct gyre_trouble *trouble);

    /* Detaches what is attached and frees. At most 100 ms. NULL allowed. */
    void (*close)(struct gyre_wire *wire);

    /* Names the links of this wire, for headers and logs: "tcp/io_uring", "shm/ring". */
    void (*describe)(const struct gyre_wire *wire, char *text, size_t size);

    /* On failure the channel's descriptors stay the caller's; after GYRE_UNSUPPORTED both ends know,
     * and another driver can have them. */
    int (*attach)(struct gyre_wire *wire, const struct gyre_channel *channel,
                  struct gyre_pipe **pipe, struct gyre_trouble *trouble);

    /* Outstanding posts complete with -ECANCELED at the next poll() of the wire; the pipe is gone
     * when this returns, and no buffer is touched any more. Bytes accepted but unsent are dropped:
     * say bye() first for a clean end. */
    void (*detach)(struct gyre_pipe *pipe);

    /* Ask that everything accepted be flushed and the peer told that nothing follows. GYRE_AGAIN
     * until both sides have said so; 0 then; negative when the pipe failed. Call again between
     * polls. */
    int (*bye)(struct gyre_pipe *pipe);

    /* 0 accepted; GYRE_AGAIN no room now, nothing taken; negative: the pipe has failed, nothing
     * taken. */
    int (*send)(struct gyre_pipe *pipe, const struct gyre_match *match, const void *data,
                uint64_t length, uint64_t token);
    int (*recv)(struct gyre_pipe *pipe, const struct gyre_match *match, void *data, uint64_t length,
                uint64_t token);

    /* A short message without a post. send_now(): it has left; false: send() it, which goes on with
     * what of it has left. recv_now(): 0, it has come; GYRE_AGAIN, nothing has, look again; -ENOENT,
     * it is not the next, recv() it. Both NULL: the driver has no such way. */
    bool (*send_now)(struct gyre_pipe *pipe, const struct gyre_match *match, const void *data,
                     uint64_t length);
    int (*recv_now)(struct gyre_pipe *pipe, const struct gyre_match *match, void *data,
                    uint64_t length);

    /* Withdraws a post: it will complete with -ECANCELED. -ENOENT: it had completed, or is past
     * recall (the peer reads it in place) and completes by itself. */
    int (*cancel)(struct gyre_pipe *pipe, uint64_t token);

    /* Whether a post of this memory, which the CPU cannot touch, is served where it lies; it is
     * refused, or worse, if not: give host memory then. NULL: never. */
    bool (*carries)(struct gyre_pipe *pipe, const void *memory, uint64_t length, bool send);

    /* Moves everything that can move and writes completions, at most `max`; returns how many. A
     * pipe that failed is seen by state(). `now` is monotonic nanoseconds. */
    int (*poll)(struct gyre_wire *wire, uint64_t now, struct gyre_completion *out, int max);

    /* 0, or the status the pipe failed with, the story in *trouble (may be NULL). */
    int (*state)(const struct gyre_pipe *pipe, struct gyre_trouble *trouble);

    /* Prepare to sleep: 0 and the alarm to wait for, or GYRE_AGAIN if something came meanwhile and
     * poll() must run. */
    int (*arm)(struct gyre_wire *wire, struct gyre_alarm *alarm);

    /* A count that changes whenever a byte moves in or out in poll(), so that a slow transfer is
     * not taken for a standstill, and that a peer of this node that waits for it is woken. NULL: a
     * message is too quick for that; its completion tells enough. */
    uint64_t (*moved)(const struct gyre_wire *wire);
};

extern const struct gyre_driver gyre_driver_shm, gyre_driver_tcp, gyre_driver_verbs,
    gyre_driver_sim;

#endif
