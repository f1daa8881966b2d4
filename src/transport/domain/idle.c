/* One turn of waiting without progress: spin, give way, sleep.
 *
 *   every rank has a core     spin for ~4 µs (no clock in the first 64 turns), give way, and sleep
 *                             after ~1 ms; ~50 µs where the program computes meanwhile
 *   ranks outnumber cores     give way at once, sleep after ~200 µs
 *
 * idle() says when it is time to sleep, and has told the peers (bell.c). The caller looks once
 * more, and sleep() sleeps unless that look, or another, found something.
 *
 * Tested by tests/program/collectives/collectives.c. */
#include "transport/domain/inside.h"

#include "base/clock.h"
#include "base/machine/cpu.h"
#include "transport/domain/futex.h"

#include <poll.h>
#include <sched.h>

#define SPINS_WITHOUT_CLOCK 64u
#define PAUSE_NS            (4 * UINT64_C(1000))
#define SPIN_NS             (1000 * UINT64_C(1000))
#define ASIDE_NS            (50 * UINT64_C(1000))
#define OVERSUBSCRIBED_NS   (200 * UINT64_C(1000))
#define SLEEP_MAX_NS        (50 * GYRE_MS)
#define UNSURE_SLEEP_NS     (1 * GYRE_MS) /* where a ring may be missed */

/* -- sleep ------------------------------------------------------------------------------------- */

static struct timespec span(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / GYRE_SECOND), (long)(ns % GYRE_SECOND)};
}

static void sleep_on_futex(struct gyre_domain *domain, uint32_t seen, uint64_t ns)
{
    struct timespec timeout = span(ns);
    gyre_futex_wait(&domain->bell->word, seen, &timeout);
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

static void say_asleep(struct gyre_domain *domain, uint64_t ns)
{
    ns = ns < SLEEP_MAX_NS ? ns : SLEEP_MAX_NS;
    domain->bell_seen = atomic_load(&domain->bell->word);
    if (!gyre_domain_say_asleep(domain) && ns > UNSURE_SLEEP_NS)
        ns = UNSURE_SLEEP_NS;
    domain->sleep_ns = ns;
}

void gyre_domain_sleep(struct gyre_domain *domain, bool found)
{
    int fd[4], fds = 0;
    bool stay = found || (domain->links && (fds = gyre_links_arm(domain->links, fd)) < 0) ||
                gyre_domain_wanted(domain) || atomic_load(&domain->health.status);
    if (!stay && domain->sockets)
        sleep_on_descriptors(domain, fd, fds, domain->sleep_ns);
    else if (!stay)
        sleep_on_futex(domain, domain->bell_seen, domain->sleep_ns);
    gyre_domain_say_awake(domain);
}

/* -- turns ------------------------------------------------------------------------------------- */

/* Gives way a little. While every rank has a core, a pause is enough. But a peer may share this
 * core for a moment, so after a few µs the thread yields, which costs nothing where no other wants
 * to run. */
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

int gyre_domain_idle(struct gyre_domain *domain, struct gyre_idle *idle, uint64_t deadline)
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
    if (domain->mends)
        gyre_domain_ask_anew(domain);
    if (now >= deadline || now - idle->since < patience(domain, idle))
        return 0;
    say_asleep(domain, deadline - now);
    return GYRE_IDLE_ASLEEP;
}
