/* One algorithm for all operations of a communicator: its engine's settings, where the user's stand
 * otherwise. Tested by tests/program/cli/own.sh. */
#include "collectives/comm/planned.h"

#include "collectives/comm/operations.h"

#define ONE_SLICE (UINT64_C(1) << 50)

void gyre_comm_plan_by(struct gyre_comm *comm, const struct gyre_algorithm *algorithm)
{
    struct gyre_plan_options *planning = &comm->engine->planning;
    gyre_domain_enter(comm->domain);
    planning->algorithm = algorithm;
    planning->slice_bytes = ONE_SLICE;
    planning->lanes = 1;
    planning->mapped = false;
    gyre_domain_leave(comm->domain);
}

int gyre_comm_run_planned(struct gyre_comm *comm, const struct gyre_shape *shape, void *input,
                          void *output)
{
    const struct gyre_request request = {
        .shape = *shape, .input.address = input, .output.address = output};
    return gyre_comm_enter_and_run(comm, &request);
}
