/* A process asks a job that runs to take it in. The other side is waiting_room.h. */
#ifndef GYRE_TRANSPORT_MEMBERS_NEWCOMER_H
#define GYRE_TRANSPORT_MEMBERS_NEWCOMER_H

#include "transport/join/company.h"
#include "transport/join/options.h"
#include "transport/members/members.h"

/* Looks for the job, and waits until its ranks take this process in. 0: *members know of the view
 * in which this process is a rank, and *company has its listener, and the connection for the join
 * of that view. Blocks at most for the join timeout. GYRE_TIMED_OUT, GYRE_REFUSED (another key, or
 * what must be equal on all ranks is not), GYRE_PEER_LOST (the job has ended), GYRE_INVALID,
 * -ENOMEM, -errno. */
int gyre_newcomer_ask(struct gyre_job *job, const struct gyre_join_options *options,
                      struct gyre_members **members, struct gyre_company *company,
                      struct gyre_trouble *trouble);

#endif
