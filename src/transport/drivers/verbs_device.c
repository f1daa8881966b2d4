/* What a wire has once: the device, one queue of completions for all peers, and staging.
 *
 *     staging   │ inbox 0 │ inbox 1 │ … │ slots │ outbox 0 │ outbox 1 │ …    one ring each per peer
 *               └────── peers write here ──────┘ └─ only this side does ─┘
 *
 * Limits are read before they are met: as many completions as all pipes together may have are
 * reserved, and where the device has no such queue, or none of so many requests, the window is
 * halved until it fits. Memory that
 * cannot be locked is asked for again, half as much, down to GYRE_VERBS_RING_LEAST per ring; then the
 * limit is told, and how it is raised. Only inboxes and slots are remotely writable; their key ends
 * with the wire. */
#include "transport/drivers/verbs.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define WINDOW_LEAST 8

uint32_t gyre_verbs_receives(const struct gyre_verbs_wire *wire)
{
    return wire->window + GYRE_VERBS_NEWS + GYRE_VERBS_PLACES + GYRE_VERBS_RENEW;
}

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

/* -- completions ------------------------------------------------------------------------------- */

static uint64_t completions_wanted(const struct gyre_verbs_wire *wire)
{
    return (uint64_t)wire->most * (gyre_verbs_receives(wire) + GYRE_VERBS_SENDS);
}

static bool is_enough(const struct gyre_verbs_wire *wire, const struct ibv_device_attr *limits)
{
    uint32_t requests = limits->max_qp_wr < 0 ? 0 : (uint32_t)limits->max_qp_wr;
    return completions_wanted(wire) <= (uint64_t)limits->max_cqe &&
           gyre_verbs_receives(wire) <= requests && GYRE_VERBS_SENDS <= requests;
}

static int fit_window(struct gyre_verbs_wire *wire, struct gyre_trouble *trouble)
{
    struct ibv_device_attr limits;
    int status = ibv_query_device(wire->context, &limits);
    if (status)
        return gyre_trouble_set(trouble, -status, "%s does not tell its limits: %s", wire->name,
                                strerror(status));
    while (!is_enough(wire, &limits) && wire->window > WINDOW_LEAST)
        wire->window /= 2;
    if (!is_enough(wire, &limits) || wire->most > (uint32_t)limits.max_qp)
        return gyre_trouble_set(trouble, -ENOSPC,
                                "%s has %d completions to a queue, %d requests to a queue pair and "
                                "%d queue pairs: too few for %u peers",
                                wire->name, limits.max_cqe, limits.max_qp_wr, limits.max_qp,
                                wire->most);
    if (wire->window < GYRE_VERBS_WINDOW)
        gyre_log(GYRE_LOG_WARN,
                 "verbs: %u records on their way to a peer instead of %u: %s has %d completions to "
                 "a queue and %d requests to a queue pair",
                 wire->window, GYRE_VERBS_WINDOW, wire->name, limits.max_cqe, limits.max_qp_wr);
    return 0;
}

static int open_completions(struct gyre_verbs_wire *wire, struct gyre_trouble *trouble)
{
    int status = fit_window(wire, trouble);
    if (status)
        return status;
    wire->channel = ibv_create_comp_channel(wire->context);
    if (wire->channel)
        wire->completions =
            ibv_create_cq(wire->context, (int)completions_wanted(wire), NULL, wire->channel, 0);
    if (!wire->completions)
        return gyre_trouble_set(trouble, -errno, "%s gives no queue of %u completions: %s",
                                wire->name, (uint32_t)completions_wanted(wire), strerror(errno));
    return 0;
}

/* -- staging ----------------------------------------------------------------------------------- */

static size_t rings(const struct gyre_verbs_wire *wire)
{
    return (size_t)wire->most * wire->ring;
}

static size_t slots(const struct gyre_verbs_wire *wire)
{
    return (size_t)wire->window * GYRE_VERBS_SLOT; /* of a peer */
}

static size_t written_by_peers(const struct gyre_verbs_wire *wire)
{
    return rings(wire) + wire->most * slots(wire);
}

static size_t all_staging(const struct gyre_verbs_wire *wire)
{
    return written_by_peers(wire) + rings(wire);
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
    wire->staging = memory;
    wire->inboxes = ibv_reg_mr(wire->domain, memory, written_by_peers(wire),
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (wire->inboxes)
        wire->outboxes =
            ibv_reg_mr(wire->domain, wire->staging + written_by_peers(wire), rings(wire), 0);
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
    while ((status = try_staging(wire)) && wire->ring > GYRE_VERBS_RING_LEAST)
        wire->ring /= 2;
    if (status)
        return gyre_trouble_set(trouble, -ENOMEM, "%s cannot register %zu KiB for %u peers: %s; %s",
                                wire->name, all_staging(wire) / 1024, wire->most, strerror(-status),
                                gyre_verbs_memory_hint(hint));
    if (wire->ring < GYRE_VERBS_RING)
        gyre_log(GYRE_LOG_WARN, "verbs: %u KiB of staging for each peer instead of %u: %s",
                 (uint32_t)(all_staging(wire) / wire->most / 1024),
                 (2 * GYRE_VERBS_RING + (uint32_t)slots(wire)) / 1024,
                 gyre_verbs_memory_hint(hint));
    return 0;
}

/* -- what rings -------------------------------------------------------------------------------- */

/* Which descriptor it was does not matter for these two: both are looked at. */
static int listen_to(struct gyre_verbs_wire *wire, int fd)
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
    int status = wire->epoll < 0 ? -errno : listen_to(wire, wire->channel->fd);
    if (!status)
        status = listen_to(wire, wire->context->async_fd);
    if (status)
        return gyre_trouble_set(trouble, status, "verbs: no descriptor to sleep on: %s",
                                strerror(-status));
    return 0;
}

/* -- open and close ---------------------------------------------------------------------------- */

/* Before anything is registered: then a child of the application does not disturb what the device
 * reads and writes. Newer kernels see to that by themselves. */
static void prepare_forks(void)
{
    static bool done;
    if (!done && ibv_fork_init())
        gyre_log(GYRE_LOG_INFO, "verbs: something else has registered memory already, so a fork "
                                "is safe only where the kernel makes it so");
    done = true;
}

int gyre_verbs_device_open(struct gyre_verbs_wire *wire, const struct gyre_wire_options *options,
                           struct gyre_trouble *trouble)
{
    char gid[GYRE_VERBS_NAME_MAX];
    int status = gyre_verbs_port_choose(options, &wire->context, &wire->port, trouble);
    if (status)
        return status;
    prepare_forks();
    gyre_verbs_gid_name(wire->port.gid, gid);
    snprintf(wire->name, sizeof wire->name, "%.40s:%u", wire->port.device, wire->port.number);
    gyre_log(GYRE_LOG_INFO, "verbs: port %u of %s, GID %d (%s), MTU %d", wire->port.number,
             wire->port.device, wire->port.gid_index, gid, 128 << wire->port.mtu);
    wire->window = GYRE_VERBS_WINDOW;
    wire->domain = ibv_alloc_pd(wire->context);
    if (!wire->domain)
        return gyre_trouble_set(trouble, -errno, "%s gives no protection domain: %s", wire->name,
                                strerror(errno));
    if ((status = open_completions(wire, trouble)) || (status = open_staging(wire, trouble)))
        return status;
    return open_alarm(wire, trouble);
}

void gyre_verbs_device_close(struct gyre_verbs_wire *wire)
{
    if (wire->completions) {
        ibv_ack_cq_events(wire->completions, wire->events);
        ibv_destroy_cq(wire->completions);
    }
    if (wire->channel)
        ibv_destroy_comp_channel(wire->channel);
    gyre_verbs_reach_close(wire);
    release_staging(wire);
    if (wire->domain)
        ibv_dealloc_pd(wire->domain);
    if (wire->context)
        ibv_close_device(wire->context);
    if (wire->epoll >= 0)
        close(wire->epoll);
}
