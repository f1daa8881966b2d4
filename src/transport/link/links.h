/* The links of one rank: messages to and from peers, by peer and match, over any driver.
 *
 *     gyre_link_send(links, peer, …) ──▶ the peer's pipe ──▶ its driver (driver.h)
 *
 * The set is the same over real wires and over the simulator. The calls on one set come from one
 * thread at a time, the owner of its domain, and never block. */
#ifndef GYRE_TRANSPORT_LINK_LINKS_H
#define GYRE_TRANSPORT_LINK_LINKS_H

#include "base/status.h"
#include "transport/stream/match.h"

#include <stddef.h>

struct gyre_links;
struct gyre_driver;
struct gyre_wire;
struct gyre_channel;

#define GYRE_LINK_WIRES 4 /* of one set, at most */

int gyre_links_create(uint32_t peers_max, struct gyre_links **links);

/* Closes the wires, too. NULL allowed. */
void gyre_links_destroy(struct gyre_links *links);

/* Adds a wire to the set, which then owns the wire. Returns the wire's index, or -ENOSPC. */
int gyre_links_add_wire(struct gyre_links *links, const struct gyre_driver *driver,
                        struct gyre_wire *wire);

/* Attaches a peer over wire `index`. The channel's descriptors are the driver's on success. */
int gyre_links_attach(struct gyre_links *links, int index, const struct gyre_channel *channel,
                      struct gyre_trouble *trouble);

/* Has wire `index`, whose pipes need no channel (sim, shm in a large node), attach a peer at its
 * first use, or where the peer has attached this rank. */
void gyre_links_attach_lazily(struct gyre_links *links, int index);

/* Has wire `index` attach those peers whose connections are made at their first use (on_demand.h).
 * Borrows *demand. */
struct gyre_on_demand;
void gyre_links_connect_on_demand(struct gyre_links *links, int index,
                                  const struct gyre_on_demand *demand);

/* From now on a look for a message (announced()) makes a connection that is made at its first use,
 * because nothing else would tell of that peer's end. */
void gyre_links_look_by_links(struct gyre_links *links);

/* The peers that were attached, in the order in which they were; UINT32_MAX behind the last. */
uint32_t gyre_links_attached(const struct gyre_links *links, uint32_t index);

/* The entries of the peer's driver with these names (driver.h). -ENOTCONN: no link to that peer. */
int gyre_link_send(struct gyre_links *links, uint32_t peer, const struct gyre_match *match,
                   const void *data, uint64_t length, uint64_t token);
int gyre_link_recv(struct gyre_links *links, uint32_t peer, const struct gyre_match *match,
                   void *data, uint64_t length, uint64_t token);
bool gyre_link_send_now(struct gyre_links *links, uint32_t peer, const struct gyre_match *match,
                        const void *data, uint64_t length);
int gyre_link_recv_now(struct gyre_links *links, uint32_t peer, const struct gyre_match *match,
                       void *data, uint64_t length);

/* Whether a message of that name, which nobody receives yet, has come or waits at the peer: then 1,
 * and match->fingerprint becomes the message's. 0: none is known. Negative: none will come. */
int gyre_link_announced(struct gyre_links *links, uint32_t peer, struct gyre_match *match);

int gyre_link_state(struct gyre_links *links, uint32_t peer, struct gyre_trouble *trouble);

/* Whether the peer has said goodbye on its link. */
bool gyre_link_has_left(struct gyre_links *links, uint32_t peer);

/* Whether a send, or a receive, of this memory, which the CPU cannot touch, may be posted. */
bool gyre_link_carries(struct gyre_links *links, uint32_t peer, const void *memory, uint64_t length,
                       bool send);

/* Describes the way to a peer: "shm/ring", "tcp/io_uring". "none" without a link, or without
 * `links`. */
void gyre_link_describe(struct gyre_links *links, uint32_t peer, char *text, size_t size);

/* Moves what can move on all wires, and writes at most `max` completions. Returns their number. */
int gyre_links_poll(struct gyre_links *links, uint64_t now, struct gyre_completion *out, int max);

/* Returns the status, the peer and the story of the first pipe that has failed; 0: none has. Pipes
 * whose peers have left come last. */
int gyre_links_fault(struct gyre_links *links, uint32_t *peer, struct gyre_trouble *trouble);

/* A count that changes whenever a byte moves on a link that may be slow. NULL allowed: 0. */
uint64_t gyre_links_moved(const struct gyre_links *links);

/* Prepares to sleep. Returns the number of descriptors to wait on; -1: poll() must run first. */
int gyre_links_arm(struct gyre_links *links, int fd[GYRE_LINK_WIRES]);

/* Connections that broke and are made anew, or are made at their first use: the entries of the
 * peer's driver with these names (driver.h). part() is the peer's call, too, and makes this rank's
 * end of the link. -ENOTCONN, GYRE_UNSUPPORTED: no such link. */
struct gyre_break;
bool gyre_links_broken(struct gyre_links *links, struct gyre_break *lost);
int gyre_link_part(struct gyre_links *links, uint32_t peer, int index, uint32_t newer,
                   uint64_t *received);
int gyre_link_renew(struct gyre_links *links, uint32_t peer, int index, int fd, uint32_t number,
                    uint64_t received);
bool gyre_link_gone(struct gyre_links *links, uint32_t peer, int index, bool told);
bool gyre_links_mend(struct gyre_links *links);

/* GYRE_AGAIN until goodbyes have gone both ways on every pipe. Call between polls. */
int gyre_links_bye(struct gyre_links *links);

/* Drops every pipe. No buffer of a post is touched any more when this returns. */
void gyre_links_detach_all(struct gyre_links *links);

#endif
