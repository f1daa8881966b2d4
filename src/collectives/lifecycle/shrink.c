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
#include "collectives/comm/progress.h"
#include "collectives/lifecycle/growing.h"
#include "collectives/lifecycle/next_epoch.h"
#include "collectives/lifecycle/world.h"

#include <stdio.h>
#include <string.h>

/* -- the old epoch ----------------------------------------------------------------------------- */

static const char ended_by_shrink[] =
    "gyre_shrink() has ended this communicator; use the smaller one";

/* Ends the old epoch. A program that has not been told of its failure yet, other than a loss, is
 * told here: it has called gyre_shrink() where others called something else. A loss on the way is
 * no failure: the rest goes on. */
static int begin_to_shrink(struct gyre_comm *world, struct gyre_trouble *trouble)
{
    const bool told = atomic_load(&world->progress->failed) != 0;
    int status = gyre_world_status(world, trouble);
    if (!status)
        status = gyre_epoch_supersede(world, ended_by_shrink, trouble);
    else if (told)
        status = 0;
    gyre_epoch_settle(world);
    return status == GYRE_PEER_LOST ? 0 : status;
}

/* -- the next one ------------------------------------------------------------------------------ */

/* Agrees and joins, until that has gone well. GYRE_AGAIN: a rank was lost meanwhile. */
static int try_epoch(struct gyre_comm *old, bool leave, struct gyre_comm **made,
                     struct gyre_trouble *trouble)
{
    struct gyre_company company;
    struct gyre_job job;
    *trouble = (struct gyre_trouble){0};
    int status = gyre_domain_gather(old->domain, "gyre_shrink()", leave, &company, &job, trouble);
    if (!status)
        gyre_epoch_end(old, ended_by_shrink);
    if (status || leave)
        return status;
    status = gyre_epoch_open(old, "gyre_shrink", &company, &job, made, trouble);
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
    gyre_growing_settle(world);
    int status = begin_to_shrink(world, trouble);
    if (status)
        return status;
    do
        status = try_epoch(world, leave, &made, trouble);
    while (status == GYRE_AGAIN);
    gyre_growing_drop(world, GYRE_PEER_LOST, ended_by_shrink);
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
    const int status = gyre_progress_failure(comm->progress);
    int found = 0;
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
    return status;
}
