/* What a wire has once: its devices, and staging, which the first device reads and writes.
 *
 *     staging   │ inbox 0 │ inbox 1 │ … │ slots │ outbox 0 │ outbox 1 │ … │ test
 *               └────── peers write here ──────┘ └─ only this side does ─┘      one ring per peer
 *
 * Staging is never larger than what this process may lock. Where the device refuses it all the
 * same, rings are halved, down to GYRE_VERBS_RING_LEAST; then a line tells the limit, and how it is
 * raised. Peers can write inboxes, slots and the place of test writes of further queue pairs, which
 * nobody reads later. The keys end with the wire.
 * Tested by tests/unit/transport/link/verbs/verbs_test.c. */
#include "transport/link/verbs/peer.h"

#include "base/env.h"
#include "base/log.h"
#include "base/machine/locked.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

const char *gyre_verbs_memory_hint(char text[160])
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
        snprintf(text, 160, "locked memory is not limited here, so the device itself refuses");
    else
        snprintf(text, 160,
                 "this process may lock %llu KiB: raise it (ulimit -l unlimited; "
                 "LimitMEMLOCK=infinity in a service)",
                 (unsigned long long)limit.rlim_cur / 1024);
    return text;
}

/* -- staging ----------------------------------------------------------------------------------- */

static size_t rings(const struct gyre_verbs_wire *wire)
{
    return (size_t)wire->most * wire->ring;
}

static size_t slots(const struct gyre_verbs_wire *wire)
{
    return (size_t)wire->window * GYRE_VERBS_SLOT; /* for each peer */
}

static size_t written_by_peers(const struct gyre_verbs_wire *wire)
{
    return rings(wire) + wire->most * slots(wire);
}

static size_t all_rings(const struct gyre_verbs_wire *wire)
{
    return written_by_peers(wire) + rings(wire);
}

/* A place for the peer's test write, and one for this side's. */
static size_t test_bytes(const struct gyre_verbs_wire *wire)
{
    return wire->queues > 1 ? 2 * GYRE_VERBS_TEST : 0;
}

static size_t all_staging(const struct gyre_verbs_wire *wire)
{
    return all_rings(wire) + test_bytes(wire);
}

void gyre_verbs_device_place(struct gyre_verbs_pipe *pipe)
{
    const struct gyre_verbs_wire *wire = pipe->wire;
    size_t ring = (size_t)pipe->index * wire->ring;
    pipe->inbox = wire->staging + ring;
    pipe->slots = wire->staging + rings(wire) + pipe->index * slots(wire);
    pipe->outbox = wire->staging + written_by_peers(wire) + ring;
}

static void release_staging(struct gyre_verbs_wire *wire)
{
    if (wire->inboxes)
        ibv_dereg_mr(wire->inboxes);
    if (wire->outboxes)
        ibv_dereg_mr(wire->outboxes);
    if (wire->staging)
        munmap(wire->staging, all_staging(wire));
    wire->inboxes = wire->outboxes = NULL;
    wire->staging = NULL;
}

/* 0 or -errno. */
static int try_staging(struct gyre_verbs_wire *wire)
{
    void *memory =
        mmap(NULL, all_staging(wire), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    struct ibv_pd *domain = wire->card->domain;
    wire->staging = memory;
    wire->inboxes = ibv_reg_mr(domain, memory, written_by_peers(wire),
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (wire->inboxes)
        wire->outboxes = ibv_reg_mr(domain, wire->staging + written_by_peers(wire), rings(wire), 0);
    if (wire->outboxes)
        return 0;
    int status = errno ? -errno : -ENOMEM;
    release_staging(wire);
    return status;
}

static int open_staging(struct gyre_verbs_wire *wire, struct gyre_trouble *trouble)
{
    char hint[160];
    int status;
    wire->ring = GYRE_VERBS_RING;
    while (all_rings(wire) > gyre_lockable_bytes() && wire->ring > GYRE_VERBS_RING_LEAST)
        wire->ring /= 2;
    while ((status = try_staging(wire)) && wire->ring > GYRE_VERBS_RING_LEAST)
        wire->ring /= 2;
    if (status)
        return gyre_trouble_set(trouble, -ENOMEM, "%s cannot register %zu KiB for %u peers: %s; %s",
                                wire->card->name, all_rings(wire) / 1024, wire->most,
                                strerror(-status), gyre_verbs_memory_hint(hint));
    if (wire->ring < GYRE_VERBS_RING)
        gyre_log(GYRE_LOG_WARN, "verbs: %u KiB of staging for each peer instead of %u: %s",
                 (uint32_t)(all_rings(wire) / wire->most / 1024),
                 (2 * GYRE_VERBS_RING + (uint32_t)slots(wire)) / 1024,
                 gyre_verbs_memory_hint(hint));
    return 0;
}

/* -- devices beside the first ------------------------------------------------------------------ */

static int read_queues(struct gyre_verbs_wire *wire, const struct gyre_wire_options *options,
                       struct gyre_trouble *trouble)
{
    int64_t each = 1;
    int status = gyre_env_int("GYRE_RDMA_QUEUES", 1, GYRE_VERBS_QUEUES, &each, trouble);
    if (status)
        return status;
    uint32_t cards = gyre_verbs_port_count(options), queues = cards * (uint32_t)each;
    if (queues > GYRE_VERBS_QUEUES)
        return gyre_trouble_set(trouble, GYRE_INVALID,
                                "GYRE_RDMA_DEVICE and GYRE_RDMA_QUEUES ask for %u queue pairs to a "
                                "peer, %u on each of %u devices: at most %d",
                                queues, (uint32_t)each, cards, GYRE_VERBS_QUEUES);
    wire->cards = cards;
    wire->queues = queues;
    return 0;
}

/* Registers the place of test writes of all queue pairs but the first. */
static int register_test(const struct gyre_verbs_wire *wire, struct gyre_verbs_card *card,
                         struct gyre_trouble *trouble)
{
    card->test = ibv_reg_mr(card->domain, wire->test, test_bytes(wire),
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (card->test)
        return 0;
    return gyre_trouble_set(trouble, -ENOMEM, "%s cannot register %zu KiB: %s", card->name,
                            test_bytes(wire) / 1024, strerror(errno));
}

/* A device of no use is left out. A request of the user that cannot be met is a failure. */
static int open_others(struct gyre_verbs_wire *wire, const struct gyre_wire_options *options,
                       struct gyre_trouble *trouble)
{
    wire->test = wire->staging + all_rings(wire);
    for (uint32_t i = 0; i < wire->cards && wire->queues > 1; i++) {
        struct gyre_verbs_card *card = &wire->card[i];
        int status = i ? gyre_verbs_card_open(wire, i, options, &card->why) : 0;
        if (!status)
            status = register_test(wire, card, &card->why);
        if (status == GYRE_INVALID)
            return gyre_trouble_set(trouble, status, "%s", card->why.text);
        if (status && i)
            gyre_verbs_card_close(card);
    }
    return 0;
}

static void release_tests(struct gyre_verbs_wire *wire)
{
    for (uint32_t i = 0; i < wire->cards; i++)
        if (wire->card[i].test)
            ibv_dereg_mr(wire->card[i].test);
}

/* -- what rings -------------------------------------------------------------------------------- */

/* Descriptors of devices have one name: an event of one has all looked at. */
static int listen_to_descriptor(const struct gyre_verbs_wire *wire, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = UINT64_MAX};
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) ||
                   epoll_ctl(wire->epoll, EPOLL_CTL_ADD, fd, &event)
               ? -errno
               : 0;
}

static int open_alarm(struct gyre_verbs_wire *wire, struct gyre_trouble *trouble)
{
    wire->epoll = epoll_create1(EPOLL_CLOEXEC);
    int status = wire->epoll < 0 ? -errno : 0;
    for (uint32_t i = 0; i < wire->cards && !status; i++)
        if (wire->card[i].context) {
            status = listen_to_descriptor(wire, wire->card[i].channel->fd);
            status = status ? status : listen_to_descriptor(wire, wire->card[i].context->async_fd);
        }
    if (status)
        return gyre_trouble_set(trouble, status, "verbs: no descriptor to sleep on: %s",
                                strerror(-status));
    return 0;
}

/* -- open and close ---------------------------------------------------------------------------- */

/* Such as "mlx5_0:1", "mlx5_0:1+mlx5_1:1", or "mlx5_0:1 x2" with two queue pairs to a peer. */
static void name_wire(struct gyre_verbs_wire *wire)
{
    size_t at = 0;
    for (uint32_t i = 0; i < wire->cards; i++)
        if (wire->card[i].context)
            at += (size_t)snprintf(wire->name + at, sizeof wire->name - at, "%s%s", i ? "+" : "",
                                   wire->card[i].name);
    if (wire->queues > wire->cards)
        snprintf(wire->name + at, sizeof wire->name - at, " x%u", wire->queues / wire->cards);
}

int gyre_verbs_device_open(struct gyre_verbs_wire *wire, const struct gyre_wire_options *options,
                           struct gyre_trouble *trouble)
{
    wire->window = GYRE_VERBS_WINDOW;
    int status = read_queues(wire, options, trouble);
    if (status || (status = gyre_verbs_card_open(wire, 0, options, trouble)) ||
        (status = open_staging(wire, trouble)) || (status = open_others(wire, options, trouble)))
        return status;
    name_wire(wire);
    return open_alarm(wire, trouble);
}

void gyre_verbs_device_close(struct gyre_verbs_wire *wire)
{
    release_tests(wire);
    release_staging(wire);
    for (uint32_t i = 0; i < wire->cards; i++)
        gyre_verbs_card_close(&wire->card[i]);
    if (wire->epoll >= 0)
        close(wire->epoll);
}
