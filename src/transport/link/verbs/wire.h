/* Inside the verbs driver: what a process has once. Devices, staging, registered memory; peer.h has
 * what it keeps of each peer, and the map of the files.
 *
 * A wire is over one device or several. Staging is the memory of all rings and slots; the first
 * device writes and reads it (device.c). Long messages are written from where they lie to where
 * they belong, in memory that is registered with every device (memory.c). */
#ifndef GYRE_TRANSPORT_LINK_VERBS_WIRE_H
#define GYRE_TRANSPORT_LINK_VERBS_WIRE_H

#include "transport/link/end.h"

#include <sys/queue.h>

#define GYRE_VERBS_RING       (256u * 1024) /* bytes of an inbox, and of an outbox */
#define GYRE_VERBS_RING_LEAST (16u * 1024)
#define GYRE_VERBS_WINDOW     64   /* records that the peer has not consumed */
#define GYRE_VERBS_SLOT       256  /* bytes of a slot; as many slots as the window has records */
#define GYRE_VERBS_PLACES     32   /* where the peer may write a long message */
#define GYRE_VERBS_ACKS       8    /* requests that only acknowledge: 4 per window, 4 per ring */
#define GYRE_VERBS_RENEW      8    /* receives posted at once, beyond those that a peer may use */
#define GYRE_VERBS_SENDS      128  /* requests in a send queue */
#define GYRE_VERBS_REGIONS    64   /* of memory that are registered */
#define GYRE_VERBS_TEST       8192 /* bytes of a test write */
#define GYRE_VERBS_PORTS      16   /* that a node's ranks are spread over at most */
#define GYRE_VERBS_NAME_MAX   48

/* Queue pairs to a peer, and devices, at most. */
#define GYRE_VERBS_QUEUES GYRE_REMOTE_WRITE_KEYS

struct ibv_context;
struct ibv_pd;
struct ibv_comp_channel;
struct ibv_cq;
struct ibv_mr;

struct gyre_verbs_pipe;

/* A port of a device, and the GID that the wire uses there. */
struct gyre_verbs_port {
    char device[64];
    uint8_t number;
    int gid_index;
    uint8_t gid[16];
    uint8_t network; /* of the GID: enum ibv_gid_type */
    uint16_t lid;    /* InfiniBand's own address, 0 elsewhere */
    int mtu;         /* enum ibv_mtu */
};

/* A port that could serve. */
struct gyre_verbs_rail {
    char device[64];
    uint8_t number;
    int worth; /* of its best GID */
    uint32_t rate;
    uint8_t gid[16];
};

/* A device that is open, and a port of it. */
struct gyre_verbs_card {
    struct ibv_context *context; /* NULL: the device is left out */
    struct ibv_pd *domain;
    struct ibv_comp_channel *channel;
    struct ibv_cq *completions;
    struct ibv_mr *test; /* for test writes of all queue pairs but the first */
    struct gyre_verbs_port port;
    char name[GYRE_VERBS_NAME_MAX];
    struct gyre_trouble why; /* the device is left out */
    bool told_why;
    uint32_t refusals; /* peers that no test write has reached, before the first success */
    bool proven;       /* a test write has reached a peer */
    bool doubtful;     /* an event said that the port has gone down */
    uint32_t doubts;   /* looks in a row at which the port was down */
    uint32_t events;   /* of the channel, to be acknowledged */
};

/* A region that is registered, or cannot be. */
struct gyre_verbs_memory {
    uint32_t id;
    void *base;
    uint64_t length;
    bool on_device;                                 /* the CPU cannot touch the region */
    struct ibv_mr *registration[GYRE_VERBS_QUEUES]; /* by card: all, or none */
};

struct gyre_verbs_wire {
    struct gyre_verbs_card card[GYRE_VERBS_QUEUES];
    uint32_t cards, queues; /* queue pair i of a pipe is on card i % cards */
    struct ibv_mr *inboxes, *outboxes;
    uint8_t *staging; /* `most` inboxes, their slots, then as many outboxes */
    uint8_t *test;    /* behind staging, where a pipe has several queue pairs: for test writes */
    uint32_t ring, window;
    char name[GYRE_VERBS_NAME_MAX * GYRE_VERBS_QUEUES];

    struct gyre_memory_lookup *lookup;
    struct gyre_copy_queue *copy_queue; /* NULL: the CPU can touch all memory */
    struct gyre_verbs_memory memory[GYRE_VERBS_REGIONS];
    struct gyre_verbs_memory *recent;       /* of `memory`: the one asked for last */
    uint32_t gone;                          /* gyre_lookup_gone() at the last look */
    bool refused_memory, refused_on_device; /* a line has said so */

    uint32_t rank;
    uint16_t epoch;
    bool failover;             /* pipes may go on over TCP */
    uint64_t dead_ns;          /* 0: nothing times out */
    uint64_t timeouts_checked; /* when */

    struct gyre_verbs_pipe **pipe; /* `most`; NULL: free */
    uint32_t most;
    uint32_t serials;   /* pipes made, for ever */
    uint32_t hangups;   /* pipes whose socket has ended, and the end is not settled yet */
    uint32_t fallbacks; /* pipes that go on over TCP, or are about to */
    TAILQ_HEAD(gyre_verbs_busy, gyre_verbs_pipe) busy;
    struct gyre_pipe *departed;

    int epoll;      /* completion channels, sockets, the devices' events */
    uint64_t heard; /* when sockets and events were looked at */
    bool looked;    /* the last poll() took records from slots, and did not ask the devices */
    bool full;      /* the last poll() had more to tell than it was given room for */
    uint64_t seen;  /* records taken from slots before their completion, for ever */
    uint64_t moved; /* bytes, for ever */
};

/* -- port.c, rail.c ---------------------------------------------------------------------------- */

/* How many devices this rank is to use. choose() opens the device of that number, with its port.
 * GYRE_UNSUPPORTED: there is none; another status: the device is of no use. */
uint32_t gyre_verbs_port_count(const struct gyre_wire_options *options);
int gyre_verbs_port_choose(const struct gyre_wire_options *options, uint32_t number,
                           struct ibv_context **context, struct gyre_verbs_port *port,
                           struct gyre_trouble *trouble);
void gyre_verbs_gid_name(const uint8_t gid[16], char name[GYRE_VERBS_NAME_MAX]);

/* The index of the port that this local rank takes. */
int gyre_verbs_rail_pick(const struct gyre_verbs_rail *rail, int count, int best, int local_rank,
                         int local_size);
bool gyre_verbs_gid_is_ipv4(const uint8_t gid[16]);

/* -- card.c ------------------------------------------------------------------------------------ */

/* The first card decides on the window. A further card may fail: `trouble` says why. */
int gyre_verbs_card_open(struct gyre_verbs_wire *wire, uint32_t number,
                         const struct gyre_wire_options *options, struct gyre_trouble *trouble);
void gyre_verbs_card_close(struct gyre_verbs_card *card);

/* 0: the port is active; else -ENETDOWN or -ENODEV. In words, too. */
int gyre_verbs_port_state(const struct gyre_verbs_card *card, const char **words);

/* Lets the channel ring at the next completion. */
int gyre_verbs_card_arm(struct gyre_verbs_card *card);

/* Receives posted on a pipe's first queue pair, and on each other one. */
uint32_t gyre_verbs_receives(const struct gyre_verbs_wire *wire, bool first);

/* -- device.c ---------------------------------------------------------------------------------- */

/* Devices, staging and the descriptor to sleep on. close() takes every half-built state. */
int gyre_verbs_device_open(struct gyre_verbs_wire *wire, const struct gyre_wire_options *options,
                           struct gyre_trouble *trouble);
void gyre_verbs_device_close(struct gyre_verbs_wire *wire);

/* Gives the pipe its part of staging. */
void gyre_verbs_device_place(struct gyre_verbs_pipe *pipe);

/* The limit of locked memory, and how it is raised. */
const char *gyre_verbs_memory_hint(char text[160]);

/* -- memory.c, dmabuf.c ------------------------------------------------------------------------ */

/* The registered region that holds the span, which is registered now if need be; NULL: none can. */
const struct gyre_verbs_memory *gyre_verbs_memory_of(struct gyre_verbs_wire *wire,
                                                     const void *memory, uint64_t length);

/* The registration for the queue pair of this number; NULL: its card is left out. */
const struct ibv_mr *gyre_verbs_memory_by(const struct gyre_verbs_wire *wire,
                                          const struct gyre_verbs_memory *memory, uint32_t queue);

/* tidy() gives up registrations of regions that have gone, close() all. */
void gyre_verbs_memory_tidy(struct gyre_verbs_wire *wire);
void gyre_verbs_memory_close(struct gyre_verbs_wire *wire);

/* NULL, with the reason in errno: the memory cannot be registered so. */
struct ibv_mr *gyre_verbs_register_dmabuf(struct ibv_pd *domain, int fd, const void *base,
                                          uint64_t length, int access);

#endif
