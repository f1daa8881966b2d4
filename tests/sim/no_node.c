/* What a simulated rank's domain does not have: other threads of its process, shared memory,
 * devices and a helper. Beside comm_sim.c, and beside the domain of the hunt. */
#include "collectives/comm/helper.h"
#include "collectives/comm/progress.h"

/* -- one thread -------------------------------------------------------------------------------- */

void gyre_domain_enter(struct gyre_domain *domain)
{
    (void)domain;
}

bool gyre_domain_try_enter(struct gyre_domain *domain)
{
    (void)domain;
    return true;
}

void gyre_domain_leave(struct gyre_domain *domain)
{
    (void)domain;
}

bool gyre_domain_wanted(const struct gyre_domain *domain)
{
    (void)domain;
    return false;
}

bool gyre_domain_attended(const struct gyre_domain *domain)
{
    (void)domain;
    return false;
}

void gyre_domain_sleep(struct gyre_domain *domain, bool found)
{
    (void)domain;
    (void)found;
}

uint32_t gyre_domain_stand_aside(struct gyre_domain *domain)
{
    (void)domain;
    return 0;
}

bool gyre_domain_stand_by(struct gyre_domain *domain, uint32_t *seen, uint64_t deadline)
{
    (void)domain;
    (void)seen;
    (void)deadline;
    return true;
}

void gyre_domain_stand_down(struct gyre_domain *domain, bool owner)
{
    (void)domain;
    (void)owner;
}

void gyre_domain_tell_standing(struct gyre_domain *domain)
{
    (void)domain;
}

void gyre_domain_ring(struct gyre_domain *domain)
{
    (void)domain;
}

bool gyre_domain_forked(const struct gyre_domain *domain)
{
    (void)domain;
    return false;
}

bool gyre_domain_oversubscribed(const struct gyre_domain *domain)
{
    (void)domain;
    return false;
}

bool gyre_domain_shares(const struct gyre_domain *domain)
{
    (void)domain;
    return false;
}

bool gyre_domain_peer_ended(struct gyre_domain *domain, uint32_t peer)
{
    (void)domain;
    (void)peer;
    return false;
}

/* -- shared memory: there is none -------------------------------------------------------------- */

int gyre_domain_share(struct gyre_domain *domain, enum gyre_memory_kind kind, uint64_t length,
                      enum gyre_share share, void **base, uint32_t *id,
                      struct gyre_trouble *trouble)
{
    (void)kind;
    (void)domain;
    (void)length;
    (void)share;
    (void)base;
    (void)id;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "the simulated domain shares no memory");
}

int gyre_domain_unshare(struct gyre_domain *domain, void *base)
{
    (void)domain;
    (void)base;
    return GYRE_INVALID;
}

void gyre_domain_open_copy_queue(struct gyre_domain *domain)
{
    (void)domain;
}

bool gyre_domain_has_copy_queue(const struct gyre_domain *domain)
{
    (void)domain;
    return true;
}

bool gyre_domain_try_copies(struct gyre_domain *domain)
{
    (void)domain;
    return false;
}

void gyre_domain_forsake(struct gyre_domain *domain, void *base)
{
    (void)domain, (void)base;
}

bool gyre_domain_take_view(struct gyre_domain *domain, uint32_t peer, uint32_t id,
                           struct gyre_region *region)
{
    (void)domain, (void)peer, (void)id, (void)region;
    return false;
}

void gyre_domain_settle(struct gyre_domain *domain, const void *base)
{
    (void)domain;
    (void)base;
}

void gyre_domain_give(struct gyre_domain *domain, const void *base)
{
    (void)domain;
    (void)base;
}

void *gyre_domain_keep(struct gyre_domain *domain, uint64_t length)
{
    (void)domain;
    (void)length;
    return NULL;
}

bool gyre_domain_is_to_leave(struct gyre_domain *domain)
{
    (void)domain;
    return false;
}

bool gyre_domain_is_copying(const struct gyre_domain *domain)
{
    (void)domain;
    return false;
}

int gyre_domain_cuda(const struct gyre_domain *domain)
{
    (void)domain;
    return -1;
}

bool gyre_domain_has_cuda(const struct gyre_domain *domain, uint32_t rank)
{
    (void)domain;
    (void)rank;
    return false;
}

bool gyre_domain_mapped(const struct gyre_domain *domain, uint32_t peer)
{
    (void)domain;
    (void)peer;
    return false;
}

int gyre_domain_lend(struct gyre_domain *domain, void *memory, uint64_t length)
{
    return 0;
}

void gyre_domain_withdraw(struct gyre_domain *domain, const void *memory, uint64_t length)
{
}

uint32_t gyre_domain_locate(struct gyre_domain *domain, enum gyre_memory_kind kind,
                            const void *memory, uint64_t length, uint64_t *offset)
{
    (void)kind;
    (void)domain;
    (void)memory;
    (void)length;
    (void)offset;
    return 0;
}

void *gyre_domain_view(struct gyre_domain *domain, uint32_t peer, uint32_t id,
                       enum gyre_memory_kind kind, uint64_t offset, uint64_t length)
{
    (void)kind;
    (void)domain;
    (void)peer;
    (void)id;
    (void)offset;
    (void)length;
    return NULL;
}

int gyre_domain_detach(struct gyre_domain *domain, uint32_t id)
{
    (void)domain;
    (void)id;
    return 0;
}

/* -- no epoch follows -------------------------------------------------------------------------- */

int gyre_domain_gather(struct gyre_domain *domain, const char *made_by, bool leave,
                       struct gyre_company *company, struct gyre_job *job,
                       struct gyre_trouble *trouble)
{
    (void)domain;
    (void)made_by;
    (void)leave;
    (void)company;
    (void)job;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "simulated members do not agree here");
}

void gyre_domain_bequeath(struct gyre_domain *domain, struct gyre_domain *next)
{
    (void)domain;
    (void)next;
}

struct gyre_domain_loss gyre_domain_loss_of(const struct gyre_domain *domain, uint32_t rank)
{
    (void)domain;
    (void)rank;
    return (struct gyre_domain_loss){GYRE_FATE_LIVES, 0};
}

bool gyre_domain_stands_next(const struct gyre_domain *domain, uint32_t rank)
{
    (void)domain;
    (void)rank;
    return false;
}

int gyre_domain_ask(struct gyre_domain *domain, const char *configuration,
                    struct gyre_trouble *trouble)
{
    (void)domain;
    (void)configuration;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "nobody takes simulated newcomers in");
}

void gyre_domain_begin_gathering(struct gyre_domain *domain)
{
    (void)domain;
}

void gyre_domain_end_gathering(struct gyre_domain *domain)
{
    (void)domain;
}

void gyre_domain_leave_listener(struct gyre_domain *domain)
{
    (void)domain;
}

bool gyre_domain_is_newcomer(const struct gyre_domain *domain)
{
    (void)domain;
    return false;
}

int gyre_domain_open_at(struct gyre_domain *domain, const struct gyre_options *options,
                        struct gyre_trouble *trouble)
{
    (void)domain;
    (void)options;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "simulated ranks take no newcomers in");
}

int gyre_domain_open_room(struct gyre_domain *domain, const char *configuration,
                          struct gyre_trouble *trouble)
{
    (void)domain;
    (void)configuration;
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED, "simulated ranks take no newcomers in");
}

uint32_t gyre_domain_waiting(struct gyre_domain *domain)
{
    (void)domain;
    return 0;
}

uint32_t gyre_domain_invite(struct gyre_domain *domain, uint32_t most)
{
    (void)domain;
    (void)most;
    return 0;
}

void gyre_domain_disinvite(struct gyre_domain *domain)
{
    (void)domain;
}

/* -- no helper --------------------------------------------------------------------------------- */

void gyre_helper_prepare(struct gyre_progress_engine *progress)
{
    (void)progress;
}

int gyre_helper_start(struct gyre_progress_engine *progress)
{
    (void)progress;
    return 0;
}

int gyre_helper_poke(struct gyre_progress_engine *progress)
{
    (void)progress;
    return 0;
}

void gyre_helper_take_over(struct gyre_progress_engine *progress)
{
    (void)progress;
}

void gyre_helper_stop(struct gyre_progress_engine *progress)
{
    (void)progress;
}
