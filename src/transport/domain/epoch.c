/* From one epoch of a job to the next.
 *
 *     gather     the old domain's listener ─▶ members agree (transport/members) ─▶ company
 *     prepare, meet                           a new domain of that company
 *     bequeath   the program's memory, the listener, the room of newcomers ─▶ the new domain
 *
 * The old domain's watch goes on until the domain is closed: it has told everybody of the failure,
 * and still sees processes end. Nobody makes a connection to it any more.
 *
 * Memory. A rank of the old epoch that is silent may be stopped in the middle of a write into
 * memory that it has mapped. So each region that goes on gets fresh pages first, unless nobody is
 * silent.
 *
 * Tested by tests/program/failures/shrink.c. */
#include "transport/domain/inside.h"

#include "base/clock.h"
#include "base/log.h"
#include "transport/members/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- members ----------------------------------------------------------------------------------- */

int gyre_domain_know_members(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    const struct gyre_joined *joined = domain->joined;
    uint32_t rank = 0;
    if (domain->members) {
        gyre_members_complete(domain->members);
        gyre_members_note(domain->members, joined);
    } else
        domain->members = gyre_members_create(joined, &domain->job);
    domain->seat = calloc(joined->n, sizeof *domain->seat);
    if (!domain->members || !domain->seat)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a list of %u ranks", joined->n);
    if (joined->n == 1 && !domain->members->options) {
        domain->members->options = domain->options;
        domain->options = NULL;
    }
    for (uint32_t seat = 0; seat < domain->members->n && rank < joined->n; seat++)
        if (domain->members->standing[seat] == GYRE_STANDS)
            domain->seat[rank++] = seat;
    return 0;
}

void gyre_domain_forget_members(struct gyre_domain *domain)
{
    gyre_members_release(domain->members);
    free(domain->seat);
}

/* Whether the job's failure says that this rank was lost. */
static bool is_blamed(const struct gyre_domain *domain, uint32_t rank)
{
    return atomic_load(&domain->health.status) == GYRE_PEER_LOST &&
           domain->health.failed_rank == rank;
}

struct gyre_domain_loss gyre_domain_loss_of(const struct gyre_domain *domain, uint32_t rank)
{
    static const enum gyre_domain_fate fate[] = {
        [GYRE_STANDS] = GYRE_FATE_LIVES,           [GYRE_STANDING_ENDED] = GYRE_FATE_ENDED,
        [GYRE_STANDING_SILENT] = GYRE_FATE_SILENT, [GYRE_STANDING_LEFT] = GYRE_FATE_LEFT,
        [GYRE_STANDING_VACANT] = GYRE_FATE_LOST,   [GYRE_STANDING_COMING] = GYRE_FATE_LOST};
    const struct gyre_members *members = domain->members;
    uint32_t seat = domain->seat[rank];
    const bool blamed = is_blamed(domain, rank); /* only then may `failed_at` be read */
    if (!domain->aside && members->epoch > domain->job.epoch &&
        members->standing[seat] != GYRE_STANDS)
        return (struct gyre_domain_loss){fate[members->standing[seat]],
                                         blamed ? domain->health.failed_at
                                                : members->at[seat].gone_at};
    if (domain->watch && seat != members->seat && gyre_watch_peer_ended(domain->watch, rank))
        return (struct gyre_domain_loss){GYRE_FATE_ENDED,
                                         gyre_watch_peer_ended_at(domain->watch, rank)};
    if (blamed)
        return (struct gyre_domain_loss){GYRE_FATE_LOST, domain->health.failed_at};
    return (struct gyre_domain_loss){GYRE_FATE_LIVES, 0};
}

bool gyre_domain_stands_next(const struct gyre_domain *domain, uint32_t rank)
{
    return domain->members->next[domain->seat[rank]] == GYRE_STANDS;
}

/* -- gather ------------------------------------------------------------------------------------ */

/* Takes the listener from the watch, which polls it. */
static void take_listener(struct gyre_domain *domain)
{
    int fd = domain->watch ? gyre_watch_take_listener(domain->watch) : -1;
    if (fd >= 0)
        domain->joined->listener = fd;
}

void gyre_domain_leave_listener(struct gyre_domain *domain)
{
    take_listener(domain);
}

void gyre_domain_begin_gathering(struct gyre_domain *domain)
{
    domain->aside = true;
}

void gyre_domain_end_gathering(struct gyre_domain *domain)
{
    domain->aside = false;
    domain->gather_at = 0;
}

/* What is left of the time in which members must have called. All gatherings of an epoch share
 * it. */
static int gather_limit_ms(struct gyre_domain *domain)
{
    const uint64_t now = gyre_now_ns(), whole = (uint64_t)domain->settings.timeout_ms;
    if (!domain->gather_at)
        domain->gather_at = now;
    const uint64_t passed = (now - domain->gather_at) / GYRE_MS;
    return !whole ? 0 : passed < whole ? (int)(whole - passed) : 1;
}

/* Ends what nobody will serve any more: others then see at once that this rank is gone. */
static void close_listener(struct gyre_domain *domain)
{
    if (domain->joined->listener >= 0)
        close(domain->joined->listener);
    domain->joined->listener = -1;
}

static bool *suspect_lost(const struct gyre_domain *domain)
{
    bool *suspected = calloc(domain->members->n, sizeof *suspected);
    for (uint32_t rank = 0; suspected && rank < domain->joined->n; rank++)
        suspected[domain->seat[rank]] = is_blamed(domain, rank);
    return suspected;
}

int gyre_domain_gather(struct gyre_domain *domain, const char *made_by, bool leave,
                       struct gyre_company *company, struct gyre_job *job,
                       struct gyre_trouble *trouble)
{
    bool *suspected = suspect_lost(domain);
    if (!suspected)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to gather %u ranks",
                                domain->members->n);
    take_listener(domain);
    const struct gyre_gather_options options = {.members = domain->members,
                                                .made_by = made_by,
                                                .listener = domain->joined->listener,
                                                .suspected = suspected,
                                                .leaving = leave,
                                                .newcomer = domain->newcomer,
                                                .newcomers = domain->newcomers,
                                                .dead_time_ms = (int)domain->settings.dead_time_ms,
                                                .limit_ms = gather_limit_ms(domain)};
    int status = gyre_members_gather(&options, company, trouble);
    free(suspected);
    gyre_domain_disinvite(domain);
    if (leave)
        gyre_domain_end_room(domain, false);
    if (status || leave)
        close_listener(domain);
    if (!status && domain->members->seen > UINT16_MAX) {
        gyre_company_close(company);
        status = gyre_trouble_set(trouble, -EOVERFLOW, "this job has had %u epochs: no more fit",
                                  UINT16_MAX);
    }
    if (!status && company->n)
        gyre_domain_describe_job(domain, company, job);
    return status;
}

/* -- bequeath ---------------------------------------------------------------------------------- */

static bool somebody_is_silent(const struct gyre_domain *domain)
{
    for (uint32_t rank = 0; rank < domain->joined->n; rank++)
        if (gyre_domain_loss_of(domain, rank).fate == GYRE_FATE_SILENT)
            return true;
    return false;
}

/* Hands on one region. Fresh pages keep out whoever has mapped the old ones. */
static void bequeath_region(struct gyre_domain *domain, struct gyre_domain *next, void *base,
                            bool fresh)
{
    struct gyre_shared moved;
    struct gyre_trouble trouble = {0};
    int status = 0;
    if (!gyre_lookup_remove(&domain->lookup, base, &moved))
        return;
    if (fresh)
        status = gyre_device_of(moved.region.kind)->detach(&moved.region, &trouble);
    status = status ? status : gyre_domain_adopt(next, &moved.region, &trouble);
    if (status)
        gyre_log(GYRE_LOG_WARN, "memory %p of %llu bytes is not shared with this node's ranks: %s",
                 base, (unsigned long long)moved.region.length, trouble.text);
}

void gyre_domain_bequeath(struct gyre_domain *domain, struct gyre_domain *next)
{
    const bool fresh = somebody_is_silent(domain);
    void *base;
    while ((base = gyre_lookup_first_given(&domain->lookup)))
        bequeath_region(domain, next, base, fresh);
    close_listener(domain);
    next->names_log = domain->names_log;
    if (next->names_log)
        gyre_log_identity((int)next->joined->rank, (int)next->joined->rank);
    next->room = domain->room;
    domain->room = NULL;
}
