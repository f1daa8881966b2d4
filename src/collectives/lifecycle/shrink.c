/* From a communicator that has lost ranks to a smaller one.
 *
 *     the old one has failed, or all ranks wish it ─▶ its work ends
 *       ─▶ members agree who goes on (transport/members) ◀──────────────╮
 *            ─▶ a world of the next epoch, joined by those ─ one dies ──╯
 *                 ─▶ the program's memory goes over
 *
 * Where nothing has failed, a first all-reduce on the old communicator makes sure that all ranks
 * call gyre_shrink() and none waits in another operation. Then this epoch is ended by name, so that
 * no rank waits for goodbyes in it.
 *
 * Tested by tests/program/failures/shrink.c. */
#include "collectives/lifecycle/shrink.h"

#include "base/log.h"
#include "collectives/comm/helper.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/lifecycle/world.h"

#include <stdio.h>
#include <string.h>

/* -- the old epoch ----------------------------------------------------------------------------- */

static const char ended_by_shrink[] =
    "gyre_shrink() has ended this communicator; use the smaller one";

/* Ends the watches of an epoch that had not failed, so that nobody waits for goodbyes. All its
 * ranks have called. */
static void end_old_epoch(const struct gyre_comm *world)
{
    struct gyre_watch *watch = gyre_domain_watch(world->domain);
    if (watch && world->progress->superseded)
        gyre_watch_report(watch, GYRE_ABORTED, UINT32_MAX, false, ended_by_shrink);
}

/* Has all ranks say that they are here. A loss on the way is no failure: the rest goes on. */
static int agree_to_shrink(struct gyre_comm *world, struct gyre_trouble *trouble)
{
    int64_t here[3] = {0};
    const struct gyre_request request = {
        .shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I64, .op = GYRE_MAX, .count = 3},
        .input.address = here,
        .output.address = here};
    gyre_domain_enter(world->domain);
    int status = gyre_comm_run(world, &request);
    gyre_domain_leave(world->domain);
    if (!status) {
        world->progress->superseded = true;
        gyre_trouble_set(&world->progress->trouble, GYRE_ABORTED, "%s", ended_by_shrink);
    } else if (status != GYRE_PEER_LOST)
        gyre_world_status(world, trouble);
    return status == GYRE_PEER_LOST ? 0 : status;
}

/* Ends all work with the failure. */
static void settle_failure(struct gyre_comm *world)
{
    struct gyre_trouble ignored;
    int status = gyre_world_status(world, &ignored);
    gyre_domain_enter(world->domain);
    gyre_progress_fail(world->progress, status ? status : GYRE_ABORTED);
    gyre_domain_leave(world->domain);
    gyre_helper_stop(world->progress);
}

/* Ends the old epoch. A program that has not been told of its failure yet, other than a loss, is
 * told here: it has called gyre_shrink() where others called something else. */
static int begin_to_shrink(struct gyre_comm *world, struct gyre_trouble *trouble)
{
    const bool told = atomic_load(&world->progress->failed) != 0;
    int status = gyre_world_status(world, trouble);
    if (!status)
        status = agree_to_shrink(world, trouble);
    else if (told || status == GYRE_PEER_LOST)
        status = 0;
    settle_failure(world);
    return status;
}

/* -- the next one ------------------------------------------------------------------------------ */

static int open_epoch(struct gyre_comm *old, struct gyre_company *company,
                      const struct gyre_job *job, struct gyre_comm **made,
                      struct gyre_trouble *trouble)
{
    const int device = gyre_domain_cuda(old->domain);
    const struct gyre_domain_options options = {
        .job = job, .device = &device, .after = old->domain, .company = company};
    int status = gyre_world_create(&options, made, trouble);
    if (!status && (status = gyre_world_meet(*made, "gyre_shrink", trouble)))
        gyre_world_free(*made, NULL);
    return status;
}

/* Agrees and joins, until that has gone well. GYRE_AGAIN: a rank was lost meanwhile. */
static int try_epoch(struct gyre_comm *old, bool leave, struct gyre_comm **made,
                     struct gyre_trouble *trouble)
{
    struct gyre_company company;
    struct gyre_job job;
    *trouble = (struct gyre_trouble){0};
    int status = gyre_domain_gather(old->domain, leave, &company, &job, trouble);
    if (!status)
        end_old_epoch(old);
    if (status || leave)
        return status;
    status = open_epoch(old, &company, &job, made, trouble);
    gyre_company_close(&company);
    gyre_wipe(&job, sizeof job);
    if (status != GYRE_PEER_LOST && status != GYRE_TIMED_OUT)
        return status;
    gyre_log(GYRE_LOG_INFO,
             "gyre_shrink(): epoch %u was not completed, and the ranks that are "
             "left try again: %s",
             (unsigned)job.epoch, trouble->text);
    return GYRE_AGAIN;
}

static void tell_shrunk(const struct gyre_comm *old, const struct gyre_comm *made)
{
    gyre_log(GYRE_LOG_INFO, "epoch %u: rank %u of %u, formerly %u of %u",
             (unsigned)gyre_domain_job(made->domain)->epoch, made->rank, made->n, old->rank,
             old->n);
}

int gyre_world_shrink(struct gyre_comm *world, bool leave, struct gyre_comm **smaller,
                      struct gyre_trouble *trouble)
{
    struct gyre_comm *made = NULL;
    int status = begin_to_shrink(world, trouble);
    if (status)
        return status;
    do
        status = try_epoch(world, leave, &made, trouble);
    while (status == GYRE_AGAIN);
    if (status || leave)
        return status;
    gyre_domain_bequeath(world->domain, made->domain);
    tell_shrunk(world, made);
    *smaller = made;
    return 0;
}

/* -- who is gone ------------------------------------------------------------------------------- */

static void describe_loss(const struct gyre_comm *comm, uint32_t rank,
                          const struct gyre_domain_loss *found, struct gyre_lost_rank *loss)
{
    static const enum gyre_lost_reason reason[] = {[GYRE_FATE_LOST] = GYRE_LOST_UNKNOWN,
                                                   [GYRE_FATE_ENDED] = GYRE_LOST_ENDED,
                                                   [GYRE_FATE_SILENT] = GYRE_LOST_SILENT,
                                                   [GYRE_FATE_LEFT] = GYRE_LOST_LEFT};
    const struct gyre_member *member =
        &gyre_domain_joined(comm->domain)->member[gyre_comm_world(comm, rank)];
    *loss = (struct gyre_lost_rank){.rank = (int)rank,
                                    .reason = reason[found->fate],
                                    .since_ns = found->since_ns,
                                    .pid = member->pid};
    snprintf(loss->host, sizeof loss->host, "%s", member->host);
}

int gyre_comm_losses(struct gyre_comm *comm, struct gyre_lost_rank *losses, int room, int *count)
{
    const struct gyre_health *health = gyre_domain_health(comm->domain);
    int found = 0, status = atomic_load(&comm->progress->failed);
    for (uint32_t rank = 0; rank < comm->n; rank++) {
        struct gyre_domain_loss loss =
            gyre_domain_loss_of(comm->domain, gyre_comm_world(comm, rank));
        if (loss.fate == GYRE_FATE_LIVES)
            continue;
        if (found < room)
            describe_loss(comm, rank, &loss, &losses[found]);
        found++;
    }
    *count = found;
    return status ? status : atomic_load(&health->status);
}
