/* The process's thread that has broken connections go on while nobody drives: one, however many
 * groups of ranks the process is in.
 *
 *      watch ─ news ─▶ its word ─▶ the mender enters the domain, mends (mend.c) and leaves
 *
 * It becomes the owner of a domain for a moment, and sends what a broken connection has swallowed:
 * the peer may wait for it. Where the kernel has no room for all of it, the mender comes back.
 *
 * The first domain whose connections are made anew starts the thread, and the last one ends it.
 * `mender_lock` covers the list and what a domain has for it. The thread lets it go while it mends
 * and while it sleeps.
 *
 * A forked child has no thread, and forgets its parent's.
 *
 * Tested by tests/program/failures/reset_data.c and tests/program/job/groups.c. */
#include "transport/domain/inside.h"

#include "base/clock.h"
#include "base/machine/thread.h"
#include "transport/domain/futex.h"
#include "transport/watch/renew.h"

#include <errno.h>
#include <stdlib.h>

#define NEVER      UINT64_MAX
#define LOOK_AGAIN GYRE_MS /* while the kernel has no room for bytes that are sent once more */

struct mender {
    pthread_t thread;
    pthread_cond_t rested; /* from mending a domain */
    struct gyre_domain *first;
    bool ending;
};

static pthread_mutex_t mender_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mender *current; /* NULL: no domain has one */
static _Atomic uint32_t mender_word;

/* -- the thread -------------------------------------------------------------------------------- */

/* A domain with news, or the one that is due first. NULL: there is no domain. */
static struct gyre_domain *next_due(const struct mender *self)
{
    struct gyre_domain *next = self->first;
    for (struct gyre_domain *domain = next; domain; domain = domain->mend_next) {
        if (gyre_watch_has_renewal(domain->watch))
            domain->mend_at = 0;
        if (domain->mend_at < next->mend_at)
            next = domain;
    }
    return next;
}

/* Mends a domain's connections. The lock is let go meanwhile. */
static void mend_one(struct mender *self, struct gyre_domain *domain)
{
    domain->mend_at = NEVER;
    domain->in_mending = true;
    pthread_mutex_unlock(&mender_lock);
    gyre_domain_enter_aside(domain);
    bool left = gyre_domain_mend(domain);
    gyre_domain_leave(domain);
    pthread_mutex_lock(&mender_lock);
    domain->in_mending = false;
    if (left)
        domain->mend_at = gyre_now_ns() + LOOK_AGAIN;
    pthread_cond_broadcast(&self->rested);
}

/* Sleeps until the word is not `seen`, or it is time. The lock is let go meanwhile. */
static void sleep_until(uint32_t seen, uint64_t at, uint64_t now)
{
    const uint64_t ns = at - now;
    const struct timespec limit = {(time_t)(ns / GYRE_SECOND), (long)(ns % GYRE_SECOND)};
    pthread_mutex_unlock(&mender_lock);
    gyre_futex_wait(&mender_word, seen, at == NEVER ? NULL : &limit);
    pthread_mutex_lock(&mender_lock);
}

static void *mender_main(void *argument)
{
    struct mender *self = argument;
    pthread_setname_np(pthread_self(), "gyre-mender");
    pthread_mutex_lock(&mender_lock);
    while (!self->ending) {
        const uint32_t seen = atomic_load(&mender_word);
        struct gyre_domain *domain = next_due(self);
        const uint64_t now = gyre_now_ns(), at = domain ? domain->mend_at : NEVER;
        if (at <= now)
            mend_one(self, domain);
        else
            sleep_until(seen, at, now);
    }
    pthread_mutex_unlock(&mender_lock);
    return NULL;
}

_Atomic uint32_t *gyre_domain_mender_word(void)
{
    return &mender_word;
}

static void wake_mender(void)
{
    atomic_fetch_add(&mender_word, 1);
    gyre_futex_wake(&mender_word, 1);
}

/* -- its start and its end --------------------------------------------------------------------- */

static void hold_mender(void)
{
    pthread_mutex_lock(&mender_lock);
}

static void release_mender(void)
{
    pthread_mutex_unlock(&mender_lock);
}

static void forget_mender(void)
{
    free(current);
    current = NULL;
    pthread_mutex_unlock(&mender_lock);
}

static void let_mender_follow_forks(void)
{
    pthread_atfork(hold_mender, release_mender, forget_mender);
}

static int start_mender(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct mender *self = calloc(1, sizeof *self);
    if (!self)
        return -ENOMEM;
    pthread_once(&once, let_mender_follow_forks);
    pthread_cond_init(&self->rested, NULL);
    int status = gyre_thread_start(&self->thread, mender_main, self);
    if (status)
        free(self);
    else
        current = self;
    return status;
}

/* Ends a mender that no domain will find any more. */
static void end_mender(struct mender *self)
{
    pthread_join(self->thread, NULL);
    pthread_cond_destroy(&self->rested);
    free(self);
}

/* -- domains ----------------------------------------------------------------------------------- */

/* Whether any peer's connections are made anew, or at their first use. */
static bool has_renewable_links(const struct gyre_domain *domain)
{
    bool any = domain->on_demand.peer != NULL;
    for (uint32_t peer = 0; peer < domain->joined->n; peer++)
        any |= domain->joined->peer[peer].tcps > 0 && gyre_domain_renews(domain, peer);
    return any;
}

int gyre_domain_come_to_mender(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    if (!has_renewable_links(domain))
        return 0;
    pthread_mutex_lock(&mender_lock);
    int status = current ? 0 : start_mender();
    if (!status) {
        domain->mend_at = 0; /* there may be news already */
        domain->mend_next = current->first;
        current->first = domain;
        domain->mends = true;
        wake_mender();
    }
    pthread_mutex_unlock(&mender_lock);
    return status ? gyre_trouble_set(trouble, status,
                                     "cannot start the thread that renews connections: %s (see "
                                     "ulimit -u, ulimit -v)",
                                     gyre_status_name(status))
                  : 0;
}

/* Takes the domain off the list, once the mender is not there. The last one takes the mender. */
static struct mender *leave_list(struct gyre_domain *domain)
{
    struct mender *self = current;
    struct gyre_domain **at = &self->first;
    while (domain->in_mending)
        pthread_cond_wait(&self->rested, &mender_lock);
    while (*at != domain)
        at = &(*at)->mend_next;
    *at = domain->mend_next;
    domain->mends = false;
    if (self->first)
        return NULL;
    self->ending = true;
    wake_mender();
    current = NULL;
    return self;
}

void gyre_domain_leave_mender(struct gyre_domain *domain)
{
    if (!domain->mends || domain->forked)
        return;
    pthread_mutex_lock(&mender_lock);
    struct mender *idle = leave_list(domain);
    pthread_mutex_unlock(&mender_lock);
    if (idle)
        end_mender(idle);
}
