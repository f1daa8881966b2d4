/* A stand-in for libibverbs: tests say which devices there are. What is written arrives at once, by
 * a copy within this process, unless its device is slow: then it waits for fake_verbs_hurry(). Real
 * devices, if only of software, are those of vm/README.md. */
#ifndef GYRE_TESTS_STAND_IN_FAKE_VERBS_H
#define GYRE_TESTS_STAND_IN_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    FAKE_DEVICES = 4,
    FAKE_GIDS = 4,
    FAKE_QUEUES = 64,
    FAKE_REGIONS = 256,
    FAKE_INLINE = 256,
    FAKE_UNDER_WAY = 4096
};

struct fake_port { /* each device has one */
    const char *name;
    enum ibv_port_state state;
    uint8_t speed; /* 0: the same as others */
    struct {
        const char *text; /* NULL: the end */
        enum ibv_gid_type type;
    } gid[FAKE_GIDS];
};

extern struct fake_verbs {
    struct fake_port port[FAKE_DEVICES];
    int devices;
    struct ibv_device_attr limits;
    uint64_t memory;            /* bytes that may be registered */
    uint32_t refused;           /* registrations, for want of these */
    enum ibv_event_type event;  /* the next one, once */
    bool has_event, fork_ready; /* ibv_fork_init() was called */
    bool unprepared;            /* memory was registered before it was */
    int open;                   /* of all kinds of things */
    int modified;               /* queue pairs that went to their error state */
    int modify_status;          /* what ibv_modify_qp() says of a connection */
    bool no_queues;             /* ibv_create_qp() fails */
    bool slow[FAKE_DEVICES];
    bool dead[FAKE_DEVICES];        /* nothing that is written there arrives */
    bool spoils[FAKE_DEVICES];      /* the first byte of what is written */
    uint64_t written[FAKE_DEVICES]; /* bytes */
    uint32_t answers[FAKE_DEVICES]; /* completions of requests */
    int port_status;                /* what ibv_query_port() says */

    /* Where this program finds the bytes of a device's memory; NULL: the address is the host's. By
     * its address such memory is registered only where the kernel knows the device. */
    void *(*away)(uint64_t address);
    bool no_dmabuf, peer_memory;
    uint32_t by_dmabuf, by_peer_memory, relaxed; /* registrations, of any kind in relaxed order */
} fake_verbs;

/* One device, a port that is up with one GID of RoCE v2, limits that nobody meets. */
void fake_verbs_reset(void);

/* Lets at most so many requests of slow devices arrive; returns how many did. */
int fake_verbs_hurry(int most);

#endif
