/* The calls around a group. Tested by tests/program/collectives/group.c. */
#include "collectives/comm/arguments.h"
#include "collectives/group/group.h"

int gyre_group_start(struct gyre_comm *comm)
{
    int status = gyre_comm_check(comm, "gyre_group_start");
    return status ? status : gyre_group_open(comm);
}

int gyre_group_end(struct gyre_comm *comm)
{
    int status = gyre_comm_check(comm, "gyre_group_end");
    return status ? status : gyre_group_close(comm);
}
