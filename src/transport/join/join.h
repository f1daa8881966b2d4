/* From "I am rank 2 of job X" to authenticated channels to every peer: rendezvous, handshake, mesh.
 *
 * Rank 0 listens at the job's root address. Every rank joins there, proves the key
 * (transport/net/handshake.h), tells what its peers need to know (struct gyre_member) and receives
 * the roster of all. Then each pair meets: over an abstract Unix socket where both are on one
 * machine and may share memory, over TCP otherwise. Rank 0 gathers which pairs can share memory and
 * tells the resulting nodes to all, so every rank has the same picture. */
#ifndef GYRE_TRANSPORT_JOIN_JOIN_H
#define GYRE_TRANSPORT_JOIN_JOIN_H

#include "transport/job/job.h"
#include "transport/join/joined.h"
#include "transport/join/options.h"

/* Joins, and blocks until all ranks have. The rendezvous takes at most the join timeout (plus 1 s
 * for an orderly refusal), each of the two phases after it at most 1.5 dead times, counted as 2 s
 * or more. A world of 1 joins at once without any socket. All descriptors are non-blocking and
 * close-on-exec. Only the channels remain, and on failure nothing is held. GYRE_REFUSED,
 * GYRE_TIMED_OUT (missing ranks named), GYRE_PEER_LOST (a rank went away while joining),
 * GYRE_UNSUPPORTED (not all can share memory), GYRE_INVALID, GYRE_CORRUPT, -errno. *job gets the
 * key that lies where the ranks meet. */
int gyre_join_ranks(struct gyre_job *job, const struct gyre_join_options *options,
                    struct gyre_joined **joined, struct gyre_trouble *trouble);

/* Finds the waiting room of a job that runs, and blocks until rank 0 has proven the key there, over
 * *talk, or the join timeout is over. *address gets this process's address on the way there, or
 * that of GYRE_INTERFACE, with port 0. GYRE_TIMED_OUT, GYRE_REFUSED, GYRE_INVALID, -errno. */
int gyre_join_find_room(struct gyre_job *job, const struct gyre_join_options *options,
                        struct gyre_talk *talk, struct sockaddr_storage *address,
                        struct gyre_trouble *trouble);

#endif
