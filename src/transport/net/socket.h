/* The stream sockets of join, non-blocking and close-on-exec. */
#ifndef GYRE_TRANSPORT_NET_SOCKET_H
#define GYRE_TRANSPORT_NET_SOCKET_H

#include "transport/net/address.h"

/* Each function returns a descriptor ≥ 0 or -errno, and leaves nothing open on failure. */

/* Listens at *address and its port; port 0: a port of [low, high], or any if high is 0. *address
 * gets the port. */
int gyre_socket_listen(struct sockaddr_storage *address, uint16_t low, uint16_t high, int backlog);

/* Accepts a connection; *from is normalised. -EAGAIN: none is waiting. */
int gyre_socket_accept(int listener, struct sockaddr_storage *from);

/* Begins to connect, from `source` if its family is `to`'s (NULL: from the address that the route
 * prefers). */
int gyre_socket_connect(const struct sockaddr_storage *to, const struct sockaddr_storage *source);

/* Begins to connect to a peer's listener from the address at which this process listens itself, so
 * that all connections of a rank take one network. Where either address is loopback, the route
 * decides. A link-local `to` is reached through the interface of `own`. */
int gyre_socket_connect_peer(const struct sockaddr_storage *to, const struct sockaddr_storage *own);

/* Ends the connecting of a socket that became writable. 0: connected; or -errno. A socket that met
 * itself (where nothing listens at a port of the ephemeral range) is -ECONNREFUSED. */
int gyre_socket_connected(int fd);

/* Turns delay off. An outage shorter than dead_time_ms is outlived, and a connection without any
 * acknowledgement for twice that time ends (0: the kernel's own limits). */
void gyre_socket_tune(int fd, int dead_time_ms);

/* Has a tuned connection last for half an hour without an acknowledgement. Its owner ends it. */
void gyre_socket_hold(int fd, int dead_time_ms);

/* Writes the addresses of both ends of a connection; "?" for one that is not known. */
void gyre_socket_names(int fd, char mine[GYRE_ADDRESS_TEXT], char theirs[GYRE_ADDRESS_TEXT]);

/* Has queues of this machine and of the network send the connection's bytes before bulk data, where
 * they tell the two apart. */
void gyre_socket_expedite(int fd);

/* Sends (POLLOUT) or receives (POLLIN) all bytes. 0; GYRE_TIMED_OUT at the deadline, a time of
 * gyre_now_ns(); GYRE_PEER_LOST. */
int gyre_socket_move(int fd, short direction, void *bytes, size_t length, uint64_t deadline_ns);

/* Closes at once and leaves no TIME_WAIT behind. */
void gyre_socket_drop(int fd);

#endif
