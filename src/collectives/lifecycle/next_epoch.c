/* From the communicator of one epoch to that of the next. Tested by
 * tests/program/failures/shrink.c and grow.c. */
#include "collectives/lifecycle/next_epoch.h"

#include "collectives/comm/helper.h"
#include "collectives/comm/operations.h"
#include "collectives/comm/progress.h"
#include "collectives/lifecycle/world.h"

int gyre_epoch_supersede(struct gyre_comm *world, const char *ended_by,
                         struct gyre_trouble *trouble)
{
    int64_t here[3] = {0};
    const struct gyre_request request = {
        .shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I64, .op = GYRE_MAX, .count = 3},
        .input.address = here,
        .output.address = here};
    int status = gyre_world_run(world, &request, trouble);
    if (!status) {
        world->progress->superseded = true;
        gyre_trouble_set(&world->progress->trouble, GYRE_ABORTED, "%s", ended_by);
    }
    return status;
}

int gyre_epoch_meet(struct gyre_comm *world, struct gyre_trouble *trouble)
{
    int64_t nothing = 0;
    const struct gyre_request request = {
        .shape = {.verb = GYRE_VERB_ALL_REDUCE, .type = GYRE_I64, .count = 1, .barrier = true},
        .input.address = &nothing,
        .output.address = &nothing};
    return gyre_world_run(world, &request, trouble);
}

void gyre_epoch_settle(struct gyre_comm *world)
{
    struct gyre_trouble ignored;
    int status = gyre_world_status(world, &ignored);
    gyre_domain_enter(world->domain);
    gyre_progress_fail(world->progress, status ? status : GYRE_ABORTED);
    gyre_domain_leave(world->domain);
    gyre_helper_stop(world->progress);
}

void gyre_epoch_end(const struct gyre_comm *world, const char *ended_by)
{
    struct gyre_watch *watch = gyre_domain_watch(world->domain);
    if (watch && world->progress->superseded)
        gyre_watch_report(watch, GYRE_ABORTED, UINT32_MAX, false, ended_by);
}

int gyre_epoch_open(struct gyre_comm *old, const char *made_by, struct gyre_company *company,
                    const struct gyre_job *job, struct gyre_comm **made,
                    struct gyre_trouble *trouble)
{
    const int device = gyre_domain_cuda(old->domain);
    const struct gyre_domain_options options = {
        .job = job, .device = &device, .after = old->domain, .company = company};
    int status = gyre_world_create(&options, made, trouble);
    if (!status && (status = gyre_world_meet(*made, made_by, trouble)))
        gyre_world_free(*made, NULL);
    return status;
}
