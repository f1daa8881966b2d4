/* What the making and the end of every communicator share. */
#ifndef GYRE_COLLECTIVES_LIFECYCLE_SETUP_H
#define GYRE_COLLECTIVES_LIFECYCLE_SETUP_H

#include "collectives/comm/communicator.h"

/* Finds out which nodes the ranks are on; the domain, the ranks and their numbers are set. */
int gyre_comm_lay_out(struct gyre_comm *comm, struct gyre_trouble *trouble);

/* Makes the engine and the first handles; the layout and the mesh are set. */
int gyre_comm_open_engine(struct gyre_comm *comm, struct gyre_trouble *trouble);

/* Waits for what was started on the communicator. */
void gyre_comm_finish_work(struct gyre_comm *comm);

/* Links may pin the caller's memory no more. */
void gyre_comm_unregister_all(struct gyre_comm *comm);

/* Frees an idle communicator. The memory that it shares is the domain's, or was withdrawn. */
void gyre_comm_free(struct gyre_comm *comm);

#endif
