/* The calls around a group. Tested by tests/program/collectives/group.c. */
#include "collectives/comm/arguments.h"
#include "collectives/group/group.h"

int gyre_group_start(struct gyre_comm *comm)
{
    int status = gyre_comm_check(comm, "gyre_group_start");
    return status ? status : gyre_group_open(comm);
}

/* The group of a communicator that has failed ends, too: its handles tell the failure, and groups
 * of the process's other ranks no longer wait for it. */
int gyre_group_end(struct gyre_comm *comm)
{
    int status = gyre_comm_check(comm, "gyre_group_end");
    if (!comm || status == GYRE_FORKED)
        return status;
    int ended = gyre_group_close(comm);
    return status ? status : ended;
}
