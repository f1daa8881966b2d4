/* A stand-in for the part of libibverbs that finds, opens and asks devices: tests say what there is.
 * It takes no requests; what moves bytes is tested on real devices, see vm/README.md. */
#ifndef GYRE_TESTS_FAKE_VERBS_H
#define GYRE_TESTS_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { FAKE_DEVICES = 4, FAKE_GIDS = 4 };

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
    enum ibv_event_type event;  /* the next one, once */
    bool has_event, fork_ready; /* ibv_fork_init() was called */
    bool unprepared;            /* memory was registered before it was */
    int open;                   /* of all kinds of things */
    int modified;               /* queue pairs that went to their error state */
    int modify_status;          /* what ibv_modify_qp() says */
    int port_status;            /* what ibv_query_port() says */
} fake_verbs;

/* One device, a port that is up with one GID of RoCE v2, limits that nobody meets. */
void fake_verbs_reset(void);

#endif
