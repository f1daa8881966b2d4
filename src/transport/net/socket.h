/* Stream sockets, non-blocking and close-on-exec, as join needs them. */
#ifndef GYRE_TRANSPORT_NET_SOCKET_H
#define GYRE_TRANSPORT_NET_SOCKET_H

#include "transport/net/address.h"

/* Each returns a descriptor ≥ 0 or -errno; nothing is left open on failure. */

/* Listens at *address, port included; port 0: one of [low, high], or any if high is 0. *address
 * gets the port. */
int gyre_socket_listen(struct sockaddr_storage *address, uint16_t low, uint16_t high, int backlog);

/* -EAGAIN: nobody is waiting. *from is normalised. */
int gyre_socket_accept(int listener, struct sockaddr_storage *from);

/* Begins to connect, from `source` if its family is `to`'s (NULL: wherever the route says). */
int gyre_socket_connect(const struct sockaddr_storage *to, const struct sockaddr_storage *source);

/* After it became writable: 0 connected, or -errno. A socket that met itself (which happens when
 * nobody listens at a port of the ephemeral range) is -ECONNREFUSED. */
int gyre_socket_connected(int fd);

/* No delay; a dead peer is noticed within dead_time_ms (0: the kernel's own patience). */
void gyre_socket_tune(int fd, int dead_time_ms);

/* Close at once, leaving no TIME_WAIT behind. */
void gyre_socket_drop(int fd);

#endif
