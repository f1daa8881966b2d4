/* Waiting: spin, yield, sleep; the doorbell; and who may drive.
 *
 *   every rank has a core     spin for ~4 µs (no clock in the first 64 turns), give way, and sleep
 *                             after ~1 ms; ~50 µs where the program computes meanwhile
 *   ranks outnumber cores     give way at once, sleep after ~200 µs
 *
 * Sleep is a futex in a page that the node's peers can write, or the links' descriptors where
 * sockets are in play. The race between "I go to sleep" and "something came" is closed from both
 * sides: the sleeper says so, fences and looks again; a peer writes its data, fences and looks
 * whether somebody sleeps. Peers write often and nobody sleeps often, so where membarrier(2) is to
 * be had the sleeper fences for everybody, and a peer's look costs a load. */
#include "transport/domain/inside.h"

#include "base/clock.h"
#include "base/cpu.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPINS_WITHOUT_CLOCK 64u
#define PAUSE_NS            (4 * UINT64_C(1000))
#define SPIN_NS             (1000 * UINT64_C(1000))
#define ASIDE_NS            (50 * UINT64_C(1000))
#define OVERSUBSCRIBED_NS   (200 * UINT64_C(1000))
#define SLEEP_MAX_NS        (50 * GYRE_MS)
#define STAND_NS            (2 * GYRE_MS)
#define UNFENCED_SLEEP_NS   (1 * GYRE_MS) /* where the sleeper's fence for all failed */

/* -- ownership --------------------------------------------------------------------------------- */

static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

/* The thread that drives may sleep. */
static void wake_self(struct gyre_domain *domain)
{
    const uint64_t one = 1;
    if (!domain->bell)
        return;
    atomic_fetch_add(&domain->bell->word, 1);
    futex(&domain->bell->word, FUTEX_WAKE, 1, NULL);
    (void)!write(domain->eventfd, &one, sizeof(one));
}

bool gyre_domain_try_enter(struct gyre_domain *domain)
{
    return atomic_load_explicit(&domain->owner, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&domain->owner, 1, memory_order_acquire) == 0;
}

void gyre_domain_enter(struct gyre_domain *domain)
{
    if (gyre_domain_try_enter(domain))
        return;
    atomic_fetch_add(&domain->wanted, 1);
    wake_self(domain);
    while (!gyre_domain_try_enter(domain))
        sched_yield();
    atomic_fetch_sub(&domain->wanted, 1);
}

void gyre_domain_tell_standing(struct gyre_domain *domain)
{
    if (atomic_load_explicit(&domain->standing, memory_order_relaxed) == 0)
        return;
    atomic_fetch_add(&domain->standing_word, 1);
    futex(&domain->standing_word, FUTEX_WAKE, INT_MAX, NULL);
}

void gyre_domain_leave(struct gyre_domain *domain)
{
    atomic_store_explicit(&domain->owner, 0, memory_order_release);
    gyre_domain_tell_standing(domain);
}

/* No fence orders "I stand by" with the leaver's look for it: that would cost every call. Who slips
 * through looks again after STAND_NS. */
void gyre_domain_stand_by(struct gyre_domain *domain, bool (*over)(void *context), void *context,
                          uint64_t deadline)
{
    const struct timespec most = {0, STAND_NS};
    atomic_fetch_add(&domain->standing, 1);
    for (;;) {
        uint32_t seen = atomic_load(&domain->standing_word);
        if (over(context) || gyre_now_ns() >= deadline || atomic_load(&domain->health.status)) {
            atomic_fetch_sub(&domain->standing, 1);
            gyre_domain_enter(domain);
            return;
        }
        if (!gyre_domain_wanted(domain) && gyre_domain_try_enter(domain))
            break;
        futex(&domain->standing_word, FUTEX_WAIT, seen, &most);
    }
    atomic_fetch_sub(&domain->standing, 1);
}

bool gyre_domain_attended(const struct gyre_domain *domain)
{
    return gyre_domain_wanted(domain) ||
           atomic_load_explicit(&((struct gyre_domain *)(uintptr_t)domain)->standing,
                                memory_order_relaxed) != 0;
}

bool gyre_domain_wanted(const struct gyre_domain *domain)
{
    return atomic_load_explicit(&((struct gyre_domain *)(uintptr_t)domain)->wanted,
                                memory_order_relaxed) != 0;
}

/* -- doorbell ---------------------------------------------------------------------------------- */

int gyre_domain_bell_init(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    const struct gyre_device *host = gyre_device_of(GYRE_MEMORY_HOST);
    domain->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (domain->eventfd < 0)
        return gyre_trouble_set(trouble, -errno, "eventfd: %s", gyre_status_name(-errno));
    int status = host->alloc(0, 4096, GYRE_SHARE_OPEN, &domain->bell_region, trouble);
    if (status)
        return status;
    domain->bell = domain->bell_region.base;
    domain->light_ring = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
    return 0;
}

/* Gives the bell to the node's peers and takes theirs. */
int gyre_domain_bell_meet(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = domain->joined;
    int status = gyre_watch_share(domain->watch, GYRE_REGION_BELL, &domain->bell_region,
                                  GYRE_SHARE_OPEN, trouble);
    struct gyre_region waker = {.kind = GYRE_MEMORY_HOST, .fd = domain->eventfd};
    if (!status && joined->nodes > 1) /* peers may find this process asleep on sockets */
        status =
            gyre_watch_share(domain->watch, GYRE_REGION_WAKER, &waker, GYRE_SHARE_OPEN, trouble);
    domain->peer_bell = calloc(joined->local_size, sizeof(*domain->peer_bell));
    if (!domain->peer_bell)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for %u doorbells", joined->local_size);
    for (uint32_t peer = 0; !status && peer < joined->n; peer++) {
        void *page;
        if (!gyre_domain_mapped(domain, peer))
            continue;
        status = gyre_domain_await_view(domain, peer, GYRE_REGION_BELL, 4096, &page, trouble);
        if (!status)
            domain->peer_bell[domain->peer_bells++] = (struct gyre_peer_bell){page, peer};
    }
    return status;
}

void gyre_domain_bell_deinit(struct gyre_domain *domain)
{
    free(domain->peer_bell);
    gyre_device_of(GYRE_MEMORY_HOST)->free(&domain->bell_region);
    if (domain->eventfd >= 0)
        close(domain->eventfd);
}

static void wake_peer(struct gyre_domain *domain, const struct gyre_peer_bell *bell, uint32_t state)
{
    const uint64_t one = 1;
    if (state == GYRE_ON_FUTEX) {
        atomic_fetch_add(&bell->page->word, 1);
        futex(&bell->page->word, FUTEX_WAKE, 1, NULL);
        return;
    }
    int fd = gyre_watch_peer_bell(domain->watch, bell->peer);
    if (fd >= 0)
        (void)!write(fd, &one, sizeof(one));
}

void gyre_domain_ring(struct gyre_domain *domain)
{
    if (!domain->peer_bells)
        return;
    if (domain->light_ring)
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < domain->peer_bells; i++) {
        uint32_t state =
            atomic_load_explicit(&domain->peer_bell[i].page->state, memory_order_relaxed);
        if (state != GYRE_AWAKE)
            wake_peer(domain, &domain->peer_bell[i], state);
    }
}

/* -- sleep ------------------------------------------------------------------------------------- */

static struct timespec span(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / GYRE_SECOND), (long)(ns % GYRE_SECOND)};
}

static void sleep_on_futex(struct gyre_domain *domain, uint32_t seen, uint64_t ns)
{
    struct timespec timeout = span(ns);
    futex(&domain->bell->word, FUTEX_WAIT, seen, &timeout);
}

static void sleep_on_descriptors(struct gyre_domain *domain, const int *fd, int fds, uint64_t ns)
{
    struct pollfd set[5] = {{domain->eventfd, POLLIN, 0}};
    struct timespec timeout = span(ns);
    for (int i = 0; i < fds; i++)
        set[i + 1] = (struct pollfd){fd[i], POLLIN, 0};
    uint64_t drained;
    if (ppoll(set, (nfds_t)fds + 1, &timeout, NULL) > 0 && set[0].revents)
        (void)!read(domain->eventfd, &drained, sizeof(drained));
}

static void sleep_once(struct gyre_domain *domain, bool (*ready)(void *), void *context,
                       uint64_t ns)
{
    int fd[GYRE_LINK_WIRES], fds = 0;
    uint32_t seen = atomic_load(&domain->bell->word);
    atomic_store(&domain->bell->state, domain->sockets ? GYRE_ON_DESCRIPTORS : GYRE_ON_FUTEX);
    atomic_thread_fence(memory_order_seq_cst);
    if (domain->peer_bells && membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) && ns > UNFENCED_SLEEP_NS)
        ns = UNFENCED_SLEEP_NS;
    bool stay = ready(context) ||
                (domain->links && (fds = gyre_links_arm(domain->links, fd)) < 0) ||
                gyre_domain_wanted(domain) || atomic_load(&domain->health.status);
    if (!stay && domain->sockets)
        sleep_on_descriptors(domain, fd, fds, ns);
    else if (!stay)
        sleep_on_futex(domain, seen, ns);
    atomic_store(&domain->bell->state, GYRE_AWAKE);
}

/* While every rank has a core, a pause; but a peer may share ours for a moment: after a few µs give
 * way, which costs nothing where nobody else wants to run. */
static void give_way(const struct gyre_domain *domain, const struct gyre_idle *idle)
{
    if (domain->oversubscribed || idle->long_wait)
        sched_yield();
    else
        gyre_pause();
}

static uint64_t patience(const struct gyre_domain *domain, const struct gyre_idle *idle)
{
    return domain->oversubscribed ? OVERSUBSCRIBED_NS : idle->aside ? ASIDE_NS : SPIN_NS;
}

int gyre_domain_idle(struct gyre_domain *domain, struct gyre_idle *idle,
                     bool (*ready)(void *context), void *context, uint64_t deadline)
{
    int status = atomic_load_explicit(&domain->health.status, memory_order_acquire);
    if (status)
        return status;
    give_way(domain, idle);
    if (++idle->turns < SPINS_WITHOUT_CLOCK / (domain->oversubscribed ? 8 : 1) || idle->turns % 4)
        return 0;
    uint64_t now = gyre_now_ns();
    if (!idle->since)
        idle->since = now;
    idle->long_wait = now - idle->since > PAUSE_NS;
    if (now >= deadline || now - idle->since < patience(domain, idle))
        return 0;
    sleep_once(domain, ready, context,
               deadline - now < SLEEP_MAX_NS ? deadline - now : SLEEP_MAX_NS);
    return 0;
}
