/* A network is a replica: the values of an engine, running means, an optimiser. Tested by
 * tests/program/ddp/checkpoint.c. */
#include "model/network/network.h"

#include "checkpoint/run/engine.h"
#include "checkpoint/run/run.h"

int gyre_run_add_replica(struct gyre_checkpoint *c, struct gyre_replica *r)
{
    int status = gyre_run_add_engine(c, &r->ddp);
    if (!status)
        status = gyre_run_add_running(c, r);
    return status ? status : gyre_run_add_optimizer(c, r);
}

int gyre_checkpoint_add_network(struct gyre_checkpoint *c, struct gyre_network *network)
{
    if (!c || !network)
        return gyre_refuse("gyre_checkpoint_add_network: the %s is NULL",
                           c ? "network" : "checkpoint");
    struct gyre_replica *r = gyre_network_replica(network);
    int status = gyre_checkpoint_add_text(c, "optimizer", gyre_optimizer_names[r->settings.kind]);
    return status ? status : gyre_run_add_replica(c, r);
}
