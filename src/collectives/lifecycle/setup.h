/* The common part of making and ending any communicator. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_SETUP_H
#define GYRE_COLLECTIVES_LIFECYCLE_SETUP_H

#include "collectives/comm/communicator.h"

/* Finds the nodes of the ranks; the domain, the ranks and their numbers are set. */
int gyre_comm_lay_out(struct gyre_comm *comm, struct gyre_trouble *trouble);

/* Makes the engine and the first handles; the layout and the mesh are set. */
int gyre_comm_open_engine(struct gyre_comm *comm, struct gyre_trouble *trouble);

/* Waits for all work that was started on the communicator. */
void gyre_comm_finish_work(struct gyre_comm *comm);

/* Withdraws the caller's memory from the links, which may not pin it any more. */
void gyre_comm_unregister_all(struct gyre_comm *comm);

/* Frees an idle communicator. The memory that it shares is the domain's, or was withdrawn. */
void gyre_comm_free(struct gyre_comm *comm);

#endif
