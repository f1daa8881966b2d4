/* Processes join a communicator that lives.
 *
 *     members     who waits? rank 0 tells all ── nobody ─▶ the old communicator goes on
 *                   ─▶ all say that they are here, and the old one ends
 *                   ─▶ members agree (transport/members), and their view has the newcomers
 *                   ─▶ a world of the next epoch ─▶ the program's memory goes over
 *     a newcomer  waits at rank 0 ─▶ the same view ─▶ the same world
 *
 * Where a member or a newcomer is lost on the way, the old communicator has failed like by any
 * loss, and gyre_shrink() goes on from there.
 *
 * Tested by tests/program/failures/grow.c. */
#include "collectives/lifecycle/grow.h"

#include "base/log.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/lifecycle/next_epoch.h"
#include "collectives/lifecycle/world.h"

#include <stdio.h>

static const char ended_by_grow[] = "gyre_grow() has ended this communicator; use the larger one";

/* -- members ----------------------------------------------------------------------------------- */

struct invitation { /* rank 0 tells all */
    int32_t status; /* why nobody can come; 0 */
    uint32_t newcomers;
    char why[504];
};

/* Rank 0 opens the room at the first call, and invites those who wait. */
static void invite(struct gyre_comm *world, uint32_t most, struct invitation *invitation)
{
    char configuration[GYRE_WORLD_CONFIGURATION];
    struct gyre_trouble trouble = {0};
    gyre_world_configuration(world, "gyre_grow", configuration);
    invitation->status = gyre_domain_open_room(world->domain, configuration, &trouble);
    snprintf(invitation->why, sizeof invitation->why, "%.*s", (int)sizeof invitation->why - 1,
             trouble.text);
    if (!invitation->status)
        invitation->newcomers = gyre_domain_invite(world->domain, most);
}

static int tell_invitation(struct gyre_comm *world, struct invitation *invitation)
{
    const struct gyre_request request = {
        .shape = {.verb = GYRE_VERB_BROADCAST, .type = GYRE_U8, .count = sizeof *invitation},
        .input.address = invitation,
        .output.address = invitation};
    return gyre_comm_enter_and_run(world, &request);
}

/* The old communicator has failed: a call on it says so, and gyre_shrink() goes on. */
static void fail_world(struct gyre_comm *world, int status, const struct gyre_trouble *trouble)
{
    struct gyre_progress_engine *progress = world->progress;
    progress->superseded = false;
    progress->trouble = *trouble;
    atomic_store(&progress->failed, status);
}

static int set_lost(const struct gyre_comm *world, struct gyre_trouble *trouble)
{
    uint32_t rank = 0;
    while (rank + 1 < world->n && gyre_domain_stands_next(world->domain, rank))
        rank++;
    const struct gyre_member *member = &gyre_domain_joined(world->domain)->member[rank];
    return gyre_trouble_set(trouble, GYRE_PEER_LOST,
                            "rank %u on %s (pid %d) was lost while the ranks took newcomers in: "
                            "gyre_shrink() goes on without it",
                            rank, member->host, member->pid);
}

/* Agrees and joins. Any failure is one of the old communicator. */
static int open_larger(struct gyre_comm *world, uint32_t newcomers, struct gyre_comm **made,
                       struct gyre_trouble *trouble)
{
    struct gyre_company company;
    struct gyre_job job;
    int status = gyre_domain_gather(world->domain, "gyre_grow()", false, &company, &job, trouble);
    if (status)
        return status;
    if (company.n != world->n + newcomers)
        status = set_lost(world, trouble);
    else
        status = gyre_epoch_open(world, "gyre_grow", &company, &job, made, trouble);
    gyre_company_close(&company);
    gyre_wipe(&job, sizeof job);
    return status;
}

static int take_newcomers_in(struct gyre_comm *world, uint32_t newcomers, struct gyre_comm **larger,
                             struct gyre_trouble *trouble)
{
    struct gyre_comm *made = NULL;
    int status = gyre_epoch_supersede(world, ended_by_grow, trouble);
    if (status)
        return status;
    gyre_epoch_settle(world);
    status = open_larger(world, newcomers, &made, trouble);
    if (status) {
        fail_world(world, status, trouble);
        return status;
    }
    gyre_epoch_end(world, ended_by_grow);
    gyre_domain_bequeath(world->domain, made->domain);
    gyre_log(GYRE_LOG_INFO, "epoch %u: rank %u of %u, with %u newcomer%s",
             (unsigned)gyre_domain_job(made->domain)->epoch, made->rank, made->n, newcomers,
             newcomers == 1 ? "" : "s");
    *larger = made;
    return 0;
}

int gyre_world_grow(struct gyre_comm *world, uint32_t most, struct gyre_comm **larger,
                    struct gyre_trouble *trouble)
{
    struct invitation invitation = {0};
    int status = gyre_world_status(world, trouble);
    if (!status && world->rank == 0)
        invite(world, most, &invitation);
    if (!status && (status = tell_invitation(world, &invitation)))
        gyre_world_status(world, trouble);
    if (!status && invitation.status)
        status = gyre_trouble_set(trouble, invitation.status, "%s", invitation.why);
    if (!status && invitation.newcomers)
        status = take_newcomers_in(world, invitation.newcomers, larger, trouble);
    gyre_domain_disinvite(world->domain);
    return status;
}

/* -- a newcomer -------------------------------------------------------------------------------- */

/* Waits to be taken in, and joins. GYRE_AGAIN: somebody was lost while the ranks joined. */
static int try_to_join(const struct gyre_domain_options *options, struct gyre_comm **world,
                       struct gyre_trouble *trouble)
{
    char configuration[GYRE_WORLD_CONFIGURATION];
    *trouble = (struct gyre_trouble){0};
    int status = gyre_world_create(options, world, trouble);
    if (status)
        return status;
    gyre_world_configuration(*world, "gyre_grow", configuration);
    if (!(status = gyre_domain_ask((*world)->domain, configuration, trouble)) &&
        (status = gyre_world_meet(*world, "gyre_grow", trouble)))
        status = status == GYRE_PEER_LOST || status == GYRE_TIMED_OUT ? GYRE_AGAIN : status;
    if (status)
        gyre_world_free(*world, NULL);
    return status;
}

int gyre_world_joins(const struct gyre_options *options, bool *joins, struct gyre_trouble *trouble)
{
    return gyre_job_find_joining(options, joins, trouble);
}

int gyre_world_join(const struct gyre_options *options, struct gyre_comm **world,
                    struct gyre_trouble *trouble)
{
    const struct gyre_domain_options domain = {.user = options, .newcomer = true};
    int status;
    while ((status = try_to_join(&domain, world, trouble)) == GYRE_AGAIN)
        gyre_log(GYRE_LOG_INFO, "gyre_join() asks again: %s", trouble->text);
    return status;
}
