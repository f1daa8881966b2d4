/* Processes join a communicator that lives.
 *
 *     members     who waits? rank 0 tells all ── nobody ─▶ the old communicator goes on
 *                   ─▶ a world of the next epoch is made beside it (growing.c)
 *                   ─▶ in a later call: has every rank joined? ── no ─▶ the old one goes on
 *                   ─▶ the old one ends, and the program's memory goes over
 *     a newcomer  waits at rank 0 ─▶ the same view ─▶ the same world ─▶ all have gone over
 *
 * Where a member or a newcomer is lost on the way, the old communicator has failed like by any
 * loss, and gyre_shrink() goes on from there.
 *
 * Tested by tests/program/failures/grow.c. */
#include "collectives/lifecycle/grow.h"

#include "base/log.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/lifecycle/growing.h"
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

static int tell_invitation(struct gyre_comm *world, struct invitation *invitation,
                           struct gyre_trouble *trouble)
{
    const struct gyre_request request = {
        .shape = {.verb = GYRE_VERB_BROADCAST, .type = GYRE_U8, .count = sizeof *invitation},
        .input.address = invitation,
        .output.address = invitation};
    return gyre_world_run(world, &request, trouble);
}

/* The old communicator has failed: a call on it says so, and gyre_shrink() goes on. */
static void fail_world(struct gyre_comm *world, int status, const struct gyre_trouble *trouble)
{
    struct gyre_progress_engine *progress = world->progress;
    progress->superseded = false;
    progress->trouble = *trouble;
    atomic_store(&progress->failed, status);
}

/* Some rank could not join. What others have made is no use. */
static int fail_to_grow(struct gyre_comm *world, int status, struct gyre_trouble *trouble)
{
    if (status == 0 || status == GYRE_AGAIN)
        status = gyre_trouble_set(trouble, GYRE_PEER_LOST,
                                  "another rank could not join the newcomers, because one of them "
                                  "or a rank was lost: gyre_shrink() goes on");
    gyre_growing_settle(world);
    fail_world(world, status, trouble);
    return status;
}

/* Goes over to the communicator that all ranks have joined. */
static int go_over(struct gyre_comm *world, struct gyre_comm **larger, struct gyre_trouble *trouble)
{
    const uint32_t newcomers = gyre_growing_newcomers(world);
    struct gyre_trouble why = {0};
    if (gyre_growing_meet(world, &why))
        return fail_to_grow(world,
                            gyre_trouble_set(trouble, GYRE_PEER_LOST,
                                             "the newcomers have joined, and were lost before the "
                                             "ranks went over: gyre_shrink() goes on (%.300s)",
                                             why.text),
                            trouble);
    struct gyre_comm *made = gyre_growing_take(world);
    world->progress->superseded = true;
    gyre_trouble_set(&world->progress->trouble, GYRE_ABORTED, "%s", ended_by_grow);
    gyre_epoch_settle(world);
    gyre_epoch_end(world, ended_by_grow);
    gyre_domain_bequeath(world->domain, made->domain);
    gyre_log(GYRE_LOG_INFO, "epoch %u: rank %u of %u, with %u newcomer%s",
             (unsigned)gyre_domain_job(made->domain)->epoch, made->rank, made->n, newcomers,
             newcomers == 1 ? "" : "s");
    *larger = made;
    return 0;
}

/* Newcomers are joining: goes over where all ranks have joined, goes on where some have not. */
static int see_growing(struct gyre_comm *world, struct gyre_comm **larger,
                       struct gyre_trouble *trouble)
{
    const int mine = gyre_growing_status(world, trouble);
    int64_t state[2] = {mine == GYRE_AGAIN, mine < 0}; /* over all ranks */
    const struct gyre_request request = {
        .shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I64, .op = GYRE_MAX, .count = 2},
        .input.address = state,
        .output.address = state};
    int status = gyre_world_run(world, &request, trouble);
    if (!status && state[1])
        status = fail_to_grow(world, mine, trouble);
    else if (!status && !state[0])
        status = go_over(world, larger, trouble);
    return status;
}

/* Asks rank 0 whether somebody waits, and has those join who do. */
static int begin_to_grow(struct gyre_comm *world, uint32_t most, struct gyre_trouble *trouble)
{
    struct invitation invitation = {0};
    if (world->rank == 0)
        invite(world, most, &invitation);
    int status = tell_invitation(world, &invitation, trouble);
    if (!status && invitation.status)
        status = gyre_trouble_set(trouble, invitation.status, "%s", invitation.why);
    if (!status && invitation.newcomers)
        status = gyre_growing_start(world, invitation.newcomers, trouble);
    if (!gyre_growing_newcomers(world))
        gyre_domain_disinvite(world->domain);
    return status;
}

int gyre_world_grow(struct gyre_comm *world, uint32_t most, struct gyre_comm **larger,
                    struct gyre_trouble *trouble)
{
    int status = gyre_world_status(world, trouble);
    if (status)
        return status;
    return world->progress->growing ? see_growing(world, larger, trouble)
                                    : begin_to_grow(world, most, trouble);
}

/* -- a newcomer -------------------------------------------------------------------------------- */

/* Joins, and waits until the members go over. */
static int join_members(struct gyre_comm *world, struct gyre_trouble *trouble)
{
    int status = gyre_world_meet(world, "gyre_grow", trouble);
    return status ? status : gyre_epoch_meet(world, trouble);
}

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
    status = gyre_domain_ask((*world)->domain, configuration, trouble);
    if (!status && (status = join_members(*world, trouble)))
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
